"""Whether the uncertain end of a scale of uncertainty is the ambiguous one."""

import numpy as np
from jaxtyping import Float, Int

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.stats import image_draws


def end_rows(uncertain: Float[np.ndarray, " q"], share: float = 0.1) -> dict[str, Int[np.ndarray, " n"]]:
    """'certain' and 'uncertain' → positions of the most certain and of the most uncertain share of the queries, at
    least one of them; equal ones in file order.

    Raises: BadInput for no query, or a share outside (0, ½].

    >>> {end: rows.tolist() for end, rows in end_rows(np.array([0.3, 0.1, 0.2]), 0.4).items()}
    {'certain': [1], 'uncertain': [0]}
    """
    if not len(uncertain) or not 0 < share <= 0.5:
        raise BadInput(f"ends need queries and a share in (0, 0.5]; got {len(uncertain)} queries and {share}.")
    order, n = np.argsort(uncertain, kind="stable"), max(int(share * len(uncertain)), 1)
    return {"certain": order[:n], "uncertain": order[-n:]}


def ratio_of_ends(
    uncertain: Float[np.ndarray, " q"],
    right: Float[np.ndarray, " q"],
    images: Int[np.ndarray, " q"],
    share: float = 0.1,
    resamples: int = 1000,
    seed: int = 0,
) -> tuple[float, float, float]:
    """(ratio, low, high): how many times as many right answers the most uncertain queries have as the most certain
    ones, with its 95 % interval by resampling images. Which queries are at an end is not drawn anew.

    Args: right: right answers of each query, more than 0. images: position of the image of each.
    Raises: as end_rows.

    >>> ratio_of_ends(np.arange(20.0), np.r_[np.full(10, 4.0), np.ones(10)], np.arange(20))
    (0.25, 0.25, 0.25)
    """
    ids, draws = image_draws(np.asarray(images), resamples, seed)
    cluster, means, drawn = np.searchsorted(ids, images), {}, {}
    for end, rows in end_rows(uncertain, share).items():
        totals = np.bincount(cluster[rows], weights=right[rows], minlength=len(ids))
        counts = np.bincount(cluster[rows], minlength=len(ids))
        means[end] = float(np.mean(right[rows]))
        with np.errstate(invalid="ignore"):
            drawn[end] = (draws @ totals) / (draws @ counts)
    low, high = np.nanquantile(drawn["uncertain"] / drawn["certain"], [0.025, 0.975])
    return means["uncertain"] / means["certain"], float(low), float(high)
