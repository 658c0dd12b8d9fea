"""From corpus rows to training batches: which images and captions each step sees, fixed by seed, epoch and step."""

from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Batch, Features, Pixels, Tokens
from xmr_core.data.augment import Augmentation
from xmr_core.data.inputs import CaptionStates, ImageReader

UNITS, POSITIVES = ("images", "captions", "classes"), ("annotated", "diagonal")


@dataclass(frozen=True)
class Split:
    """One split, ready to be read: rows in the corpus tables, words, and which caption belongs to which image.

    captions: the split's tokens, row j for caption_rows[j], or frozen states of its words. relevance: captions are queries, images the
    gallery, both in the order of caption_rows and image_rows.
    views: how many other looks at each picture there are to train on. classes: number of each picture's class, where it has one.
    """

    image_rows: np.ndarray
    caption_rows: np.ndarray
    read_images: ImageReader
    captions: Tokens | CaptionStates
    relevance: Relevance
    views: int = 0
    classes: np.ndarray | None = None

    def images_at(self, positions: np.ndarray, view: np.ndarray | None = None) -> Features | Pixels:
        """Image inputs at positions within the split. view: a number 0…views per position, None for the pictures themselves."""
        return self.read_images(self.image_rows[positions], *(() if view is None else (view,)))

    def captions_at(self, positions: np.ndarray) -> Tokens | Features:
        """Tokens (or frozen features) at positions within the split, cut to the longest of them."""
        if isinstance(self.captions, CaptionStates):
            return self.captions.at(np.asarray(positions))
        tokens = self.captions[torch.as_tensor(positions)]
        longest = int(tokens.mask.sum(1).max())
        return Tokens(tokens.ids[:, :longest], tokens.mask[:, :longest])

    def first(self, n: int) -> "Split":
        """The first n pictures and their annotated captions, as a split of its own."""
        images = np.arange(min(n, len(self.image_rows)))
        captions = np.flatnonzero(np.isin(self.relevance.indices[self.relevance.indptr[:-1]], images))
        of = self.captions
        return replace(
            self,
            image_rows=self.image_rows[images],
            caption_rows=self.caption_rows[captions],
            captions=of[torch.from_numpy(captions)] if isinstance(of, Tokens) else replace(of, rows=of.rows[captions]),
            relevance=self.relevance.restrict(captions, images),
        )

    @property
    def lengths(self) -> np.ndarray:
        """Words of each caption."""
        return self.captions.lengths if isinstance(self.captions, CaptionStates) else self.captions.mask.sum(1).numpy()


