"""`scenes` as a Corpus: disjoint splits from one seed, five captions for each image, two relevance sets.

The images are 64 × 64 RGB: anti-aliased shapes on textured backgrounds, with noise and a change of light. Shapes are
drawn from their signed distances, with array operations on many images at once, and no drawing library is needed.
"""

import io
import zipfile
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache, partial

import numpy as np
import pandas as pd
from jaxtyping import Float, UInt8

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile, require_choice, require_number
from xmr_core.base.files import read_sealed, warn_rebuilt, write_sealed
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.data.readers.assembly import plausible_match
from xmr_core.data.scenes import world
from xmr_core.data.scenes.world import LATTICE, MAX_OBJECTS, SHAPES, Scenes, Statements
from xmr_core.features.images import array_reader

WORLD_VERSION = 1  # raise it whenever the same seed would give other images or captions
# images in train, val and test; 'galleries' is 'quick' with ten test galleries in place of one
SIZES = {
    "tiny": (64, 32, 32), "quick": (2000, 200, 500), "galleries": (2000, 200, 5000), "study": (3000, 500, 1000),
    "large": (20000, 1000, 5000),
}  # fmt: skip
DEFAULT_AMBIGUITY = 0.05
_CHUNK = 250  # images rendered together; a change would change the images of every seed
_TABLES = {"scenes": Scenes, "statements": Statements}


def load_scenes(size: str = "quick", seed: int = 0, ambiguity: float = DEFAULT_AMBIGUITY) -> Corpus:
    """The built-in corpus of drawn images, described in docs/data.md#data-scenes. It is made once and then cached.

    Args: size: one of SIZES. seed: of the world, not of training, ≥ 0; equal seeds give equal corpora. ambiguity: from
        0 (captions say nearly everything) to 1 (they say little); with the default, a caption of size 'quick' fits
        0.29 % of the other images of its split, about twice the share that ECCV Caption counts for COCO.
    Returns: a Corpus with the relevance sets 'annotated' (a caption and its own image) and 'exhaustive' (a caption and
        every image of the split of which it is true).
    Raises: BadInput for an unknown size, an ambiguity outside [0, 1] or a negative seed.
    >>> load_scenes("tiny").captions["text"]["c0"]
    'a big red cross with a large green ring'
    """
    require_choice("size of scenes", size, SIZES)
    require_number("the seed of scenes", seed, 0)
    require_number("ambiguity", ambiguity, 0, most=1, hint="0 says nearly everything, 1 says little.")
    # Keys and values name the cache file and the corpus: a change would make new ones of both
    spec = {"world": WORLD_VERSION, "size": size, "pictures": SIZES[size], "seed": seed}
    spec["ambiguity"] = round(float(ambiguity), 6)
    made = _cached(spec)
    scenes, statements = made["scenes"], made["statements"]
    split = np.repeat(SPLITS, SIZES[size])
    image_ids = np.array([f"i{n}" for n in range(len(scenes))])
    shapes = [set(row[present]) for row, present in zip(scenes.shape, scenes.present, strict=True)]
    images = pd.DataFrame({"split": split, "n_objects": scenes.present.sum(1)}, pd.Index(image_ids, name="image_id"))
    images["shapes"] = [" ".join(name for s, name in enumerate(SHAPES) if s in shown) for shown in shapes]
    caption_ids = pd.Index([f"c{n}" for n in range(len(statements))], name="caption_id")
    captions = pd.DataFrame({"image_id": image_ids[statements.image], "text": made["texts"]}, caption_ids)
    captions["split"], captions["kind"] = split[statements.image], np.array(world.KINDS)[statements.kind]

    @cache
    def relevance(kind: str, split_name: str) -> Relevance:
        i, t = corpus.rows(split_name)
        ids = captions.index.to_numpy()[t], image_ids[i]
        if kind == "annotated":
            return Relevance.from_positions(np.arange(len(t)), np.searchsorted(i, statements.image[t]), *ids)
        return Relevance.from_matrix(world.truth_matrix(statements[t], scenes[i]), *ids)

    corpus = Corpus(
        name="scenes",
        images=images,
        captions=captions,
        fingerprint=content_hash({**spec, "texts": content_hash(made["texts"])}),
        read_pixels=array_reader(made["pixels"]),
        relevance_sets={kind: partial(relevance, kind) for kind in ("annotated", "exhaustive")},
        about={**spec, "resolution": RESOLUTION, "captions_per_image": world.CAPTIONS_PER_IMAGE},
    )
    return corpus


