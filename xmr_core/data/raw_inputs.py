"""Images and sentences from outside a corpus, read as a trained method needs them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import existing_file
from xmr_core.base.types import Corpus, Features, Pixels, Tokens
from xmr_core.data.caption_inputs import CaptionReader
from xmr_core.data.image_inputs import Describer, copy_model
from xmr_core.data.inputs import ImageReader
from xmr_core.features.images import UNREADABLE, Fit, array_reader, convert_to_rgb, decoded, why_unreadable
from xmr_core.features.pretrained_text import PretrainedStates, WordPieces
from xmr_core.features.word_vectors import read_nearest, write_nearest
from xmr_core.features.words import Vocabulary
from xmr_core.methods.common import Inputs

STATES, NEAREST = "text_model", "nearest_words.json"  # the folder of a frozen text model, and a file


@dataclass(frozen=True)
class RawInputs:
    """How a method reads what is no corpus of its own.

    inputs: sizes, for building a method. captions: reads sentences. describer: of images; None for a method on region
    features.
    """

    inputs: Inputs
    captions: CaptionReader
    describer: Describer | None

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The words of captions; None where a text model brings its own."""
        return self.captions.words if isinstance(self.captions.words, Vocabulary) else None

    @property
    def pieces(self) -> WordPieces | None:
        """The tokenizer of a text model; None where there is a vocabulary."""
        return None if self.vocabulary else self.captions.words

    @property
    def fit(self) -> Fit | None:
        """How images of any shape become squares before `new_images` takes them; None for squashing."""
        return self.describer.fit if self.describer else None

    def new_images(self, images: UInt8[np.ndarray, "n h w 3"]) -> Features | Pixels:
        """Images from outside the corpus (or changed ones), as the corpus's own are given to a method.

        Height and width are inputs.resolution.
        Raises: BadInput for a corpus of region features, images of another resolution, or none.
        """
        describer, shape = self._describer(), (self.inputs.resolution, self.inputs.resolution, 3)
        if not len(images) or images.shape[1:] != shape or images.dtype != np.uint8:
            raise BadInput(f"images must be uint8 of n × {shape}, got {images.dtype} of {images.shape}.")
        return describer(images)

    def images_of(self, corpus: Corpus, progress: Callable | None = None) -> ImageReader:
        """Reader of all images of another corpus, as this one's are given to a method: image rows → Features or Pixels.

        Frozen features are extracted once and cached on disk, under the content of the images. progress: wraps the
        list of batches (tqdm).
        Raises: BadInput where this corpus, or the other, brings region features instead of images.
        """
        if corpus.read_pixels is None:
            raise BadInput(f"{corpus.name} brings features and no images to be read.")
        return self._describer().images_of(corpus, progress)

    def new_captions(self, texts: Sequence[str]) -> Tokens | Features:
        """Sentences, as the corpus's captions are given to a method. Raises: BadInput for none or an empty one."""
        if not len(texts):
            raise BadInput("no sentence given; give at least one.")
        return self.captions(texts)

    def words_of(self, text: str) -> tuple[list[str], list[str]]:
        """(words that are known or read as others, words that are not known)."""
        return self.captions.words_of(text)

    def to(self, device: torch.device | str) -> None:
        """Let the frozen networks that read images and sentences compute on another device; what has none stays."""
        for network in (self.describer and self.describer.extractor, self.captions.model):
            if hasattr(network, "to"):
                network.to(device)

    def _describer(self) -> Describer:
        if self.describer is None:
            raise BadInput("this method reads features of regions; your own images need the detector that made them.")
        return self.describer


def write_inputs(raw: RawInputs, folder: Path) -> dict:
    """Write what reading images and sentences needs into a folder, words excepted, which a saved method brings.

    Returns the description that `read_inputs` takes. Raises: BadInput for pickled weights; CannotWrite.
    """
    model, nearest = raw.captions.model, raw.captions.nearest
    if model is not None:
        copy_model(model.folder, folder / STATES)
    if nearest:
        write_nearest(nearest, folder / NEAREST)
    return {
        "images": raw.describer.write(folder) if raw.describer else None,
        "texts": "states" if model is not None else "words" if raw.vocabulary else "pieces",
        **({"nearest": NEAREST} if nearest else {}),
    }


