"""A model evaluated on any corpus: runs, folders, official checkpoints and pretrained dual encoders by one function."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from xmr_core.base import files, fingerprint
from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import environment
from xmr_core.base.types import Corpus, Relevance
from xmr_core.data.batches import Split
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import corpus_of, from_arrays
from xmr_core.data.prepare import Prepared
from xmr_core.data.readers.folder import from_frame
from xmr_core.evaluation.analysis.representations import evaluate_split
from xmr_core.evaluation.evaluate import Evaluated, Provenance, Setting, rsum_interval
from xmr_core.evaluation.metrics import KS, random_rsum
from xmr_core.training.runs.config import STAGES, readable_id


@dataclass(frozen=True)
class EvaluatedModel(Evaluated):
    """What `Model.evaluate` gives: metrics, per_query, and the corpus and split that they are of. `print` shows R@K in
    both directions, and the RSUM with its interval beside that of a random ranking."""

    corpus: Corpus
    split: str

    def chance(self) -> tuple[float, float, float]:
        """(mean, low, high) of the annotated RSUM of random rankings of this split, 95 % between low and high."""
        galleries = dict(zip(("t2i", "i2t"), map(len, self.corpus.rows(self.split)), strict=True))
        return random_rsum(self.per_query[self.per_query["relevance"] == "annotated"], galleries)

    def __str__(self) -> str:
        i, t = self.corpus.rows(self.split)
        head = f"{self.provenance.model[0]} on {self.setting.dataset}, split {self.split}"
        head = f"{head}: {len(i):,} images, {len(t):,} captions\nsplits: {origin_of_splits(self.corpus)}\n"
        recalls = self.metrics[self.metrics["metric"] == "recall"]
        table = 100 * recalls.pivot(index=["relevance", "direction"], columns="k", values="value")
        table = table.reindex(recalls.set_index(["relevance", "direction"]).index.unique())
        table.columns = [f"R@{k}" for k in KS]
        lines = [head, table.reset_index().to_string(index=False, float_format="{:.1f}".format)]
        for kind in self.per_query["relevance"].unique():
            value, low, high = rsum_interval(self.per_query, kind)
            lines.append(f"RSUM {value:.1f} of 600 ({kind}; {low:.1f} to {high:.1f} by the choice of images)")
        return "\n".join([*lines, f"a random ranking has {self.chance()[0]:.1f} (annotated)"])


def origin_of_splits(corpus: Corpus) -> str:
    """Where the splits of a corpus come from, for people."""
    return str(corpus.about.get("splits", "drawn with the world" if corpus.name == "scenes" else "lists of the corpus"))


def evaluate_model(
    model,
    corpus: Corpus | DataConfig | Path | str | None = None,
    split: str = "test",
    dataset: str = "",
    relevance: Sequence[str] | str | Mapping[str, Relevance] | None = None,
    images=None,
    captions: Sequence[str] | None = None,
    image_of: Sequence[int] | None = None,
) -> EvaluatedModel:
    """Rank one split of a corpus by a model, in both directions; see `Model.evaluate`."""
    started, clock, raw = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic(), model.raw
    name, corpus = _corpus(model, corpus, split, dataset, images, captions, image_of)
    i, t = corpus.rows(split)
    if not len(corpus.captions):
        raise BadInput(f"{name} has no captions, so nothing says which image is right. Put a captions.csv beside it.")
    if not len(i) or not len(t):
        present = ", ".join(sorted({*corpus.captions["split"]} - {""})) or "none"
        fault = f"{name} has no images or no captions in its split {split!r} ({origin_of_splits(corpus)})"
        raise BadInput(f"{fault}. It has captions in: {present}. Give another split, or a column 'split'.")
    corpus = _with_relevance(corpus, relevance)
    if isinstance(raw, Prepared) and raw.corpus.fingerprint == corpus.fingerprint and split in raw.splits:
        part = raw.splits[split]
    else:
        tokens = raw.captions.of_corpus(corpus.captions["text"].iloc[t].tolist())
        part = Split(i, t, raw.images_of(corpus, rows=i), tokens, corpus.relevance_sets["annotated"](split))
    per_query, metrics = evaluate_split(model.method, part, corpus, split)
    if relevance and (absent := {*corpus.relevance_sets} - {*per_query["relevance"]}):
        raise BadInput(f"nothing in the split {split!r} has a relevant item by {', '.join(sorted(absent))}.")
    method, about = model.method, model.about
    identity = getattr(method, "identity", "") or fingerprint.bytes_hash(files.tensor_bytes(method.state_dict()))
    content = [corpus.fingerprint, identity, STAGES["evaluation"]]
    content += [split, sorted(corpus.relevance_sets)] if split != "test" or relevance else []
    word, world = about.get("method", method.name), corpus.about.get("seed", 0)
    settings = (about.get("form", "as it comes"), name, corpus.about.get("size", ""))
    seed, epochs = about.get("seed", 0), about.get("epochs", 0)
    provenance = Provenance(
        started_utc=started,
        train_seconds=0.0,
        parameters=sum(p.numel() for p in method.parameters()),
        environment=environment(str(method.device)),
        evaluate_seconds=time.monotonic() - clock,
        relevances=tuple(sorted(corpus.relevance_sets)),
        model=(model.label, identity),
    )
    setting, named = Setting(word, *settings, seed, epochs, world), readable_id(method.name, name, seed, content)
    return EvaluatedModel(named, setting, metrics, per_query, provenance, corpus, split)


def _corpus(model, corpus, split: str, dataset: str, images, captions, image_of) -> tuple[str, Corpus]:
    """(the name, the corpus) that is meant, by exactly one of the ways in which it can be given."""
    in_memory = images is not None
    if in_memory != (captions is not None) or (image_of is not None and not in_memory):
        raise BadInput("images and captions belong together, and image_of to them.")
    if (in_memory and (corpus is not None or dataset)) or (dataset and isinstance(corpus, Corpus | DataConfig)):
        raise BadInput("give one corpus: a Corpus, a folder with the dataset that reads it, or images and captions.")
    if in_memory and model.raw.describer is None:
        corpus = from_arrays(images, captions, image_of, split)
    elif in_memory:
        captions, images = list(captions), list(images)
        owners = range(len(captions)) if image_of is None else image_of
        if len(owners) != len(captions) or {*owners} != {*range(len(images))}:
            raise BadInput(f"{len(captions):,} captions and {len(images):,} images: image_of names the image of each.")
        rows = {"image": [images[n] for n in owners], "image_id": [f"{n:08}" for n in owners], "caption": captions}
        corpus = from_frame(pd.DataFrame({**rows, "split": split}), name="arrays")
    elif corpus is None and not dataset:
        if not isinstance(model.raw, Prepared):
            raise BadInput(f"{model.label} has no corpus of its own here. Give a folder, a Corpus, or a dataset.")
        corpus = model.raw.corpus
    if isinstance(corpus, Corpus):
        return corpus.name, corpus
    config = corpus if isinstance(corpus, DataConfig) else DataConfig(dataset or "folder", str(corpus or ""))
    return config.dataset, corpus_of(config)


def _with_relevance(corpus: Corpus, relevance) -> Corpus:
    """The corpus with the kinds of relevance that are meant; the annotated pairs are always the first of them."""
    if relevance is None:
        return corpus
    sets, own = corpus.relevance_sets, relevance if isinstance(relevance, Mapping) else {}
    names = [relevance] if isinstance(relevance, str) else list(relevance)
    for name in names:
        require_choice(f"relevance of {corpus.name}", name, {**sets, **own})
    chosen = {"annotated": sets["annotated"]} | {n: sets[n] for n in names if n not in own}
    return replace(corpus, relevance_sets=chosen | {n: (lambda split, r=r: r) for n, r in own.items()})
