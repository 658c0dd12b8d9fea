"""A pair of items as a small graph of similarity vectors (SGRAF)."""

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmr_core.base.checks import require_choice, require_number
from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities._kernels.attended_difference import attended_difference
from xmr_core.similarities._kernels.attention_gradient import by_blocks
from xmr_core.similarities._kernels.node_blocks import global_nodes, node_blocks
from xmr_core.similarities._kernels.node_gradient import local_nodes
from xmr_core.similarities.attend import attend, unit
from xmr_core.similarities.base import DIRECTIONS
from xmr_core.similarities.filtration import linear
from xmr_core.similarities.pairs import real_rows, same_width

PARTS = ("both", "local", "global")
_BLOCK = 2_000_000  # elements of an attended block: 8 MB in float32, so that several passes over it find it in a cache
_STORED = 16_000_000  # up to so many elements are stored for the backward pass; of more, blocks are computed twice


class SimilarityNodes(nn.Module):
    """Each pair as a graph: node 0 compares the two global vectors, node 1 + q compares query q with what it attended
    to.

        s(x, y) = l2(W (x − y)² + b);   node 0 = s_glo(v₀, t₀),   node 1+q = s_loc(q, l2(Σ_c attention_cq x_c))

    W differs between global and local nodes. l2(z) = z / (‖z‖ + 1e-8).

    Args: d: width of the tokens. m: width of a node. direction: the queries, words ('t2i') or regions ('i2t', Table 4).
        parts: 'both', or only 'local' or 'global' nodes (Table 3). sharpness: λ of the attention.
    Shapes: images "i 1+k d", captions "t 1+l d" (row 0 is the global vector: GlobalTokenHead) → nodes "i t n m", mask
        "1 t n" (t2i) or "i 1 n" (i2t). Memory: contexts are taken in blocks and recomputed in the backward pass where
        there are many, so that attended vectors of one block (8 MB in float32, and a few such intermediates) stand at a
        time beside the nodes.
    Raises: BadInput for an unknown direction or parts, m < 1, or a sharpness that is not positive; when called, for
        vectors of another width or precision than the weights.
    Source: Diao et al., AAAI 2021 (SGRAF), eq. 1–5; the attended vector is normalised in their code only
        (docs/differences.md#x-26).
    """

    def __init__(self, d: int, m: int = 256, direction: str = "t2i", parts: str = "both", sharpness: float = 9.0):
        super().__init__()
        require_choice("direction", direction, DIRECTIONS)
        require_choice("parts", parts, PARTS)
        require_number("sharpness", sharpness, above=0, hint="SGRAF uses 9.")
        if m < 1:
            raise BadInput(f"the width of a node must be at least 1, got {m}. SGRAF uses 256.")
        self.direction, self.parts, self.sharpness = direction, parts, sharpness
        self.local = linear(d, m) if parts != "global" else None
        self.global_linear = linear(d, m) if parts != "local" else None  # of the global nodes

    def forward(
        self, images: EmbeddingSet, captions: EmbeddingSet
    ) -> tuple[Float[Tensor, "i t n m"], Bool[Tensor, "..."]]:
        x, y = real_rows(images), real_rows(captions)
        same_width(x, y)
        self._require_fit(x)
        mask = (captions if self.direction == "t2i" else images).mask
        mask = {"both": mask, "local": mask[:, 1:], "global": mask[:, :1]}[self.parts]
        mask = mask[None] if self.direction == "t2i" else mask[:, None]
        first = None
        if self.global_linear is not None:
            first = unit(self.global_linear((x[:, None, 0] - y[None, :, 0]).square()))  # i t m
        return first[:, :, None] if self.local is None else self._with_local(first, images, captions), mask

    def score_blocks(
        self, images: EmbeddingSet, captions: EmbeddingSet
    ) -> Iterator[tuple[slice, slice, Tensor, Tensor]]:
        """(images, captions, their nodes, mask) for scoring: the same nodes, without gradients, few pairs at a time."""
        if self.local is None:
            yield slice(0, len(images)), slice(0, len(captions)), *self(images, captions)
            return
        x, y = real_rows(images), real_rows(captions)
        same_width(x, y)
        self._require_fit(x)
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        room = int(self.global_linear is not None)
        for context_rows, query_rows, nodes in node_blocks(contexts, queries, self.sharpness, self.local, room):
            i, t = self._roles(context_rows, query_rows)
            nodes = nodes if self.direction == "t2i" else nodes.transpose(0, 1)
            mask = self._roles(images.mask[i][:, None], captions.mask[t][None])[1]
            if self.global_linear is None:
                yield i, t, nodes, mask[..., 1:]
            else:
                nodes[:, :, 0] = global_nodes(x[i, 0], y[t, 0], self.global_linear)
                yield i, t, nodes, mask

    def scores(
        self, read: Callable[[Tensor, Tensor], Tensor], images: EmbeddingSet, captions: EmbeddingSet
    ) -> Float[Tensor, "... i t"]:
        """read(nodes, mask) "… i t" of all pairs, block by block, without gradients."""
        out = None
        for i, t, nodes, mask in self.score_blocks(images, captions):
            block = read(nodes, mask)
            out = block.new_empty(*block.shape[:-2], len(images), len(captions)) if out is None else out
            out[..., i, t] = block
        return out

    def attention(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t q c"]:
        """Which regions a word (t2i), or words a region (i2t), attended to; for visualisation."""
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        weights = attend(contexts, queries, self.sharpness)[1]  # b c a q
        return weights.permute(0, 2, 3, 1) if self.direction == "t2i" else weights.permute(2, 0, 3, 1)

    def _require_fit(self, x: Tensor) -> None:
        """Raise BadInput unless the elements have the width and the precision of the weights."""
        weight = (self.global_linear if self.local is None else self.local).weight
        if x.shape[-1] != weight.shape[1]:
            raise BadInput(f"vectors of width {weight.shape[1]} are compared here, got width {x.shape[-1]}.")
        if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
            raise BadInput(
                f"the vectors are {x.dtype} and the weights of the similarity {weight.dtype}; take "
                f"similarity.to({x.dtype}), or convert the vectors."
            )

    def _roles(self, images, captions) -> tuple:
        """(contexts, queries), or back."""
        return (images, captions) if self.direction == "t2i" else (captions, images)

    def _with_local(self, first: Tensor | None, images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
        """The global nodes, if any, and the local ones after them, "i t n m"."""
        contexts, queries = self._roles(_tokens(images), _tokens(captions))
        x, y = real_rows(contexts), real_rows(queries)
        if by_blocks(x, y, self.local.weight):
            first = first if first is None or self.direction == "t2i" else first.transpose(0, 1)
            nodes = local_nodes(contexts, queries, x, y, self.sharpness, self.local, first)
            return nodes if self.direction == "t2i" else nodes.transpose(0, 1)
        a, q, d = y.shape
        size = max(1, _BLOCK // (a * q * d))
        blocks = [contexts[start : start + size] for start in range(0, len(contexts), size)]
        if len(contexts) * a * q * d > _STORED:
            nodes = [checkpoint(self._block, b.x, b.mask, queries.x, queries.mask, use_reentrant=False) for b in blocks]
        else:
            nodes = [self._block(b.x, b.mask, queries.x, queries.mask) for b in blocks]
        nodes = torch.cat(nodes)  # b a q m
        nodes = nodes if self.direction == "t2i" else nodes.transpose(0, 1)
        return nodes if first is None else torch.cat([first[:, :, None], nodes], 2)

    def _block(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> Float[Tensor, "b a q m"]:
        contexts, queries = EmbeddingSet(x, x_mask), EmbeddingSet(y, y_mask)
        weights = attend(contexts, queries, self.sharpness)[1]  # b c a q
        attended = (weights.flatten(2).transpose(1, 2) @ real_rows(contexts)).view(len(x), *y.shape)  # b a q d
        return unit(attended_difference(attended, real_rows(queries), self.local.weight, self.local.bias))


def _tokens(s: EmbeddingSet) -> EmbeddingSet:
    """Without row 0, the global vector."""
    return EmbeddingSet(s.x[:, 1:], s.mask[:, 1:])
