"""A trained PCME compared in every other way, and with other numbers of samples. Nothing is trained again."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.analysis.sampling import numbers_stored, with_samples
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.method import Method
from xmr_core.similarities.gaussian import DISTANCES

TRAINED = "match probability"
_READS = {"mean only": "mean", "min": "mean", "max": "mean", "average L2": "samples", "matmul": "samples", TRAINED: "samples"}


def distance_table(method: Method, prepared: Prepared) -> pd.DataFrame:
    """Retrieval of the test split by each test-time distance, best first.

    Columns distance, numbers (stored per item), R-P, then 'i2t R-P', 't2i R-P', 'i2t R@1', 't2i R@1' on annotated pairs and, with the
    corpus's other kinds behind them, 'R-P exhaustive' and the like; percent; R-P is the mean of both directions.
    Raises: BadInput for a method without distributions. Source: PCME, Tables 1 and E.1.
    """
    images, captions = _gaussians(method, prepared)
    rows = []
    for name, similarity in {TRAINED: method.similarity, **DISTANCES}.items():
        numbers = numbers_stored(images, _READS.get(name, "mean and σ"))
        rows.append({"distance": name, "numbers": numbers, **_quality(similarity, images, captions, prepared)})
    return pd.DataFrame(rows).sort_values("R-P", ascending=False, kind="stable", ignore_index=True)


def samples_table(method: Method, prepared: Prepared, samples: Sequence[int], draws: int = 3) -> pd.DataFrame:
    """Match probability with J samples at test time, averaged over draws: columns samples, R-P and the others of distance_table, and
    'R-P sd' over draws. Raises: BadInput for no draw, and as with_samples. Source: PCME, Figure E.1."""
    if draws < 1:
        raise BadInput(f"draws must be at least 1, got {draws}.")
    images, captions = _gaussians(method, prepared)
    rows = []
    for j in sorted(set(samples)):
        found = [
            _quality(method.similarity, with_samples(images, j, 2 * n), with_samples(captions, j, 2 * n + 1), prepared)
            for n in range(draws)
        ]
        means = pd.DataFrame(found)
        rows.append({"samples": j, **means.mean(), "R-P sd": means["R-P"].std(ddof=0)})
    return pd.DataFrame(rows)


def sampling_gain(table: pd.DataFrame, n_queries: int) -> pd.DataFrame:
    """Rows for Run.with_metrics: R-Precision of match probability minus that of the means alone, a fraction, per direction."""
    value = table.set_index("distance")
    gains = {d: (value.loc[TRAINED, f"{d} R-P"] - value.loc["mean only", f"{d} R-P"]) / 100 for d in ("i2t", "t2i")}
    row = {"relevance": "annotated", "metric": "r_precision_gain_of_sampling", "k": 0, "n_queries": n_queries}
    return pd.DataFrame([{**row, "direction": d, "value": gain} for d, gain in gains.items()])


def _gaussians(method: Method, prepared: Prepared) -> tuple[GaussianEmbedding, GaussianEmbedding]:
    both = encode_split(method, prepared.splits["test"])
    if not all(isinstance(r, GaussianEmbedding) and bool(r.log_std.isfinite().all()) for r in both):
        raise BadInput(f"{method.name} makes no distributions to compare; take pcme with a σ.")
    return both


def _quality(similarity: Callable, images: GaussianEmbedding, captions: GaussianEmbedding, prepared: Prepared) -> dict[str, float]:
    judges = {kind: judge("test") for kind, judge in prepared.corpus.judges.items()}
    summary = evaluate(similarity, images, captions, judges).summary()
    value = 100 * summary.set_index(["relevance", "direction", "metric", "k"])["value"]
    out: dict[str, float] = {}
    for kind in judges:
        end = "" if kind == "annotated" else f" {kind}"
        out[f"R-P{end}"] = float(np.mean([value[kind, d, "r_precision", 0] for d in ("i2t", "t2i")]))
        if kind == "annotated":
            out |= {f"{d} R-P": float(value[kind, d, "r_precision", 0]) for d in ("i2t", "t2i")}
            out |= {f"{d} R@1": float(value[kind, d, "recall", 1]) for d in ("i2t", "t2i")}
    return out
