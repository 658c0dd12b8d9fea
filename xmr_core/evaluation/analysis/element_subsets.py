"""What single elements of a set contribute: retrieval with some of them left out, without training again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet
from xmr_core.evaluation.evaluate import evaluate


def keep_elements(sets: EmbeddingSet, numbers: Sequence[int]) -> EmbeddingSet:
    """The elements with these numbers only, in this order; means then run over the remaining ones.

    Shapes: "n k d" → "n len(numbers) d"; residual and attention follow.
    Raises: BadInput for no number, a repeated one, or one outside 0 … k − 1.

    >>> sets = EmbeddingSet(torch.zeros(5, 4, 8), torch.ones(5, 4, dtype=torch.bool))
    >>> keep_elements(sets, [2, 0]).x.shape
    torch.Size([5, 2, 8])
    """
    k = sets.x.shape[1]
    if not numbers or len(set(numbers)) != len(numbers) or not all(0 <= e < k for e in numbers):
        raise BadInput(
            f"elements are numbered 0 to {k - 1}, each at most once and at least one of them; got {list(numbers)}."
        )
    index = torch.as_tensor(list(numbers), device=sets.x.device)
    fields = {name: getattr(sets, name) for name in ("x", "mask", "residual", "attention")}
    return replace(sets, **{name: None if tensor is None else tensor[:, index] for name, tensor in fields.items()})


def element_ablation(
    similarity: Callable, images: EmbeddingSet, captions: EmbeddingSet, relevances: Mapping[str, Relevance]
) -> pd.DataFrame:
    """RSUM with one element alone and with one left out, of one modality at a time.

    Returns: columns side ('both', 'images', 'captions'), kept ('all', 'only 0', 'without 0', …), relevance, rsum in
        percent (0 … 600). The first rows are those of all elements. A modality with one element has no rows of its own.
    Raises: BadInput for representations without several elements; as evaluate.
    Source: DivE (Kim et al., CVPR 2023), Table 5.

    >>> from xmr_core.similarities import chamfer
    >>> sets = EmbeddingSet(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2, dtype=torch.bool))
    >>> own = Relevance.from_positions([0, 1], [0, 1], range(2), range(2))
    >>> element_ablation(chamfer, sets, sets, {"annotated": own})["rsum"].tolist()[0]
    600.0
    """
    modalities = {"images": images, "captions": captions}
    sizes = [s.x.shape[1] if isinstance(s, EmbeddingSet) else 0 for s in (images, captions)]
    if not min(sizes) or max(sizes) < 2:
        raise BadInput(
            "only a method with several elements per item has elements to leave out; train dive or pvse with slots ≥ 2."
        )
    cases = [("both", "all", None)]
    for modality, sets in modalities.items():
        k = sets.x.shape[1] if sets.x.shape[1] > 1 else 0
        choices = {f"only {e}": [e] for e in range(k)}
        choices |= {f"without {e}": [f for f in range(k) if f != e] for e in range(k)}
        cases += [(modality, name, numbers) for name, numbers in choices.items()]
    rows = []
    for modality, name, numbers in cases:
        parts = modalities | ({} if numbers is None else {modality: keep_elements(modalities[modality], numbers)})
        summary = evaluate(similarity, *parts.values(), relevances).summary()
        for line in summary[summary["metric"] == "rsum"].itertuples():
            rows.append({"side": modality, "kept": name, "relevance": line.relevance, "rsum": 100 * line.value})
    return pd.DataFrame(rows)


def numbers_from_one(names: pd.Series) -> pd.Series:
    """Names of element_ablation with elements counted from 1, as figures and texts count them.

    >>> numbers_from_one(pd.Series(["all", "only 0", "without 11"])).tolist()
    ['all', 'only 1', 'without 12']
    """
    return names.str.replace(r"\d+", lambda number: str(int(number[0]) + 1), regex=True)


def weakest_elements(table: pd.DataFrame) -> pd.DataFrame:
    """For each modality and relevance the element that retrieves worst alone, and what is lost without it.

    table: of element_ablation. Returns: columns side, relevance, element, alone (its own RSUM), gain (RSUM of all minus
    that of all but it; positive where the set is better with it).
    Source: DivE, Table 5, whose second image element is nearly useless alone and not in company.

    >>> lines = [("both", "all", 500.8), ("images", "only 0", 491.1), ("images", "only 1", 309.6)]
    >>> lines += [("images", "without 0", 309.6), ("images", "without 1", 491.1)]
    >>> table = pd.DataFrame(lines, columns=["side", "kept", "rsum"]).assign(relevance="annotated")
    >>> weakest_elements(table)[["element", "alone", "gain"]].round(1).to_dict("records")
    [{'element': 1, 'alone': 309.6, 'gain': 9.7}]
    """
    lines = []
    for relevance, part in table.groupby("relevance", sort=False):
        rsum = part.set_index(["side", "kept"])["rsum"]
        for modality in dict.fromkeys(part.loc[part["side"] != "both", "side"]):
            alone = rsum[modality][[name for name in rsum[modality].index if name.startswith("only ")]]
            element = int(alone.idxmin().removeprefix("only "))
            gain = rsum["both", "all"] - rsum[modality, f"without {element}"]
            lines.append((modality, relevance, element, alone.min(), gain))
    return pd.DataFrame(lines, columns=["side", "relevance", "element", "alone", "gain"])
