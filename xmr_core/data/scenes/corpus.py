"""`scenes` as a Corpus: disjoint splits from one seed, five captions for each image, two relevance sets."""

import io
import zipfile
from dataclasses import fields, replace
from functools import cache, partial

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile, require_choice, require_number
from xmr_core.base.files import read_sealed, warn_rebuilt, write_sealed
from xmr_core.base.fingerprint import content_hash
from xmr_core.base.types import SPLITS, Corpus, Relevance
from xmr_core.data.readers.assembly import plausible_match
from xmr_core.data.scenes.grammar import CAPTIONS_PER_IMAGE, KINDS, Statements, describe, say, truth_matrix
from xmr_core.data.scenes.render import RESOLUTION, render
from xmr_core.data.scenes.world import SHAPES, Scenes, sample_scenes
from xmr_core.features.images import array_reader

WORLD_VERSION = 1  # raise it whenever the same seed would give other images or captions
# images in train, val and test
SIZES = {"tiny": (64, 32, 32), "quick": (2000, 200, 500), "study": (3000, 500, 1000), "large": (20000, 1000, 5000)}
DEFAULT_AMBIGUITY = 0.05
_CHUNK = 250  # images rendered together; a change would change the images of every seed
_TABLES = {"scenes": Scenes, "statements": Statements}


def load_scenes(size: str = "quick", seed: int = 0, ambiguity: float = DEFAULT_AMBIGUITY) -> Corpus:
    """The embedded corpus of drawn images, described in docs/data.md#data-scenes. It is made once and then cached.

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
    if not 0 <= ambiguity <= 1:
        raise BadInput(f"ambiguity must lie in [0, 1], got {ambiguity}. 0 says nearly everything, 1 says little.")
    # Keys and values name the cache file and the corpus: a change would make new ones of both
    spec = {"world": WORLD_VERSION, "size": size, "pictures": SIZES[size], "seed": seed}
    spec["ambiguity"] = round(float(ambiguity), 6)
    world = _cached(spec)
    scenes, statements = world["scenes"], world["statements"]
    split = np.repeat(SPLITS, SIZES[size])
    image_ids = np.array([f"i{n}" for n in range(len(scenes))])
    shapes = [set(row[present]) for row, present in zip(scenes.shape, scenes.present, strict=True)]
    images = pd.DataFrame(
        {
            "split": split,
            "n_objects": scenes.present.sum(1),
            "shapes": [" ".join(name for s, name in enumerate(SHAPES) if s in shown) for shown in shapes],
        },
        index=pd.Index(image_ids, name="image_id"),
    )
    captions = pd.DataFrame(
        {
            "image_id": image_ids[statements.image],
            "text": world["texts"],
            "split": split[statements.image],
            "kind": np.array(KINDS)[statements.kind],
        },
        index=pd.Index([f"c{n}" for n in range(len(statements))], name="caption_id"),
    )

    rows = {s: [np.flatnonzero(table["split"] == s) for table in (images, captions)] for s in SPLITS}

    @cache
    def relevance(kind: str, split_name: str) -> Relevance:
        i, t = rows[split_name]
        ids = captions.index.to_numpy()[t], image_ids[i]
        if kind == "annotated":
            return Relevance.from_positions(np.arange(len(t)), np.searchsorted(i, statements.image[t]), *ids)
        return Relevance.from_matrix(truth_matrix(statements[t], scenes[i]), *ids)

    return Corpus(
        name="scenes",
        images=images,
        captions=captions,
        fingerprint=content_hash({**spec, "texts": content_hash(world["texts"])}),
        read_pixels=array_reader(world["pixels"]),
        relevance_sets={kind: partial(relevance, kind) for kind in ("annotated", "exhaustive")},
        about={**spec, "resolution": RESOLUTION, "captions_per_image": CAPTIONS_PER_IMAGE},
    )


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
    if corpus.name != "scenes":
        raise BadInput(f"only scenes knows its objects, got {corpus.name}.")
    spec = {name: corpus.about[name] for name in ("world", "size", "pictures", "seed", "ambiguity")}
    return _cached(spec)["scenes"][corpus.rows(split)[0]]


def make_world(spec: dict) -> dict:
    """Images, statements and sentences of a spec, from its seed alone. Every split has its own random numbers."""
    scenes, statements, texts, pixels, first = [], [], [], [], 0
    for number, n in enumerate(spec["pictures"]):
        for_scenes, for_captions, for_words = (np.random.default_rng([spec["seed"], number, key]) for key in range(3))
        scenes.append(sample_scenes(n, for_scenes))
        described = describe(scenes[-1], spec["ambiguity"], for_captions)
        statements.append(replace(described, image=described.image + first))
        texts += say(described, for_words)
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
            return _unpack(read_sealed(path))
        except (DamagedFile, zipfile.BadZipFile, KeyError, ValueError) as e:
            warn_rebuilt(path, e)
    world = make_world(spec)
    write_sealed(path, _pack(world))
    return world


def _pack(world: dict) -> bytes:
    arrays = {f"{group}.{name}": array for group in _TABLES for name, array in vars(world[group]).items()}
    texts = np.frombuffer("\n".join(world["texts"]).encode(), np.uint8)
    np.savez(buffer := io.BytesIO(), pixels=world["pixels"], texts=texts, **arrays)
    return buffer.getvalue()


def _unpack(payload: bytes) -> dict:
    with np.load(io.BytesIO(payload)) as z:
        tables = {g: table(*(z[f"{g}.{field.name}"] for field in fields(table))) for g, table in _TABLES.items()}
        return {**tables, "texts": z["texts"].tobytes().decode().split("\n"), "pixels": z["pixels"]}
