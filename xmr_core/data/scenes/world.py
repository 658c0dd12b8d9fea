"""What a scene consists of: the words of the world, what they mean, and how scenes are sampled.

A scene has a background and two to five objects in different cells of a 3 × 3 lattice, numbered 0 (top left) to 8
(bottom right). All attributes are small integers, so that array operations can test a caption on many images.
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int

MAX_OBJECTS = 5
LATTICE = 3

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple")
SIZES_OF_OBJECTS = ("small", "medium", "large")
BACKGROUNDS = ("sand", "grass", "water", "night", "snow", "brick")
RELATIONS = ("left of", "right of", "above", "below")
_CELLS = (
    "in the top left corner", "at the top centre", "in the top right corner",
    "at the middle left", "in the centre", "at the middle right",
    "in the bottom left corner", "at the bottom centre", "in the bottom right corner",
)  # fmt: skip
_VAGUE = {  # words that stand for several values of an attribute
    "shape": {"round shape": (0, 5), "angular shape": (1, 2, 3)},
    "colour": {"warm": (0, 1, 2), "cool": (3, 4, 5)},
    "size": {},
    "place": {"at the top": (0, 1, 2), "at the bottom": (6, 7, 8), "on the left": (0, 3, 6), "on the right": (2, 5, 8)},
}
# Words of an attribute: first those for a single value, in the order of the values
_EXACT = {"shape": SHAPES, "colour": COLOURS, "size": SIZES_OF_OBJECTS, "place": _CELLS}
ATTRIBUTES = tuple(_EXACT)
WORDS = {name: (*exact, *_VAGUE[name]) for name, exact in _EXACT.items()}


def _meaning(name: str) -> Bool[np.ndarray, "w1 v"]:
    """Which values each word of an attribute admits; the last row, index −1, is True throughout: 'not mentioned'."""
    exact = np.eye(len(_EXACT[name]), dtype=bool)
    vague = [np.isin(np.arange(len(exact)), values) for values in _VAGUE[name].values()]
    return np.stack([*exact, *vague, np.ones(len(exact), bool)])


MEANINGS = {name: _meaning(name) for name in ATTRIBUTES}


class Table:
    """A frozen dataclass of arrays with one row for each item: it has a length and can be indexed like an array."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def __getitem__(self, rows):
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def join(cls, parts: list):
        """Several tables one after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True)
class Scenes(Table):
    """n scenes. Entries of objects whose `present` is False have no meaning. place: cell of the lattice, 0 to 8."""

    shape: Int[np.ndarray, "n 5"]
    colour: Int[np.ndarray, "n 5"]
    size: Int[np.ndarray, "n 5"]
    place: Int[np.ndarray, "n 5"]
    present: Bool[np.ndarray, "n 5"]
    background: Int[np.ndarray, " n"]
    jitter: Float[np.ndarray, "n 5 4"]  # uniform in [−1, 1]: shift to the right, shift down, radius, tilt


def sample_scenes(n: int, rng: np.random.Generator) -> Scenes:
    """n independent scenes with 2 to 5 objects in different cells; every attribute is uniform.

    >>> sample_scenes(3, np.random.default_rng(0)).present.sum(1)
    array([5, 4, 4])
    """
    objects = (n, MAX_OBJECTS)
    count = rng.integers(2, MAX_OBJECTS + 1, n)
    return Scenes(
        shape=rng.integers(0, len(SHAPES), objects),
        colour=rng.integers(0, len(COLOURS), objects),
        size=rng.integers(0, len(SIZES_OF_OBJECTS), objects),
        place=rng.random((n, LATTICE * LATTICE)).argsort(1)[:, :MAX_OBJECTS],
        present=np.arange(MAX_OBJECTS)[None, :] < count[:, None],
        background=rng.integers(0, len(BACKGROUNDS), n),
        jitter=rng.uniform(-1, 1, (*objects, 4)).astype(np.float32),
    )
