"""Pretrained dual encoders (CLIP, SigLIP) as they are, under the same protocols as every trained method."""

import string
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.machine import environment, resolve_device
from xmr_core.base.tensors import require_finite
from xmr_core.base.types import Corpus, Embedding, Pixels, Tokens, joined
from xmr_core.data.corpora import corpus_of
from xmr_core.data.inputs import pixel_reader
from xmr_core.data.prepare import DataConfig
from xmr_core.evaluation.evaluate import Evaluated, Provenance, Setting, evaluate_corpus
from xmr_core.evaluation.ranks import score_matrix
from xmr_core.features.pretrained import load_pretrained, read_preprocessing, read_settings, word_pieces
from xmr_core.similarities.vectors import Cosine
from xmr_core.training.runs.config import STAGES, readable_id

_IMAGES, _CAPTIONS = 32, 256  # at a time
# Trained on captions of one length: their padding is read like words, and the last position is the summary
_READ_PADDING = ("siglip",)
_BARE = str.maketrans("", "", string.punctuation)


class ZeroShot(nn.Module):
    """A pretrained dual encoder with the interface of a Method: one unit vector per image and caption, compared by
    cosine.

    Scale and bias of the model's logits are left out, because they change no rank. Captions of SigLIP are lower-cased,
    stripped of punctuation where the tokenizer of its first version is used, and padded to the model's length without a
    mask, as it was trained. Images become squares as the model's own preprocessor makes them: CLIP's are resized by
    their shorter edge and their centre is cut out, SigLIP's are squashed.

    Args: source: folder or hub name. device: where it computes, None for the CPU.
    Attributes: identity: names weights, tokenizer and preprocessing by content. resolution: of the images in pixels.
        fit: how images become squares, None for squashing.
    Raises: BadInput as load_pretrained (for a model that is no dual encoder), word_pieces and
        read_preprocessing do.

    >>> ZeroShot("no/such/folder")
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: ...
    """

    similarity = Cosine()

    def __init__(self, source: Path | str, device: torch.device | str | None = None):
        super().__init__()
        model, folder = load_pretrained(source, "both")
        self.name, self.model_type = "zero-shot", model.config.model_type
        self.scaling, self.fit = read_preprocessing(folder, getattr(model.config, "vision_config", model.config))
        self.pieces = word_pieces(folder, max_length=None)
        self.model = model.requires_grad_(False)
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value)
        file = folder.path / "tokenizer_config.json"
        tokenizer = str(read_settings(file).get("tokenizer_class", "")) if file.exists() else ""
        self.first_siglip = self.model_type in _READ_PADDING and tokenizer.startswith("SiglipTokenizer")
        recipe = [self.pieces.identity, asdict(self.scaling), self.fit and asdict(self.fit)]
        self.identity = f"{folder.identity}-{content_hash(recipe)}"
        self.to(device).eval()

    @property
    def resolution(self) -> int:
        return self.scaling.resolution

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def tokens(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """(captions as word pieces the way the model was trained on them, how many were cut to its length)."""
        if self.model_type not in _READ_PADDING:
            return self.pieces(texts)
        texts = [text.lower() for text in texts]
        if self.first_siglip:
            texts = [" ".join(text.translate(_BARE).split()) for text in texts]
        tokens, cut = self.pieces(texts)
        more = (0, self.pieces.max_length - tokens.ids.shape[1])
        return Tokens(F.pad(tokens.ids, more, value=self.pieces.pad), F.pad(tokens.mask, more)), cut

    @torch.inference_mode()
    def encode_images(self, images: Pixels) -> Embedding:
        """Pixels "n 3 h w" in [0, 1] → unit vectors "n d". Raises: BadInput for images of another resolution."""
        if images.x.shape[1:] != (3, self.resolution, self.resolution):
            size = "×".join(map(str, images.x.shape[1:]))
            raise BadInput(f"expected images of 3×{self.resolution}×{self.resolution}, got {size}.")
        x = self.scaling.apply(images.x.to(self.device), self.mean, self.std)
        return _unit(self.model.get_image_features(pixel_values=x), "image")

    @torch.inference_mode()
    def encode_captions(self, captions: Tokens) -> Embedding:
        """Word pieces from `tokens` → unit vectors "n d"."""
        ids, mask = captions.ids.to(self.device), captions.mask.to(self.device)
        seen = {} if self.model_type in _READ_PADDING else {"attention_mask": mask.long()}
        return _unit(self.model.get_text_features(input_ids=ids, **seen), "caption")


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
        longest = batch.ids.shape[1] if model.model_type in _READ_PADDING else int(batch.mask.sum(1).max())
        batch = Tokens(batch.ids[:, :longest], batch.mask[:, :longest])
        captions.append(model.encode_captions(batch).to("cpu"))
    return score_matrix(model.similarity, images, joined(captions)[order.argsort()])


def _unit(output, modality: str) -> Embedding:
    """From a tensor, or an output whose pooler_output is the projected vector (transformers since version 5)."""
    x: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    require_finite(x, modality)
    return Embedding(F.normalize(x.float(), dim=-1))


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
            model=(str(source), model.identity),
        ),
    )
