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
from tqdm.auto import tqdm

from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.machine import as_a_run, evaluating, resolve_device
from xmr_core.base.types import Brief, Features, Pixels, Representation, Tokens, joined
from xmr_core.data.corpora import in_order
from xmr_core.data.inputs import ImageLike, RawInputs, listed, one_image, regions
from xmr_core.evaluation.ranks import Scoring, as_matrix, best, checked_k
from xmr_core.features.words import rule, unread
from xmr_core.models.evaluated import EvaluatedModel, evaluate_model

_TOGETHER = 64  # images or sentences encoded at a time


@dataclass(frozen=True)
class Model(Brief):
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
    def encode_texts(
        self, texts: Sequence[str] | str, batch_size: int = _TOGETHER, progress: bool = False
    ) -> Representation:
        """Sentences → representations, one for each. batch_size: how many are encoded at a time. progress: show a bar.

        A word without a training caption is read as the training word with the most similar word vector, where the
        model has word vectors and there is a similar one (docs/data.md#data-word-vectors); else as unknown.

        Warns of sentences without a word that the model knows, which are all read alike, and of sentences that a text
        model cuts.
        Raises: BadInput for no sentence, an empty one, or something else than strings.
        """
        texts = [texts] if isinstance(texts, str) else in_order(texts, "sentences")
        inputs = self.raw.new_captions(texts)
        for message in unread(self.raw.captions.readings(texts)):
            warnings.warn(message, stacklevel=3)
        return joined([self.encoded("captions", inputs[part]) for part in _parts(len(texts), batch_size, progress)])

    @as_a_run()
    def encode_images(
        self, images: Sequence[ImageLike] | ImageLike, batch_size: int = _TOGETHER, progress: bool = False
    ) -> Representation:
        """Images → representations, one for each. batch_size: how many are read and encoded at a time. progress: show a
        bar.

        images: files, PIL images or arrays (uint8 "h w 3") of any size, one or a list of them, or one array "n h w 3";
            all forms of data.inputs.pixels_of.
        For a model on features of regions: float arrays "l e", one for each image, or one array "n l e"; for one that
        was trained on one vector of each image also "n e".
        Raises: BadInput for none, or what is no image; DamagedFile for a file that cannot be read.
        """
        images = listed(images, one_has_three_axes=self.raw.describer is not None)
        parts = _parts(len(images), batch_size, progress)
        if self.raw.describer is None:
            features = regions(images, self.raw.inputs)
            return joined([self.encoded("images", features[part]) for part in parts])
        squares = (np.stack([one_image(image, self.raw) for image in images[part]]) for part in parts)
        return joined([self.encoded("images", self.raw.new_images(pixels)) for pixels in squares])

    @as_a_run()
    def encoded(self, modality: str, inputs: Features | Pixels | Tokens) -> Representation:
        """What the method reads of 'images' or 'captions' → representations on the CPU, all at once."""
        with torch.inference_mode(), evaluating(self.method):
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
        """For each query the best k items of a gallery: columns rank, item (position in the gallery), score, and name
        where the items are given as files.

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
        tables = [{"item": row, "score": own} for row, own in zip(items, values, strict=True)]
        held = [gallery] if isinstance(gallery, str | Path) else gallery
        if of_texts and isinstance(held, Sequence) and all(isinstance(item, str | Path) for item in held):
            tables = [table | {"name": [str(held[n]) for n in table["item"]]} for table in tables]
        return [pd.DataFrame({"rank": np.arange(1, values.shape[1] + 1), **table}) for table in tables]

    @as_a_run()
    def explain(self, image, text) -> pd.DataFrame:
        """Why one image and one sentence score as they do: for each element of the sentence its best element of the
        image, their product, and what it adds to the score (NaN where the score is no sum over elements). `adds` is the
        sentence's side of that sum; where the image's elements add too, the rest is theirs (Similarity.contributions).

        Columns element, word ('' where elements are no words), best, product, adds. Raises: BadInput for more than one
        pair, or a model whose similarity has no elements (distributions).
        """
        sentences = text if isinstance(text, Representation) else [text] if isinstance(text, str) else [*text]
        images, texts = self._encoded(image, sentences)
        parts = self.method.similarity.contributions(images, texts)
        place = parts.products.argmax(0)
        adds = np.full(len(place), np.nan) if parts.captions is None else parts.captions
        elements = np.arange(len(place))
        products = parts.products[place, elements]
        words = [] if isinstance(sentences, Representation) else self.element_words(sentences[0], len(place))
        table = {"element": elements, "word": words or "", "best": place, "product": products, "adds": adds}
        return pd.DataFrame(table)

    def element_words(self, text: str, count: int) -> list[str]:
        """The words of the elements of a sentence, with <start> and <end>; [] where elements are no words."""
        if self.raw.vocabulary is None or self.method.similarity.compares not in ("tokens", "graphs"):
            return []
        every = rule(self.raw.vocabulary.tokeniser)(text)  # <unk> stands for a word that is not known, or nothing does
        readings = (["<start>", *words, "<end>"] for words in (every, self.raw.captions.readings([text])[0].words))
        return next((words for words in readings if len(words) == count), [])

    def evaluate(
        self, corpus=None, split: str = "test", *, dataset: str = "", relevance=None,
        images=None, captions=None, image_of=None,
    ) -> EvaluatedModel:  # fmt: skip
        """Rank one split of a corpus in both directions: the numbers that a run has of its own test split, for any
        model on any corpus. `print` shows them, `.metrics` and `.per_query` are tables.

        corpus: a Corpus, a DataConfig, or a folder that `dataset` reads ('folder' by default: images with a
            captions.csv); None for the corpus of the run that was loaded.
        images, captions, image_of: a corpus in memory in its place, as in `xmr.fit`; images are files, PIL images or
            arrays, or features for a model on such.
        relevance: names of kinds of relevance of the corpus, or {name: Relevance} of your own with its ids; None for
            all kinds. The annotated pairs are always ranked.
        A word without a training caption is unknown here, as in the numbers of a run.
        Raises: BadInput for a corpus without captions or without this split, an unknown kind of relevance, or images
            for a model on features of regions (and the other way round).
        """
        return evaluate_model(self, corpus, split, dataset, relevance, (images, captions, image_of))

    def save_pretrained(self, folder: Path | str) -> Path:
        """Write the model as a folder that `xmr.load` reads anywhere. Raises: as model_folder.write_model."""
        from xmr_core.models.model_folder import write_model  # it reads models with this class

        return write_model(self, folder)

    def export(self, folder: Path | str, form: str) -> Path:
        """Write the model into a new folder as others read it, without this package: 'transformers',
        'sentence-transformers' or 'onnx'. Raises: as export.export."""
        from xmr_core.models.export import export

        return export(self, folder, form)

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


def _parts(n: int, size: int, progress: bool) -> Iterable[slice]:
    """n items, so many at a time, with a bar if that is wanted. Raises: BadInput for less than one at a time."""
    require_number("batch_size", size, low=1)
    starts = tqdm(range(0, n, int(size)), desc="encoding", disable=not progress)
    return (slice(start, start + int(size)) for start in starts)