def read_inputs(folder: Path, description: Mapping, inputs: Inputs, words: Vocabulary | WordPieces) -> RawInputs:
    """What `write_inputs` wrote. inputs, words: those of the method. Raises: as Describer.read and PretrainedStates."""
    nearest = read_nearest(folder / NEAREST) if description.get("nearest") else None
    model = PretrainedStates(folder / STATES) if description["texts"] == "states" else None
    images = description["images"]
    describer = Describer.read(folder, images) if images else None
    return RawInputs(inputs, CaptionReader(words, model, nearest), describer)


# Images in the forms in which a user has them, as a loaded model reads them.

ImageLike = str | Path | Image.Image | np.ndarray


def listed(images, one_has_three_axes: bool) -> Sequence:
    """Images as a list or an array with one entry for each; a single one becomes a list of one.

    one_has_three_axes: whether an array of three axes is one image. Raises: BadInput for what is no image and no
    collection.
    """
    if isinstance(images, Tensor):
        images = _array(images)
    if hasattr(images, "to_numpy"):  # a table of pandas
        images = images.to_numpy()
    one = one_has_three_axes and isinstance(images, np.ndarray) and images.ndim == 3
    if one or isinstance(images, str | Path | Image.Image):
        return [images]
    if not isinstance(images, Iterable):
        raise BadInput(f"images must be files, PIL images or arrays, got {images!r:.100}.")
    images = images if hasattr(images, "__len__") else list(images)
    if not len(images):
        raise BadInput("no image given; give at least one.")
    return images


def pixels_of(image: ImageLike | Tensor) -> UInt8[np.ndarray, "h w 3"]:
    """The pixels of an image given as a file, a PIL image or an array.

    Raises: BadInput for what is no image; DamagedFile for a file that cannot be read.
    """
    if isinstance(image, str | Path):
        image = existing_file(image, "image")
    try:
        if isinstance(image, Path):
            image = decoded(image)
        if isinstance(image, Image.Image):
            image = np.asarray(convert_to_rgb(image))
    except UNREADABLE as e:
        raise DamagedFile(f"image {image} cannot be read ({why_unreadable(e)}). Give another file.") from None
    if not isinstance(image, np.ndarray | Tensor):
        raise BadInput(f"an image must be a file, a PIL image or an array, got {type(image).__name__}.")
    image = _array(image)
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or not image.size:
        shape = "×".join(map(str, image.shape))
        raise BadInput(f"an image must be uint8 of height×width×3 and not empty, got {image.dtype} of {shape}.")
    return image


def one_image(image: ImageLike, raw: RawInputs) -> UInt8[np.ndarray, "h w 3"]:
    """One image of any size at a model's resolution, read as images of a corpus are. Raises: as pixels_of."""
    return array_reader(pixels_of(image)[None])(np.array([0]), raw.inputs.resolution, fit=raw.fit)[0]


def regions(images, inputs: Inputs) -> Features:
    """Features of regions, "n l e", or one vector for each image, "n e", where a model was trained on such.

    Raises: BadInput for other shapes, another width, or numbers that are not finite.
    """
    try:
        x = torch.from_numpy(np.stack([_array(image).astype(np.float32) for image in images]))
    except (RuntimeError, TypeError, ValueError) as e:
        raise BadInput(f"features of regions must be arrays of one shape, regions × width ({e}).") from None
    if x.ndim == 2 and inputs.cells == 1:  # it was trained on one vector of each image
        x = x[:, None]
    if x.ndim != 3 or x.shape[2] != inputs.image_width or not x.isfinite().all():
        width = inputs.image_width
        raise BadInput(f"features of regions must be finite, n × regions × {width}, got {tuple(x.shape)}.")
    return Features(x, torch.ones(x.shape[:2], dtype=torch.bool))


def _array(x) -> np.ndarray:
    if isinstance(x, Tensor):  # numpy knows no bfloat16
        return (x.float() if x.dtype == torch.bfloat16 else x).numpy(force=True)
    return np.asarray(x)
