"""Standard error of a mean."""

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
