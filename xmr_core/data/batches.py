"""From corpus rows to training batches: which images and captions each step sees, fixed by seed, epoch and step."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int

from xmr_core.base.errors import BadInput, require_fields
from xmr_core.base.tensors import require_element, require_elements, require_finite
from xmr_core.base.types import Batch, Brief, Features, Pixels, Relevance, Tokens
from xmr_core.data.inputs import CaptionStates, ImageReader

# The papers' augmentations of training inputs, as functions of the inputs and a random generator.


SPECIAL, UNKNOWN_ID = (0, 1, 2), 3  # padding, <start>, <end>; <unk>: the same numbers in every Vocabulary
CELL_RULES = ("each", "grid")
WORD_RULES = ("unknown", "vse", "pcme")


@dataclass(frozen=True)
class Augmentation(Brief):
    """What is left out of training inputs, or changed in them. All probabilities lie in [0, 1).

    cell_drop, cell_rule: 'each' leaves each cell or region out with this probability. 'grid' draws r ~ U(0, 1) for
        each image and, if r > 0.2, leaves each of its cells out with probability cell_drop · r. An image never loses
        all its cells.
    word_drop, word_rule: `<start>` and `<end>` always stay. 'unknown': each word becomes `<unk>` with this
        probability. 'vse': each word is chosen with this probability, and then becomes mask_id (50 %), becomes any
        word (10 %) or is deleted (40 %). 'pcme': each word becomes `<unk>` with this probability, and then
        ⌊word_drop · n⌋ words of n are deleted. Frozen word states can only be left out: under every rule each is left
        out with this probability.
    erase: only for raw pixels. With this probability a rectangle becomes 0.5, about the mean of natural images. Its
        area is U(0.02, ⅓) of the image's, its aspect ratio e^U(log 0.3, log 3.3).
    words: size of the vocabulary, read by 'vse'. special: ids that are no words. unknown_id, mask_id: ids of `<unk>`
        and `<mask>` (that of `<unk>` if there is no mask). The defaults are those of a Vocabulary; the word pieces of a
        text model have others.

    Raises: BadInput for a probability outside [0, 1), an unknown rule, or word_drop without an id for a dropped word.
    Source: the table in docs/data.md#data-augmentation.

    >>> images = Features(torch.zeros(2, 4, 3), torch.ones(2, 4, dtype=torch.bool))
    >>> Augmentation(cell_drop=0.5).images(images, np.random.default_rng(0)).mask.sum(1)
    tensor([1, 4])
    """

    cell_drop: float = 0.0
    cell_rule: str = "each"
    word_drop: float = 0.0
    word_rule: str = "unknown"
    erase: float = 0.0
    words: int = 0
    special: tuple[int, ...] = SPECIAL
    unknown_id: int = UNKNOWN_ID
    mask_id: int = UNKNOWN_ID

    def __post_init__(self):
        chances = dict.fromkeys(("cell_drop", "word_drop", "erase"), (0, 1 - 1e-9))
        require_fields(self, chances, {"cell_rule": CELL_RULES, "word_rule": WORD_RULES})
        if self.word_drop and min(self.unknown_id, self.mask_id) < 0:
            raise BadInput("the tokenizer has no mask and no unknown word to replace a word with; set word_drop to 0.")

    def images(self, images: Features | Pixels, rng: np.random.Generator) -> Features | Pixels:
        """The images of a batch, with some cells masked or some pixels erased."""
        if isinstance(images, Pixels):
            return Pixels(_erased(images.x, self.erase, rng)) if self.erase else images
        if not self.cell_drop:
            return images
        drop = np.full((len(images), 1), self.cell_drop)
        if self.cell_rule == "grid":
            r = rng.random((len(images), 1))
            drop = np.where(r > 0.2, self.cell_drop * r, 0.0)
        return replace(images, mask=_masked(images.mask, rng.random(images.mask.shape) >= drop))

    def captions(self, captions: Tokens | Features, rng: np.random.Generator) -> Tokens | Features:
        """The captions of a batch, with some words changed or left out."""
        if not self.word_drop:
            return captions
        if isinstance(captions, Features):
            return replace(captions, mask=_masked(captions.mask, rng.random(captions.mask.shape) >= self.word_drop))
        ids, mask = captions.ids.numpy().copy(), captions.mask.numpy()
        word = mask & ~np.isin(ids, self.special)
        hit = (rng.random(ids.shape) < self.word_drop) & word
        keep = mask
        if self.word_rule == "vse":
            fate = rng.random(ids.shape)
            ids[hit & (fate < 0.5)] = self.mask_id
            swapped = hit & (fate >= 0.5) & (fate < 0.6)
            other = rng.integers(0, max(self.words, 1), ids.shape)
            ids[swapped] = np.where(np.isin(other, self.special), self.mask_id, other)[swapped]
            keep = mask & ~(hit & (fate >= 0.6))
        else:
            ids[hit] = self.unknown_id
        if self.word_rule == "pcme":
            lot = np.where(word, rng.random(ids.shape), 2.0)  # the words with the smallest lots are deleted
            keep = mask & ~(word & (lot.argsort(1).argsort(1) < np.floor(self.word_drop * word.sum(1, keepdims=True))))
        lengths = keep.sum(1)  # the words that stay are moved together and padded with 0 to the longest row
        order = np.argsort(~keep, axis=1, kind="stable")[:, : lengths.max(initial=0)]
        mask = np.arange(order.shape[1])[None] < lengths[:, None]
        ids = np.where(mask, np.take_along_axis(ids, order, 1), 0)
        return Tokens(torch.from_numpy(ids), torch.from_numpy(mask))


def _masked(mask: torch.Tensor, keep: np.ndarray) -> torch.Tensor:
    """mask & keep; a row that would lose all its elements keeps the first."""
    keep = torch.from_numpy(keep) & mask
    keep[:, 0] |= ~keep.any(1) & mask[:, 0]
    return keep


def _erased(x: torch.Tensor, probability: float, rng: np.random.Generator) -> torch.Tensor:
    """Some images with one grey rectangle; a rectangle that does not fit into its image is not drawn."""
    x = x.clone()
    _, _, height, width = x.shape
    for image in np.flatnonzero(rng.random(len(x)) < probability):
        area, aspect = rng.uniform(0.02, 1 / 3) * height * width, np.exp(rng.uniform(np.log(0.3), np.log(3.3)))
        h, w = round(np.sqrt(area * aspect)), round(np.sqrt(area / aspect))
        if 0 < h < height and 0 < w < width:
            top, left = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
            x[image, :, top : top + h, left : left + w] = 0.5
    return x


# Splits and batches.


UNITS, ORACLES = ("images", "captions", "classes"), ("exhaustive", "left out")
POSITIVES = ("annotated", "diagonal", *ORACLES)
Plan = list[tuple[np.ndarray, np.ndarray]]  # (image positions, caption positions) of each step


@dataclass(frozen=True)
class Split(Brief):
    """One split of a corpus, ready to be read.

    image_rows, caption_rows: row numbers in the tables of the corpus. read_images: image rows → inputs.
    captions: the tokens, or frozen word states, of caption_rows. relevance: captions are queries, images the gallery,
    both in the order of caption_rows and image_rows. views: how many augmented views each image has to train on.
    classes: class number of each image, None where images have no classes.

    Example: `data.prepare(data.DataConfig(size="tiny")).splits["val"].images_at([0, 1]).local_feats` is "2 64 92".
    """

    image_rows: np.ndarray
    caption_rows: np.ndarray
    read_images: ImageReader
    captions: Tokens | CaptionStates
    relevance: Relevance
    views: int = 0
    classes: np.ndarray | None = None

    def images_at(self, positions: np.ndarray, view: np.ndarray | None = None) -> Features | Pixels:
        """Image inputs at positions in the split. view: for each position 0 (the image itself) … views; None: all 0."""
        return self.read_images(self.image_rows[positions], *(() if view is None else (view,)))

    def captions_at(self, positions: np.ndarray) -> Tokens | Features:
        """Tokens (or frozen word states) at positions in the split, cut to the longest of them."""
        if isinstance(self.captions, CaptionStates):
            return self.captions.read(np.asarray(positions))
        tokens = self.captions[np.asarray(positions)]
        longest = int(tokens.mask.sum(1).max())
        return Tokens(tokens.ids[:, :longest], tokens.mask[:, :longest])

    def first(self, n: int) -> "Split":
        """The first n images and their annotated captions, as a split of its own."""
        images = np.arange(min(n, len(self.image_rows)))
        captions = np.flatnonzero(np.isin(self.owners, images))
        return replace(
            self,
            image_rows=self.image_rows[images],
            caption_rows=self.caption_rows[captions],
            captions=self.captions[captions],
            relevance=self.relevance.restrict(captions, images),
        )

    @property
    def owners(self) -> np.ndarray:
        """The position of each caption's (first) image."""
        return self.relevance.indices[self.relevance.indptr[:-1]]

    @property
    def lengths(self) -> np.ndarray:
        """Words of each caption."""
        return self.captions.lengths if isinstance(self.captions, CaptionStates) else self.captions.mask.sum(1).numpy()


