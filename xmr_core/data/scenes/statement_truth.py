"""Which statement is true of which image: the exhaustive relevance of `scenes`."""

import numpy as np
from jaxtyping import Bool

from xmr_core.data.scenes.grammar import COUNT, RELATION, TWO, Statements
from xmr_core.data.scenes.world import ATTRIBUTES, LATTICE, MEANINGS, Scenes

_CHUNK = 256  # statements at a time: 256 × 1,000 images × 5 objects take about a megabyte


def truth_matrix(statements: Statements, scenes: Scenes) -> Bool[np.ndarray, "m n"]:
    """truth[m, n]: statement m is true of image n.

    One object: some object fits the mention. Two objects: two *different* objects fit, in the stated relation if there
    is one (left of: smaller column of the lattice; above: smaller row). Count: exactly so many objects fit. A
    background that is mentioned must be that of the image.

    >>> from xmr_core.data.scenes.grammar import describe
    >>> from xmr_core.data.scenes.world import sample_scenes
    >>> scenes = sample_scenes(3, np.random.default_rng(0))
    >>> truth_matrix(describe(scenes, 0.0, np.random.default_rng(0)), scenes).sum(1)
    array([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    """
    chunks = (statements[start : start + _CHUNK] for start in range(0, len(statements), _CHUNK))
    return np.concatenate([_chunk_truth(chunk, scenes) for chunk in chunks])


def _chunk_truth(s: Statements, scenes: Scenes) -> np.ndarray:
    fits_a, fits_b = (_fits(mention, scenes) for mention in (s.a, s.b))  # [m, n, 5]
    truth = (s.background[:, None] == -1) | (s.background[:, None] == scenes.background[None, :])
    pairs = np.isin(s.kind, (TWO, RELATION))
    truth[pairs] &= _two_objects(fits_a[pairs], fits_b[pairs], s.relation[pairs], scenes)
    counts = s.kind == COUNT
    truth[counts] &= fits_a[counts].sum(-1) == s.count[counts, None]
    truth[~pairs & ~counts] &= fits_a[~pairs & ~counts].any(-1)
    return truth


def _fits(mention: np.ndarray, scenes: Scenes) -> np.ndarray:
    """fits[m, n, o]: object o of image n is present and has every attribute that statement m mentions."""
    fits = np.broadcast_to(scenes.present, (len(mention), *scenes.present.shape)).copy()
    for column, name in enumerate(ATTRIBUTES):
        rows = mention[:, column] >= 0
        fits[rows] &= MEANINGS[name][mention[rows, column]][:, getattr(scenes, name)]
    return fits


def _two_objects(fits_a: np.ndarray, fits_b: np.ndarray, relation: np.ndarray, scenes: Scenes) -> np.ndarray:
    row, column = np.divmod(scenes.place, LATTICE)
    truth = np.zeros(fits_a.shape[:2], bool)
    for i, j in np.argwhere(~np.eye(row.shape[1], dtype=bool)):
        left, above = column[:, i] < column[:, j], row[:, i] < row[:, j]
        right, below = column[:, i] > column[:, j], row[:, i] > row[:, j]
        related = np.stack([left, right, above, below, np.ones(len(scenes), bool)])[relation]  # the last: no relation
        truth |= fits_a[:, :, i] & fits_b[:, :, j] & related
    return truth
