"""What people see of a library: photographs and captions, attention, and the models that encode a folder."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from huggingface_hub import constants
from jaxtyping import Float, UInt8
from PIL import Image

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels
from xmr_core.data.inputs import one_image
from xmr_core.evaluation.analysis.elements import nearest_partner, node_weights, slot_attention, word_attention
from xmr_core.evaluation.metrics import expected_random_rsum
from xmr_core.features.images import read_image, read_thumbnail
from xmr_core.retrieval.index import MANIFEST
from xmr_core.retrieval.library import Library, elements_of
from xmr_core.retrieval.ranking import known_words
from xmr_core.training.runs.folder import resolve_run, run_table

DRAWN = "scenes"  # the data set of drawings
_DUAL = ("clip", "siglip", "siglip2", "chinese_clip", "align", "altclip")


def photograph(library: Library, position: int, edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The image at a position in its own shape, its longer edge at most `edge` pixels where it is a file.

    Raises: BadInput for a corpus of features; DamagedFile for a file that cannot be read.

    >>> from xmr_core.retrieval import example_library
    >>> photograph(example_library(), 0)
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this corpus has features and no images to show.
    """
    if library.pixels is None:
        raise BadInput("this corpus has features and no images to show.")
    path = library.paths(position)
    return read_thumbnail(path, edge) if path else library.pixels(position)


def seen_part(library: Library, image: int | UInt8[np.ndarray, "h w 3"], edge: int = 240) -> UInt8[np.ndarray, "h w 3"]:
    """The part of an image that the method reads: the square in its centre where it was made for that, else all of it.
    Cells are those of this part. image: its position, or the pixels of one from elsewhere. Raises: as photograph.
    """
    fit = library.raw.fit
    if isinstance(image, np.ndarray):
        if fit is not None and fit.keeps_ratio:
            return one_image(image, library.raw)
        small = Image.fromarray(image)
        small.thumbnail((edge, edge))
        return np.asarray(small)
    position, path = image, library.paths(image)
    if path and fit is not None and fit.keeps_ratio:
        return read_image(path, library.raw.inputs.resolution, fit=fit)
    return photograph(library, position, edge)


def captions_of(library: Library, position: int) -> list[str]:
    """The annotated captions of the image at a position, in file order; [] where there are none.

    >>> from xmr_core.retrieval import example_library
    >>> captions_of(example_library(), 1)
    ['a blue square']
    """
    if "annotated" not in library.relevance_sets:
        return []
    return [str(text) for text in library.texts[library.relevant("annotated", "images", position)]]


# The attention of a method to an image: of its elements, and of the words of a sentence. The image is that at a
# position of a library, or one from elsewhere as the method reads it (explain.Pair.read).

AnyImage = int | Features | Pixels


def element_attention(library: Library, image: AnyImage) -> Float[np.ndarray, "k l"]:
    """How each of the k elements of an image attends to its l cells in the last round. Rows sum to 1.

    Raises: BadInput for a method whose elements do not come from attention to cells.

    >>> from xmr_core.retrieval import example_library
    >>> element_attention(example_library("dive"), 0).shape
    (4, 4)
    """
    return slot_attention(library.method, _image_input(library, image))[0, -1].cpu().numpy()


def nearest_captions(library: Library, image: AnyImage) -> pd.DataFrame:
    """For each element of an image, the caption of the library that holds its nearest element.

    Returns: columns element (from 0), text, cosine.
    Raises: BadInput for a method without small sets, or a library without captions.

    >>> from xmr_core.retrieval import example_library
    >>> nearest_captions(example_library("dive"), 0).columns.tolist()
    ['element', 'text', 'cosine']
    """
    captions = library.items("captions")
    if elements_of(library.images) < 2:
        raise BadInput(f"{library.label} makes no small sets, so there are no elements to have neighbours.")
    outside = isinstance(image, Features | Pixels)
    own = library.model.encoded("images", image) if outside else library.images[image]
    nearest = nearest_partner(own, captions)
    return nearest.assign(text=library.texts[nearest["caption"]])[["element", "text", "cosine"]]


def word_attention_of(library: Library, text: str, image: AnyImage) -> tuple[list[str], Float[np.ndarray, "q l"]]:
    """(the q words of a sentence that the method knows, how each attends to the l cells of an image).

    Rows sum to 1. Raises: BadInput for a method without attention of words over cells, or one that reads word pieces.

    >>> from xmr_core.retrieval import example_library
    >>> words, attention = word_attention_of(example_library("scan"), "a red zebra", 0)
    >>> words, attention.shape
    (['a', 'red'], (2, 4))
    """
    words, inputs = _pair(library, text, image)
    weights = word_attention(library.method, *inputs)[0, 0].cpu().numpy()
    return words, weights[_rows_of(words)]


