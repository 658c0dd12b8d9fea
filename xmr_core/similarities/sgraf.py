"""Similarity graph reasoning and similarity attention filtration: a pair is a small graph of similarity vectors."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.masked import masked_mean, masked_softmax
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.attend import attend, unit
from xmr_core.similarities.filtration import Average, Filtration, linear
from xmr_core.similarities.found_difference import found_difference
from xmr_core.similarities.node_blocks import node_blocks, whole_nodes
from xmr_core.similarities.pairs import by_length, real_rows, same_width

PARTS = ("both", "local", "global")
REASONERS = ("sgr", "saf", "mean")  # the recipe has "joint" too: sgraf_joint.py
_BLOCK = 2_000_000  # elements of an attended block: 8 MB in float32, so that several passes over it find it in a cache
_KEPT, _KEPT_NODES = 16_000_000, 4_000_000  # up to so many elements are kept for the backward pass; of more, blocks are computed twice
_NODES = 1_000_000  # of the nodes that reason at a time; a step makes about five of that size


class SimilarityNodes(nn.Module):
    """Each pair as a graph: node 0 compares the two wholes, node 1 + q compares query q with what it attended to.

        s(x, y) = l2(W (x − y)² + b);   node 0 = s_glo(v₀, t₀),   node 1+q = s_loc(q, l2(Σ_c attention_cq x_c))

    W differs between global and local nodes. l2(z) = z / (‖z‖ + 1e-8).

    Args: d: width of the tokens. m: width of a node. direction: who asks, words ('t2i') or regions ('i2t', Table 4).
        parts: 'both', or only 'local' or 'global' nodes (Table 3). sharpness: λ of the attention.
    Shapes: images "i 1+k d", captions "t 1+l d" (row 0 is the whole: GlobalTokenHead) → nodes "i t n m", mask "1 t n" (t2i)
        or "i 1 n" (i2t). Memory: contexts are taken in blocks and recomputed in the backward pass, so that attended
        vectors of one block (8 MB in float32, and a few such intermediates) stand at a time beside the nodes themselves.
    Raises: BadInput for an unknown direction or parts, or m < 1.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 2–6; the attended vector is normalised in their code only (X-26).
    """

    def __init__(self, d: int, m: int = 256, direction: str = "t2i", parts: str = "both", sharpness: float = 9.0):
        super().__init__()
        if direction not in ("t2i", "i2t"):
            raise unknown("direction", direction, ("t2i", "i2t"))
        if parts not in PARTS:
            raise unknown("parts", parts, PARTS)
        if m < 1:
            raise BadInput(f"the width of a node must be at least 1, got {m}. SGRAF uses 256.")
        self.direction, self.parts, self.sharpness = direction, parts, sharpness
        self.local = linear(d, m) if parts != "global" else None
        self.whole = linear(d, m) if parts != "local" else None

    def forward(self, images: EmbeddingSet, captions: EmbeddingSet) -> tuple[Float[Tensor, "i t n m"], Bool[Tensor, "..."]]:
        x, y = real_rows(images), real_rows(captions)
        same_width(x, y)
        nodes, queries = [], captions if self.direction == "t2i" else images
        mask = queries.mask
        if self.whole is not None:
            nodes.append(_compare(self.whole, x[:, None, :1], y[None, :, :1]))  # i t 1 m
        if self.local is not None:
            nodes.append(self._local_nodes(images, captions))
        mask = {"both": mask, "local": mask[:, 1:], "global": mask[:, :1]}[self.parts]
        return torch.cat(nodes, 2), mask[None] if self.direction == "t2i" else mask[:, None]

    def blocks(self, images: EmbeddingSet, captions: EmbeddingSet) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
        """(images, captions, their nodes, mask) for scoring: the same nodes, without gradients, few pairs at a time."""
        if self.local is None:
            yield slice(0, len(images)), slice(0, len(captions)), *self(images, captions)
            return
        x, y = real_rows(images), real_rows(captions)
        same_width(x, y)
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        for looked, asking, nodes in node_blocks(contexts, queries, self.sharpness, self.local, int(self.whole is not None)):
            i, t = self._roles(looked, asking)
            nodes = nodes if self.direction == "t2i" else nodes.transpose(0, 1)
            mask = self._roles(images.mask[i][:, None], captions.mask[t][None])[1]
            if self.whole is None:
                yield i, t, nodes, mask[..., 1:]
            else:
                nodes[:, :, 0] = whole_nodes(x[i, 0], y[t, 0], self.whole)
                yield i, t, nodes, mask

    def attention(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t q c"]:
        """Which regions a word (t2i), or words a region (i2t), attended to; for pictures."""
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        weights = attend(contexts, queries, self.sharpness)[1]  # b c a q
        return weights.permute(0, 2, 3, 1) if self.direction == "t2i" else weights.permute(2, 0, 3, 1)

    def _roles(self, images, captions) -> tuple:
        """(contexts, queries), or back."""
        return (images, captions) if self.direction == "t2i" else (captions, images)

    def _local_nodes(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t q m"]:
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        a, q, d = queries.x.shape
        size = max(1, _BLOCK // (a * q * d))
        blocks = [contexts[at : at + size] for at in range(0, len(contexts), size)]
        if torch.is_grad_enabled() and len(contexts) * a * q * d > _KEPT:
            nodes = [checkpoint(self._block, b.x, b.mask, queries.x, queries.mask, use_reentrant=False) for b in blocks]
        else:
            nodes = [self._block(b.x, b.mask, queries.x, queries.mask) for b in blocks]
        nodes = torch.cat(nodes)  # b a q m
        return nodes if self.direction == "t2i" else nodes.transpose(0, 1)

    def _block(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> Float[Tensor, "b a q m"]:
        contexts, queries = EmbeddingSet(x, x_mask), EmbeddingSet(y, y_mask)
        weights = attend(contexts, queries, self.sharpness)[1]  # b c a q
        found = (weights.flatten(2).transpose(1, 2) @ real_rows(contexts)).view(len(x), *y.shape)  # b a q d
        return unit(found_difference(found, real_rows(queries), self.local.weight, self.local.bias))


class GraphReasoning(nn.Module):
    """SGR: nodes exchange what they know, N times, with weights of their own each time; node 0 is read in the end.

        E = softmax_rows((𝒩 W_q + b_q)(𝒩 W_k + b_k)ᵀ),   𝒩 ← ReLU(E 𝒩 W_r + b_r)

    There is no 1/√m. Without a global node the mean of the nodes is read. E needs one product with 𝒩 instead of two, because
    what b_k adds is the same for all nodes that a node looks at, and the softmax does not see it:

        E = softmax_rows((𝒩 A + a) 𝒩ᵀ),   A = W_q W_kᵀ,   a = b_q W_kᵀ

    and in the last step only the node that is read is computed. While training, blocks of images are recomputed
    in the backward pass where there are many, so that the insides of one block stand at a time.
    Shapes: nodes "i t n m", mask broadcast to "i t n" → "i t m". Source: SGRAF, eq. 7–9.
    """

    def __init__(self, m: int, steps: int = 3, with_global: bool = True):
        super().__init__()
        if steps < 1:
            raise BadInput(f"graph reasoning needs at least 1 step, got {steps}. SGRAF uses 3.")
        self.steps = nn.ModuleList(nn.ModuleDict({k: linear(m, m) for k in ("query", "key", "graph")}) for _ in range(steps))
        self.with_global = with_global

    def forward(self, nodes: Tensor, mask: Tensor) -> Tensor:
        size = max(1, _NODES // nodes[0].numel())
        masks = mask.split(size) if len(mask) > 1 else [mask] * len(nodes)
        blocks = zip(nodes.split(size), masks, strict=False)
        if torch.is_grad_enabled() and nodes.numel() > _KEPT_NODES:
            return torch.cat([checkpoint(self._read, *block, use_reentrant=False) for block in blocks])
        return torch.cat([self._read(*block) for block in blocks])

    def _read(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t m"]:
        *before, last = self.steps
        for step in before:
            nodes = self._step(step, nodes, nodes, mask)
        if self.with_global:
            return self._step(last, nodes[..., :1, :], nodes, mask)[..., 0, :]
        return masked_mean(self._step(last, nodes, nodes, mask), mask[..., None], dim=-2)

    @staticmethod
    def _step(step: nn.ModuleDict, asking: Tensor, nodes: Tensor, mask: Tensor) -> Tensor:
        """The nodes that ask, after they have looked at all nodes."""
        query, key = step["query"], step["key"]
        looks = nn.functional.linear(asking, key.weight.T @ query.weight, query.bias @ key.weight)
        looks = looks @ nodes.transpose(-1, -2)
        if torch.is_grad_enabled():
            return step["graph"](masked_softmax(looks, mask[..., None, :]) @ nodes).relu()
        if not mask.all():
            looks = looks.masked_fill(~mask[..., None, :], torch.finfo(looks.dtype).min)
        return step["graph"](looks.softmax(-1) @ nodes).relu_()

    def after_steps(self, nodes: Tensor, mask: Tensor) -> list[Float[Tensor, "i t n m"]]:
        """The nodes after each step, for pictures."""
        out = []
        for step in self.steps:
            nodes = self._step(step, nodes, nodes, mask)
            out.append(nodes)
        return out


class Sgraf(nn.Module):
    """Nodes, a reasoner over them, and a logistic score: s = σ(w · reasoned + b) in (0, 1).

    Args: reasoner: 'sgr' (graph reasoning over `steps`), 'saf' (attention filtration) or 'mean' (mean over nodes of the
        logistic score of each, Table 4 "AA"). The others are those of SimilarityNodes.
    Shapes: images "i 1+k d", captions "t 1+l d", row 0 the whole → "i t", larger is more alike.
    Source: Diao et al., AAAI 2021 (SGRAF). Captions go through in one batch; the authors take them one at a time.
    """

    own_blocks = True  # see retrieval.scores

    def __init__(
        self,
        d: int,
        reasoner: str = "sgr",
        m: int = 256,
        steps: int = 3,
        direction: str = "t2i",
        parts: str = "both",
        sharpness: float = 9.0,
    ):
        super().__init__()
        self.nodes = SimilarityNodes(d, m, direction, parts, sharpness)
        made = {
            "sgr": lambda: GraphReasoning(m, steps, with_global=parts != "local"),
            "saf": lambda: Filtration(m),
            "mean": lambda: Average(),
        }
        if reasoner not in made:
            raise unknown("reasoner", reasoner, REASONERS)
        self.reasoner, self.score = made[reasoner](), linear(m, 1)

    def forward(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
        with torch.autocast(images.x.device.type, enabled=False):
            return by_length(partial(scored, self.nodes, self._score), images, captions)

    def _score(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t"]:
        if isinstance(self.reasoner, Average):
            return self.reasoner(self.score(nodes).sigmoid(), mask).squeeze(-1)
        return self.score(self.reasoner(nodes, mask)).squeeze(-1).sigmoid()


def scored(nodes: SimilarityNodes, score: Callable, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "... i t"]:
    """score(nodes, mask) "… i t" of all pairs; without gradients block by block. In training the statistics of a batch are needed whole."""
    if torch.is_grad_enabled() or nodes.training:
        return score(*nodes(images, captions))
    out = None
    for i, t, some, mask in nodes.blocks(images, captions):
        found = score(some, mask)
        out = found.new_empty(*found.shape[:-2], len(images), len(captions)) if out is None else out
        out[..., i, t] = found
    return out


def _tokens(s: EmbeddingSet) -> EmbeddingSet:
    """Without row 0, the whole."""
    return EmbeddingSet(s.x[:, 1:], s.mask[:, 1:])


def _compare(layer: nn.Linear, x: Tensor, y: Tensor) -> Tensor:
    return unit(layer((x - y).square()))
