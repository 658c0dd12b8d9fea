"""Pretrained dual encoders (CLIP, SigLIP) as they are, under the same protocols as every trained method."""

import string
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base import paths
from xmr_core.base.errors import BadInput
from xmr_core.base.masked import require_finite
from xmr_core.base.types import Corpus, Embedding, Pixels, Tokens
from xmr_core.data.features.model_folder import read_settings
from xmr_core.data.features.pretrained import load_pretrained
from xmr_core.data.features.scaling import read_scaling
from xmr_core.data.features.word_pieces import word_pieces
from xmr_core.evaluation.engine import score_matrix
from xmr_core.evaluation.evaluate import Evaluation, evaluate_scores
from xmr_core.evaluation.protocols import FULL, Protocol
from xmr_core.similarities.cosine import Cosine

_IMAGES, _CAPTIONS = 32, 256  # at a time
_PADDING_IN_VIEW = ("siglip",)  # trained on captions of one length: their padding is read like words, and the last place is the summary
_BARE = str.maketrans("", "", string.punctuation)


class ZeroShot(nn.Module):
    """A pretrained dual encoder with a Method's way of being asked: one unit vector per picture and caption, compared by cosine.

    Scale and bias of the model's logits are left out: they change no rank. Captions of SigLIP are lower-cased, stripped of
    punctuation where the tokenizer of its first version is used, and padded to the model's length without a mask, as it was trained.
    Pictures are resized whole, where the models' own preprocessing cuts out the middle.

    Args: source: folder or hub name. device: where it computes, None for the CPU.
    identity: names weights, tokenizer and scaling by content. resolution: of the pictures in pixels.
    Raises: BadInput as load_pretrained (for a model that is no dual encoder), word_pieces and read_scaling do.
    """

    similarity = Cosine()

    def __init__(self, source: Path | str, device: torch.device | str | None = None):
        super().__init__()
        loaded = load_pretrained(source, "both")
        self.name, self.model_type = "zero-shot", loaded.config.model_type
        self.scaling = read_scaling(loaded.folder, getattr(loaded.config, "vision_config", loaded.config))
        self.pieces = word_pieces(loaded.folder, max_length=None)
        self.model = loaded.model.requires_grad_(False)
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value)
        self.first_siglip = self.model_type in _PADDING_IN_VIEW and _tokenizer_class(loaded.folder.path).startswith("SiglipTokenizer")
        self.identity = f"{loaded.folder.identity}-{paths.content_hash([self.pieces.identity, asdict(self.scaling)])}"
        self.to(device).eval()

    @property
    def resolution(self) -> int:
        return self.scaling.resolution

    @property
    def device(self) -> torch.device:
        return self.mean.device

    def tokens(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        """(captions as word pieces the way the model was trained on them, how many were cut to its length)."""
        if self.model_type not in _PADDING_IN_VIEW:
            return self.pieces(texts)
        texts = [text.lower() for text in texts]
        tokens, cut = self.pieces([" ".join(text.translate(_BARE).split()) for text in texts] if self.first_siglip else texts)
        more = (0, self.pieces.max_length - tokens.ids.shape[1])
        return Tokens(F.pad(tokens.ids, more, value=self.pieces.pad), F.pad(tokens.mask, more)), cut

    @torch.inference_mode()
    def encode_images(self, images: Pixels) -> Embedding:
        """Pixels "n 3 resolution resolution" in [0, 1] → unit vectors "n d". Raises BadInput for pictures of another resolution."""
        if images.x.shape[1:] != (3, self.resolution, self.resolution):
            raise BadInput(f"expected pictures of 3×{self.resolution}×{self.resolution}, got {'×'.join(map(str, images.x.shape[1:]))}.")
        x = self.scaling.apply(images.x.to(self.device), self.mean, self.std)
        return _unit(self.model.get_image_features(pixel_values=x), "picture")

    @torch.inference_mode()
    def encode_captions(self, captions: Tokens) -> Embedding:
        """Word pieces from `tokens` → unit vectors "n d"."""
        ids, mask = captions.ids.to(self.device), captions.mask.to(self.device)
        seen = {} if self.model_type in _PADDING_IN_VIEW else {"attention_mask": mask.long()}
        return _unit(self.model.get_text_features(input_ids=ids, **seen), "caption")


def zero_shot(
    source: Path | str | ZeroShot,
    corpus: Corpus,
    split: str = "test",
    protocol: Protocol = FULL,
    device: torch.device | str | None = None,
    progress: Callable | None = None,
) -> Evaluation:
    """Rank a split with a pretrained dual encoder, by all judges of the corpus.

    Args: source: folder, hub name, or a ZeroShot (whose device then counts). progress: wraps each iterable of batches.
    Raises: BadInput as ZeroShot and zero_shot_scores do, and for counts that are not the protocol's.
    """
    model = source if isinstance(source, ZeroShot) else ZeroShot(source, device)
    scores = zero_shot_scores(model, corpus, split, progress)
    return evaluate_scores(scores, {kind: judge(split) for kind, judge in corpus.judges.items()}, protocol)


def zero_shot_scores(model: ZeroShot, corpus: Corpus, split: str = "test", progress: Callable | None = None) -> Float[np.ndarray, "i t"]:
    """Cosines of all images and captions of a split, in file order. progress: wraps each iterable of batches.

    Raises: BadInput for a corpus without pictures or an empty split.
    """
    if corpus.read_pixels is None:
        raise BadInput(f"{corpus.name} brings features and no pictures; a pretrained dual encoder needs the pictures themselves.")
    image_rows, caption_rows = corpus.rows(split)
    if not len(image_rows) or not len(caption_rows):
        raise BadInput(f"{corpus.name} has no pictures or no captions in its split {split!r}.")
    progress = progress or iter
    images = [model.encode_images(_pixels(corpus, rows, model.resolution)).to("cpu") for rows in progress(_parts(image_rows, _IMAGES))]
    tokens, _ = model.tokens(corpus.captions["text"].iloc[caption_rows].tolist())
    order = tokens.mask.sum(1).argsort(stable=True)  # captions of similar length together: less padding, same numbers
    captions = [model.encode_captions(_cut(tokens[rows], model)).to("cpu") for rows in progress(order.split(_CAPTIONS))]
    joined = torch.cat([part.x for part in captions])[order.argsort()]
    return score_matrix(cosine, Embedding(torch.cat([part.x for part in images])), Embedding(joined))


def _pixels(corpus: Corpus, rows: np.ndarray, resolution: int) -> Pixels:
    return Pixels(torch.from_numpy(np.ascontiguousarray(corpus.read_pixels(rows, resolution))).permute(0, 3, 1, 2).float() / 255)


def _parts(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def _cut(tokens: Tokens, model: ZeroShot) -> Tokens:
    """To the longest of them, unless the model reads padding."""
    longest = tokens.ids.shape[1] if model.model_type in _PADDING_IN_VIEW else int(tokens.mask.sum(1).max())
    return Tokens(tokens.ids[:, :longest], tokens.mask[:, :longest])


def _unit(output, what: str) -> Embedding:
    """From a tensor, or an output whose pooler_output is the projected vector (transformers since version 5)."""
    x: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    require_finite(x, what)
    return Embedding(F.normalize(x.float(), dim=-1))


def _tokenizer_class(folder: Path) -> str:
    told = folder / "tokenizer_config.json"
    return str(read_settings(told).get("tokenizer_class", "")) if told.exists() else ""