class Batches:
    """The training batches of a split.

    unit 'images': an epoch is every image once, in batches of `batch_images`, each with `captions_per_image` of its
    captions drawn afresh (all of them if it has fewer); the last, smaller batch is dropped unless it is the only one.
    unit 'captions': an epoch is every caption once, `batch_images` captions a step, each with its image; one image may
    occur twice (VSE++, SCAN, SGRAF; X-62).
    unit 'classes' (only where pictures have classes): a step is one caption of each of `batch_images` classes drawn afresh (of all, if
    there are fewer), each with its image; an epoch has as many steps as the mean class has captions (PCME on CUB; METHODS §4 b).
    positives 'annotated': match follows the relevance. positives 'diagonal' (not with unit 'images', and only where a caption has
    one image): a caption matches its own row and nothing else, as the authors' loaders do.

    augment: what is left out or changed in what is read. Where the split has views of its pictures, each picture is shown as itself
    or as one of them, all equally likely.

    Plan and augmentation depend on (seed, epoch, step) only, so a killed run continues with the very next batch.
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
        for name, given, known in (("unit", unit, UNITS), ("positives", positives, POSITIVES)):
            if given not in known:
                raise unknown(name, given, known)
        if positives == "diagonal" and unit == "images":
            raise BadInput("positives='diagonal' needs unit='captions' or 'classes': with several captions per image there is no diagonal.")
        if unit == "classes" and split.classes is None:
            raise BadInput("unit='classes' needs pictures with classes (cub); this data set has none. Use 'images' or 'captions'.")
        if batch_images < 2:
            raise BadInput(f"batch_images must be at least 2, got {batch_images}: one image has no negatives.")
        if captions_per_image < 1:
            raise BadInput(f"captions_per_image must be at least 1, got {captions_per_image}.")
        self.augment = augment
        self.split, self.batch_images, self.captions_per_image = split, batch_images, captions_per_image
        self.seed, self.unit, self.positives = seed, unit, positives
        self._captions_of = split.relevance.transpose()

    def __len__(self) -> int:
        """Steps in an epoch."""
        if self.unit == "classes":
            return max(1, len(self.split.caption_rows) // len(np.unique(self.split.classes)))
        items = len(self.split.image_rows if self.unit == "images" else self.split.caption_rows)
        return max(1, items // self.batch_images)

    def plan(self, epoch: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(image positions, caption positions) of each step of an epoch."""
        rng = np.random.default_rng([self.seed, 7, epoch])
        if self.unit == "classes":
            return [self._one_of_each_class(rng) for _ in range(len(self))]
        if self.unit == "captions":
            order = rng.permutation(len(self.split.caption_rows))
            own = self.split.relevance.indices[self.split.relevance.indptr[:-1]]
            return [(own[captions], captions) for captions in self._cut(order)]
        steps = []
        for images in self._cut(rng.permutation(len(self.split.image_rows))):
            captions = [rng.permutation(self._captions_of[i])[: self.captions_per_image] for i in images]
            steps.append((images, np.concatenate(captions)))
        return steps

    def _one_of_each_class(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        own = self.split.relevance.indices[self.split.relevance.indptr[:-1]]  # the image of each caption
        shuffled = rng.permutation(len(own))
        _, first = np.unique(self.split.classes[own[shuffled]], return_index=True)
        captions = rng.permutation(shuffled[first])[: self.batch_images]
        return own[captions], captions

    def _cut(self, order: np.ndarray) -> list[np.ndarray]:
        return [order[at * self.batch_images : (at + 1) * self.batch_images] for at in range(len(self))]

    def batch(self, epoch: int, step: int, plan: list[tuple[np.ndarray, np.ndarray]]) -> Batch:
        """Read one step of an epoch's plan."""
        images, captions = plan[step]
        if self.positives == "diagonal":
            match = np.eye(len(images), dtype=bool)
        else:
            match = self.split.relevance.dense(captions, images).T
        rng = np.random.default_rng([self.seed, 8, epoch, step])
        view = np.random.default_rng([self.seed, 9, epoch, step]).integers(0, self.split.views + 1, len(images)) if self.split.views else None
        return Batch(
            images=self.augment.images(self.split.images_at(images, view), rng),
            captions=self.augment.captions(self.split.captions_at(captions), rng),
            match=torch.from_numpy(np.ascontiguousarray(match)),
            image_rows=torch.from_numpy(self.split.image_rows[images]),
            caption_rows=torch.from_numpy(self.split.caption_rows[captions]),
        )

    def ahead(self, epoch: int, start: int, plan: list[tuple[np.ndarray, np.ndarray]], workers: int = 1) -> Iterator[Batch]:
        """The batches of an epoch's plan from step `start`, read by threads while the one before is trained on.

        workers: threads; 0 reads in the caller's own. Batches do not depend on it.
        """
        if workers < 1:
            yield from (self.batch(epoch, step, plan) for step in range(start, len(plan)))
            return
        with ThreadPoolExecutor(workers) as pool:
            waiting = deque(pool.submit(self.batch, epoch, step, plan) for step in range(start, min(start + workers + 1, len(plan))))
            try:
                for step in range(start, len(plan)):
                    batch = waiting.popleft().result()
                    if step + workers + 1 < len(plan):
                        waiting.append(pool.submit(self.batch, epoch, step + workers + 1, plan))
                    yield batch
            finally:
                for job in waiting:
                    job.cancel()
