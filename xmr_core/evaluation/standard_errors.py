"""Standard errors of a mean, and of what is none."""

import numpy as np
from jaxtyping import Float

from xmr_core.base.errors import BadInput


def mean_error(values: Float[np.ndarray, " g"]) -> float:
    """Standard error of the mean of independent values: their standard deviation (n − 1) by √n. Raises: BadInput for
    fewer than two.

    >>> round(mean_error(np.array([1.0, 0.0, 1.0, 0.0])), 4)
    0.2887
    """
    if len(values) < 2:
        raise BadInput(f"an error needs at least two values, got {len(values)}.")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def jackknife_error(without: Float[np.ndarray, " g"]) -> float:
    """Standard error of a statistic of G images from its values with one of them left out, for statistics that are no
    mean (a rank correlation, an area):

        e² = (G − 1)/G Σ_g (θ_(g) − mean θ_(·))²

    Source: Tukey; Efron and Stein, Annals of Statistics, 1981. Raises: BadInput for fewer than two values.

    >>> x = np.array([1.0, 0.0, 1.0, 0.0])
    >>> round(jackknife_error((x.sum() - x) / 3), 4)  # of a mean it is mean_error
    0.2887
    """
    if len(without) < 2:
        raise BadInput(f"an error needs at least two images, got {len(without)}.")
    return float(np.sqrt(len(without) - 1) * np.std(without))
