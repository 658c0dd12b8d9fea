"""What a choice gains over all ambiguities, and whether that grows or falls with ambiguity. The worlds are what is
repeated, so that even one seed has an interval; a run that fails in another seed can still overthrow it."""

import numpy as np
import pandas as pd
from scipy.stats import t as student

COLUMNS = [
    "what", "label", "against", "seeds", "worlds", "mean", "mean low", "mean high", "slope", "slope low", "slope high",
]  # fmt: skip


def ambiguity_trends(gains: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """One line for each choice that was measured at three ambiguities or more; COLUMNS.

        g_a = ḡ + b (x_a − x̄),   x_a = log10 of the ambiguity,   s² = Σ_a (g_a − fit)² / (A − 2)
        ḡ ± t_{A−2} s / √A,   b ± t_{A−2} s / √(Σ_a (x_a − x̄)²)

    g_a: mean over seeds of the gain at one of A ambiguities. Each ambiguity is a world of its own, so that what is left
    over beside the line holds worlds, seeds and test images; a gain that bends with ambiguity makes the intervals
    wider, not narrower. mean: points of RSUM; slope: points for each tenfold ambiguity. seeds: the fewest at one
    ambiguity. gains: of ambiguity_results.ambiguity_gains.

    >>> line = {"what": "sets", "label": "DivE", "against": "VSE∞", "seeds": 1}
    >>> straight = [line | {"ambiguity": a, "gain": g} for a, g in ((0.01, 6.0), (0.1, 4.0), (1.0, 2.0))]
    >>> ambiguity_trends(pd.DataFrame(straight))[["mean", "slope"]].round(6).to_numpy().tolist()
    [[4.0, -2.0]]
    """
    lines = []
    for key, own in gains.groupby(["what", "label", "against"], sort=False):
        n = len(own)
        if n < 3:
            continue
        x = np.log10(own["ambiguity"].to_numpy(float))
        x = x - x.mean()
        gain = own["gain"].to_numpy(float)
        slope = float(x @ gain / (x @ x))
        left_over = gain - gain.mean() - slope * x
        half = student.ppf((1 + level) / 2, n - 2) * np.sqrt(left_over @ left_over / (n - 2))
        mean, of_mean, of_slope = float(gain.mean()), half / np.sqrt(n), half / np.sqrt(x @ x)
        lines.append((*key, int(own["seeds"].min()), n, mean, mean - of_mean, mean + of_mean,
                      slope, slope - of_slope, slope + of_slope))  # fmt: skip
    return pd.DataFrame(lines, columns=COLUMNS)


def trend_sentences(trends: pd.DataFrame) -> list[str]:
    """What each choice gains over all ambiguities, and which gains grow or fall with it, where the interval says so.

    trends: of ambiguity_trends.

    >>> line = {"what": "sets", "label": "DivE", "against": "VSE∞", "seeds": 1, "worlds": 5, "mean": 4.0}
    >>> ends = {"mean low": 1.0, "mean high": 7.0, "slope": -2.0, "slope low": -3.0, "slope high": -1.0}
    >>> first, second = trend_sentences(pd.DataFrame([line | ends]))
    >>> first.partition(": ")[2]
    'against VSE∞, DivE (sets) +4.0 [+1.0, +7.0].'
    >>> second
    'With tenfold ambiguity the gain of DivE (sets) falls by 2.0 [1.0, 3.0].'
    """
    if not len(trends):
        return []
    by_base: dict[str, list[str]] = {}
    changes = []
    for line in trends.to_dict("records"):
        name, slope = f"{line['label']} ({line['what']})", line["slope"]
        interval = f"[{line['mean low']:+.1f}, {line['mean high']:+.1f}]"
        by_base.setdefault(line["against"], []).append(f"{name} {line['mean']:+.1f} {interval}")
        if line["slope low"] > 0 or line["slope high"] < 0:
            low, high = sorted((abs(line["slope low"]), abs(line["slope high"])))
            verb = "grows" if slope > 0 else "falls"
            changes.append(f"the gain of {name} {verb} by {abs(slope):.1f} [{low:.1f}, {high:.1f}]")
    fewest, most, worlds = int(trends["seeds"].min()), int(trends["seeds"].max()), trends["worlds"].max()
    seeds = f"{fewest} to {most}" if fewest < most else f"{most}"
    how = f"{seeds} seed{'s' * (most > 1)}, exploratory, uncorrected"
    start = f"Over {worlds} ambiguities ({how}), gains in RSUM by all true answers"
    means = "; ".join(f"against {base}, {', '.join(items)}" for base, items in by_base.items())
    return [f"{start}: {means}.", *([f"With tenfold ambiguity {'; '.join(changes)}."] if changes else [])]
