"""Similarity graph reasoning and similarity attention filtration over the nodes of a pair (SGRAF)."""

import copy
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput
from xmr_core.base.plain_tensors import Comparable, as_sets
from xmr_core.similarities.base import Similarity
from xmr_core.similarities.filtration import Average, Filtration, linear
from xmr_core.similarities.graph_reasoning import GraphReasoning
from xmr_core.similarities.pairs import by_length
from xmr_core.similarities.similarity_nodes import SimilarityNodes

REASONERS = ("sgr", "saf", "mean")  # the method has 'joint' too: sgraf_joint.py


class GraphSimilarity(Similarity):
    """What Sgraf and JointSgraf share. A subclass reads scores "… i t" out of nodes in `_read(nodes, mask, fast)`."""

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
        if self.nodes.parts != "both":
            raise BadInput(
                f"{self.name} has {self.nodes.parts} nodes only; take parts='both' to compare the weights of nodes."
            )
        nodes, mask = self.nodes(*as_sets(images, captions))
        weights = {}
        for module in self.children():
            if isinstance(module, Filtration | GraphReasoning):
                weights["SAF" if isinstance(module, Filtration) else "SGR"] = module.weights(nodes, mask)
        if not weights:
            raise BadInput(f"{self.name} takes the mean of its nodes: all words count alike.")
        return weights

    def _plain(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None
    ) -> Float[Tensor, "... i t"]:
        images, captions = as_sets(images, captions, image_mask, caption_mask)
        with torch.autocast(images.x.device.type, enabled=False):
            return by_length(lambda x, y: self._read(*self.nodes(x, y)), images, captions)

    def _fast(self, images: Comparable, captions: Comparable) -> Float[Tensor, "... i t"] | None:
        """None in training mode, where the statistics of the batch are needed."""
        if self.training:
            return None
        images, captions = as_sets(images, captions)
        with torch.autocast(images.x.device.type, enabled=False):
            return by_length(
                partial(self.nodes.scores, partial(self._read, fast=True)), images, captions, split_equal=False
            )


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
        makers = {
            "sgr": lambda: GraphReasoning(m, steps, with_global=parts != "local"),
            "saf": lambda: Filtration(m),
            "mean": lambda: Average(),
        }
        self.reasoner = makers[reasoner]()
        self._modules["score"] = linear(m, 1)  # its name in the files of trained models; `score` itself is a method

    def forward(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None
    ) -> Float[Tensor, "i t"]:
        return self._plain(images, captions, image_mask, caption_mask)

    def _fast_scores(self, images, captions):
        return self._fast(images, captions)

    def _read(self, nodes: Tensor, mask: Tensor, fast: bool = False) -> Float[Tensor, "i t"]:
        logistic = self._modules["score"]
        if isinstance(self.reasoner, Average):
            return self.reasoner(logistic(nodes).sigmoid(), mask).squeeze(-1)
        reasoned = self.reasoner.score(nodes, mask) if fast else self.reasoner(nodes, mask)
        return logistic(reasoned).squeeze(-1).sigmoid()

    def _parts(self, x, y):
        if not isinstance(self.reasoner, Average):
            return None
        double = copy.deepcopy(self).cpu().double()
        nodes, _ = double.nodes(*as_sets(x[None], y[None]))
        terms = double._modules["score"](nodes).sigmoid().flatten()
        queries = terms.new_zeros(len(y if self.direction == "t2i" else x))
        rows = {"both": slice(None), "local": slice(1, None), "global": slice(0, 1)}[self.nodes.parts]
        queries[rows] = terms / len(terms)
        contexts = terms.new_zeros(len(x if self.direction == "t2i" else y))
        return (contexts, queries) if self.direction == "t2i" else (queries, contexts)