def scenes_plausible(corpus: Corpus, split: str, zeta: int) -> Relevance:
    """PMRP's relevance on scenes: images whose set of shapes differs in at most ζ shapes from that of the caption.

    Shapes take the place of COCO's object categories. This is no relevance set of the corpus, because only the study of
    benchmark numbers needs it. Raises: BadInput for a negative ζ.
    Source: Chun et al., CVPR 2021 (PCME); docs/evaluation.md#evaluation-pmrp.
    >>> scenes_plausible(load_scenes("tiny"), "test", zeta=2).counts[:4]
    array([15, 15, 15, 15])
    """
    i, t = corpus.rows(split)
    codes = np.array([[name in shown.split() for name in SHAPES] for shown in corpus.images["shapes"].iloc[i]], int)
    image_of = corpus.relevance_sets["annotated"](split).indices
    ids = {"caption_ids": corpus.captions.index[t], "image_ids": corpus.images.index[i]}
    return plausible_match(codes.reshape(len(i), len(SHAPES)), image_of, zeta, **ids)


def scenes_of(corpus: Corpus, split: str) -> Scenes:
    """What the images of a split show, object by object: the truth behind the images. Raises: BadInput for a corpus
    other than `scenes`.

    >>> int(scenes_of(load_scenes("tiny"), "test").present.sum())
    105
    """
    return _made(corpus)["scenes"][corpus.rows(split)[0]]


def statements_of(corpus: Corpus, split: str) -> Statements:
    """What the captions of a split say, in their order; `image` counts the images of the split. Raises: as scenes_of.

    >>> len(statements_of(load_scenes("tiny"), "test"))
    160
    """
    images, captions = corpus.rows(split)
    own = _made(corpus)["statements"][captions]
    return replace(own, image=np.searchsorted(images, own.image))


def _made(corpus: Corpus) -> dict:
    if corpus.name != "scenes":
        raise BadInput(f"only scenes knows its objects, got {corpus.name}.")
    return _cached({name: corpus.about[name] for name in ("world", "size", "pictures", "seed", "ambiguity")})


def make_world(spec: dict) -> dict:
    """Images, statements and sentences of a spec, from its seed alone. Every split has its own random numbers."""
    scenes, statements, texts, pixels, first = [], [], [], [], 0
    for number, n in enumerate(spec["pictures"]):
        for_scenes, for_captions, for_words = (np.random.default_rng([spec["seed"], number, key]) for key in range(3))
        scenes.append(world.sample_scenes(n, for_scenes))
        described = world.describe(scenes[-1], spec["ambiguity"], for_captions)
        statements.append(replace(described, image=described.image + first))
        texts += world.say(described, for_words)
        for start in range(0, n, _CHUNK):
            rng = np.random.default_rng([spec["seed"], number, 3, start])
            pixels.append(render(scenes[-1][start : start + _CHUNK], rng))
        first += n
    joined = {"scenes": Scenes.join(scenes), "statements": Statements.join(statements)}
    return {**joined, "texts": texts, "pixels": np.concatenate(pixels)}


