"""Which methods are not told apart from another, by the paired difference of their seeds."""

from collections.abc import Mapping, Sequence

import pandas as pd

from xmr_core.study.claims_data.claim import Claim
from xmr_core.study.comparisons import comparisons
from xmr_core.study.image_values import ImageValues


def close_methods(
    best: str, others: Sequence[str], values: Mapping[str, pd.DataFrame], images: ImageValues | None = None
) -> list[str]:
    """Those of `others` whose difference from `best`, paired by seed, has 0 in its 95 % interval. Nothing is corrected
    for how many there are. values: by label, of one corpus of comparisons.values_of.

    >>> frame = pd.DataFrame({"value": [3.0, 3.1, 3.0], "error": 0.1, "world": [1, 2, 1]})
    >>> frame = frame.assign(began="", deciding=True, runs=[("a",), ("b",), ("c",)])
    >>> near, far = frame.assign(value=[3.1, 3.0, 2.9]), frame.assign(value=[1.0, 1.1, 1.0])
    >>> close_methods("SCAN t-i", ["SAF", "VSE++"], {"SCAN t-i": frame, "SAF": near, "VSE++": far})
    ['SAF']
    """
    from scipy.special import stdtrit  # takes a tenth of the time of torch to import

    out = []
    for name in others:
        for c in comparisons(Claim("pair", "ours", "One beats another.", (best,), (name,)), values, images):
            if c.degrees < 1 or abs(c.effect) <= stdtrit(c.degrees, 0.975) * c.error:
                out.append(name)
    return out
