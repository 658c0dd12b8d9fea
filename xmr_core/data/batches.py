"""From corpus rows to training batches: which images and captions each step sees, fixed by seed, epoch and step."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.data.row_file import JoinedRows, RowFile
from xmr_core.errors import BadInput
from xmr_core.relevance import Relevance
from xmr_core.types import Batch, Corpus, Features, Pixels, Tokens

END_ID, UNKNOWN_ID = 2, 3  # of every vocabulary (data.vocabulary)

ImageReader = Callable[[np.ndarray], Features | Pixels]


def feature_reader(array: np.ndarray | RowFile | JoinedRows, whole: np.ndarray | None = None) -> ImageReader:
    """Reader of frozen features "n_images l e" (array, memory map or file of rows); every local element is real. float64 is read as
    float32. whole: "n_images e", as global_feat."""

    def read(rows: np.ndarray) -> Features:
        order = np.argsort(rows, kind="stable")  # a memory map is read in file order
        picked = np.empty((len(rows), *array.shape[1:]), np.float32 if array.dtype == np.float64 else array.dtype)
        picked[order] = array[rows[order]]
        mask = torch.ones(picked.shape[:2], dtype=torch.bool)
        return Features(torch.from_numpy(picked), mask, None if whole is None else torch.from_numpy(whole[rows]))

    return read


def pixel_reader(corpus: Corpus) -> ImageReader:
    """Reader of pictures as numbers in [0, 1], for encoders that learn from pixels."""

    def read(rows: np.ndarray) -> Pixels:
        return Pixels(torch.from_numpy(corpus.read_pixels(rows)).permute(0, 3, 1, 2).float() / 255)

    return read


@dataclass(frozen=True)
class Side:
    """One split, ready to be read: rows in the corpus tables, words, and which caption belongs to which image.

    captions: the split's tokens, row j for caption_rows[j]. relevance: captions are queries, images the gallery, both in
    the order of caption_rows and image_rows.
    """

    image_rows: np.ndarray
    caption_rows: np.ndarray
    read_images: ImageReader
    captions: Tokens
    relevance: Relevance

    def images_at(self, positions: np.ndarray) -> Features | Pixels:
        """Image inputs at positions within the split."""
        return self.read_images(self.image_rows[positions])

    def captions_at(self, positions: np.ndarray) -> Tokens:
        """Tokens at positions within the split, cut to the longest of them."""
        tokens = self.captions[torch.as_tensor(positions)]
        longest = int(tokens.mask.sum(1).max())
        return Tokens(tokens.ids[:, :longest], tokens.mask[:, :longest])


class Batches:
    """The training batches of a split.

    unit 'images': an epoch is every image once, in batches of `batch_images`, each with `captions_per_image` of its
    captions drawn afresh (all of them if it has fewer); the last, smaller batch is dropped unless it is the only one.
    unit 'captions': an epoch is every caption once, `batch_images` captions a step, each with its image; one image may
    occur twice (VSE++, SCAN, SGRAF; X-62).
    positives 'annotated': match follows the relevance. positives 'diagonal' (only with unit 'captions' and one image per
    caption): a caption matches its own row and nothing else, as the authors' loaders do.

    cell_drop, word_drop: augmentation; each local image feature is left out, each word replaced by <unk>, with these
    probabilities (METHODS §1.5), never all cells of a picture.

    Plan and augmentation depend on (seed, epoch, step) only, so a killed run continues with the very next batch.
    """

    def __init__(
        self,
        side: Side,
        batch_images: int,
        captions_per_image: int,
        seed: int,
        unit: str = "images",
        positives: str = "annotated",
        cell_drop: float = 0.0,
        word_drop: float = 0.0,
    ):
        if unit not in ("images", "captions") or positives not in ("annotated", "diagonal"):
            raise BadInput(f"unit must be 'images' or 'captions' and positives 'annotated' or 'diagonal'; got {unit!r}, {positives!r}.")
        if positives == "diagonal" and unit == "images":
            raise BadInput("positives='diagonal' needs unit='captions': with several captions per image there is no diagonal.")
        if batch_images < 2:
            raise BadInput(f"batch_images must be at least 2, got {batch_images}: one image has no negatives.")
        if captions_per_image < 1:
            raise BadInput(f"captions_per_image must be at least 1, got {captions_per_image}.")
        if not (0 <= cell_drop < 1 and 0 <= word_drop < 1):
            raise BadInput(f"cell_drop and word_drop must lie in [0, 1), got {cell_drop} and {word_drop}.")
        self.cell_drop, self.word_drop = cell_drop, word_drop
        self.side, self.batch_images, self.captions_per_image = side, batch_images, captions_per_image
        self.seed, self.unit, self.positives = seed, unit, positives
        self._captions_of = side.relevance.transpose()

    def __len__(self) -> int:
        """Steps in an epoch."""
        items = len(self.side.image_rows if self.unit == "images" else self.side.caption_rows)
        return max(1, items // self.batch_images)

    def plan(self, epoch: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(image positions, caption positions) of each step of an epoch."""
        rng = np.random.default_rng([self.seed, 7, epoch])
        if self.unit == "captions":
            order = rng.permutation(len(self.side.caption_rows))
            own = self.side.relevance.indices[self.side.relevance.indptr[:-1]]
            return [(own[captions], captions) for captions in self._cut(order)]
        steps = []
        for images in self._cut(rng.permutation(len(self.side.image_rows))):
            captions = [rng.permutation(self._captions_of[i])[: self.captions_per_image] for i in images]
            steps.append((images, np.concatenate(captions)))
        return steps

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        return [order[at * self.batch_images : (at + 1) * self.batch_images] for at in range(len(self))]

    def batch(self, epoch: int, step: int, plan: list[tuple[np.ndarray, np.ndarray]]) -> Batch:
        """Read one step of an epoch's plan."""
        images, captions = plan[step]
        if self.positives == "diagonal":
            match = np.eye(len(images), dtype=bool)
        else:
            match = self.side.relevance.dense(captions, images).T
        rng = np.random.default_rng([self.seed, 8, epoch, step])
        return Batch(
            images=self._with_cells_dropped(self.side.images_at(images), rng),
            captions=self._with_words_dropped(self.side.captions_at(captions), rng),
            match=torch.from_numpy(np.ascontiguousarray(match)),
            image_rows=torch.from_numpy(self.side.image_rows[images]),
            caption_rows=torch.from_numpy(self.side.caption_rows[captions]),
        )

    def _with_cells_dropped(self, images: Features | Pixels, rng: np.random.Generator) -> Features | Pixels:
        if not self.cell_drop or isinstance(images, Pixels):
            return images
        keep = rng.random(images.mask.shape) >= self.cell_drop
        keep[:, 0] |= ~keep.any(1)
        return replace(images, mask=images.mask & torch.from_numpy(keep))

    def _with_words_dropped(self, captions: Tokens, rng: np.random.Generator) -> Tokens:
        if not self.word_drop:
            return captions
        drop = torch.from_numpy(rng.random(captions.ids.shape) < self.word_drop) & (captions.ids > END_ID)
        return replace(captions, ids=captions.ids.masked_fill(drop, UNKNOWN_ID))
