"""SGRAF trained jointly: graph reasoning and filtration read the same nodes, and each has a score of its own."""

import torch
from jaxtyping import Float
from torch import Tensor

from xmr_core.base.plain_tensors import Comparable
from xmr_core.similarities.filtration import Filtration, linear
from xmr_core.similarities.graph_reasoning import GraphReasoning
from xmr_core.similarities.sgraf import GraphSimilarity


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
        self.score_reasoning, self.score_filtration = linear(m, 1), linear(m, 1)

    def forward(
        self, images: Comparable, captions: Comparable, image_mask=None, caption_mask=None
    ) -> Float[Tensor, "i t"]:
        return torch.stack(_both(self._plain(images, captions, image_mask, caption_mask))).mean(0)

    def scorings(self, images: Comparable, captions: Comparable) -> list[Float[Tensor, "i t"]]:
        """[s_SGR, s_SAF], each in (0, 1)."""
        return _both(self._plain(images, captions))

    def _fast_scores(self, images, captions):
        scores = self._fast(images, captions)
        return None if scores is None else torch.stack(_both(scores)).mean(0)

    def _read(self, nodes: Tensor, mask: Tensor, fast: bool = False) -> Float[Tensor, "2 i t"]:
        readers = ((self.score_reasoning, self.reasoning), (self.score_filtration, self.filtration))
        return torch.stack(
            [
                logistic(r.score(nodes, mask) if fast else r(nodes, mask)).squeeze(-1).sigmoid()
                for logistic, r in readers
            ]
        )


def _both(scores: Float[Tensor, "... i t"]) -> list[Float[Tensor, "i t"]]:
    """The two matrices that were read; without a pair nothing was, and one empty matrix is as good as the other."""
    return list(scores) if scores.ndim == 3 else [scores, scores]
