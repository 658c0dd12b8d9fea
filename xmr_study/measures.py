"""Numbers of a trained run that an evaluation does not give: where slots look, which words SGRAF trusts, how wide
distributions are."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from math import isqrt

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Embedding
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import prepare
from xmr_core.data.scenes.corpus import object_masks, scenes_of, statements_of
from xmr_core.data.scenes.world import (
    ATTRIBUTES,
    COUNT,
    ONE,
    RELATION,
    TWO,
    content_words,
    say,
    shape_words,
    truth_matrix,
)  # fmt: skip
from xmr_core.evaluation.analysis.elements import slot_attention
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.evaluation.evaluate import METRIC_COLUMNS
from xmr_core.evaluation.ranks import best
from xmr_core.evaluation.stats import image_error, mean_error
from xmr_core.features.words import rule
from xmr_core.losses.adaptive_clustering import AdaptiveClustering
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.training.loop import OwnState, train
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.ensemble import scoring_of
from xmr_core.training.runs.folder import TrainedRun
from xmr_study.analysis import attention_entropy, content_preference, object_overlap, pointing

_IMAGES = 200  # of the test split, from its start: enough for a mean
_BEFORE = 2  # nodes of SGRAF before the words: the global vectors and <start>


def attention(run: TrainedRun) -> pd.DataFrame:
    """Where the slots of images look, against the true objects of scenes, on the first images of the test split.

    'attention_overlap' with the round as k (object_overlap); 'attention_overlap_gain', the last round minus the first;
    'attention_overlap_over_others', the last round minus the same with the objects of the next image;
    'attention_entropy_fall', the entropy of a cell's shares in the first round minus that in the last; the three with
    their errors. No row for a corpus that does not know its objects, features that lie on no square grid, or a head
    without rounds.
    """
    prepared, method = run.prepared(), run.method()
    split, rows = prepared.splits["test"].first(_IMAGES), []
    if prepared.corpus.name != "scenes" or not hasattr(method.image_head, "iterations"):
        return pd.DataFrame(columns=METRIC_COLUMNS)
    images = split.images_at(np.arange(len(split.image_rows)))
    with torch.inference_mode():
        shares = method.image_head.attention_maps(method.image_encoder(images))[0].mean(2)  # n t k l, over heads
    grid = isqrt(shares.shape[-1])
    if grid**2 != shares.shape[-1]:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    masks = _on_grid(object_masks(scenes_of(prepared.corpus, "test")[: len(shares)]), grid**2)  # n o l
    entropy, overlap = attention_entropy(shares), object_overlap(shares, masks)
    others = object_overlap(shares[:, -1:], masks.roll(1, 0))[:, 0]
    for t, value in enumerate(overlap.mean(0), 1):
        rows.append(("", "images", "attention_overlap", t, float(value), len(shares)))
    for name, values in {
        "attention_overlap_gain": overlap[:, -1] - overlap[:, 0],
        "attention_overlap_over_others": overlap[:, -1] - others,
        "attention_entropy_fall": entropy[:, 0] - entropy[:, -1],
    }.items():
        rows.append(("", "images", name, 0, float(values.mean()), len(shares)))
        rows.append(("", "images", f"{name}_error", 0, mean_error(values.double().numpy()), len(shares)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def content_weight(run: TrainedRun) -> pd.DataFrame:
    """How much more a word of content weighs in SAF than another word of its caption, beside the caption's own image:
    the mean of content_preference over the captions of the test split, with its error.

    Not a number where no list of such words is known (another corpus than scenes) or captions are no words.
    """
    split, words = run.prepared().splits["test"], run.prepared().vocabulary
    values = np.full(len(split.caption_rows), np.nan)
    if run.config.data.dataset == "scenes" and words is not None:
        method, content = run.method(), content_words()
        images, captions = encode_split(method, split)
        texts = run.prepared().corpus.captions["text"].iloc[split.caption_rows]
        kinds = [[word in content for word in rule(words.tokeniser)(text)] for text in texts]
        for image in np.unique(split.owners):
            own = np.flatnonzero(split.owners == image)
            with torch.inference_mode():
                beta = method.similarity.element_weights(images[int(image)], captions[torch.from_numpy(own)])["SAF"][0]
            is_word, is_content = torch.zeros_like(beta, dtype=torch.bool), torch.zeros_like(beta, dtype=torch.bool)
            for t, kind in enumerate(kinds[t] for t in own):
                is_word[t, _BEFORE : _BEFORE + len(kind)] = True
                is_content[t, _BEFORE : _BEFORE + len(kind)] = torch.tensor(kind)
            values[own] = content_preference(beta, is_word, is_content).numpy()
    known = ~np.isnan(values)
    value = float(values[known].mean()) if known.any() else float("nan")
    rows = [("", "captions", "saf_content_weight", 0, value, known.sum())]
    if known.sum() > 1:
        error = image_error([(values[known], split.owners[known])])
        rows.append(("", "captions", "saf_content_weight_error", 0, error, known.sum()))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def mean_log_std(run: TrainedRun) -> dict[str, float]:
    """Mean of log σ over the test items of each modality ('images', 'captions') and their dimensions, of a method with
    distributions."""
    items = encode_split(run.method(), run.prepared().splits["test"])
    return {name: float(own.log_std.double().mean()) for name, own in zip(("images", "captions"), items, strict=True)}


ERASED = {"colour": 1, "size": 2}  # attribute → its place in a mention


def counterfactuals(run: TrainedRun, seed: int = 0) -> pd.DataFrame:
    """Whether uncertainty rises when a caption of scenes says less: the test captions that mention one or two objects,
    each said twice in the same words, as it is and without one attribute of its first object.

    Columns caption, erased ('colour' or 'size'), answers and answers after (images of the split of which it is true),
    and by name of an uncertainty its value before and after: `spread` (uncertainty of the representation, where it has
    one) and `entropy` (of the softmax of its scores over the images of the split, nats, at the model's temperature).
    Raises: BadInput for another corpus than scenes.
    """
    prepared, method = run.prepared(), run.method()
    said, scenes = statements_of(prepared.corpus, "test"), scenes_of(prepared.corpus, "test")
    images, _ = encode_split(method, prepared.splits["test"])
    read = lambda texts: method.encode_captions(prepared.captions(texts))  # noqa: E731
    parts = []
    for name, place in ERASED.items():
        others = [c for c in (0, 1, 2) if c != place]
        fit = np.isin(said.kind, (ONE, TWO, RELATION)) & (said.a[:, place] >= 0) & (said.a[:, others] >= 0).any(1)
        before = said[np.flatnonzero(fit)]
        shorter = before.a.copy()
        shorter[:, place] = -1
        table = pd.DataFrame({"caption": np.flatnonzero(fit), "erased": name})
        for end, statements in (("", before), (" after", replace(before, a=shorter))):
            table[f"answers{end}"] = truth_matrix(statements, scenes).sum(1)
            with torch.inference_mode():
                items = read(say(statements, np.random.default_rng(seed)))
                logits = method.similarity(images, items).double().T * _scale(method)
            table[f"entropy{end}"] = torch.distributions.Categorical(logits=logits).entropy().numpy()
            if not isinstance(items, Embedding) and method.similarity.compares != "tokens":
                table[f"spread{end}"] = uncertainty(items)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


FORGOTTEN = (*ATTRIBUTES, "relation", "number", "background")  # what a statement of scenes can say


def missed(run: TrainedRun) -> pd.DataFrame:
    """What a wrong first image lacks, for the test captions of scenes whose first image does not fit: columns forgotten
    (of FORGOTTEN), captions (wrong ones that say it), fits, the share (percent) of these of which the image fits once
    it is forgotten, of both objects where two are mentioned, and chance, the same of a wrong image drawn at random.

    Raises: BadInput for another corpus than scenes.
    """
    corpus = run.prepared().corpus
    said, scenes = statements_of(corpus, "test"), scenes_of(corpus, "test")
    first = best(scoring_of(run), 1)[1][:, 0].astype(int)
    true = truth_matrix(said, scenes)
    wrong = np.flatnonzero(~true[np.arange(len(said)), first])
    said, first, true, lines = said[wrong], first[wrong], true[wrong], []
    for n, name in enumerate(FORGOTTEN):
        a, b = said.a.copy(), said.b.copy()
        changed = {"a": a, "b": b}
        if n < len(ATTRIBUTES):
            says = (a[:, n] >= 0) | (b[:, n] >= 0)
            a[:, n] = b[:, n] = -1
        elif name == "number":
            says, changed = said.kind == COUNT, {"kind": np.where(said.kind == COUNT, ONE, said.kind)}
        else:
            says, changed = getattr(said, name) >= 0, {name: np.full(len(said), -1)}
        fit = truth_matrix(replace(said, **changed), scenes)
        shares = fit[np.arange(len(said)), first][says], fit[says][~true[says]]
        lines.append((name, int(says.sum()), *(100 * float(own.mean()) if len(own) else np.nan for own in shares)))
    return pd.DataFrame(lines, columns=["forgotten", "captions", "fits", "chance"])


def answers_known(run: TrainedRun) -> dict[str, float]:
    """Whether uncertainty counts answers, three numbers for each uncertainty of `counterfactuals`, here of `spread`:
    'spread rises' is the share of captions in which it is higher without the attribute, an equal value half, of those
    that gain an answer by it; 'spread rises anyway' of those that gain none; 'spread answers' Spearman's ρ over the
    captions as they are, of it and the number of their answers."""
    table, out = counterfactuals(run), {}
    gains = table["answers after"] > table["answers"]
    for name in ("spread", "entropy"):
        if name in table:
            risen = (1 + np.sign(table[f"{name} after"] - table[name])) / 2
            out[f"{name} rises"], out[f"{name} rises anyway"] = float(risen[gains].mean()), float(risen[~gains].mean())
            out[f"{name} answers"] = float(table[name].corr(table["answers"], method="spearman"))
    return out


def _scale(method: Method) -> float:
    """What a method's loss multiplies its scores with: 1 where it says nothing of the kind."""
    loss = method.objective.score_loss
    scale = getattr(loss, "scale", None)
    return float(scale()) if callable(scale) else 1 / getattr(loss, "temperature", 1.0)


# Whether words and slots look at objects, where the corpus knows its objects.


def words(run: TrainedRun) -> pd.DataFrame:
    """Looks of the words that name an object ("circle", "crosses"), each at its caption's own image, against all
    objects of that shape there: 'word_pointing' (share of hits), 'word_pointing_chance' (of random looks),
    'word_overlap' (intersection over union). No row for another corpus than scenes, or captions that are no words.
    Raises: BadInput for a method whose words do not attend to cells.
    """
    prepared, method, names = run.prepared(), run.method(), shape_words()
    if prepared.corpus.name != "scenes" or prepared.vocabulary is None:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    split, read = prepared.splits["test"].first(_IMAGES), rule(prepared.vocabulary.tokeniser)
    images, captions = encode_split(method, split)
    texts = prepared.corpus.captions["text"].iloc[split.caption_rows].tolist()
    attended, masks = [], []
    for image, (present, shapes, own_masks) in enumerate(_objects(run, len(split.image_rows))):
        own = np.flatnonzero(split.owners == image)
        with torch.inference_mode():
            attention = method.similarity.attention(images[image], captions[torch.from_numpy(own)])[0]  # t q l
        for t, weights in zip(own, attention, strict=True):
            for place, word in enumerate(read(texts[t]), 1):  # <start> comes before the words
                named = present & (shapes == names.get(word, -1))
                if named.any():
                    attended.append(weights[place])
                    masks.append(_on_grid(own_masks[named].max(0)[None], weights.shape[-1])[0])
    if not attended:
        return pd.DataFrame(columns=METRIC_COLUMNS)
    return _rows("word", torch.stack(attended), torch.stack(masks))


def slots(run: TrainedRun) -> pd.DataFrame:
    """The look of each slot in the last round against all objects of its image: 'slot_pointing',
    'slot_pointing_chance', 'slot_overlap'. No row for another corpus than scenes.
    Raises: BadInput for a method without slots.
    """
    split = run.prepared().splits["test"].first(_IMAGES)
    if run.prepared().corpus.name != "scenes":
        return pd.DataFrame(columns=METRIC_COLUMNS)
    last = slot_attention(run.method(), split.images_at(np.arange(len(split.image_rows))))[:, -1]  # n k l
    every = np.stack([masks.max(0) for *_, masks in _objects(run, len(last))])
    masks = _on_grid(every, last.shape[-1])[:, None].expand_as(last)
    return _rows("slot", last.flatten(0, 1), masks.flatten(0, 1))


def _objects(run: TrainedRun, n: int):
    """(which objects are there, their shapes, their masks) of each of the first n test images."""
    scenes = scenes_of(run.prepared().corpus, "test")[:n]
    return zip(scenes.present, scenes.shape, object_masks(scenes), strict=True)


def _on_grid(masks: np.ndarray, cells: int) -> torch.Tensor:
    return F.adaptive_avg_pool2d(torch.from_numpy(masks), isqrt(cells)).flatten(-2)


def _rows(name: str, weights: torch.Tensor, masks: torch.Tensor) -> pd.DataFrame:
    hit, share, overlap = (float(x.mean()) for x in pointing(weights, masks))
    values = {f"{name}_pointing": hit, f"{name}_pointing_chance": share, f"{name}_overlap": overlap}
    rows = [("", "images", metric, 0, value, len(weights)) for metric, value in values.items()]
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


# How fast a run learns, and how many negatives AdOpt takes while it does.


SHARE = 0.95


def epochs_to(values: Sequence[float], share: float = SHARE) -> float:
    """When a curve first reaches share · its last value: epochs, straight lines between the ends of epochs and from 0
    before the first, so that runs with few epochs are told apart.

    Raises: BadInput for no value, or a last value that is not positive.

    >>> epochs_to([2.0, 3.0, 4.0], share=0.875)
    2.5
    """
    values = [0.0, *map(float, values)]
    if len(values) < 2 or not values[-1] > 0:
        raise BadInput("a run without epochs, or one that ends at 0, has no epoch in which it had learned nearly all.")
    goal = share * values[-1]
    after = next(n for n, value in enumerate(values) if value >= goal)
    before = values[after - 1]
    return after - 1 + (goal - before) / (values[after] - before)


def negatives_in_training(config: RunConfig) -> pd.DataFrame:
    """K of every training step of a run: columns step (from 1), epoch (from 1), i2t, t2i, and the candidates that a row
    offers, 'i2t of' and 't2i of'.

    The method is trained anew, from the weights and with the batches of the run, but without augmentation and without
    being kept. Raises: BadInput for a method whose objective is not AdOpt.

    >>> from xmr_study import base_config
    >>> negatives_in_training(base_config("vse++", device="cpu", size="tiny", d=8))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: vse++ has another objective than AdOpt here...
    """
    prepared = prepare(config.data, device=config.device)
    own = OwnState(config.train, config.device)
    with own.inside():
        torch.manual_seed(config.train.seed)
        method = build(config.method, prepared.inputs, config.form, **config.options).to(config.device)
        prepared.load_pretrained(method)
    loss = method.objective.score_loss
    if not isinstance(loss, AdaptiveClustering):
        raise BadInput(f"{config.method} has another objective than AdOpt here, which takes no number of negatives.")
    batches = Batches(
        prepared.splits["train"], config.batch_images, config.captions_per_image, config.train.seed, config.unit,
        config.positives,
    )  # fmt: skip
    epochs = count()
    train(method, batches, lambda method: {"value": float(next(epochs))}, config.train, own=own)  # none is chosen
    plans = [batches.plan(epoch) for epoch in range(config.train.epochs)]
    sizes = [(len(captions), len(images)) for plan in plans for images, captions in plan]
    table = pd.DataFrame([(i2t, t2i) for t2i, i2t in loss.history], columns=["i2t", "t2i"])
    table.insert(0, "step", range(1, len(table) + 1))
    table.insert(1, "epoch", [n + 1 for n, plan in enumerate(plans) for _ in plan])
    return table.assign(**{"i2t of": [c for c, _ in sizes], "t2i of": [i for _, i in sizes]})
