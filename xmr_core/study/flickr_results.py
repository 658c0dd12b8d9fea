"""What methods reach on Flickr8k: by the annotated pairs, by the judgments of people, and in the order of their
ratings."""

import pandas as pd

from xmr_core.study.claims_data.claim import Measure
from xmr_core.study.comparisons import values_of
from xmr_core.study.decision_rows import longest
from xmr_core.study.method_results import mean_interval, method_results
from xmr_core.study.protocol import labels

HUMAN = Measure("RSUM human", "human", "both", "rsum", factor=100)
GRADES = ("expert", "crowd")
COLUMNS = [
    "label", "seeds", "rsum", "rsum low", "rsum high", "human", "human low", "human high", "τ expert", "τ crowd",
    "best epoch", "epochs", "converged", "gain", "trial", "train seconds", "parameters", "scoring ms",
]  # fmt: skip


def flickr_results(
    rows: pd.DataFrame, curves: pd.DataFrame | None = None, trials: dict[str, int] | None = None
) -> pd.DataFrame:
    """One line per variant with rows on Flickr8k, the best annotated RSUM first; COLUMNS. Of a variant that was run
    longer, because it was not converged, those rows only.

    human: RSUM where pairs that experts rated 3 or more count as right too. τ: Kendall's τ_c, times 100, between scores
    and ratings, the mean over seeds; NaN without such ratings. rows: of the protocol. curves: for converged and gain,
    as in `method_results`.

    >>> flickr_results(pd.DataFrame(columns=["variant", "dataset", "world"])).empty
    True
    """
    own = longest(rows[(rows["dataset"] == "flickr8k") & ~rows["variant"].astype(str).str.contains(", tuning ")])
    if not len(own):
        return pd.DataFrame(columns=COLUMNS)
    table = method_results(own, list(dict.fromkeys(own["variant"])), curves, trials).reindex(columns=COLUMNS)
    people = next(iter(values_of(own, HUMAN).values()), {})
    tau = own[own["metric"] == "kendall_tau_c"].drop_duplicates(["variant", "seed", "relevance"], keep="last")
    mean = (
        100 * tau.assign(value=tau["value"].astype(float)).groupby(["variant", "relevance"])["value"].mean()
    ).to_dict()
    for n, label in table["label"].items():
        if label in people:
            table.loc[n, ["human", "human low", "human high"]] = mean_interval(people[label])
        for grade in GRADES:
            table.loc[n, f"τ {grade}"] = mean.get((label, grade), float("nan"))
    return table.astype({name: float for name in ("human", "human low", "human high", "τ expert", "τ crowd")})


def flickr_sentence(table: pd.DataFrame) -> str:
    """What the methods reach there, the best first, and how provisional that is; '' for none. table: of flickr_results.

    >>> lines = pd.DataFrame({"label": ["DivE", "PCME"], "rsum": [260.0, 250.0], "converged": [True, False]})
    >>> flickr_sentence(lines.assign(seeds=1))
    'On Flickr8k so far (2 of ... methods, 1 seed, 1 of them not converged), annotated RSUM: DivE 260.0, PCME 250.0.'
    """
    own = table[table["label"].isin(labels())]
    if not len(own):
        return ""
    fewest, most, away = int(own["seeds"].min()), int(own["seeds"].max()), [*own["converged"]].count(False)
    seeds = f"{most} seed{'s' * (most > 1)}" if fewest == most else f"{fewest} to {most} seeds"
    state = f"{len(own)} of {len(labels())} methods, {seeds}" + (f", {away} of them not converged" if away else "")
    values = ", ".join(f"{line.label} {line.rsum:.1f}" for line in own.itertuples())
    return f"On Flickr8k so far ({state}), annotated RSUM: {values}."
