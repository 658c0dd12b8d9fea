"""Pretrained dual encoders (CLIP, SigLIP) as they are, with the interface of a trained method."""

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
from xmr_core.features.pretrained import (
    dual_pieces,
    load_pretrained,
    read_preprocessing,
    require_end_of_text,
    text_of_dual,
)
from xmr_core.methods.common import Inputs
from xmr_core.models.model import Model
from xmr_core.similarities.vectors import Cosine

_IMAGES = 32  # read at a time, because a large network takes much memory for each


class ZeroShot(nn.Module):
    """A pretrained dual encoder with the interface of a Method: one unit vector per image and caption, compared by
    cosine.

    Scale and bias of the model's logits are left out, because they change no rank. Captions of SigLIP are lower-cased,
    stripped of punctuation where the tokenizer of its first version is used, and padded to the model's length without a
    mask, as it was trained. Images become squares as the model's own preprocessor makes them: CLIP's are resized by
    their shorter edge and their centre is cut out, SigLIP's are squashed.

    Args: source: folder or hub name. device: where it computes, None for the CPU.
    Attributes: tokens: texts → (word pieces, how many captions were cut). identity: names weights,
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
        self.tokens, self.folder = dual_pieces(folder), folder
        self.model = model.requires_grad_(False)
        for name, value in zip(("mean", "std"), self.scaling.tensors(), strict=True):
            self.register_buffer(name, value)
        recipe = [self.tokens.identity, asdict(self.scaling), self.fit and asdict(self.fit)]
        self.identity = f"{folder.identity}-{content_hash(recipe)}"
        self.eval()
        require_end_of_text(model, self.tokens, folder.name)
        self.to(device)

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
        read = text_of_dual(self.model, captions.to(self.device), self.tokens.pad, self.tokens.max_length)
        return _unit(read.pooler_output, "caption")


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
