"""What the papers trained with, per corpus (METHODS (b) of each method).

Adam stands as AdamW without decay. Left out, because nothing here needs them: stages that fine-tune a CNN, PVSE's plateau schedule
(fed the wrong way round, X-57; constant here), AdamP (PCME), VSE+2AD's decay that compounds every epoch (X-37; once here).
"""

from collections.abc import Mapping

from xmr_core.base.errors import unknown

COMMON = {
    "weight_decay": 0.0, "clip": 2.0, "schedule": "step", "warmup_steps": 0, "batch_images": 128, "captions_per_image": 1,
    "unit": "captions", "positives": "diagonal", "word_dim": 300,
}  # fmt: skip
_DROPS = {"cell_drop": 0.2, "word_drop": 0.2, "word_rule": "vse"}

# method → corpus → what it sets over COMMON: fields of training and batches, and options of the recipe
SETTINGS: dict[str, dict[str, dict]] = {
    "vse++": {corpus: {"lr": 2e-4, "epochs": 30, "decay_every": 15} for corpus in ("f30k", "coco")},
    "pvse": {"coco": {"lr": 2e-4, "epochs": 30, "schedule": "constant", "batch_images": 256, "slots": 2}},
    "pcme": {
        "coco": {"lr": 2e-4, "epochs": 30, "schedule": "cosine", "word_drop": 0.1, "word_rule": "pcme"},
        "cub": {"lr": 1e-4, "epochs": 10, "schedule": "cosine", "word_drop": 0.1, "word_rule": "pcme", "batch_images": 150, "unit": "classes", "d": 512, "scale": 5.0, "shift": 5.0},
    },
    "scan": {
        "f30k": {"lr": 2e-4, "epochs": 30, "decay_every": 15},
        "coco": {"lr": 5e-4, "epochs": 20, "decay_every": 10},
    },
    "sgraf": {
        "f30k": {"lr": 2e-4, "epochs": 40, "decay_every": 30},
        "coco": {"lr": 2e-4, "epochs": 20, "decay_every": 10},
    },
    "vse-infty": {c: {"lr": 5e-4, "weight_decay": 1e-2, "epochs": 25, "decay_every": 15, **_DROPS} for c in ("f30k", "coco")},
    "vse+2ad": {c: {"lr": 5e-4, "weight_decay": 1e-2, "epochs": 25, "decay_every": 15, **_DROPS} for c in ("f30k", "coco")},
    "dive": {
        corpus: {
            "lr": 1e-3, "weight_decay": 1e-4, "clip": 1.0, "epochs": 80, "schedule": "cosine", "batch_images": 200, "captions_per_image": 5,
            "unit": "images", "positives": "annotated", **_DROPS, "slot_lr": slot_lr,
        }
        for corpus, slot_lr in (("f30k", 0.05), ("coco", 0.1))
    },
}  # fmt: skip
CORPORA = ("f30k", "coco", "cub")


def published_settings(method: str, corpus: str = "", options: Mapping[str, object] | None = None) -> dict:
    """Training, batches and options of a method as its paper set them for a corpus.

    corpus: 'f30k', 'coco' or 'cub'; '' takes the first that the paper has. options: of the recipe, where a setting depends on
    them: SGRAF's epochs on the reasoner, λ₂ of SCAN's i-t LSE on the corpus, margin and learning rate of VSE++ on the order.
    Raises: BadInput for an unknown method, or a corpus the paper has no settings for.
    """
    if method not in SETTINGS:
        raise unknown("method", method, SETTINGS)
    known, options = SETTINGS[method], options or {}
    corpus = corpus or next(iter(known))
    if corpus not in known:
        raise unknown(f"corpus with published settings of {method}", corpus, known)
    out = {**COMMON, **known[corpus]}
    if method == "sgraf" and corpus == "f30k" and options.get("reasoner") == "saf":
        out |= {"epochs": 30, "decay_every": 20}
    if method == "scan" and corpus == "coco" and (options.get("direction"), options.get("aggregate")) == ("i2t", "lse"):
        out |= {"lse_scale": 20.0}
    if method == "vse++" and options.get("measure") == "order":
        out |= {"lr": 1e-3, "margin": 0.05}
    return out