def _cached(spec: dict) -> dict:
    path = paths.folder("cache") / f"scenes-{spec['size']}-{content_hash(spec)}.npz"
    if path.exists():
        try:
            with np.load(io.BytesIO(read_sealed(path))) as z:
                tables = {g: kind(*(z[f"{g}.{f.name}"] for f in fields(kind))) for g, kind in _TABLES.items()}
                return {**tables, "texts": z["texts"].tobytes().decode().split("\n"), "pixels": z["pixels"]}
        except (DamagedFile, zipfile.BadZipFile, KeyError, ValueError) as e:
            warn_rebuilt(path, e)
    made = make_world(spec)
    arrays = {f"{group}.{name}": array for group in _TABLES for name, array in vars(made[group]).items()}
    texts = np.frombuffer("\n".join(made["texts"]).encode(), np.uint8)
    np.savez(buffer := io.BytesIO(), pixels=made["pixels"], texts=texts, **arrays)
    write_sealed(path, buffer.getvalue())
    return made


# Scenes as pixels.


RESOLUTION = 64
_CELL = RESOLUTION / LATTICE
_RADIUS = np.array([4.5, 6.5, 9.0], np.float32)  # pixels, for each size
_PATCH = np.arange(-12, 13, dtype=np.float32)  # pixels around an object; fits the largest with its tilt and smooth rim
# red, green and blue of each colour
_RGB = np.float32([[215, 35, 35], [240, 135, 20], [240, 220, 40], [35, 160, 60], [40, 80, 220], [140, 50, 180]])
NOISE_SD = 7.0  # grey levels
LIGHT = 0.12  # largest relative change of brightness, in both directions


def render(scenes: Scenes, rng: np.random.Generator) -> UInt8[np.ndarray, "n 64 64 3"]:
    """Draw the scenes. rng: for noise, the phase of textures and light; the scenes themselves hold everything else.

    >>> from xmr_core.data.scenes.world import sample_scenes
    >>> rng = np.random.default_rng(0)
    >>> render(sample_scenes(2, rng), rng).shape
    (2, 64, 64, 3)
    """
    canvas = _backgrounds(scenes.background, rng)
    for slot, pixels, cover in _covered(scenes):
        colour = _RGB[scenes.colour[pixels[0][:, 0, 0], slot]][:, None, None, :]
        canvas[pixels] = canvas[pixels] * (1 - cover) + colour * cover
    light = 1 + rng.uniform(-LIGHT, LIGHT, (len(scenes), 1, 1, 1)).astype(np.float32)
    noise = rng.standard_normal(canvas.shape, dtype=np.float32) * NOISE_SD
    return np.clip(canvas * light + noise, 0, 255).astype(np.uint8)


def object_masks(scenes: Scenes) -> Float[np.ndarray, "n 5 64 64"]:
    """How much of each pixel each object covers, in [0, 1]; 0 throughout for objects that are not present.

    The hole of a ring is no part of it.

    >>> from xmr_core.data.scenes.world import sample_scenes
    >>> scenes = sample_scenes(2, np.random.default_rng(0))
    >>> bool(((object_masks(scenes).sum((2, 3)) > 0) == scenes.present).all())
    True
    """
    masks = np.zeros((len(scenes), MAX_OBJECTS, RESOLUTION, RESOLUTION), np.float32)
    for slot, (image, y, x), cover in _covered(scenes):
        masks[image, slot, y, x] = cover[..., 0]
    return masks


