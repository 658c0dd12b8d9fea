"""Captions: statements that are true of their picture, at a chosen vagueness, and the sentences that say them.

A statement mentions one or two objects by some of their attributes, possibly a relation, a count or the background.
`ambiguity` in [0, 1] sets how much is left unsaid or said with a vaguer word ("warm", "round shape", "on the left").
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Int

from xmr_core.data.scenes.world import (
    BACKGROUNDS,
    COLOUR_WORDS,
    LATTICE,
    MEANINGS,
    PLACE_WORDS,
    RELATIONS,
    SHAPE_WORDS,
    SIZE_WORDS,
    Scenes,
)  # fmt: skip

ONE, TWO, RELATION, COUNT, BACKGROUND = range(5)
KINDS = ("one object", "two objects", "relation", "count", "background")
ATTRIBUTES = ("shape", "colour", "size", "place")
CAPTIONS_PER_IMAGE = 5
_UNSAID = -1
_WORDS = {"shape": tuple(SHAPE_WORDS), "colour": tuple(COLOUR_WORDS), "size": tuple(SIZE_WORDS), "place": tuple(PLACE_WORDS)}
_NUMBERS = ("no", "one", "two", "three", "four", "five")


@dataclass(frozen=True)
class Statements:
    """m statements. a, b: word numbers of (shape, colour, size, place), −1 where unsaid; unused fields are −1."""

    image: Int[np.ndarray, " m"]
    kind: Int[np.ndarray, " m"]
    a: Int[np.ndarray, "m 4"]
    b: Int[np.ndarray, "m 4"]
    relation: Int[np.ndarray, " m"]
    count: Int[np.ndarray, " m"]
    background: Int[np.ndarray, " m"]

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, rows) -> "Statements":
        return Statements(*(getattr(self, f.name)[rows] for f in fields(self)))


def describe(scenes: Scenes, ambiguity: float, rng: np.random.Generator) -> Statements:
    """Five statements per scene, each true of it. Row order: the five of scene 0, then of scene 1, …"""
    m = len(scenes) * CAPTIONS_PER_IMAGE
    image = np.repeat(np.arange(len(scenes)), CAPTIONS_PER_IMAGE)
    vague = ambiguity
    share = np.array([0.2, 0.34, 0.42, 0.038, 0.002]) + vague * np.array([0.0, -0.07, -0.09, 0.1, 0.06])
    kind = rng.choice(5, m, p=share / share.sum())

    order = np.where(scenes.present[image], rng.random((m, scenes.present.shape[1])), 2).argsort(1)
    first, second = order[:, 0], order[:, 1]  # two different objects that are present
    a, b = (_mention(scenes, image, o, vague, rng) for o in (first, second))
    a[:, 3] = np.where(kind == ONE, a[:, 3], _UNSAID)  # a place is said of single objects only
    b[:, 3] = _UNSAID
    relation = _relation(scenes, image, first, second, rng)
    a, count = _counted(scenes, image, a, kind)

    said = rng.random(m) > 0.1 + 0.8 * vague
    return Statements(
        image=image,
        kind=kind,
        a=np.where((kind == BACKGROUND)[:, None], _UNSAID, a),
        b=np.where(np.isin(kind, (TWO, RELATION))[:, None], b, _UNSAID),
        relation=np.where(kind == RELATION, relation, _UNSAID),
        count=np.where(kind == COUNT, count, _UNSAID),
        background=np.where(said | (kind == BACKGROUND), scenes.background[image], _UNSAID),
    )


def _mention(scenes: Scenes, image: np.ndarray, which: np.ndarray, vague: float, rng) -> Int[np.ndarray, "m 4"]:
    """Word numbers for one object of each picture: each attribute exact, vaguer, or unsaid; never all unsaid."""
    exact = np.stack([getattr(scenes, name)[image, which] for name in ATTRIBUTES], 1)
    keep = rng.random(exact.shape) > np.array([0.03, 0.03, 0.15, 0.05]) + vague * np.array([0.35, 0.35, 0.6, 0.5])
    keep[:, 1] |= ~keep[:, 0] & ~keep[:, 2]
    vaguer = rng.random(exact.shape) < 0.02 + 0.35 * vague
    words = exact.copy()
    for column, name in enumerate(ATTRIBUTES):
        table = MEANINGS[name]
        base = table.shape[1]
        general = table[base:-1]  # rows of the words that denote several base values
        if not len(general):
            continue
        admits = general[:, exact[:, column]].T  # [m, general words]
        choice = np.where(admits, rng.random(admits.shape), -1).argmax(1)
        use = vaguer[:, column] & admits.any(1)
        words[use, column] = base + choice[use]
    return np.where(keep, words, _UNSAID)


def _relation(scenes: Scenes, image, first, second, rng) -> np.ndarray:
    """A true relation of the first object to the second, along the axis where they are further apart."""
    row_a, column_a = np.divmod(scenes.place[image, first], LATTICE)
    row_b, column_b = np.divmod(scenes.place[image, second], LATTICE)
    dx, dy = column_b - column_a, row_b - row_a
    across = np.abs(dx) + rng.uniform(-0.1, 0.1, len(dx)) > np.abs(dy)  # a tie is broken at random
    return np.where(across & (dx != 0), np.where(dx > 0, 0, 1), np.where(dy > 0, 2, 3))


def _counted(scenes: Scenes, image, a: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For counts, say shape and colour only ('two red circles', 'three warm shapes') and how many objects fit."""
    counted = a.copy()
    counted[:, 2:] = _UNSAID
    counted[:, 1] = np.where((counted[:, :2] < 0).all(1), scenes.colour[image, 0], counted[:, 1])  # never 'three shapes'
    fits = scenes.present[image].copy()
    for column, name in enumerate(ATTRIBUTES[:2]):
        fits &= MEANINGS[name][counted[:, column][:, None], getattr(scenes, name)[image]]
    return np.where((kind == COUNT)[:, None], counted, a), fits.sum(1)


