"""Trained distributions compared by every test-time distance, and with other numbers of samples. Nothing is trained
again."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.evaluation.evaluate import evaluate
from xmr_core.methods.method import Method
from xmr_core.similarities.gaussian import DISTANCES, distances_of

TRAINED = "match probability"
_MEANS, _SAMPLES = ("mean only", "min", "max"), ("average L2", "matmul", TRAINED)
_READS = dict.fromkeys(_MEANS, "mean") | dict.fromkeys(_SAMPLES, "samples")  # all others read mean and σ


def distance_table(method: Method, prepared: Prepared) -> pd.DataFrame:
    """Retrieval of the test split by each test-time distance, best first.

    Columns distance, numbers (stored per item), R-P, then 'i2t R-P', 't2i R-P', 'i2t R@1', 't2i R@1' on annotated
    pairs, and 'R-P exhaustive' and the like for the corpus's other relevance sets. All in percent; R-P is the mean of
    both directions. Distances of samples are left out for a method that draws none.
    Raises: BadInput for a method without distributions. Source: PCME, Tables 1 and E.1.
    """
    images, captions = _gaussians(method, prepared)
    rows = []
    reads = _READS if images.samples is not None else dict.fromkeys(_MEANS, "mean")
    for name, similarity in {TRAINED: method.similarity, **{n: DISTANCES[n] for n in distances_of(images)}}.items():
        numbers = numbers_stored(images, reads.get(name, "mean and σ"))
        rows.append({"distance": name, "numbers": numbers, **_quality(similarity, images, captions, prepared)})
    return pd.DataFrame(rows).sort_values("R-P", ascending=False, kind="stable", ignore_index=True)


def samples_table(method: Method, prepared: Prepared, samples: Sequence[int], draws: int = 5) -> pd.DataFrame:
    """Match probability with J samples at test time, averaged over draws.

    Columns samples, those of distance_table from R-P on, and 'R-P sd', the standard deviation of one draw.
    Raises: BadInput as with_samples. Source: PCME, Figure E.1.
    """
    images, captions = _gaussians(method, prepared)
    rows = []
    for j in sorted(set(samples)):
        pairs = [(with_samples(images, j, 2 * n), with_samples(captions, j, 2 * n + 1)) for n in range(draws)]
        values = pd.DataFrame([_quality(method.similarity, *pair, prepared) for pair in pairs])
        rows.append({"samples": j, **values.mean(), "R-P sd": values["R-P"].std(ddof=1)})
    return pd.DataFrame(rows)


def with_samples(items: GaussianEmbedding, samples: int, seed: int = 0) -> GaussianEmbedding:
    """The same means and σ with J other samples z = μ + σ ⊙ ε; all items share one draw of ε "j d", as in evaluation.

    With an equal seed, the first samples of a larger J are those of a smaller one. Give images and captions different
    seeds. Raises: BadInput for fewer than one sample.

    >>> items = GaussianEmbedding(torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3, 7, 2))
    >>> with_samples(items, 5).samples.shape
    torch.Size([3, 5, 2])
    """
    if samples < 1:
        raise BadInput(f"samples must be at least 1, got {samples}.")
    noise = np.random.default_rng(seed).standard_normal((samples, items.mean.shape[1]))
    noise = torch.from_numpy(noise).to(items.mean)
    return replace(items, samples=items.mean[:, None] + items.log_std.exp()[:, None] * noise)


def numbers_stored(items: GaussianEmbedding, what: str) -> int:
    """How many numbers an item needs on disk for a test-time distance that reads `what` of it.

    'mean': d; 'mean and σ': 2 d, or d + 1 if σ is one number; 'samples': J d.

    >>> numbers_stored(GaussianEmbedding(torch.zeros(3, 2), torch.zeros(3, 2), torch.zeros(3, 7, 2)), "samples")
    14
    """
    d, scalar = items.mean.shape[1], bool((items.log_std == items.log_std[:, :1]).all())
    drawn = 0 if items.samples is None else items.samples.shape[1]
    return {"mean": d, "mean and σ": d + 1 if scalar else 2 * d, "samples": drawn * d}[what]


def _gaussians(method: Method, prepared: Prepared) -> tuple[GaussianEmbedding, GaussianEmbedding]:
    modalities = encode_split(method, prepared.splits["test"])
    if not all(isinstance(r, GaussianEmbedding) and bool(r.log_std.isfinite().all()) for r in modalities):
        raise BadInput(f"{method.name} makes no distributions to compare; take pcme or pcme++ with a σ.")
    return modalities


def _quality(
    similarity: Callable, images: GaussianEmbedding, captions: GaussianEmbedding, prepared: Prepared
) -> dict[str, float]:
    relevances = {kind: relevance("test") for kind, relevance in prepared.corpus.relevance_sets.items()}
    summary = evaluate(similarity, images, captions, relevances).summary()
    value = 100 * summary.set_index(["relevance", "direction", "metric", "k"])["value"]
    out: dict[str, float] = {}
    for kind in relevances:
        end = "" if kind == "annotated" else f" {kind}"
        out[f"R-P{end}"] = float(np.mean([value[kind, d, "r_precision", 0] for d in ("i2t", "t2i")]))
        if kind == "annotated":
            out |= {f"{d} R-P": float(value[kind, d, "r_precision", 0]) for d in ("i2t", "t2i")}
            out |= {f"{d} R@1": float(value[kind, d, "recall", 1]) for d in ("i2t", "t2i")}
    return out
