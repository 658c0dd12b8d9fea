"""What a method looks at: slots or heads over the cells of a picture, words over its cells."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.masked import masked_softmax
from xmr_core.base.types import Features, Pixels, Tokens
from xmr_core.methods.method import Method
from xmr_core.similarities.filtration import Filtration
from xmr_core.similarities.scan import scan, scan_attention
from xmr_core.similarities.sgraf import GraphReasoning, SimilarityNodes


def slot_attention(method: Method, images: Features | Pixels) -> Float[Tensor, "n t k l"]:
    """How each of the k set elements looks at the l cells of a picture in each of t rounds, averaged over heads; rows sum to 1.

    A head without rounds (PIE-Net) has t = 1. The method should be in eval mode.
    Raises: BadInput for a head without attention per element.
    Source: DivE, Figures 2, 4, A2 and A3.
    """
    with torch.inference_mode():
        features, head = method.image_encoder(images), method.image_head
        if hasattr(head, "iterations"):
            return head.attention_maps(features)[1].mean(2)
        attention = getattr(head(features), "attention", None)
    if attention is None:
        raise BadInput(f"the pictures of {method.name} are not made by attention to cells; take dive or pvse, or word_attention.")
    return attention[:, None]


def word_attention(method: Method, images: Features | Pixels, captions: Tokens | Features) -> Float[Tensor, "i t q l"]:
    """Which of the l cells of picture i each element q of caption t attended to, at the method's own sharpness; rows sum to 1.

    q counts what the caption encoder read, <start> and <end> included. Only for attention of words over cells (t2i).
    Raises: BadInput for a method without it. Source: SCAN, Figure 4; SGRAF, §3.2.
    """
    similarity = method.similarity
    with torch.inference_mode():
        x, y = method.encode_images(images), method.encode_captions(captions)
        if getattr(similarity, "func", None) is scan and similarity.keywords.get("direction") == "t2i":
            return scan_attention(x, y, **{name: similarity.keywords[name] for name in ("direction", "sharpness", "normalise")})
        nodes = next((m for m in similarity.modules() if isinstance(m, SimilarityNodes)), None) if hasattr(similarity, "modules") else None
        if nodes is not None and nodes.direction == "t2i":
            return nodes.attention(x, y)
    raise BadInput(f"{method.name} has no attention of words over cells; take scan or sgraf with direction='t2i'.")


def node_weights(method: Method, images: Features | Pixels, captions: Tokens | Features) -> dict[str, Float[Tensor, "i t n"]]:
    """How much each node of a pair counts for its score, by part: 'SAF' (its β) and 'SGR' (how much the node that is read looks at each
    node in the last step). Node 0 is the two wholes, node 1 + q word q of what the caption encoder read; rows sum to 1, padding is 0.

    Raises: BadInput for a method without such nodes, or whose nodes are not words with a whole before them.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 7–11.
    """
    similarity = method.similarity
    nodes = getattr(similarity, "nodes", None)
    if not isinstance(nodes, SimilarityNodes) or nodes.direction != "t2i" or nodes.parts != "both":
        raise BadInput(f"{method.name} has no nodes of words to weigh; take sgraf with direction='t2i'.")
    out = {}
    with torch.inference_mode():
        found, mask = nodes(method.encode_images(images), method.encode_captions(captions))
        for module in similarity.modules():
            if isinstance(module, Filtration):
                out["SAF"] = module.weights(found, mask)
            if isinstance(module, GraphReasoning):
                out["SGR"] = _last_look(module, found, mask)
    if not out:
        raise BadInput(f"{method.name} takes the mean of its nodes: all words count alike.")
    return out


def _last_look(reasoning: GraphReasoning, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t n"]:
    """Row 0 of E in the last step: softmax over nodes of (𝒩₀ W_q + b_q)(𝒩 W_k + b_k)ᵀ."""
    if len(reasoning.steps) > 1:
        nodes = reasoning.after_steps(nodes, mask)[-2]
    last = reasoning.steps[-1]
    return masked_softmax((last["query"](nodes[..., :1, :]) @ last["key"](nodes).transpose(-1, -2))[..., 0, :], mask)
