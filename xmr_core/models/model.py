"""A trained model in three lines: load it, encode sentences and images, score and rank them."""

import tempfile
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.errors import BadInput, require_choice
from xmr_core.base.machine import as_a_run, resolve_device
from xmr_core.base.types import Features, Pixels, Representation, Tokens, joined
from xmr_core.data.inputs import ImageLike, RawInputs, listed, one_image, regions
from xmr_core.evaluation.ranks import Scoring, as_matrix, best, checked_k

_TOGETHER = 64  # images or sentences encoded at a time


@dataclass(frozen=True)
class Model:
    """A method with everything that it needs to read sentences and images from anywhere.

    label: the method's name for people. method: encodes and compares. raw: reads images and words as it needs them.
    about: where it came from: run, data, settings and results, as JSON can hold them.

    >>> from xmr_core.retrieval import example_model
    >>> model = example_model()
    >>> images, captions = model.encode_images(np.zeros((2, 64, 64, 3), np.uint8)), model.encode_texts(["a red square"])
    >>> model.similarity(images, captions).shape
    torch.Size([2, 1])
    """

    label: str
    method: nn.Module
    raw: RawInputs
    about: dict = field(default_factory=dict)

    @as_a_run()
    def encode_texts(self, texts: Sequence[str] | str) -> Representation:
        """Sentences → representations, one for each.

        A word without a training caption is read as the training word with the most similar word vector, where the
        model has word vectors and there is a similar one (docs/data.md#data-word-vectors); else as unknown.

        Warns of sentences without a word that the model knows: all of them are read alike.
        Raises: BadInput for no sentence, an empty one, or something else than strings.
        """
        texts = list(texts) if isinstance(texts, Iterable) and not isinstance(texts, str) else [texts]
        if wrong := [t for t in texts if not isinstance(t, str) or not t.strip()]:
            raise BadInput(f"sentences must be strings with at least one word, got {wrong[0]!r}.")
        inputs = self.raw.new_captions(texts)
        if wordless := [t for t in texts if not self.raw.words_of(t)[0]]:
            unread = f"{len(wordless):,} of {len(texts):,} sentences have no word that this model knows"
            warnings.warn(f"{unread}, and all such are read alike; the first: {wordless[0]!r:.60}.", stacklevel=2)
        return self._in_parts("captions", inputs, len(texts))

    @as_a_run()
    def encode_images(self, images: Sequence[ImageLike] | ImageLike) -> Representation:
        """Images → representations, one for each.

        images: files, PIL images or arrays (uint8 "h w 3") of any size, one or a list of them, or one array "n h w 3".
        For a model on features of regions: float arrays "l e", one for each image, or one array "n l e"; for one that
        was trained on one vector of each image also "n e".
        Raises: BadInput for none, or what is no image; DamagedFile for a file that cannot be read.
        """
        images = listed(images, one_has_three_axes=self.raw.describer is not None)
        if self.raw.describer is None:
            return self._in_parts("images", regions(images, self.raw.inputs), len(images))
        parts = []
        for start in range(0, len(images), _TOGETHER):
            pixels = np.stack([one_image(image, self.raw) for image in images[start : start + _TOGETHER]])
            parts.append(self.encoded("images", self.raw.new_images(pixels)))
        return joined(parts)

    @as_a_run()
    def encoded(self, modality: str, inputs: Features | Pixels | Tokens) -> Representation:
        """What the method reads of 'images' or 'captions' → representations on the CPU, all at once."""
        with torch.inference_mode():
            return getattr(self.method, f"encode_{modality}")(inputs.to(self.method.device)).to("cpu")

    def to(self, device: str | torch.device) -> "Model":
        """Let the method, and the frozen networks that read images and sentences for it, compute on a device from now
        on; returns the model itself. Representations are always given on the CPU.

        device: 'cpu', 'cuda', 'cuda:1', 'mps', …, or 'auto' for an accelerator where there is one. Raises: BadInput for
        a device that this machine does not have.
        """
        device = resolve_device(str(device))
        self.method.to(device)
        self.raw.to(device)
        return self

    def similarity(self, images, texts) -> Float[Tensor, "i t"]:
        """scores[image, text] of representations, or of raw images and sentences, which are encoded first."""
        images, texts = self._encoded(images, texts)
        return torch.from_numpy(as_matrix(self._scoring(images, texts)))

    def rank(self, queries, gallery, k: int = 10, queries_are: str = "texts") -> list[pd.DataFrame]:
        """For each query the best k items of a gallery: columns rank, item (position in the gallery), score.

        queries, gallery: raw, or representations of encode_texts and encode_images. queries_are: 'texts', then the
        gallery holds images, or 'images', then it holds texts. Raises: BadInput for another word, k that is no
        whole number from 1, or nothing to rank.
        """
        require_choice("queries_are", queries_are, ("texts", "images"))
        of_texts = queries_are == "texts"
        images, texts = self._encoded(*((gallery, queries) if of_texts else (queries, gallery)))
        scores, n = self._scoring(images, texts), len(images if of_texts else texts)
        if not n:
            raise BadInput(f"there is no {'image' if of_texts else 'sentence'} to be ranked; give at least one.")
        values, items = best(scores, checked_k(k, n), "captions" if of_texts else "images")
        tables = ({"item": row, "score": own} for row, own in zip(items, values, strict=True))
        return [pd.DataFrame({"rank": np.arange(1, values.shape[1] + 1), **table}) for table in tables]

    @as_a_run()
    def explain(self, image, text) -> pd.DataFrame:
        """Why one image and one sentence score as they do: for each element of the sentence its best element of the
        image, their product, and what it adds to the score (NaN where the score is no sum over elements).

        Columns element, best, product, adds. Raises: BadInput for more than one pair, or a model whose similarity has
        no elements (distributions).
        """
        images, texts = self._encoded(image, [text] if isinstance(text, str) else text)
        parts = self.method.similarity.contributions(images, texts)
        place = parts.products.argmax(0)
        adds = np.full(len(place), np.nan) if parts.captions is None else parts.captions
        elements = np.arange(len(place))
        products = parts.products[place, elements]
        return pd.DataFrame({"element": elements, "best": place, "product": products, "adds": adds})

    def save_pretrained(self, folder: Path | str) -> Path:
        """Write the model as a folder that `xmr.load` reads anywhere. Raises: as model_folder.write_model."""
        from xmr_core.models.model_folder import write_model  # it reads models with this class

        return write_model(self, folder)

    def push_to_hub(
        self, repo_id: str, token: str | None = None, private: bool = False, revision: str | None = None
    ) -> str:
        """Upload the model; returns its name there, 'owner/name@commit', which `xmr.load` takes.

        The card is written anew. To complete it first, call save_pretrained, change README.md, and upload the folder
        with push_folder, which explains the arguments. Raises: as write_model and push_folder do.
        """
        from xmr_core.models.model_folder import push_folder

        with tempfile.TemporaryDirectory() as folder:
            return push_folder(self.save_pretrained(folder), repo_id, token, private, revision)

    @classmethod
    def from_pretrained(cls, source: str | Path, **options) -> "Model":
        """`xmr.load` under the name that other libraries have for it."""
        from xmr_core.models.load import load

        return load(source, **options)

    def _encoded(self, images, texts) -> tuple[Representation, Representation]:
        images = images if isinstance(images, Representation) else self.encode_images(images)
        return images, texts if isinstance(texts, Representation) else self.encode_texts(texts)

    def _scoring(self, images: Representation, texts: Representation) -> Scoring:
        return Scoring(self.method.similarity, images, texts, device=self.method.device)

    def _in_parts(self, modality: str, inputs, n: int) -> Representation:
        return joined([self.encoded(modality, inputs[start : start + _TOGETHER]) for start in range(0, n, _TOGETHER)])
