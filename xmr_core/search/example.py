"""A small library and a small model in memory, on which every function of this folder can be tried."""

import numpy as np
import torch

from xmr_core.data import from_arrays, prepare
from xmr_core.data.config import DataConfig
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.methods.registry import build
from xmr_core.search.library import Library
from xmr_core.search.model import Model


def example_model(method: str = "dive") -> Model:
    """An untrained method of width 8 that reads images of 64 pixels by cell descriptors, and a few words.

    Raises: BadInput for an unknown method.

    >>> len(example_model().encode_texts(["a red circle", "a blue square"]))
    2
    """
    prepared = prepare(DataConfig(size="tiny"), progress=iter)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        trained = build(method, prepared.inputs, d=8).eval()
    return Model(method, trained, prepared, {"options": {"d": 8}, "form": "matched"})


def example_library(method: str = "dive") -> Library:
    """Three images of random features (4 cells each) with one caption each, encoded by an untrained method of width 8.

    The result is the same every time. Raises: BadInput for an unknown method.

    >>> example_library().texts.tolist()
    ['a red circle', 'a blue square', 'a green ring']
    """
    features = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float32)
    texts = ["a red square and a green ring", "a blue circle", "a red circle", "a blue square", "a green ring"]
    prepared = prepare(from_arrays(features, texts, splits=["train", "val", "test", "test", "test"], name="example"))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = build(method, prepared.inputs, d=8).eval()
    split, corpus = prepared.splits["test"], prepared.corpus
    images, captions = encode_split(model, split)
    relevance = {"annotated": corpus.relevance_sets["annotated"]("test")}
    ids, caption_ids = (np.array([f"{n}.{kind}" for n in range(3)], object) for kind in ("png", "txt"))
    texts = corpus.captions["text"].to_numpy()[split.caption_rows]
    return Library(method, model, prepared, images, captions, ids, caption_ids, texts, relevance, split.images_at)