def say(statements: Statements, rng: np.random.Generator) -> list[str]:
    """One English sentence per statement; wording varies, meaning does not."""
    wording = rng.integers(0, 1 << 16, len(statements))
    return [_sentence(statements, m, int(w)) for m, w in enumerate(wording)]


def _sentence(s: Statements, m: int, w: int) -> str:
    where = f"{('on', 'over', 'against')[w % 3]} {BACKGROUNDS[s.background[m]]}" if s.background[m] >= 0 else ""
    kind = s.kind[m]
    if kind == BACKGROUND:
        text = ("a scene", "shapes", "some things")[w // 3 % 3]
    elif kind == COUNT:
        opening = ("exactly", "just", "only")[w // 3 % 3]
        text = f"{opening} {_NUMBERS[s.count[m]]} {_noun(s.a[m], plural=s.count[m] != 1)}"
    elif kind == ONE:
        text = f"{_article(_noun(s.a[m], w=w))}{' ' + _WORDS['place'][s.a[m, 3]] if s.a[m, 3] >= 0 else ''}"
    else:
        joint = {TWO: ("and", "with", "together with")[w // 3 % 3]}.get(kind) or RELATIONS[s.relation[m]]
        text = f"{_article(_noun(s.a[m], w=w))} {joint} {_article(_noun(s.b[m], w=w // 7))}"
    return f"{text} {where}".strip()


def _noun(mention: np.ndarray, plural: bool = False, w: int = 0) -> str:
    shape, colour, size, _ = mention
    adjectives = []
    if size >= 0:
        adjectives.append((("small", "tiny"), ("medium", "mid-sized"), ("large", "big"))[size][w // 11 % 2])
    if colour >= 0:
        adjectives.append(_WORDS["colour"][colour])
    noun = _WORDS["shape"][shape] if shape >= 0 else "shape"
    plural_noun = {"cross": "crosses"}.get(noun, noun + "s")
    return " ".join([*adjectives, plural_noun if plural else noun])


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
