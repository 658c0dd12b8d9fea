"""What methods reach on Flickr8k: by the annotated pairs, by the judgments of people, and in the order of their
ratings."""

import pandas as pd

from xmr_core.study.decision_rows import longest
from xmr_core.study.method_results import mean_interval, method_results, seed_values


def flickr_results(rows: pd.DataFrame, curves: pd.DataFrame | None = None) -> pd.DataFrame:
    """`method_results` of every variant with rows on Flickr8k, the best annotated RSUM first, and human, human low,
    human high, τ expert, τ crowd. Of a variant that was run longer, because it was not converged, those rows only.

    human: RSUM where pairs that experts rated 3 or more count as right too. τ: Kendall's τ_c, times 100, between scores
    and ratings, the mean over seeds; NaN without such ratings. rows: of the protocol.

    >>> flickr_results(pd.DataFrame(columns=["variant", "dataset", "world"])).empty
    True
    """
    own = longest(rows[(rows["dataset"] == "flickr8k") & ~rows["variant"].astype(str).str.contains(", tuning ")])
    table = method_results(own, list(dict.fromkeys(own["variant"])), curves)
    if not len(own):
        return table
    people = {name: mean_interval(values) for name, values in seed_values(own, "human").items()}
    for n, column in enumerate(("human", "human low", "human high")):
        table[column] = [people.get(label, (float("nan"),) * 3)[n] for label in table["label"]]
    tau = own[own["metric"] == "kendall_tau_c"].drop_duplicates(["variant", "seed", "relevance"], keep="last")
    mean = 100 * tau.assign(value=tau["value"].astype(float)).pivot_table("value", "variant", "relevance")
    for grade in ("expert", "crowd"):
        table[f"τ {grade}"] = table["label"].map(mean.get(grade, pd.Series(dtype=float)))
    return table.drop(columns=[name for name in table if name.startswith("rsum exhaustive")])