def word_weights(library: Library, text: str, image: AnyImage) -> dict[str, pd.DataFrame]:
    """How much each word of a sentence counts for its score with an image.

    Returns: part of the method ('SAF', 'SGR') → columns word and weight. The first row, '(global)', is the pair of
        global vectors. The weights of a table sum to less than 1, because <start> and <end> have weights too.
    Raises: BadInput as node_weights does, and for a method that reads word pieces.

    >>> from xmr_core.retrieval import example_library
    >>> word_weights(example_library("sgraf"), "a red circle", 0)["SGR"]["word"].tolist()
    ['(global)', 'a', 'red']
    """
    words, inputs = _pair(library, text, image)
    weights = {part: w[0, 0].cpu().numpy() for part, w in node_weights(library.method, *inputs).items()}
    names = ["(global)", *words]
    return {part: pd.DataFrame({"word": names, "weight": [w[0], *w[_rows_of(words)]]}) for part, w in weights.items()}


def _rows_of(words: list[str]) -> slice:
    """The rows of the words. <start>, and the global vector where there is one, come before them; <end> comes last."""
    return slice(-len(words) - 1, -1)


def _image_input(library: Library, image: AnyImage):
    inputs = image if isinstance(image, Features | Pixels) else library.inputs(np.array([image]))
    return inputs.to(library.method.device)


def _pair(library: Library, text: str, image: AnyImage):
    words = known_words(library, text)
    tokens = library.raw.new_captions([" ".join(words)])
    return words, (_image_input(library, image), tokens.to(library.method.device))


# Which models encode a folder of images, and what is known of one.


def folder_models(place: Path, names: Sequence[str] = ()) -> list[str]:
    """What `load` is to read, checked before anything starts that takes its time; [] for an index, which has its own.

    place: a folder of images, or an index. names: runs, folders, files or models on the hub; none takes the newest
    finished run of each method that was trained on photographs, the newest first, and the dual encoders that were
    downloaded before. Only what cannot be a path or lie on the hub is looked up here; `load` says what is wrong with
    others.
    Raises: BadInput for a place that is no folder, names beside an index, a name that is no run, and where no model of
        photographs is at hand: one of drawn scenes is not taken for them unless it is named.

    >>> folder_models(Path("."), ["google/siglip-base-patch16-224"])
    ['google/siglip-base-patch16-224']
    """
    if not place.is_dir():
        raise BadInput(f"{place} is no folder. Give a folder of images, or an index.")
    if (place / MANIFEST).exists():
        if names:
            raise BadInput(f"{place} is an index, which holds its own model. Name no other.")
        return []
    for name in names:
        if "/" not in name and not name.startswith("shipped:") and not Path(name).expanduser().exists():
            resolve_run(name)
    if models := [*names] or [*_newest_runs(), *_downloaded()]:
        return models
    raise BadInput(
        "no finished run on photographs and no downloaded dual encoder is at hand to encode these images with, and a "
        "model of drawn scenes is not taken for photographs unless it is named. Either name a dual encoder: --run "
        "openai/clip-vit-base-patch32 (pip install 'xmr-study[hub]'). Or train on captioned photographs: python -m "
        "xmr_core train vse-infty --dataset folder --data-root FOLDER. Or see what drawn scenes teach: --run "
        "shipped:dive."
    )


def _newest_runs() -> list[str]:
    """Short names of the newest finished run of each method on photographs, the newest first."""
    table = run_table()
    table = table[(table["state"] == "finished") & ~table["data"].str.startswith(DRAWN)]
    return table.groupby("method", sort=False)["name"].last().tolist()[::-1]


def _downloaded() -> list[str]:
    """Hub names of the dual encoders that lie in the cache of the hub."""
    files = Path(constants.HF_HUB_CACHE).glob("models--*/snapshots/*/config.json")
    kinds = {file.parents[2].name: json.loads(file.read_text(encoding="utf-8")).get("model_type") for file in files}
    return sorted(n.removeprefix("models--").replace("--", "/") for n, kind in kinds.items() if kind in _DUAL)


def described(library: Library) -> tuple[str, str, str]:
    """(what is searched, by which model, with its result beside that of a random ranking, '' or a warning)."""
    source, about, label = library.source, library.model.about, library.label
    place = library.folder.name if library.folder else Path(str(source.get("name", ""))).name
    place += f" split of {about.get('dataset', '')}" if source.get("kind") == "split" else ""
    counts = f"{len(library.image_ids):,} images, {len(library.caption_ids):,} captions"
    dataset, result = str(about.get("dataset", "")), next(iter(about.get("results") or []), None)
    known = f"trained on {dataset}" if dataset else "trained elsewhere"
    if result is not None:
        chance = expected_random_rsum(result["images"], result["captions"])
        known += f": RSUM {result['rsum']:.0f} of 600 on its test images, chance {chance:.0f}"
    warning = ""
    if source.get("kind") == "folder" and dataset.startswith(DRAWN):
        warning = "It has seen drawn scenes only; of photographs it knows little more than colours."
    return f"{place}: {counts}", f"{label}, {known}", warning