def _covered(scenes: Scenes) -> Iterator[tuple[int, tuple[np.ndarray, ...], np.ndarray]]:
    """Of each slot for an object: (its number, the index of the pixels around the objects in it, the share of each
    pixel that they cover)."""
    for slot in range(MAX_OBJECTS):
        rows = np.flatnonzero(scenes.present[:, slot])
        dx, dy, dr, tilt = scenes.jitter[rows, slot].T
        row, column = np.divmod(scenes.place[rows, slot], LATTICE)
        x, y = (column + 0.5) * _CELL + 1.5 * dx, (row + 0.5) * _CELL + 1.5 * dy
        radius = (_RADIUS[scenes.size[rows, slot]] * (1 + 0.06 * dr))[:, None, None]
        ix, iy = np.floor(x).astype(int), np.floor(y).astype(int)
        u = _PATCH[None, None, :] - (x - ix)[:, None, None]
        v = _PATCH[None, :, None] - (y - iy)[:, None, None]
        angle = (0.14 * tilt)[:, None, None]  # at most 8 degrees: a tilted square stays a square, not a diamond
        u, v = (np.cos(angle) * u + np.sin(angle) * v) / radius, (np.cos(angle) * v - np.sin(angle) * u) / radius
        cover = np.clip(0.5 - _distance(scenes.shape[rows, slot], u, v) * radius, 0, 1).astype(np.float32)[..., None]
        around = _PATCH.astype(int)
        below, right = ((corner[:, None] + around).clip(0, RESOLUTION - 1) for corner in (iy, ix))
        yield slot, (rows[:, None, None], below[:, :, None], right[:, None, :]), cover


def _distance(shape: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Signed distance to the shape of each image, in units of its radius; negative inside. u: right, v: down."""
    out = np.empty(np.broadcast_shapes(u.shape, v.shape), np.float32)
    for s in np.unique(shape):
        rows = shape == s
        out[rows] = _SHAPES[s](u[rows], v[rows])
    return out


_SHAPES = (
    lambda u, v: np.hypot(u, v) - 1,  # circle
    lambda u, v: np.maximum(abs(u), abs(v)) - 0.86,  # square
    lambda u, v: np.maximum(0.866 * abs(u) - 0.5 * v, v) - 0.6,  # triangle, point up
    lambda u, v: (abs(u) * 1.25 + abs(v) * 0.8) * 0.8 - 0.86,  # diamond, taller than wide
    lambda u, v: np.minimum(np.maximum(abs(u) - 1, abs(v) - 0.32), np.maximum(abs(u) - 0.32, abs(v) - 1)),  # cross
    lambda u, v: abs(np.hypot(u, v) - 0.76) - 0.24,  # ring
)


def _backgrounds(kind: np.ndarray, rng: np.random.Generator) -> Float[np.ndarray, "n 64 64 3"]:
    """One texture for each background; a random phase makes two images with the same background different."""
    x, y = np.meshgrid(*[np.arange(RESOLUTION, dtype=np.float32)] * 2)
    phase = rng.integers(0, RESOLUTION, (len(kind), 2))
    stars = rng.random((RESOLUTION, RESOLUTION)) > 0.985
    flakes = rng.random((RESOLUTION, RESOLUTION)) > 0.95
    mortar = (y % 10 < 1.5) | ((x + 8 * (y // 10 % 2)) % 16 < 1.5)
    texture = np.stack(
        [
            np.stack([205 + 8 * np.sin(x / 7 + y / 3), 180 + 8 * np.sin(x / 7 + y / 3), 130 + 0 * x], -1),  # sand
            np.stack([110 + 18 * np.sin(x * 1.3), 150 + 18 * np.sin(x * 1.3), 85 + 0 * x], -1),  # grass
            np.stack([100 + 0 * x, 165 + 14 * np.sin(y / 2), 195 + 14 * np.sin(y / 2)], -1),  # water
            np.stack([25 + 190 * stars, 25 + 190 * stars, 45 + 170 * stars], -1),  # night
            np.stack([228 - 50 * flakes, 232 - 40 * flakes, 238 - 20 * flakes], -1),  # snow
            np.stack([150 + 45 * mortar, 95 + 80 * mortar, 80 + 85 * mortar], -1),  # brick
        ]
    ).astype(np.float32)
    rows = (np.arange(RESOLUTION)[None, :] + phase[:, :1]) % RESOLUTION
    columns = (np.arange(RESOLUTION)[None, :] + phase[:, 1:]) % RESOLUTION
    return texture[kind[:, None, None], rows[:, :, None], columns[:, None, :]]