def _checked(items: Features | Pixels | Tokens, what: str) -> Features | Pixels | Tokens:
    """The items. Raises: BadInput as `require_elements`, here on the host: what trains does not look again."""
    if isinstance(items, Tokens):
        require_element(items.mask, what)
    elif isinstance(items, Features):
        require_elements(items.local_feats, items.mask, items.local_feats.shape[-1], what)
        if items.global_feat is not None:
            require_finite(items.global_feat, what)
    return items


def place_hard(order: Int[np.ndarray, " i"], hard: Int[np.ndarray, "i k"]) -> Int[np.ndarray, " i"]:
    """An order of images in which each is followed by those of its hard ones that have no place yet: batches cut from
    it hold hard negatives, and every image stays in an epoch once.

    >>> place_hard(np.array([2, 0, 1, 3]), np.array([[1], [0], [3], [-1]])).tolist()
    [2, 3, 0, 1]
    """
    placed, out = np.zeros(len(order) + 1, bool), []
    placed[-1] = True  # of −1
    for image in order:
        if not placed[image]:
            group = [*dict.fromkeys([image, *(other for other in hard[image] if not placed[other])])]
            placed[group] = True
            out += group
    return np.array(out)


@dataclass(eq=False)
class Batches(Brief):
    """The training batches of a split. They depend on seed, epoch and step only, so an interrupted run can continue.

    unit: what an epoch goes through.
        'images': every image once, `batch_images` a step, each with `captions_per_image` of its captions drawn afresh
            (all of them if it has fewer). The last, smaller batch is left out unless it is the only one.
        'captions': every caption once, `batch_images` a step, each with its image; an image may occur twice in a step
            (VSE++, SCAN, SGRAF; docs/differences.md#x-62).
        'classes': a step is one caption of each of `batch_images` classes drawn afresh (of all, if there are fewer),
            each with its image. An epoch has as many steps as the mean class has captions (PCME on CUB;
            docs/methods/pcme.md).
    positives: 'annotated': match follows the relevance. 'diagonal': a caption matches its own row and no other, as in
        the authors' loaders; not with unit 'images', and only where every caption has one image. 'exhaustive': every
        true pair matches, whether it is annotated or not. 'left out': a true pair that is not annotated is neither a
        positive nor a negative.
    truth: the relevance that knows every true pair, for 'exhaustive' and 'left out'.
    augment: what is left out of the inputs, or changed in them. If the split has views of its images, each image is
        read as itself or as one of its views, all equally likely.

    Attribute hard: for each image the others that follow it in a batch, "images k", −1 for none (training.runs.mining);
        it may be set, and counts with unit 'images' alone.

    Raises: BadInput for an unknown unit or positives, a unit that the split or positives do not allow, or less than two
        images or one caption.
    """

    split: Split
    batch_images: int
    captions_per_image: int
    seed: int
    unit: str = "images"
    positives: str = "annotated"
    augment: Augmentation = Augmentation()
    truth: Relevance | None = None

    def __post_init__(self):
        limits = {"batch_images": (2, np.inf), "captions_per_image": (1, np.inf)}  # one image has no negatives
        require_fields(self, limits, {"unit": UNITS, "positives": POSITIVES})
        if self.positives == "diagonal" and self.unit == "images":
            raise BadInput("positives='diagonal' needs unit='captions' or 'classes', where every row has one caption.")
        if self.positives in ORACLES and self.truth is None:
            raise BadInput(f"positives={self.positives!r} needs a corpus that knows every true pair (scenes).")
        if self.unit == "classes" and self.split.classes is None:
            raise BadInput("unit='classes' needs images with classes (cub). Use unit='images' or 'captions' here.")
        self._captions_of = self.split.relevance.transpose()
        self.hard: np.ndarray | None = None

    def __len__(self) -> int:
        """Steps in an epoch."""
        if self.unit == "classes":
            return max(1, len(self.split.caption_rows) // len(np.unique(self.split.classes)))
        items = self.split.image_rows if self.unit == "images" else self.split.caption_rows
        return max(1, len(items) // self.batch_images)

    def plan(self, epoch: int) -> Plan:
        """(image positions, caption positions) of each step of an epoch."""
        rng = np.random.default_rng([self.seed, 7, epoch])
        if self.unit == "classes":
            classes, steps = self.split.classes[self.split.owners], []
            for _ in range(len(self)):
                shuffled = rng.permutation(len(classes))
                _, first = np.unique(classes[shuffled], return_index=True)
                steps.append(rng.permutation(shuffled[first])[: self.batch_images])
        else:
            order = rng.permutation(len(self.split.image_rows if self.unit == "images" else self.split.caption_rows))
            order = order if self.hard is None else place_hard(order, self.hard)
            steps = [order[n * self.batch_images : (n + 1) * self.batch_images] for n in range(len(self))]
        if self.unit != "images":
            return [(self.split.owners[captions], captions) for captions in steps]
        drawn = ([rng.permutation(self._captions_of[i])[: self.captions_per_image] for i in images] for images in steps)
        return [(images, np.concatenate(captions)) for images, captions in zip(steps, drawn, strict=True)]

    def batch(self, epoch: int, step: int, plan: Plan) -> Batch:
        """Read one step of an epoch's plan."""
        images, captions = plan[step]
        diagonal = self.positives == "diagonal"
        match = np.eye(len(images), dtype=bool) if diagonal else self.split.relevance.dense(captions, images).T
        if self.positives in ORACLES:
            true = self.truth.dense(captions, images).T
            match = true if self.positives == "exhaustive" else np.where(true & ~match, -1, match).astype(np.int8)
        rng, view = np.random.default_rng([self.seed, 8, epoch, step]), None
        if self.split.views:
            view = np.random.default_rng([self.seed, 9, epoch, step]).integers(0, self.split.views + 1, len(images))
        return Batch(
            images=_checked(self.augment.images(self.split.images_at(images, view), rng), "image"),
            captions=_checked(self.augment.captions(self.split.captions_at(captions), rng), "caption"),
            match=torch.from_numpy(np.ascontiguousarray(match)),
            image_rows=torch.from_numpy(self.split.image_rows[images]),
            caption_rows=torch.from_numpy(self.split.caption_rows[captions]),
        )

    def ahead(self, epoch: int, start: int, plan: Plan, workers: int = 1, pin: bool = False) -> Iterator[Batch]:
        """The batches of a plan from step `start`; threads read the next ones while one is trained on.

        workers: number of threads; 0 reads in the caller's own. The batches do not depend on it. pin: in memory that a
        GPU copies from while the host goes on.
        """
        steps = range(start, len(plan))

        def read(step: int) -> Batch:
            batch = self.batch(epoch, step, plan)
            return batch.pin_memory() if pin else batch

        if workers < 1:
            yield from map(read, steps)
            return
        pool, waiting = ThreadPoolExecutor(workers), deque()
        try:
            for step in steps:
                waiting.append(pool.submit(read, step))
                if len(waiting) > workers + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
