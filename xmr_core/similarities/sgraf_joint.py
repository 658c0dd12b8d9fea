"""SGRAF trained jointly: graph reasoning and filtration read the same nodes, and each answers for itself."""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from xmr_core.base.types import EmbeddingSet
from xmr_core.similarities.filtration import Filtration, linear
from xmr_core.similarities.pairs import by_length
from xmr_core.similarities.sgraf import GraphReasoning, SimilarityNodes, scored


class JointSgraf(nn.Module):
    """s = ½ (s_SGR + s_SAF) over shared encoders and similarity vectors; in training the losses of both are added.

    Args and shapes: those of Sgraf. Source: Diao et al., AAAI 2021 (SGRAF), Table 5 "Joint" (no code by the authors, X-29);
    what the paper recommends, and calls SGRAF, is the mean of two models trained apart.
    """

    own_blocks = True  # see retrieval.scores

    def __init__(self, d: int, m: int = 256, steps: int = 3, direction: str = "t2i", parts: str = "both", sharpness: float = 9.0):
        super().__init__()
        self.nodes = SimilarityNodes(d, m, direction, parts, sharpness)
        self.reasoning, self.filtration = GraphReasoning(m, steps, with_global=parts != "local"), Filtration(m)
        self.score_reasoning, self.score_filtration = linear(m, 1), linear(m, 1)

    def forward(self, images: EmbeddingSet, captions: EmbeddingSet) -> Float[Tensor, "i t"]:
        return torch.stack(self.scorings(images, captions)).mean(0)

    def scorings(self, images: EmbeddingSet, captions: EmbeddingSet) -> list[Float[Tensor, "i t"]]:
        """[s_SGR, s_SAF], each in (0, 1)."""
        with torch.autocast(images.x.device.type, enabled=False):
            return list(by_length(partial(scored, self.nodes, self._both), images, captions))

    def _both(self, nodes: Tensor, mask: Tensor) -> Float[Tensor, "2 i t"]:
        read = ((self.score_reasoning, self.reasoning), (self.score_filtration, self.filtration))
        return torch.stack([score(reasoner(nodes, mask)).squeeze(-1).sigmoid() for score, reasoner in read])
