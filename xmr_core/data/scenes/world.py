"""What a scene consists of, the statements that are true of it, and the sentences that express them.

A scene has a background and two to five objects in different cells of a 3 × 3 lattice, numbered 0 (top left) to 8
(bottom right). All attributes are small integers, so that array operations can test a caption on many images.
A statement mentions one or two objects by some of their attributes, and it may add a relation, a count or the
background. `ambiguity` in [0, 1] sets how much is left out or named by a vaguer word ("warm", "on the left").
"""

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int

from xmr_core.features.words import tokenise

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


# Captions: statements that are true of their image.


ONE, TWO, RELATION, COUNT, BACKGROUND = range(5)
KINDS = ("one object", "two objects", "relation", "count", "background")
CAPTIONS_PER_IMAGE = 5
_UNSAID = -1
_NUMBERS = ("no", "one", "two", "three", "four", "five")
_SIZES = (("small", "tiny"), ("medium", "mid-sized"), ("large", "big"))


def content_words() -> frozenset[str]:
    """The words by which statements differ in what they say: of shapes (in both numbers), colours, sizes, places,
    relations, numbers and backgrounds. The other words of a caption ("a", "with", "exactly", "of the") only join them.

    >>> sorted({"two", "red", "crosses", "in", "the", "corner", "over", "sand"} & content_words())
    ['corner', 'crosses', 'red', 'sand', 'two']
    """
    nouns = [noun for shape in range(_UNSAID, len(WORDS["shape"])) for noun in _nouns(shape)]
    phrases = (*nouns, *WORDS["colour"], *sum(_SIZES, ()), *WORDS["place"], *RELATIONS, *_NUMBERS, *BACKGROUNDS)
    return frozenset(tokenise(" ".join(phrases))) - {"in", "on", "at", "of", "the"}


def shape_words() -> dict[str, int]:
    """The words that name one kind of object, in both numbers → the number of the shape.

    >>> {word: shape_words()[word] for word in ("circle", "crosses")}
    {'circle': 0, 'crosses': 4}
    """
    return {noun: n for n in range(len(SHAPES)) for noun in _nouns(n)}


def _nouns(shape: int) -> list[str]:
    """The word of a shape in both numbers."""
    return [_noun(np.array([shape, _UNSAID, _UNSAID, _UNSAID]), plural) for plural in (False, True)]


@dataclass(frozen=True)
class Statements(Table):
    """m statements. a, b: the mentioned objects as word numbers of (shape, colour, size, place). −1 means: not said."""

    image: Int[np.ndarray, " m"]
    kind: Int[np.ndarray, " m"]
    a: Int[np.ndarray, "m 4"]
    b: Int[np.ndarray, "m 4"]
    relation: Int[np.ndarray, " m"]
    count: Int[np.ndarray, " m"]
    background: Int[np.ndarray, " m"]


def describe(scenes: Scenes, ambiguity: float, rng: np.random.Generator) -> Statements:
    """Five statements for each scene, all true of it: first the five of scene 0, then those of scene 1, and so on.

    >>> rng = np.random.default_rng(0)
    >>> say(describe(sample_scenes(1, rng), ambiguity=0.3, rng=rng), rng)[0]
    'only four angular shapes over sand'
    """
    m = len(scenes) * CAPTIONS_PER_IMAGE
    image = np.repeat(np.arange(len(scenes)), CAPTIONS_PER_IMAGE)
    share = np.array([0.2, 0.34, 0.42, 0.038, 0.002]) + ambiguity * np.array([0.0, -0.07, -0.09, 0.1, 0.06])
    kind = rng.choice(5, m, p=share / share.sum())

    order = np.where(scenes.present[image], rng.random((m, scenes.present.shape[1])), 2).argsort(1)
    first, second = order[:, 0], order[:, 1]  # two different objects that are present
    a, b = (_mention(scenes, image, number, ambiguity, rng) for number in (first, second))
    a[:, 3] = np.where(kind == ONE, a[:, 3], _UNSAID)  # the place is mentioned of single objects only
    b[:, 3] = _UNSAID
    relation = _relation(scenes, image, first, second, rng)
    a, count = _count(scenes, image, a, kind)

    with_background = (rng.random(m) > 0.1 + 0.8 * ambiguity) | (kind == BACKGROUND)
    return Statements(
        image=image,
        kind=kind,
        a=np.where((kind == BACKGROUND)[:, None], _UNSAID, a),
        b=np.where(np.isin(kind, (TWO, RELATION))[:, None], b, _UNSAID),
        relation=np.where(kind == RELATION, relation, _UNSAID),
        count=np.where(kind == COUNT, count, _UNSAID),
        background=np.where(with_background, scenes.background[image], _UNSAID),
    )


