"""What single elements of a set are worth: retrieval with some of them left out, without training again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet
from xmr_core.evaluation.evaluate import evaluate


def keep_elements(sets: EmbeddingSet, kept: Sequence[int]) -> EmbeddingSet:
    """The elements with these numbers only, in this order; means then run over the remaining ones.

    Shapes: "n k d" → "n len(kept) d"; residual and attention follow. Raises: BadInput for no number, a repeated one, or one
    outside 0 … k − 1.
    """
    k = sets.x.shape[1]
    if not kept or len(set(kept)) != len(kept) or not all(0 <= e < k for e in kept):
        raise BadInput(f"elements are numbered 0 to {k - 1}, each at most once and at least one of them; got {list(kept)}.")
    at = torch.as_tensor(list(kept), device=sets.x.device)
    pick = lambda t: None if t is None else t[:, at]  # noqa: E731
    return replace(sets, x=sets.x[:, at], mask=sets.mask[:, at], residual=pick(sets.residual), attention=pick(sets.attention))


def element_ablation(
    similarity: Callable, images: EmbeddingSet, captions: EmbeddingSet, relevances: Mapping[str, Relevance]
) -> pd.DataFrame:
    """RSUM with one element alone, and with one left out, on one side at a time.

    Returns: rows side ('both', 'images', 'captions'), kept ('all', 'only 0', 'without 0', …), relevance, rsum in percent
    (0 … 600); the first rows are the whole sets. A side of one element has no rows of its own.
    Raises: BadInput for representations without several elements; as evaluate.
    Source: Kim, Kim & Kwak, CVPR 2023 (DivE), Table 5; METHODS §9.4.
    """
    sides = {"images": images, "captions": captions}
    if not all(isinstance(s, EmbeddingSet) for s in sides.values()) or max(s.x.shape[1] for s in sides.values()) < 2:
        raise BadInput("only a method with several elements per item has elements to leave out; train dive or pvse with slots ≥ 2.")
    rows = []

    def measure(side: str, kept: str, i: EmbeddingSet, t: EmbeddingSet) -> None:
        summary = evaluate(similarity, i, t, relevances).summary()
        for _, line in summary[summary["metric"] == "rsum"].iterrows():
            rows.append({"side": side, "kept": kept, "relevance": line["relevance"], "rsum": 100 * line["value"]})

    measure("both", "all", images, captions)
    for side, sets in sides.items():
        k = sets.x.shape[1]
        choices = {f"only {e}": [e] for e in range(k)} | {f"without {e}": [f for f in range(k) if f != e] for e in range(k)}
        for kept, elements in choices.items() if k > 1 else ():
            part = {**sides, side: keep_elements(sets, elements)}
            measure(side, kept, part["images"], part["captions"])
    return pd.DataFrame(rows)
