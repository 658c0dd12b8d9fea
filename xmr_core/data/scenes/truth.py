"""Is a statement true of a picture? Every statement against every picture: the exhaustive relevance of `scenes`."""

import numpy as np
from jaxtyping import Bool

from xmr_core.data.scenes.grammar import ATTRIBUTES, COUNT, RELATION, TWO, Statements
from xmr_core.data.scenes.world import LATTICE, MAX_OBJECTS, MEANINGS, Scenes

_CHUNK = 256  # statements at a time: 256 × 1,000 pictures × 5 objects is about a megabyte


def true_of(statements: Statements, scenes: Scenes) -> Bool[np.ndarray, "m n"]:
    """truth[m, n]: statement m holds in picture n.

    One object: some object fits the mention. Two objects: two *different* objects fit, in the stated relation if any
    (left of: smaller lattice column; above: smaller lattice row). Count: exactly so many objects fit. A background, where
    said, must be the picture's.
    """
    return np.concatenate([_chunk(statements[at : at + _CHUNK], scenes) for at in range(0, len(statements), _CHUNK)])


def _chunk(s: Statements, scenes: Scenes) -> np.ndarray:
    fits_a, fits_b = (_fits(mention, scenes) for mention in (s.a, s.b))  # [m, n, 5]
    truth = (s.background[:, None] == -1) | (s.background[:, None] == scenes.background[None, :])
    pairs = np.isin(s.kind, (TWO, RELATION))
    truth[pairs] &= _two_objects(fits_a[pairs], fits_b[pairs], s.relation[pairs], scenes)
    counts = s.kind == COUNT
    truth[counts] &= fits_a[counts].sum(-1) == s.count[counts, None]
    truth[~pairs & ~counts] &= fits_a[~pairs & ~counts].any(-1)
    return truth


def _fits(mention: np.ndarray, scenes: Scenes) -> np.ndarray:
    """fits[m, n, o]: object o of picture n is present and has every attribute that statement m mentions."""
    fits = np.broadcast_to(scenes.present, (len(mention), *scenes.present.shape)).copy()
    for column, name in enumerate(ATTRIBUTES):
        said = mention[:, column] >= 0
        fits[said] &= MEANINGS[name][mention[said, column]][:, getattr(scenes, name)]
    return fits


def _two_objects(fits_a, fits_b, relation, scenes: Scenes) -> np.ndarray:
    row, column = np.divmod(scenes.place, LATTICE)
    truth = np.zeros(fits_a.shape[:2], bool)
    for i in range(MAX_OBJECTS):
        for j in range(MAX_OBJECTS):
            if i == j:
                continue
            related = np.stack(
                [
                    column[:, i] < column[:, j],
                    column[:, i] > column[:, j],
                    row[:, i] < row[:, j],
                    row[:, i] > row[:, j],
                    np.ones(len(scenes), bool),  # index −1: no relation said
                ]
            )[relation]
            truth |= fits_a[:, :, i] & fits_b[:, :, j] & related
    return truth
