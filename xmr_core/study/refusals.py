"""What a notebook cannot answer, said in one line before anything is trained."""

from collections.abc import Mapping, Sequence

import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features
from xmr_core.data.corpora import corpus_of
from xmr_core.evaluation.analysis.uncertainty import uncertainty
from xmr_core.methods import Inputs
from xmr_core.methods.registry import build
from xmr_core.study.examples import canvases
from xmr_core.study.presets import config_from


def require_drawable(p: Mapping[str, object]) -> None:
    """Refuse a corpus on whose images attention cannot be drawn.

    p: the notebook's checked parameters. Raises: BadInput as examples.canvases; what reading the corpus raises.

    >>> require_drawable({"dataset": "scenes"})
    """
    canvases(corpus_of(config_from(p).data), [0])


def require_uncertainty(p: Mapping[str, object]) -> None:
    """Refuse a method that says nothing about how certain it is: one vector for each item, or means alone.

    p: the notebook's checked parameters, with `method`. An untrained model of few numbers is asked.
    Raises: BadInput as analysis.uncertainty; for an unknown method.

    >>> require_uncertainty({"method": "vse++", "dataset": "scenes"})
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: this method has one vector per item and so no uncertainty...
    """
    config = config_from(p, str(p["method"]))
    method = build(config.method, Inputs(image_width=8, cells=4, vocabulary=20), config.form, **config.options).eval()
    with torch.inference_mode():
        uncertainty(method.encode_images(Features(torch.randn(1, 4, 8), torch.ones(1, 4, dtype=torch.bool))))


def require_some(name: str, values: Sequence) -> Sequence:
    """The values of a list parameter. Raises: BadInput for an empty one.

    >>> require_some("methods", [])
    Traceback (most recent call last):
    xmr_core.base.errors.BadInput: parameter methods is an empty list; it needs at least one entry.
    """
    if not values:
        raise BadInput(f"parameter {name} is an empty list; it needs at least one entry.")
    return values