def _mention(scenes: Scenes, image: np.ndarray, number: np.ndarray, ambiguity: float, rng) -> Int[np.ndarray, "m 4"]:
    """Word numbers for one object of each image: every attribute exact, vaguer or left out, but never all left out."""
    exact = np.stack([getattr(scenes, name)[image, number] for name in ATTRIBUTES], 1)
    left_out = np.array([0.03, 0.03, 0.15, 0.05]) + ambiguity * np.array([0.35, 0.35, 0.6, 0.5])
    mentioned = rng.random(exact.shape) > left_out
    mentioned[:, 1] |= ~mentioned[:, 0] & ~mentioned[:, 2]
    vaguer = rng.random(exact.shape) < 0.02 + 0.35 * ambiguity
    words = exact.copy()
    for column, name in enumerate(ATTRIBUTES):
        n_values = MEANINGS[name].shape[1]
        vague = MEANINGS[name][n_values:-1]  # rows of the words that stand for several values
        if not len(vague):
            continue
        admits = vague[:, exact[:, column]].T  # [m, vague words]
        choice = np.where(admits, rng.random(admits.shape), -1).argmax(1)
        rows = vaguer[:, column] & admits.any(1)
        words[rows, column] = n_values + choice[rows]
    return np.where(mentioned, words, _UNSAID)


def _relation(scenes: Scenes, image, first, second, rng) -> np.ndarray:
    """A true relation of the first object to the second, along the axis on which they are further apart."""
    row_a, column_a = np.divmod(scenes.place[image, first], LATTICE)
    row_b, column_b = np.divmod(scenes.place[image, second], LATTICE)
    dx, dy = column_b - column_a, row_b - row_a
    across = np.abs(dx) + rng.uniform(-0.1, 0.1, len(dx)) > np.abs(dy)  # a tie is broken at random
    return np.where(across & (dx != 0), np.where(dx > 0, 0, 1), np.where(dy > 0, 2, 3))


def _count(scenes: Scenes, image, a: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For counts: mentions of shape and colour only ('two red circles'), and how many objects fit them."""
    mention = a.copy()
    mention[:, 2:] = _UNSAID
    mention[:, 1] = np.where((mention[:, :2] < 0).all(1), scenes.colour[image, 0], mention[:, 1])  # not 'three shapes'
    fits = scenes.present[image].copy()
    for column, name in enumerate(ATTRIBUTES[:2]):
        fits &= MEANINGS[name][mention[:, column][:, None], getattr(scenes, name)[image]]
    return np.where((kind == COUNT)[:, None], mention, a), fits.sum(1)


def say(statements: Statements, rng: np.random.Generator) -> list[str]:
    """One English sentence for each statement. The wording varies, the meaning does not."""
    wording = rng.integers(0, 1 << 16, len(statements))
    return [_sentence(statements, m, int(w)) for m, w in enumerate(wording)]


def _sentence(s: Statements, m: int, w: int) -> str:
    """Statement m as text; w chooses the wording."""
    kind, background = s.kind[m], s.background[m]
    if kind == BACKGROUND:
        text = ("a scene", "shapes", "some things")[w // 3 % 3]
    elif kind == COUNT:
        opening = ("exactly", "just", "only")[w // 3 % 3]
        text = f"{opening} {_NUMBERS[s.count[m]]} {_noun(s.a[m], plural=s.count[m] != 1)}"
    elif kind == ONE:
        text = f"{_with_article(_noun(s.a[m], w=w))} {WORDS['place'][s.a[m, 3]] if s.a[m, 3] >= 0 else ''}".strip()
    else:
        joint = ("and", "with", "together with")[w // 3 % 3] if kind == TWO else RELATIONS[s.relation[m]]
        text = f"{_with_article(_noun(s.a[m], w=w))} {joint} {_with_article(_noun(s.b[m], w=w // 7))}"
    return text if background < 0 else f"{text} {('on', 'over', 'against')[w % 3]} {BACKGROUNDS[background]}"


def _noun(mention: np.ndarray, plural: bool = False, w: int = 0) -> str:
    shape, colour, size, _ = mention
    words = [_SIZES[size][w // 11 % 2]] if size >= 0 else []
    words += [WORDS["colour"][colour]] if colour >= 0 else []
    noun = WORDS["shape"][shape] if shape >= 0 else "shape"
    ending = ("es" if noun == "cross" else "s") if plural else ""
    return " ".join([*words, noun + ending])


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


# Which statement is true of which image: the exhaustive relevance of `scenes`.


_CHUNK = 256  # statements at a time: 256 × 1,000 images × 5 objects take about a megabyte


def truth_matrix(statements: Statements, scenes: Scenes) -> Bool[np.ndarray, "m n"]:
    """truth[m, n]: statement m is true of image n.

    One object: some object fits the mention. Two objects: two *different* objects fit, in the stated relation if there
    is one (left of: smaller column of the lattice; above: smaller row). Count: exactly so many objects fit. A
    background that is mentioned must be that of the image.

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
