"""SGRAF: a pair as a graph of similarity vectors, read by graph reasoning, by attention filtration, or by both."""

import copy
import itertools
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from xmr_core.base import tensors
from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.tensors import ANY_LENGTH, Comparable, as_sets, masked_mean, masked_softmax, xavier
from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.base import DIRECTIONS, Similarity, roles
from xmr_core.similarities.kernels import sgraf as kernels
from xmr_core.similarities.kernels.attention import by_blocks
from xmr_core.similarities.pairs import EPS, attend, bucket_by_length, real_rows, unit
from xmr_core.similarities.scan import scan_attention


class Filtration(nn.Module):
    """SAF: nodes weighted by how much they can be trusted.

        β = sigmoid(BN₁(𝒩 w_f + b)),   β ← β / (Σ|β| + 1e-8),   out = l2(Σ_n β_n 𝒩_n)

    BN₁ is BatchNorm with one channel. While training its statistics are those of one caption: over all images of the
    batch and all nodes of the pair; the running statistics follow caption after caption, as in the authors'
    loop, short captions before long ones where there are many.
    Shapes: nodes "i t n m", mask broadcast to "i t n" → "i t m". Source: SGRAF, eq. 9; the last l2 is in their code
    only (docs/differences.md#x-28).
    """

    def __init__(self, m: int):
        super().__init__()
        self.weigh, self.norm = xavier(nn.Linear(m, 1)), nn.BatchNorm1d(1)

    def forward(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        if by_blocks(nodes, *(self.parameters() if self.training else ())):
            trust = partial(self._trust, mask=mask)
            return unit(
                kernels.Filtered.apply(nodes, self.weigh.weight[0], self.weigh.bias[0], trust, *self.norm.parameters())
            )
        return unit((self.weights(nodes, mask)[..., None, :] @ nodes).squeeze(-2))

    def weights(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t n"]:
        """β: what each word (node 0: the global vectors) counts in a pair, for visualisation; 0 on padding."""
        return self._trust(self.weigh(nodes).squeeze(-1), mask)

    def _trust(self, values: Float[Tensor, "i t n"], mask: Tensor) -> Float[Tensor, "i t n"]:
        """β from 𝒩 w_f + b."""
        bn, mean, variance = self.norm, self.norm.running_mean, self.norm.running_var
        if self.training:
            valid = mask.expand_as(values)
            count = valid.sum((0, 2))  # per caption
            mean = torch.where(valid, values, 0.0).sum((0, 2)) / count
            variance = torch.where(valid, values - mean[None, :, None], 0.0).square().sum((0, 2)) / count
            self._follow(mean.detach(), variance.detach() * count / (count - 1).clamp(min=1))
            mean, variance = mean[None, :, None], variance[None, :, None]
        normalised = (values - mean) / (variance + bn.eps).sqrt() * bn.weight + bn.bias
        trust = torch.where(mask, normalised.sigmoid(), 0.0)
        return trust / (trust.sum(-1, keepdim=True) + EPS)

    def _follow(self, means: Float[Tensor, " t"], variances: Float[Tensor, " t"]) -> None:
        """t updates r ← (1 − μ) r + μ s in closed form: earlier captions have been damped more often."""
        bn, t = self.norm, len(means)
        damped = (1 - bn.momentum) ** torch.arange(t, -1, -1, device=means.device, dtype=means.dtype)
        for running, new in ((bn.running_mean, means), (bn.running_var, variances)):
            running.copy_(damped[0] * running + bn.momentum * (damped[1:] * new).sum())
        bn.num_batches_tracked += t


class Average(nn.Module):
    """The mean over real nodes: of similarity vectors, or of the logistic score of each (SGRAF, Table 4, "AA")."""

    def forward(self, nodes: Float[Tensor, "i t n m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        return masked_mean(nodes, mask[..., None], dim=-2)


# Similarity graph reasoning: the nodes of a pair exchange what they know (SGRAF).


_BLOCK = 1_000_000  # elements of the nodes that reason at a time; a step makes about five arrays of that size
_STORED = 4_000_000  # up to so many elements are stored for the backward pass; of more, blocks are computed twice


class GraphReasoning(nn.Module):
    """SGR: nodes exchange what they know, N times, with weights of their own each time; node 0 is read in the end.

        E = softmax_rows((𝒩 W_q + b_q)(𝒩 W_k + b_k)ᵀ),   𝒩 ← ReLU(E 𝒩 W_r + b_r)

    There is no 1/√m. Without a global node the mean of the nodes is read. E needs one product with 𝒩 instead of two,
    because what b_k adds is the same for all nodes that a node attends to, and the softmax does not see it:

        E = softmax_rows((𝒩 A + a) 𝒩ᵀ),   A = W_q W_kᵀ,   a = b_q W_kᵀ

    In the last step only the node that is read is computed. Blocks of images are recomputed in the backward pass where
    there are many, so that the intermediates of one block stand at a time.
    Shapes: nodes "i t n m", mask broadcast to "i t n" → "i t m". Source: SGRAF, eq. 6–8.
    """

    def __init__(self, m: int, steps: int = 3, with_global: bool = True):
        super().__init__()
        require_number("steps", steps, low=1, hint="SGRAF uses 3.")
        self.steps = nn.ModuleList(
            nn.ModuleDict({k: xavier(nn.Linear(m, m)) for k in ("query", "key", "graph")}) for _ in range(steps)
        )
        self.with_global = with_global

    def forward(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t m"]:
        if by_blocks(nodes, *(self.parameters() if self.training else ())):
            rows = 1 if self.with_global else nodes.shape[2]
            weights = [w for layers in self.steps for w in (*_query_weights(layers), *layers["graph"].parameters())]
            return self._mean(kernels.Reasoning.apply(nodes, mask, rows, *weights), mask)
        size = max(1, _BLOCK // nodes[0].numel())
        masks = mask.split(size) if len(mask) > 1 else itertools.repeat(mask)
        many = nodes.requires_grad and nodes.numel() > _STORED
        return torch.cat([_computed(self._read, many, *block) for block in zip(nodes.split(size), masks, strict=False)])

    def after_steps(self, nodes: Tensor, mask: Tensor) -> list[Float[Tensor, "i t n m"]]:
        """The nodes after each step, for visualisation."""
        return [nodes := _step(layers, nodes, nodes, mask) for layers in self.steps]

    def weights(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t n"]:
        """How much node 0 attends to each node in the last step: row 0 of E there. Rows sum to 1, padding is 0."""
        if len(self.steps) > 1:
            nodes = self.after_steps(nodes, mask)[-2]
        last = self.steps[-1]
        queries, keys = last["query"](nodes[..., :1, :]), last["key"](nodes)
        return masked_softmax((queries @ keys.transpose(-1, -2))[..., 0, :], mask)

    def _read(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t m"]:
        *first, last = self.steps
        for layers in first:
            nodes = _step(layers, nodes, nodes, mask)
        return self._mean(_step(last, nodes[..., :1, :] if self.with_global else nodes, nodes, mask), mask)

    def _mean(self, nodes: Float[Tensor, "i t r m"], mask: Tensor) -> Float[Tensor, "i t m"]:
        return nodes[..., 0, :] if self.with_global else masked_mean(nodes, mask[..., None], dim=-2)


def _computed(function: Callable, again: bool, *arguments: Tensor) -> Tensor:
    """function(*arguments); again: its intermediates are not stored, but computed again in the backward pass."""
    if not again:
        return function(*arguments)
    # the backward pass has a thread of its own, where numbers would be checked again
    mode = nullcontext if tensors.may_branch(*arguments) else tensors.unchecked
    return checkpoint(function, *arguments, use_reentrant=False, context_fn=lambda: (nullcontext(), mode()))


def _step(layers: nn.ModuleDict, queries: Tensor, nodes: Tensor, mask: Tensor) -> Tensor:
    """The query nodes, after they have attended to all nodes."""
    logits = nn.functional.linear(queries, *_query_weights(layers)) @ nodes.transpose(-1, -2)
    if not (tensors.may_branch(mask) and mask.all()):
        logits = logits.masked_fill(~mask[..., None, :], torch.finfo(logits.dtype).min)
    return layers["graph"](logits.softmax(-1) @ nodes).relu_()


def _query_weights(layers: nn.ModuleDict) -> tuple[Float[Tensor, "m m"], Float[Tensor, " m"]]:
    """Aᵀ and a of the docstring of GraphReasoning."""
    query, key = layers["query"], layers["key"]
    return key.weight.T @ query.weight, query.bias @ key.weight


PARTS = ("both", "local", "global")  # nodes of the graph of similarity vectors of a pair
_ATTENDED_BLOCK = 2_000_000  # elements of an attended block: 8 MB in float32, which stay in a cache over several passes
_ATTENDED_STORED = 16_000_000  # up to so many are stored for the backward pass; of more, blocks are computed twice


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
        require_number("m", m, low=1, hint="SGRAF uses 256.")
        self.direction, self.parts, self.sharpness = direction, parts, sharpness
        self.local = xavier(nn.Linear(d, m)) if parts != "global" else None
        self.global_linear = xavier(nn.Linear(d, m)) if parts != "local" else None  # of the global nodes

    def forward(
        self, images: EmbeddingSet, captions: EmbeddingSet
    ) -> tuple[Float[Tensor, "i t n m"], Bool[Tensor, "..."]]:
        x, y = real_rows(images), real_rows(captions)
        mask = (captions if self.direction == "t2i" else images).mask
        mask = {"both": mask, "local": mask[:, 1:], "global": mask[:, :1]}[self.parts]
        mask = mask[None] if self.direction == "t2i" else mask[:, None]
        first = None if self.global_linear is None else self._global(x[:, 0], y[:, 0])
        return first[:, :, None] if self.local is None else self._with_local(first, images, captions), mask

    def scores(
        self, read: Callable[[Tensor, Tensor], Tensor], images: EmbeddingSet, captions: EmbeddingSet
    ) -> Float[Tensor, "... i t"]:
        """read(nodes, mask) "… i t" of all pairs, without gradients: the same nodes, few pairs at a time."""
        if self.local is None:
            return read(*self(images, captions))
        x, y = real_rows(images), real_rows(captions)
        room, out = int(self.global_linear is not None), None
        sets = roles(_tokens(images), _tokens(captions), self.direction)
        for *rows, nodes in kernels.node_blocks(*sets, self.sharpness, self.local, room):
            i, t = roles(*rows, self.direction)
            nodes = nodes if self.direction == "t2i" else nodes.transpose(0, 1)
            mask = roles(images.mask[i][:, None], captions.mask[t][None], self.direction)[1]
            if room:
                nodes[:, :, 0] = self._global(x[i, 0], y[t, 0])
            block = read(nodes, mask if room else mask[..., 1:])
            out = block.new_empty(*block.shape[:-2], len(images), len(captions)) if out is None else out
            out[..., i, t] = block
        return out

    def attention(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t q c"]:
        """Which regions a word (t2i), or words a region (i2t), attended to; for visualisation."""
        return scan_attention(_tokens(images), _tokens(captions), self.direction, self.sharpness)

    def _global(self, x: Float[Tensor, "i d"], y: Float[Tensor, "t d"]) -> Float[Tensor, "i t m"]:
        return unit(self.global_linear((x[:, None] - y[None]).square()))

    def _with_local(self, first: Tensor | None, images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
        """The global nodes, if any, and the local ones after them, "i t n m"."""
        contexts, queries = roles(_tokens(images), _tokens(captions), self.direction)
        x, y = real_rows(contexts), real_rows(queries)
        if by_blocks(x, y, self.local.weight):
            first = first if first is None or self.direction == "t2i" else first.transpose(0, 1)
            nodes = kernels.local_nodes(contexts, queries, self.sharpness, self.local, first)
            return nodes if self.direction == "t2i" else nodes.transpose(0, 1)
        a, q, d = y.shape
        size = max(1, _ATTENDED_BLOCK // (a * q * d))
        blocks = zip(contexts.x.split(size), contexts.mask.split(size), strict=True)
        many = len(contexts) * a * q * d > _ATTENDED_STORED
        nodes = torch.cat([_computed(self._block, many, *block, queries.x, queries.mask) for block in blocks])
        nodes = nodes if self.direction == "t2i" else nodes.transpose(0, 1)
        return nodes if first is None else torch.cat([first[:, :, None], nodes], 2)

    def _block(self, x: Tensor, x_mask: Tensor, y: Tensor, y_mask: Tensor) -> Float[Tensor, "b a q m"]:
        contexts, queries = EmbeddingSet(x, x_mask), EmbeddingSet(y, y_mask)
        weights = attend(contexts, queries, self.sharpness)[1]  # b c a q
        attended = (weights.flatten(2).transpose(1, 2) @ real_rows(contexts)).view(len(x), *y.shape)  # b a q d
        return unit(kernels.AttendedDifference.apply(attended, real_rows(queries), *self.local.parameters())[0])


def _tokens(s: EmbeddingSet) -> EmbeddingSet:
    """Without row 0, the global vector."""
    return EmbeddingSet(s.x[:, 1:], s.mask[:, 1:])


# Similarity graph reasoning and similarity attention filtration over the nodes of a pair (SGRAF).


REASONERS = ("sgr", "saf", "mean")  # the method has 'joint' too: JointSgraf


class GraphSimilarity(Similarity):
    """What Sgraf and JointSgraf share. A subclass reads scores "… i t" out of nodes in `_read(nodes, mask)`."""

    block_scale, compares = 8, "graphs"

    def __init__(self, d: int, m: int, direction: str, parts: str, sharpness: float):
        super().__init__()
        self.nodes = SimilarityNodes(d, m, direction, parts, sharpness)
        self.direction = direction

    def attention(self, images: Comparable, captions: Comparable) -> Float[Tensor, "i t q c"]:
        return self.nodes.attention(*as_sets(images, captions))

    def element_weights(self, images: Comparable, captions: Comparable) -> dict[str, Float[Tensor, "i t n"]]:
        """'SAF': its β. 'SGR': how much the node that is read attends to each node in the last step.

        Node 0 is the two global vectors, node 1 + q query q; rows sum to 1, padding is 0.
        Raises: BadInput without global nodes, without local ones, or where the mean of the nodes is taken.
        Source: Diao et al., AAAI 2021 (SGRAF), eq. 6–9.
        """
        nodes, mask = self.nodes(*as_sets(images, captions))
        names = {Filtration: "SAF", GraphReasoning: "SGR"}
        weights = {names[type(m)]: m.weights(nodes, mask) for m in self.children() if type(m) in names}
        if not weights or self.nodes.parts != "both":
            raise BadInput(f"{self.name} has no weights of nodes to compare; take parts='both' with SAF or SGR.")
        return weights

    def forward(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None
    ) -> Float[Tensor, "i t"]:
        return self._joined(self._plain(*as_sets(images, captions, image_mask, caption_mask)))

    def _plain(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "... i t"]:
        with torch.autocast(images.x.device.type, enabled=False):
            return bucket_by_length(lambda x, y: self._read(*self.nodes(x, y)), images, captions)

    def _fast_scores(self, images, captions):
        if self.training:  # the statistics of the batch are needed
            return None
        images, captions = as_sets(images, captions, normalise=ANY_LENGTH)
        with torch.autocast(images.x.device.type, enabled=False):
            score = partial(self.nodes.scores, self._read)
            return self._joined(bucket_by_length(score, images, captions, split_equal=False))

    @staticmethod
    def _joined(scores: Float[Tensor, "... i t"]) -> Float[Tensor, "i t"]:
        return scores.mean(0) if scores.ndim == 3 else scores


class Sgraf(GraphSimilarity):
    """Nodes, a reasoner over them, and a logistic score: s = sigmoid(w · reasoned + b) in (0, 1).

    Args: reasoner: 'sgr' (graph reasoning over `steps`), 'saf' (attention filtration) or 'mean' (mean over nodes of the
        logistic score of each, Table 4 "AA"). The others are those of SimilarityNodes.
    Shapes: images "i 1+k d", captions "t 1+l d", row 0 the global vector → "i t", larger is more alike.
    Contributions: of 'mean' each node's own term, to its query element (node 0: to row 0 of the modality that asks).
    Raises: BadInput for an unknown reasoner, and as SimilarityNodes and GraphReasoning.
    Source: Diao et al., AAAI 2021 (SGRAF). Captions go through in one batch; the authors take them one at a time.

    >>> import torch
    >>> Sgraf(d=4, reasoner="saf", m=3).eval().score(torch.eye(4)[None], torch.eye(4)[None]).shape
    torch.Size([1, 1])
    """

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
        super().__init__(d, m, direction, parts, sharpness)
        require_choice("reasoner", reasoner, REASONERS)
        if reasoner == "sgr":
            self.reasoner = GraphReasoning(m, steps, with_global=parts != "local")
        else:
            self.reasoner = Filtration(m) if reasoner == "saf" else Average()
        self._modules["score"] = xavier(
            nn.Linear(m, 1)
        )  # its name in the files of trained models; `score` itself is a method

    def _read(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "i t"]:
        logistic = self._modules["score"]
        if isinstance(self.reasoner, Average):
            return self.reasoner(logistic(nodes).sigmoid(), mask).squeeze(-1)
        return logistic(self.reasoner(nodes, mask)).squeeze(-1).sigmoid()

    def _parts(self, x, y):
        if not isinstance(self.reasoner, Average):
            return None
        double = copy.deepcopy(self).cpu().double()
        nodes, _ = double.nodes(*as_sets(x[None], y[None]))
        terms = double._modules["score"](nodes).sigmoid().flatten()
        contexts, queries = (terms.new_zeros(len(each)) for each in roles(x, y, self.direction))
        rows = {"both": slice(None), "local": slice(1, None), "global": slice(0, 1)}[self.nodes.parts]
        queries[rows] = terms / len(terms)
        return roles(contexts, queries, self.direction)


# SGRAF trained jointly: graph reasoning and filtration read the same nodes, and each has a score of its own.


class JointSgraf(GraphSimilarity):
    """s = ½ (s_SGR + s_SAF) over shared encoders and similarity vectors; in training the losses of both are added.

    Args and shapes: those of Sgraf. Source: Diao et al., AAAI 2021 (SGRAF), Table 5 "Joint" (no code by the authors,
    docs/differences.md#x-29); what the paper recommends, and calls SGRAF, is the mean of two models trained apart.

    >>> import torch
    >>> len(JointSgraf(d=4, m=3).scorings(torch.rand(2, 3, 4), torch.rand(2, 3, 4)))
    2
    """

    def __init__(
        self, d: int, m: int = 256, steps: int = 3, direction: str = "t2i", parts: str = "both", sharpness: float = 9.0
    ):
        super().__init__(d, m, direction, parts, sharpness)
        self.reasoning, self.filtration = GraphReasoning(m, steps, with_global=parts != "local"), Filtration(m)
        self.score_reasoning, self.score_filtration = xavier(nn.Linear(m, 1)), xavier(nn.Linear(m, 1))

    def scorings(self, images: Comparable, captions: Comparable) -> list[Float[Tensor, "i t"]]:
        """[s_SGR, s_SAF], each in (0, 1); without a pair one empty matrix is as good as the other."""
        scores = self._plain(*as_sets(images, captions))
        return list(scores) if scores.ndim == 3 else [scores, scores]

    def _read(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "2 i t"]:
        readers = ((self.score_reasoning, self.reasoning), (self.score_filtration, self.filtration))
        return torch.stack([logistic(read(nodes, mask)).squeeze(-1).sigmoid() for logistic, read in readers])
