"""Assembling `scenes` into a Corpus: disjoint splits from one seed, five captions each, two kinds of relevance."""

import io
import zipfile
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pandas as pd

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile, unknown
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import Corpus
from xmr_core.data.images.files import array_reader
from xmr_core.data.readers.plausible_match import plausible_match
from xmr_core.data.scenes.grammar import CAPTIONS_PER_IMAGE, KINDS, Statements, describe, say
from xmr_core.data.scenes.render import SIDE, render
from xmr_core.data.scenes.truth import true_of
from xmr_core.data.scenes.world import SHAPES, Scenes, sample_scenes

WORLD_VERSION = 1  # raise whenever the same seed would give other pictures or captions
SPLITS = ("train", "val", "test")
SIZES = {
    "tiny": (64, 32, 32),
    "quick": (2000, 200, 500),
    "study": (3000, 500, 1000),
    "large": (20000, 1000, 5000),
}  # pictures in train, val, test
DEFAULT_AMBIGUITY = 0.05
_CHUNK = 250  # pictures rendered together; part of what a seed means, so do not tune it


def load_scenes(size: str = "quick", seed: int = 0, ambiguity: float = DEFAULT_AMBIGUITY, warn: Callable | None = None) -> Corpus:
    """The embedded corpus.

    Args: size: one of SIZES. seed: of the world (not of training); equal seeds give equal corpora. ambiguity: 0 (captions
        say nearly everything) to 1 (they say little); the default fits the share of pictures a COCO caption fits.
        warn: called with one sentence when a cache file was damaged and is rebuilt; warnings.warn by default.
    Returns: Corpus with judges 'annotated' (a caption and its own picture, as COCO knows it) and 'exhaustive' (a caption
        and every picture of the split in which it is true).
    Raises: BadInput for an unknown size, an ambiguity outside [0, 1] or a negative seed.
    """
    if size not in SIZES:
        raise unknown("size of scenes", size, SIZES)
    if not 0 <= ambiguity <= 1:
        raise BadInput(f"ambiguity must lie in [0, 1], got {ambiguity}. 0 says nearly everything, 1 says little.")
    if seed < 0:
        raise BadInput(f"the seed of scenes must be 0 or more, got {seed}.")
    spec = {"world": WORLD_VERSION, "size": size, "pictures": SIZES[size], "seed": seed, "ambiguity": round(float(ambiguity), 6)}
    made = _cached(spec, warn)
    scenes, statements = Scenes(**made["scenes"]), Statements(**made["statements"])
    split = np.repeat(SPLITS, SIZES[size])
    image_ids = np.array([f"i{n}" for n in range(len(scenes))])
    images = pd.DataFrame({"split": split, "n_objects": scenes.present.sum(1)}, index=pd.Index(image_ids, name="image_id"))
    images["shapes"] = [
        " ".join(name for s, name in enumerate(SHAPES) if s in row[there]) for row, there in zip(scenes.shape, scenes.present, strict=True)
    ]
    captions = pd.DataFrame(
        {
            "image_id": image_ids[statements.image],
            "text": made["texts"],
            "split": split[statements.image],
            "kind": np.array(KINDS)[statements.kind],
        },
        index=pd.Index([f"c{n}" for n in range(len(statements))], name="caption_id"),
    )
    corpus_rows = {s: (np.flatnonzero(split == s), np.flatnonzero(split[statements.image] == s)) for s in SPLITS}

    @cache
    def judge(kind: str, split_name: str) -> Relevance:
        i, t = corpus_rows[split_name]
        ids = captions.index.to_numpy()[t], image_ids[i]
        if kind == "annotated":
            return Relevance.from_positions(np.arange(len(t)), np.searchsorted(i, statements.image[t]), *ids)
        return Relevance.from_matrix(true_of(statements[t], scenes[i]), *ids)

    return Corpus(
        name="scenes",
        images=images,
        captions=captions,
        fingerprint=paths.content_hash({**spec, "texts": paths.content_hash(made["texts"])}),
        read_pixels=array_reader(made["pixels"]),
        judges={kind: partial(judge, kind) for kind in ("annotated", "exhaustive")},
        about={**spec, "resolution": SIDE, "captions_per_image": CAPTIONS_PER_IMAGE},
    )


def scenes_plausible(corpus: Corpus, split: str, zeta: int) -> Relevance:
    """PMRP's relevance on scenes: a caption and every picture whose set of shapes differs in at most ζ shapes from its own picture's.

    Shapes stand for COCO's object categories: the nouns of the captions, without colour, size, number or place. Not a judge of the
    corpus, because only the study of proxies asks for it. Raises: BadInput for a negative ζ.
    Source: Chun et al., CVPR 2021 (PCME); METHODS §10.3.
    """
    i, t = corpus.rows(split)
    shown = corpus.images["shapes"].iloc[i].str.split()
    codes = np.array([[name in have for name in SHAPES] for have in shown], int).reshape(len(i), len(SHAPES))
    owner = corpus.judges["annotated"](split).indices
    return plausible_match(codes, owner, zeta, caption_ids=corpus.captions.index[t], image_ids=corpus.images.index[i])


def make_world(spec: dict) -> dict:
    """Pictures, statements and sentences of a spec, from its seed alone; each split has random numbers of its own."""
    parts = []
    for number, n in enumerate(spec["pictures"]):
        rng = {what: np.random.default_rng([spec["seed"], number, key]) for key, what in enumerate(("scenes", "captions", "words"))}
        scenes = sample_scenes(n, rng["scenes"])
        statements = describe(scenes, spec["ambiguity"], rng["captions"])
        pixels = [render(scenes[at : at + _CHUNK], np.random.default_rng([spec["seed"], number, 3, at])) for at in range(0, n, _CHUNK)]
        parts.append((scenes, statements, say(statements, rng["words"]), np.concatenate(pixels)))
    offset = np.concatenate([[0], np.cumsum([len(p[0]) for p in parts])[:-1]])
    joined = {name: np.concatenate([getattr(p[1], name) for p in parts]) for name in Statements.__dataclass_fields__}
    joined["image"] = np.concatenate([p[1].image + o for p, o in zip(parts, offset, strict=True)])
    return {
        "scenes": {name: np.concatenate([getattr(p[0], name) for p in parts]) for name in Scenes.__dataclass_fields__},
        "statements": joined,
        "texts": [text for p in parts for text in p[2]],
        "pixels": np.concatenate([p[3] for p in parts]),
    }


def _cached(spec: dict, warn) -> dict:
    path = paths.folder("cache") / f"scenes-{spec['size']}-{paths.content_hash(spec)}.npz"
    if path.exists():
        try:
            return _unpack(paths.read_sealed(path))
        except (DamagedFile, zipfile.BadZipFile, KeyError, ValueError) as e:
            paths.say_rebuilt(path, e, warn)
    made = make_world(spec)
    paths.write_sealed(path, _pack(made))
    return made


def _pack(made: dict) -> bytes:
    flat = {f"{group}.{name}": a for group in ("scenes", "statements") for name, a in made[group].items()}
    buffer = io.BytesIO()
    np.savez(buffer, pixels=made["pixels"], texts=np.frombuffer("\n".join(made["texts"]).encode(), np.uint8), **flat)
    return buffer.getvalue()


def _unpack(payload: bytes) -> dict:
    with np.load(io.BytesIO(payload)) as z:
        groups = {g: {k.split(".")[1]: z[k] for k in z.files if k.startswith(g + ".")} for g in ("scenes", "statements")}
        return {**groups, "texts": z["texts"].tobytes().decode().split("\n"), "pixels": z["pixels"]}
