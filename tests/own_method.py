"""A method in a file of one's own, for tests to spoil."""

RIGHT = """
from dataclasses import dataclass

import torch

from xmr_core.losses.scores import InfoNCE
from xmr_core.losses.objective import Objective
from xmr_core.methods.common import MatchedOptions, matched_encoders
from xmr_core.methods.method import Method
from xmr_core.methods.registry import option
from xmr_core.methods.registry import method_spec
from xmr_core.methods.registry import MethodSpec


@dataclass(frozen=True)
class Mine(MatchedOptions):
    k: int = option(3, "how many", least=1)


def scores(images, captions):
    return images.x @ captions.x.T


def loss(scores, match):
    return InfoNCE(0.1)(scores, match)


def matched(inputs, o):
    like = method_spec("vse++").build(inputs, d=o.d)
    parts = like.image_encoder, like.caption_encoder, like.image_head, like.caption_head
    return Method("mine", *parts, scores, Objective(loss))


SPEC = MethodSpec("mine", "Mine", "Mine.", "Me, 2026", Mine, matched, variants={"Mine": {}})
"""
TINY_RUN = ["size=tiny", "batch_images=8", "captions_per_image=2", "d=8", "epochs=1", "device=cpu"]
