"""Which pairs are scored together: blocks under one budget of elements."""

from collections.abc import Iterator

import numpy as np
import torch

from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Representation

MAX_ELEMENTS = 1 << 23  # of the largest intermediate, i·t·k·l: 32 MB in float32
_FEW = 32  # items of one size that are worth a block of their own

Items = slice | np.ndarray  # positions of items; an array where items were ordered by size


def blocks(
    images: Representation, captions: Representation, max_elements: int = MAX_ELEMENTS
) -> Iterator[tuple[Items, Items]]:
    """(images, captions) of each block, captions outermost; every pair of items stands in exactly one.

    The block size follows from i·t·k·l ≤ max_elements, so that sets of 36 regions get smaller blocks than sets of 4
    slots. Items of sets of different sizes are taken in groups of one size, so that hardly any padding is computed;
    groups of few items are joined.
    """
    images_groups = _groups(images)
    for captions_group, l in _groups(captions):
        for images_group, k in images_groups:
            pairs = max(1, max_elements // (k * l))
            i_step = min(images_group.size, _even(int(pairs**0.5)))
            t_step = min(captions_group.size, _even(pairs // i_step))
            i_step = min(images_group.size, _even(pairs // t_step))
            for t in _parts(captions_group, t_step):
                for i in _parts(images_group, i_step):
                    yield i, t


def take(r: Representation, items: Items) -> Representation:
    """Those items, sets cut to the largest of them. A slice of sets without padding is a view."""
    part = r[items if isinstance(items, slice) else torch.from_numpy(items)]
    if not isinstance(part, EmbeddingSet) or not len(part):
        return part
    longest = max(1, int(_sizes(part).max()))
    return EmbeddingSet(part.x[:, :longest], part.mask[:, :longest])


def set_size(r: Representation) -> int:
    """Vectors per item that are multiplied with those of an item of the other modality."""
    if isinstance(r, GaussianEmbedding):
        return 1 if r.samples is None else r.samples.shape[1]
    return max(1, r.x.shape[1]) if isinstance(r, EmbeddingSet) else 1


def _groups(r: Representation) -> list[tuple[np.ndarray, int]]:
    """(positions, their largest set) of items that are scored together."""
    everything = np.arange(len(r))
    if not isinstance(r, EmbeddingSet) or bool(r.mask.all()):
        return [(everything, set_size(r))] if len(r) else []
    sizes = _sizes(r).numpy()
    order = np.argsort(sizes, kind="stable")
    edges = np.flatnonzero(np.diff(sizes[order])) + 1
    groups, start = [], 0
    for end in [*edges, len(order)]:
        if end - start >= _FEW or end == len(order):
            groups.append(order[start:end])
            start = end
    if len(groups) > 1 and len(groups[-1]) < _FEW:
        groups[-2:] = [np.concatenate(groups[-2:])]
    return [(group, max(1, int(sizes[group].max()))) for group in groups]


def _sizes(r: EmbeddingSet) -> torch.Tensor:
    """Position of the last real element, from 1; gaps before it count."""
    return (r.mask * torch.arange(1, r.mask.shape[1] + 1, device=r.mask.device)).amax(1).cpu()


def _even(step: int) -> int:
    """Rounded down to a multiple of 32 where that changes little, so that rows of products start aligned."""
    return step // 32 * 32 if step >= 128 else max(1, step)


def _parts(group: np.ndarray, step: int) -> list[Items]:
    """The group in parts of `step` and a rest; a slice where positions follow each other."""
    parts = [group[start : start + step] for start in range(0, len(group), step)]
    return [
        slice(int(p[0]), int(p[-1]) + 1) if p[-1] - p[0] + 1 == len(p) and (np.diff(p) == 1).all() else p for p in parts
    ]
