"""From corpus rows to training batches: which images and captions each step sees, fixed by seed, epoch and step."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Batch, Features, Pixels, Tokens
from xmr_core.data.augment import Augmentation
from xmr_core.data.inputs import CaptionStates, ImageReader

UNITS, POSITIVES = ("images", "captions", "classes"), ("annotated", "diagonal")
Plan = list[tuple[np.ndarray, np.ndarray]]  # (image positions, caption positions) of each step


@dataclass(frozen=True)
class Split:
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


class Batches:
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
        the authors' loaders; not with unit 'images', and only where every caption has one image.
    augment: what is left out of the inputs, or changed in them. If the split has views of its images, each image is
        read as itself or as one of its views, all equally likely.

    Raises: BadInput for an unknown unit or positives, a unit that the split or positives do not allow, or less than two
        images or one caption.
    """

    def __init__(
        self,
        split: Split,
        batch_images: int,
        captions_per_image: int,
        seed: int,
        unit: str = "images",
        positives: str = "annotated",
        augment: Augmentation = Augmentation(),
    ):
        require_choice("unit", unit, UNITS)
        require_choice("positives", positives, POSITIVES)
        require_number("batch_images", batch_images, 2, hint="One image has no negatives.")
        require_number("captions_per_image", captions_per_image, 1)
        if positives == "diagonal" and unit == "images":
            raise BadInput("positives='diagonal' needs unit='captions' or 'classes', where every row has one caption.")
        if unit == "classes" and split.classes is None:
            raise BadInput("unit='classes' needs images with classes (cub). Use unit='images' or 'captions' here.")
        self.split, self.batch_images, self.captions_per_image = split, batch_images, captions_per_image
        self.seed, self.unit, self.positives, self.augment = seed, unit, positives, augment
        self._captions_of = split.relevance.transpose()

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
            steps = [self._one_of_each_class(rng) for _ in range(len(self))]
        else:
            order = rng.permutation(len(self.split.image_rows if self.unit == "images" else self.split.caption_rows))
            steps = [order[n * self.batch_images : (n + 1) * self.batch_images] for n in range(len(self))]
        if self.unit != "images":
            return [(self.split.owners[captions], captions) for captions in steps]
        return [
            (images, np.concatenate([rng.permutation(self._captions_of[i])[: self.captions_per_image] for i in images]))
            for images in steps
        ]

    def _one_of_each_class(self, rng: np.random.Generator) -> np.ndarray:
        shuffled = rng.permutation(len(self.split.caption_rows))
        _, first = np.unique(self.split.classes[self.split.owners[shuffled]], return_index=True)
        return rng.permutation(shuffled[first])[: self.batch_images]

    def batch(self, epoch: int, step: int, plan: Plan) -> Batch:
        """Read one step of an epoch's plan."""
        images, captions = plan[step]
        if self.positives == "diagonal":
            match = np.eye(len(images), dtype=bool)
        else:
            match = self.split.relevance.dense(captions, images).T
        rng, view = np.random.default_rng([self.seed, 8, epoch, step]), None
        if self.split.views:
            view = np.random.default_rng([self.seed, 9, epoch, step]).integers(0, self.split.views + 1, len(images))
        return Batch(
            images=self.augment.images(self.split.images_at(images, view), rng),
            captions=self.augment.captions(self.split.captions_at(captions), rng),
            match=torch.from_numpy(np.ascontiguousarray(match)),
            image_rows=torch.from_numpy(self.split.image_rows[images]),
            caption_rows=torch.from_numpy(self.split.caption_rows[captions]),
        )

    def ahead(self, epoch: int, start: int, plan: Plan, workers: int = 1) -> Iterator[Batch]:
        """The batches of a plan from step `start`; threads read the next ones while one is trained on.

        workers: number of threads; 0 reads in the caller's own. The batches do not depend on it.
        """
        steps = range(start, len(plan))
        if workers < 1:
            yield from (self.batch(epoch, step, plan) for step in steps)
            return
        pool, waiting = ThreadPoolExecutor(workers), deque()
        try:
            for step in steps:
                waiting.append(pool.submit(self.batch, epoch, step, plan))
                if len(waiting) > workers + 1:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)
