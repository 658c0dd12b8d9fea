"""How time grows with size: the slope of a straight line through log size and log seconds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from xmr_core.base.errors import BadInput

LEAST_SIZES = 3


class Exponent(NamedTuple):
    """seconds ≈ e^shift · size^value; low and high bound value in 95 % of cases if the scatter about the line is normal."""

    value: float
    low: float
    high: float
    shift: float


def fit_exponent(sizes: Sequence[float], seconds: Sequence[float], level: float = 0.95) -> Exponent:
    """Least squares on logarithms, with the Student interval of the slope.

    sizes, seconds: one each per measurement; sizes may repeat. An exponent below that of the count means that small sizes pay a
    fixed price (starting a kernel) which large ones do not notice.
    Raises: BadInput for two lengths, fewer than 3 different sizes, a value that is not positive and finite, or a level outside (0, 1).
    """
    x, y = np.asarray(sizes, float), np.asarray(seconds, float)
    if x.ndim != 1 or x.shape != y.shape:
        raise BadInput(f"an exponent needs as many seconds as sizes, got {x.size} sizes and {y.size} seconds.")
    for name, values in (("size", x), ("seconds", y)):
        if (bad := ~(np.isfinite(values) & (values > 0))).any():
            raise BadInput(f"an exponent is fitted to logarithms: {name} must be positive and finite, got {values[bad][0]}.")
    if (different := np.unique(x).size) < LEAST_SIZES:
        raise BadInput(f"an exponent needs at least {LEAST_SIZES} different sizes, got {different}. Measure more of them.")
    if not 0 < level < 1:
        raise BadInput(f"the level of an interval must lie between 0 and 1, got {level}.")
    line = stats.linregress(np.log(x), np.log(y))
    half = stats.t.ppf((1 + level) / 2, x.size - 2) * line.stderr
    return Exponent(float(line.slope), float(line.slope - half), float(line.slope + half), float(line.intercept))
