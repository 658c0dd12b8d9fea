"""What the protocol can see, by simulation: the numbers of docs/protocol.md#protocol-power. A first simulation, before
the first run, differed from it in two cells by a point, and in the family error (4 to 6 %).

python scripts/simulate_power.py
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from xmr_core.evaluation.stats import holm
from xmr_study import decision

EFFECTS, SPREADS = (0.0, 3.0, 5.0, 10.0, 20.0), (6.5, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 18.0)  # points of RSUM
UNEQUAL = (6.0, 10.0, 35.0)


def power(
    effects: Sequence[float], worlds: int, seeds: int, sd: Sequence[float], claims: int, comparisons: int = 1,
    trials: int = 2000, seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """Share of simulated studies in which a claim of a paper of `claims` is decided, by the effect that all of its
    comparisons have: columns effect, held, contradicted, family error (any claim held or contradicted when none has
    an effect; of effect 0 alone).

    Differences are normal; the standard deviation of each comparison is drawn from sd, so that variances are unequal.
    """
    rng, lines = np.random.default_rng(seed), []
    index = pd.MultiIndex.from_product([range(worlds), range(seeds)], names=["world", "seed"])
    n, f = claims * comparisons, worlds * (seeds - 1)
    for effect in effects:
        words = np.zeros((trials, claims, 2), bool)
        for trial in range(trials):
            draws = rng.normal(effect, rng.choice(sd, n)[:, None], (n, len(index)))
            s = draws.reshape(n, worlds, seeds).var(2, ddof=1).mean(1)
            common, lent = decision.prior(s, np.full(n, f))
            lent = min(lent, decision.MOST_PRIOR)
            error = np.sqrt((lent * common + f * s) / (lent + f) / len(index))
            own = [decision.Estimate(*t, lent + f) for t in zip(draws.mean(1), error, strict=True)]
            p = [decision.claim_p(own[i : i + comparisons])[:2] for i in range(0, n, comparisons)]
            words[trial] = np.stack([holm(column) <= decision.LEVEL for column in np.transpose(p)], 1)
        error = words.any((1, 2)).mean() if effect == 0 else np.nan
        lines.append((effect, words[..., 0].mean(), words[..., 1].mean(), error))
    return pd.DataFrame(lines, columns=["effect", "held", "contradicted", "family error"])


if __name__ == "__main__":
    for worlds, comparisons in ((4, 1), (2, 1), (4, 3)):
        print(f"{worlds} worlds × 3 seeds, {comparisons} comparisons a claim")
        print(power(EFFECTS, worlds, 3, SPREADS, claims=8, comparisons=comparisons).to_string(index=False))
        unequal = power([0.0], worlds, 3, UNEQUAL, claims=8, comparisons=comparisons)["family error"].item()
        print(f"family error with deviations of 6, 10 and 35: {unequal:.3f}")
