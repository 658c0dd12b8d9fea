"""Whether σ chooses the queries that are answered rightly better than what the scores say for nothing."""

import numpy as np
import pandas as pd

from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.selective import (
    BASELINES,
    best_temperature,
    gain_error,
    score_confidence,
    selective_table,
)
from xmr_core.evaluation.analysis.uncertainty import query_uncertainty
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.evaluation.results import METRIC_COLUMNS
from xmr_core.training.runs import TrainedRun
from xmr_core.training.runs.ensemble import scores_of


def selective(run: TrainedRun) -> pd.DataFrame:
    """Area under R@1 over coverage (analysis.selective) by σ of the query, by score margin, by entropy and by nothing,
    for every relevance set and direction: 'selective_r1_sigma', '…_margin', '…_entropy', '…_none'; and what σ gains:
    'selective_gain_over_margin', 'selective_gain_over_entropy', with their errors. Fractions.

    The temperature of the entropy is chosen on the validation split, so that the baseline is no weaker than it can be.
    """
    prepared, method = run.prepared(), run.method()
    split, chosen_on = prepared.splits["test"], prepared.splits["val"]
    scores, val_scores = scores_of(run), scores_of(run, "val")
    on_val = evaluate_scores(val_scores, {"annotated": chosen_on.relevance}).per_query
    widths = query_uncertainty(*encode_split(method, split), split.relevance).set_index("direction")
    rows = []
    for direction, ids in (("i2t", split.relevance.gallery_ids), ("t2i", split.relevance.query_ids)):
        by_query, val = (x if direction == "i2t" else x.T for x in (scores, val_scores))
        right_on_val = on_val.loc[on_val["direction"] == direction, "R@1"].to_numpy()
        temperature = best_temperature(val, right_on_val) if len(val) == len(right_on_val) else 1.0
        table = pd.DataFrame(
            {"sigma": -widths.loc[direction, "uncertainty"].to_numpy(float), "query": list(map(str, ids))}
        )
        table = table.assign(**score_confidence(by_query, temperature))
        per_query = run.per_query[run.per_query["direction"] == direction].astype({"query": str})
        for kind, own in per_query.groupby("relevance", sort=False):
            joined = own.merge(table, on="query")
            areas = selective_table({kind: joined["R@1"]}, {c: joined[c] for c in ("sigma", *BASELINES)})
            area = areas.set_index("confidence")["area"]
            rows += [(kind, direction, f"selective_r1_{c}", 0, value, len(joined)) for c, value in area.items()]
            gains = {c: area["sigma"] - area[c] for c in BASELINES}
            rows += [(kind, direction, f"selective_gain_over_{c}", 0, v, len(joined)) for c, v in gains.items()]
            if kind == "annotated":  # the relevance that claims read
                for c in BASELINES:
                    error = gain_error(joined["R@1"], joined["sigma"], joined[c], joined["image"].to_numpy())
                    rows.append((kind, direction, f"selective_gain_over_{c}_error", 0, error, len(joined)))
    return pd.DataFrame(rows, columns=METRIC_COLUMNS).astype({"value": np.float64})
