"""A dual encoder of transformers (CLIP, SigLIP, …), fine-tuned with its own projections. See docs/methods/clip.md."""

import json
import math
from dataclasses import dataclass

from xmr_core.base.errors import BadInput
from xmr_core.encoders.pretrained import DualTower
from xmr_core.heads.pooling import GlobalHead
from xmr_core.losses.objective import Objective
from xmr_core.losses.scores import InfoNCE, PairwiseSigmoid
from xmr_core.methods.common import OBJECTIVES, hinge
from xmr_core.methods.method import Inputs, Method
from xmr_core.methods.registry import MethodSpec, Options, option
from xmr_core.similarities.vectors import Cosine


@dataclass(frozen=True)
class CLIPOptions(Options):
    """Options of a dual encoder. 'own' is the loss that it was trained with: SigLIP's sigmoid where the model has a
    bias of its logits, else InfoNCE. Both go on from the model's own scale (and bias)."""

    objective: str = option("own", "loss on the scores", choices=("own", *OBJECTIVES), form="matched")
    margin: float = option(0.2, "margin of the hinge", above=0, form="matched")
    warmup_epochs: int = option(2, "epochs of all negatives before the hardest, for the hinge", least=0, form="matched")


def matched(inputs: Inputs, o: CLIPOptions) -> Method:
    """One unit vector per item, from both towers with their own projections."""
    if not inputs.dual:
        raise BadInput("clip is a dual encoder of transformers: give dual_model, its folder or name on the hub.")
    facts, kind = json.loads(inputs.image_network), o.objective
    if kind == "own":
        kind = "siglip" if "bias" in facts else "infonce"
    if kind == "triplet":
        loss = hinge(o.margin, "mean", "hardest", o.warmup_epochs)
    elif kind == "siglip":
        most = max(100.0, 2 * math.exp(facts["scale"]))  # SigLIP's scale is above CLIP's bound
        loss = Objective(PairwiseSigmoid(math.exp(-facts["scale"]), facts.get("bias"), max_scale=most))
    else:
        loss = Objective(InfoNCE(max(0.01, math.exp(-facts["scale"]))))
    towers = (DualTower(inputs.image_network), DualTower(inputs.text_network))
    return Method("clip", *towers, GlobalHead(), GlobalHead(), Cosine(), loss)


SPEC = MethodSpec(
    id="clip",
    label="CLIP",
    summary="A pretrained dual encoder (CLIP, SigLIP) with its own projections, fine-tuned.",
    citation="Radford et al., ICML 2021; Zhai et al., ICCV 2023 (SigLIP)",
    options=CLIPOptions,
    matched=matched,
    published=matched,
    network="dual_model",
)
