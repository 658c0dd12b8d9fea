"""Several comparisons at once: Student intervals whose levels are Holm's, so that interval and corrected p agree."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.stats import holm

Values = Float[np.ndarray, " m"]


def holm_intervals(
    effects: Sequence[float],
    errors: Sequence[float],
    degrees: Sequence[int],
    bounds: Sequence[float] | float = 0.0,
    level: float = 0.95,
    unmeasured: int = 0,
) -> tuple[Values, Values, Values, Values]:
    """(low, high, p, corrected p) of m comparisons of one family.

        p_i = 2 F_ν(−|effect_i − bound_i| / error_i),   interval_i = effect_i ± error_i · t_ν(1 − a_i / 2)

    F_ν is Student's distribution with `degrees` ν. In the order of p, the r-th comparison (from 1) has
    a = (1 − level) / (m − r + 1) while all before it and itself are rejected by Holm's procedure; from the first that
    is not rejected on, all have its a. So the interval leaves out the bound exactly where the corrected p is at most
    1 − level.

    effects, errors: an estimate and its standard error. bounds: what each effect is tested against. unmeasured: how
    many comparisons of the family have no estimate yet; each counts among the m as if its p were 1, so that the
    correction cannot become harder when they are measured.
    Raises: BadInput for lengths that differ, an error below 0 or not a number, fewer than one degree of freedom, a
    level outside (0, 1), or a negative number of unmeasured ones.
    Source: Holm, Scandinavian Journal of Statistics, 1979.

    >>> low, high, p, corrected = holm_intervals([3.0, 0.5], [0.5, 0.5], [9, 9])
    >>> corrected.round(4).tolist(), (low > 0).tolist()
    ([0.0004, 0.3434], [True, False])
    """
    from scipy.special import stdtr, stdtrit  # takes a tenth of the time of torch to import

    effect, error, nu = (np.asarray(v, float) for v in (effects, errors, degrees))
    if not len(effect) == len(error) == len(nu):
        raise BadInput(f"as many effects as errors and degrees, got {len(effect)}, {len(error)} and {len(nu)}.")
    if not (error >= 0).all() or not (nu >= 1).all() or not 0 < level < 1:
        raise BadInput("errors must be 0 or more, degrees of freedom 1 or more, and the level between 0 and 1.")
    if unmeasured < 0:
        raise BadInput(f"the number of unmeasured comparisons must be 0 or more, got {unmeasured}.")
    away = np.abs(effect - np.broadcast_to(np.asarray(bounds, float), effect.shape))
    ratio = np.divide(away, error, out=np.where(away > 0, np.inf, 0.0), where=error > 0)
    p = np.minimum(2 * stdtr(nu, -ratio), 1.0)
    order, alpha, m = np.argsort(p, kind="stable"), 1 - level, len(p) + unmeasured
    each = np.empty(len(p))
    rejected = 0
    for place, n in enumerate(order):
        if place == rejected and p[n] <= alpha / (m - place):
            rejected += 1
            each[n] = alpha / (m - place)
        else:
            each[n] = alpha / (m - rejected)
    half = error * stdtrit(nu, 1 - each / 2)
    return effect - half, effect + half, p, holm([*p, *[1.0] * unmeasured])[: len(p)]
