"""Pretrained dual encoders (CLIP, SigLIP) as they are, under the same protocols as every trained method."""

import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.base.machine import environment, resolve_device
from xmr_core.base.types import Corpus, Tokens, joined
from xmr_core.data.config import DataConfig
from xmr_core.data.corpora import corpus_of
from xmr_core.data.inputs import pixel_reader
from xmr_core.evaluation.evaluate import Evaluated, Provenance, Setting, evaluate_corpus
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.features.words import USUAL, unread
from xmr_core.models.dual_encoder import READ_PADDING, ZeroShot
from xmr_core.training.runs.config import STAGES, readable_id

_IMAGES, _CAPTIONS = 32, 256  # at a time


def zero_shot_scores(
    model: ZeroShot, corpus: Corpus, split: str = "test", progress: Callable | None = None
) -> Float[np.ndarray, "i t"]:
    """Cosines of all images and captions of a split, in file order. progress: wraps each iterable of batches.

    Raises: BadInput for a corpus without images or an empty split.

    >>> from types import SimpleNamespace
    >>> zero_shot_scores(None, SimpleNamespace(name="regions", read_pixels=None))
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: regions brings features and no images; a pretrained dual encoder needs the images.
    """
    if corpus.read_pixels is None:
        raise BadInput(f"{corpus.name} brings features and no images; a pretrained dual encoder needs the images.")
    image_rows, caption_rows = corpus.rows(split)
    if not len(image_rows) or not len(caption_rows):
        raise BadInput(f"{corpus.name} has no images or no captions in its split {split!r}.")
    progress, read = progress or iter, pixel_reader(corpus, model.resolution, fit=model.fit)
    image_batches = [image_rows[n : n + _IMAGES] for n in range(0, len(image_rows), _IMAGES)]
    images = joined([model.encode_images(read(rows)).to("cpu") for rows in progress(image_batches)])
    tokens, _ = model.tokens(corpus.captions["text"].iloc[caption_rows].tolist())
    order = tokens.mask.sum(1).argsort(stable=True)  # captions of similar length together: less padding, same numbers
    captions = []
    for rows in progress(order.split(_CAPTIONS)):
        batch = tokens[rows]
        longest = batch.ids.shape[1] if model.model_type in READ_PADDING else int(batch.mask.sum(1).max())
        batch = Tokens(batch.ids[:, :longest], batch.mask[:, :longest])
        captions.append(model.encode_captions(batch).to("cpu"))
    return score_matrix(model.similarity, images, joined(captions)[order.argsort()])


def zero_shot_reference(
    source: Path | str, data: DataConfig, device: str = "auto", progress: Callable | None = None
) -> Evaluated:
    """The test split ranked by a CLIP- or SigLIP-style model as it is; nothing is trained, and nothing chosen on
    validation.

    source: a local folder or a hub name of transformers. The id names corpus and model by content.
    Raises: what ZeroShot and zero_shot_scores raise.

    >>> zero_shot_reference("no/such/folder", DataConfig(size="tiny"), device="tpu")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: unknown device 'tpu' ...
    """
    device = resolve_device(device)
    corpus = corpus_of(data)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    model = ZeroShot(source, device)
    texts = corpus.captions["text"].iloc[corpus.rows("test")[1]].tolist()
    for message in (messages := tuple(unread(model.readings(texts), "test captions", USUAL))):
        warnings.warn(message, stacklevel=2)
    evaluation, metrics = evaluate_corpus(zero_shot_scores(model, corpus, progress=progress), corpus)
    size = data.size if data.dataset == "scenes" else ""
    return Evaluated(
        id=readable_id("zero-shot", data.dataset, 0, [corpus.fingerprint, model.identity, STAGES["evaluation"]]),
        setting=Setting("zero-shot", "as it comes", data.dataset, size),
        metrics=metrics,
        per_query=evaluation.per_query,
        provenance=Provenance(
            started_utc=started,
            train_seconds=0.0,
            parameters=sum(p.numel() for p in model.parameters()),
            environment=environment(device),
            relevances=tuple(sorted(corpus.relevance_sets)),
            messages=messages,
            model=(str(source), model.identity),
        ),
    )
