"""What a method attends to: slots or heads over the cells of an image, words over its cells."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Pixels, Tokens
from xmr_core.methods.method import Method


def slot_attention(method: Method, images: Features | Pixels) -> Float[Tensor, "n t k l"]:
    """How each of the k set elements attends to the l cells of an image in each of t rounds, averaged over heads; rows
    sum to 1.

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
        raise BadInput(
            f"the images of {method.name} are not encoded by attention to cells; take dive or pvse, or word_attention."
        )
    return attention[:, None]


def word_attention(method: Method, images: Features | Pixels, captions: Tokens | Features) -> Float[Tensor, "i t q l"]:
    """Which of the l cells of image i each element q of caption t attended to, at the method's own sharpness; rows sum
    to 1.

    q counts what the caption encoder read, <start> and <end> included. Only for attention of words over cells (t2i).
    Raises: BadInput for a method without it. Source: SCAN, Figure 4; SGRAF, §3.2.
    """
    if method.similarity.direction != "t2i":
        raise BadInput(f"{method.name} has no attention of words over cells; take scan or sgraf with direction='t2i'.")
    with torch.inference_mode():
        return method.similarity.attention(method.encode_images(images), method.encode_captions(captions))


def node_weights(
    method: Method, images: Features | Pixels, captions: Tokens | Features
) -> dict[str, Float[Tensor, "i t n"]]:
    """How much each node of a pair counts for its score, by part: 'SAF' (its β) and 'SGR' (how much the node that is
    read attends to each node in the last step). Node 0 is the two global vectors, node 1 + q word q of what the caption
    encoder read; rows sum to 1, padding is 0.

    Raises: BadInput for a method without such nodes, or whose nodes are not words with a global node before them.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 6–9.
    """
    if method.similarity.direction != "t2i":
        raise BadInput(f"{method.name} has no nodes of words to weigh; take sgraf with direction='t2i'.")
    with torch.inference_mode():
        return method.similarity.element_weights(method.encode_images(images), method.encode_captions(captions))
