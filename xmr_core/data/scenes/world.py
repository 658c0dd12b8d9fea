"""What exists in a scene: the words of the world, their meaning as sets of base values, and sampling scenes.

A scene has a background and two to five objects, each in its own cell of a 3 × 3 lattice (0 top left … 8 bottom right).
Attributes are small integers, so that captions can be evaluated on all pictures with array operations.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

MAX_OBJECTS = 5
LATTICE = 3

SHAPES = ("circle", "square", "triangle", "diamond", "cross", "ring")
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple")
SIZES_OF_OBJECTS = ("small", "medium", "large")
BACKGROUNDS = ("sand", "grass", "water", "night", "snow", "brick")

# A word denotes a set of base values; the first words of each list are the base values themselves, the rest are vaguer.
SHAPE_WORDS = {**{s: (i,) for i, s in enumerate(SHAPES)}, "round shape": (0, 5), "angular shape": (1, 2, 3)}
COLOUR_WORDS = {**{c: (i,) for i, c in enumerate(COLOURS)}, "warm": (0, 1, 2), "cool": (3, 4, 5)}
SIZE_WORDS = {s: (i,) for i, s in enumerate(SIZES_OF_OBJECTS)}
PLACE_WORDS = {
    **{
        name: (i,)
        for i, name in enumerate(
            ("in the top left corner", "at the top centre", "in the top right corner", "at the middle left", "in the centre",
             "at the middle right", "in the bottom left corner", "at the bottom centre", "in the bottom right corner")
        )
    },
    "at the top": (0, 1, 2),
    "at the bottom": (6, 7, 8),
    "on the left": (0, 3, 6),
    "on the right": (2, 5, 8),
}  # fmt: skip
RELATIONS = ("left of", "right of", "above", "below")


def meanings(words: dict[str, tuple[int, ...]], base: int) -> Bool[np.ndarray, "w1 b"]:
    """Which base values each word admits; one more, all-True row at the end stands for 'not mentioned' (index −1)."""
    table = np.zeros((len(words) + 1, base), bool)
    for row, values in enumerate(words.values()):
        table[row, list(values)] = True
    table[-1] = True
    return table


MEANINGS = {
    "shape": meanings(SHAPE_WORDS, len(SHAPES)),
    "colour": meanings(COLOUR_WORDS, len(COLOURS)),
    "size": meanings(SIZE_WORDS, len(SIZES_OF_OBJECTS)),
    "place": meanings(PLACE_WORDS, LATTICE * LATTICE),
}


@dataclass(frozen=True)
class Scenes:
    """n scenes. Object arrays are "n 5"; entries where `present` is False mean nothing. place: lattice cell 0…8."""

    shape: Int[np.ndarray, "n 5"]
    colour: Int[np.ndarray, "n 5"]
    size: Int[np.ndarray, "n 5"]
    place: Int[np.ndarray, "n 5"]
    present: Bool[np.ndarray, "n 5"]
    background: Int[np.ndarray, " n"]
    jitter: Float[np.ndarray, "n 5 4"]  # uniform in [−1, 1]: shift x, shift y, radius, tilt

    def __len__(self) -> int:
        return len(self.background)

    def __getitem__(self, rows) -> "Scenes":
        return Scenes(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


def sample_scenes(n: int, rng: np.random.Generator) -> Scenes:
    """n independent scenes: 2–5 objects in distinct cells, every attribute uniform."""
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
