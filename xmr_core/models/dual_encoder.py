"""Pretrained dual encoders (CLIP, SigLIP) as they are, with the interface of a trained method."""

import string
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from xmr_core.base.errors import BadInput
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.tensors import require_finite
from xmr_core.base.types import Embedding, Pixels, Tokens
from xmr_core.data.inputs import CaptionReader, Describer, RawInputs
from xmr_core.features.pretrained import WordPieces, load_pretrained, read_preprocessing, read_settings, word_pieces
from xmr_core.features.words import Reading
from xmr_core.methods.common import Inputs
from xmr_core.models.model import Model
from xmr_core.similarities.vectors import Cosine

# Trained on captions of one length: their padding is read like words, and the last position is the summary
READ_PADDING = ("siglip",)
_IMAGES = 32  # read at a time, because a large network takes much memory for each
_BARE = str.maketrans("", "", string.punctuation)


class _AsTrained:
    """Captions as word pieces the way that a dual encoder was trained on them: a call gives the pieces, and how many
    captions were cut to the model's length."""

    def __init__(self, pieces: WordPieces, reads_padding: bool, first_siglip: bool):
        self.pieces, self.reads_padding, self.first_siglip = pieces, reads_padding, first_siglip

    def __call__(self, texts: Sequence[str]) -> tuple[Tokens, int]:
        tokens, cut = self.pieces(self._written(texts))
        return self.padded(tokens), cut

    def readings(self, texts: Sequence[str]) -> list[Reading]:
        """What is read of each caption."""
        return self.pieces.readings(self._written(texts))

    def padded(self, tokens: Tokens) -> Tokens:
        """All of the model's length where it reads padding, else as they are."""
        more = (0, self.pieces.max_length - tokens.ids.shape[1] if self.reads_padding else 0)
        return Tokens(F.pad(tokens.ids, more, value=self.pieces.pad), F.pad(tokens.mask, more))

    def _written(self, texts: Sequence[str]) -> Sequence[str]:
        texts = [text.lower() for text in texts] if self.reads_padding else texts
        return [" ".join(text.translate(_BARE).split()) for text in texts] if self.first_siglip else texts


class ZeroShot(nn.Module):
    """A pretrained dual encoder with the interface of a Method: one unit vector per image and caption, compared by
    cosine.

    Scale and bias of the model's logits are left out, because they change no rank. Captions of SigLIP are lower-cased,
    stripped of punctuation where the tokenizer of its first version is used, and padded to the model's length without a
    mask, as it was trained. Images become squares as the model's own preprocessor makes them: CLIP's are resized by
    their shorter edge and their centre is cut out, SigLIP's are squashed.

    Args: source: folder or hub name. device: where it computes, None for the CPU.
    Attributes: tokens: texts → (captions as the model was trained on them, how many were cut). identity: names weights,
        tokenizer and preprocessing by content. resolution: of the images in pixels. fit: how images become
        squares, None for squashing.
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
        self.resolution = self.scaling.resolution
        self.pieces = word_pieces(folder, max_length=None)
        self.model = model.requires_grad_(False)
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value)
        file = folder.path / "tokenizer_config.json"
        tokenizer = str(read_settings(file).get("tokenizer_class", "")) if file.exists() else ""
        self.reads_padding, self.folder = self.model_type in READ_PADDING, folder
        first_siglip = self.reads_padding and tokenizer.startswith("SiglipTokenizer")
        self.tokens = _AsTrained(self.pieces, self.reads_padding, first_siglip)
        recipe = [self.pieces.identity, asdict(self.scaling), self.fit and asdict(self.fit)]
        self.identity = f"{folder.identity}-{content_hash(recipe)}"
        self.eval()
        self._require_end_of_text(folder.name)
        self.to(device)

    def _require_end_of_text(self, name: str) -> None:
        """Raise BadInput where two captions have one vector though a word differs: a CLIP looks for the end of a
        caption by a number in its config, and another tokenizer has another."""
        tokens, words = self.tokens(["a a"] * 3)[0], self.pieces.words
        places = [n for n, i in enumerate(tokens.ids[0].tolist()) if i in words]
        for row, pair in enumerate(((-1, 0), (-1, 1), (1, 0))):  # the largest number first: some towers look for that
            tokens.ids[row, [places[0], places[-1]]] = torch.tensor([words[n] for n in pair])
        x = self.encode_captions(tokens).x
        if float((x[1:] - x[0]).abs().amax(1).min()) < 1e-6:
            fault = "it does not find the end of text that the tokenizer writes"
            raise BadInput(f"{name} does not read whole captions: {fault}. Correct eos_token_id in config.json.")

    @property
    def device(self) -> torch.device:
        return self.mean.device

    @torch.inference_mode()
    def encode_images(self, images: Pixels) -> Embedding:
        """Pixels "n 3 h w" in [0, 1] → unit vectors "n d". Raises: BadInput for images of another resolution."""
        if images.x.shape[1:] != (3, self.resolution, self.resolution):
            size = "×".join(map(str, images.x.shape[1:]))
            raise BadInput(f"expected images of 3×{self.resolution}×{self.resolution}, got {size}.")
        parts = [self.scaling.apply(x.to(self.device), self.mean, self.std) for x in images.x.split(_IMAGES)]
        return _unit(torch.cat([self.model.get_image_features(pixel_values=x).pooler_output for x in parts]), "image")

    @torch.inference_mode()
    def encode_captions(self, captions: Tokens) -> Embedding:
        """Word pieces from `tokens` → unit vectors "n d"."""
        captions = self.tokens.padded(captions)
        ids, mask = captions.ids.to(self.device), captions.mask.to(self.device)
        seen = {} if self.reads_padding else {"attention_mask": mask.long()}
        return _unit(self.model.get_text_features(input_ids=ids, **seen).pooler_output, "caption")


def dual_model(source: Path | str) -> Model:
    """A dual encoder as a model. source, Raises: as ZeroShot."""
    method = ZeroShot(source)
    describer = Describer("pixels", method.resolution, pixels_fit=method.fit)
    inputs = Inputs(image_width=0, cells=0, vocabulary=0, resolution=method.resolution)
    raw = RawInputs(inputs, CaptionReader(method.tokens), describer)
    folder = method.folder  # of this machine, or a name on the hub
    label = folder.path.name if Path(folder.name).expanduser().is_dir() else folder.name
    return Model(label, method, raw, {"model": method.identity})


def _unit(x: Tensor, modality: str) -> Embedding:
    require_finite(x, modality)
    return Embedding(F.normalize(x.float(), dim=-1))
