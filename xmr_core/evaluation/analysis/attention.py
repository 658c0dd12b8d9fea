"""What a method attends to: slots or heads over the cells of an image, words over its cells."""

import numpy as np
import torch
from jaxtyping import Bool, Float
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


def node_cosines(method: Method, images: Features | Pixels, captions: Tokens | Features) -> Float[Tensor, "i t n"]:
    """How alike the node that graph reasoning reads in the end is to each node before reasoning: their cosine.

        s_n = cos(𝒩_0 after the last step, 𝒩_n before the first)

    A word whose raw similarity vector the result resembles has been reinforced. Node 0 is the two global vectors, node
    1 + q word q of what the caption encoder read; padding is 0.
    Raises: BadInput for a method that does not reason over words with a global node.
    Source: SGRAF, Figures 3 and 8 ("SGR α").
    """
    similarity = method.similarity
    reasoner = getattr(similarity, "reasoning", getattr(similarity, "reasoner", None))
    if similarity.direction != "t2i" or not hasattr(reasoner, "after_steps") or similarity.nodes.parts != "both":
        raise BadInput(f"{method.name} has no graph of words and a global node; take sgraf with reasoner='sgr'.")
    with torch.inference_mode():
        nodes, mask = similarity.nodes(method.encode_images(images), method.encode_captions(captions))
        last = reasoner.after_steps(nodes, mask)[-1][..., :1, :]
        return torch.where(mask, torch.cosine_similarity(last, nodes, dim=-1), 0.0)


def content_preference(
    weights: Float[Tensor, "n l"], words: Bool[Tensor, "n l"], content: Bool[Tensor, "n l"]
) -> Float[Tensor, " n"]:
    """How much more a word of content weighs than another word of the same caption, in weights of an average word:

        (mean over content words of β − mean over the other words of β) / mean over all words of β

    0: both kinds weigh alike. NaN: a caption that lacks one kind, or whose words have no weight.
    words: True for words, False for padding and marks. content: True for those of them that are words of content.
    Source: SGRAF, Figure 3, as a number. The mean over all words takes out what the global node takes.

    >>> words, content = torch.tensor([[True] * 3]), torch.tensor([[True, True, False]])
    >>> content_preference(torch.tensor([[0.5, 0.5, 0.2]]), words, content)
    tensor([0.7500])
    """
    own, other = words & content, words & ~content
    means = [torch.where(kind, weights, 0.0).sum(1) / kind.sum(1) for kind in (own, other, words)]
    return (means[0] - means[1]) / means[2]


def attention_entropy(shares: Float[Tensor, "n t k l"]) -> Float[Tensor, "n t"]:
    """How evenly the k slots share a cell, in nats, averaged over cells: −(1/l) Σ_l Σ_k A_kl ln A_kl.

    From 0 (every cell belongs to one slot) to ln k.

    shares: the softmax over slots, SlotHead.attention_maps()[0] averaged over heads. Raises: BadInput where the shares
    of a cell do not sum to 1.

    >>> round(attention_entropy(torch.full((1, 1, 4, 9), 0.25)).item(), 4)
    1.3863
    """
    _require_shares(shares)
    return -torch.special.xlogy(shares, shares).sum(-2).mean(-1)


def object_overlap(shares: Float[Tensor, "n t k l"], masks: Float[Tensor, "n o l"]) -> Float[Tensor, "n t"]:
    """How well slots lie on the objects of an image: intersection over union, one slot for each object.

        J_ko = Σ_l min(A_kl, m_ol) / Σ_l max(A_kl, m_ol);   result = mean over the pairs of the assignment that
        maximises Σ J

    Each object gets at most one slot and each slot at most one object, so that slots which all lie on one object do not
    count as a division. There are min(k, objects) pairs.

    Args: shares: the softmax over slots. masks: how much of each cell each object covers, in [0, 1]; a mask of zeros is
        no object.
    Raises: BadInput where shares of a cell do not sum to 1, or an image has no object.

    >>> halves = torch.tensor([[[[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]]])
    >>> object_overlap(halves, torch.tensor([[[0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]])).item()
    0.75
    """
    from scipy.optimize import linear_sum_assignment  # takes as long to import as half of torch

    _require_shares(shares)
    if not bool((masks.sum(-1) > 0).any(-1).all()):
        raise BadInput("masks must show an object in every image.")
    a, m = shares[:, :, :, None], masks[:, None, None]
    overlap = (torch.minimum(a, m).sum(-1) / torch.maximum(a, m).sum(-1)).double().numpy()  # n t k o
    present = (masks.sum(-1) > 0).numpy()
    out = np.zeros(overlap.shape[:2])
    for n, t in np.ndindex(*out.shape):
        table = overlap[n, t][:, present[n]]
        out[n, t] = table[linear_sum_assignment(table, maximize=True)].mean()
    return torch.from_numpy(out)


def pointing(
    weights: Float[Tensor, "n l"], masks: Float[Tensor, "n l"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"], Float[Tensor, " n"]]:
    """(hit, share, overlap) of looks at objects. hit: 1 where the cell with the most attention is one of the object's
    (the pointing game), which a random look has with probability share, the object's share of all cells. overlap:
    intersection over union of the object's cells with as many cells of most attention.

    A cell is the object's if that covers a quarter of it, or as much as of any other cell.
    Args: weights: of one look each. masks: how much of each cell the object covers, in [0, 1].
    Raises: BadInput for a mask without an object.
    Source: Zhang et al., ECCV 2016 (the pointing game).

    >>> [x.tolist() for x in pointing(torch.tensor([[0.1, 0.6, 0.2, 0.1]]), torch.tensor([[0.0, 1.0, 0.0, 0.9]]))]
    [[1.0], [0.5], [0.3333333432674408]]
    """
    if not bool((masks.amax(-1) > 0).all()):
        raise BadInput("every look needs a mask with an object.")
    own = masks >= masks.amax(-1, keepdim=True).clamp(max=0.25)
    order = weights.argsort(dim=-1, descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(-1, order, torch.arange(order.shape[-1]).expand_as(order))
    seen = ranks < own.sum(-1, keepdim=True)
    hit = own.gather(-1, order[..., :1])[..., 0]
    return hit.float(), own.float().mean(-1), (own & seen).sum(-1) / (own | seen).sum(-1)


def _require_shares(shares: Tensor) -> None:
    if (shares.sum(-2) - 1).abs().max() > 1e-3:
        raise BadInput("the shares of a cell must sum to 1 over slots: give the softmax over slots.")
