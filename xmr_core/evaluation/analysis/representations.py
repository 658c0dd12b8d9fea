"""Encoded splits: how spread out the elements of a set are on the unit sphere, and trained distributions compared by
every test-time distance. Nothing is trained again."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from xmr_core.base.errors import BadInput, require_choice, require_number
from xmr_core.base.machine import as_a_run, evaluating
from xmr_core.base.tensors import masked_mean
from xmr_core.base.types import Corpus, EmbeddingSet, GaussianEmbedding, Representation, joined
from xmr_core.data.batches import Split
from xmr_core.data.prepare import Prepared
from xmr_core.evaluation.evaluate import METRIC_COLUMNS, evaluate, evaluate_corpus
from xmr_core.evaluation.ranks import Scoring
from xmr_core.methods.method import Method
from xmr_core.similarities.gaussian import DISTANCES, distances_of


def circular_variance(sets: EmbeddingSet) -> Float[Tensor, " n"]:
    """1 − ‖m‖₂ for each set, m the mean over valid elements of x_k/‖x_k‖₂; in [0, 1], 0 when all point one way.

    Computed as mean ‖x_k − m‖² / (1 + ‖m‖), which is the same for unit vectors and keeps its digits near 0, where a
    difference from 1 would be rounding alone.
    Source: DivE (Kim et al., CVPR 2023), §4.6 and Table 3.

    >>> import torch
    >>> sets = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> circular_variance(sets)
    tensor([0.2929])
    """
    x = F.normalize(sets.x, dim=-1)
    m = masked_mean(x, sets.mask[..., None], dim=1)
    return masked_mean((x - m[:, None]).square().sum(-1), sets.mask, dim=1) / (1 + m.norm(dim=-1))


def log_circular_variance(sets: EmbeddingSet, order: str = "mean-then-log") -> Float[Tensor, ""]:
    """Natural logarithm of the circular variance over sets; the paper does not say in which order mean and log are
    taken.

    order: 'mean-then-log' or 'log-then-mean'. A variance below 1e-12 counts as 1e-12, so that collapsed sets give a
    number.
    Raises: BadInput for another order.

    >>> import torch
    >>> log_circular_variance(EmbeddingSet(torch.ones(3, 2, 1), torch.ones(3, 2, dtype=torch.bool))).item() < -27
    True
    """
    require_choice("order", order, ("mean-then-log", "log-then-mean"))
    variance = circular_variance(sets).double().clamp(min=1e-12)
    return variance.mean().log() if order == "mean-then-log" else variance.log().mean()


_CHUNK = 256


@as_a_run()
def encode_split(method: Method, split: Split) -> tuple[Representation, Representation]:
    """(images, captions) of a split in split order, on the CPU."""
    device = method.device
    with torch.inference_mode(), evaluating(method):
        images = [method.encode_images(split.images_at(r).to(device)).to("cpu") for r in _chunks(len(split.image_rows))]
        # Captions of similar length are encoded together: there is less padding, and the numbers are the same.
        order = np.argsort(split.lengths, kind="stable")
        captions = [
            method.encode_captions(split.captions_at(order[r]).to(device)).to("cpu") for r in _chunks(len(order))
        ]
    return joined(images), joined(captions)[torch.from_numpy(np.argsort(order, kind="stable"))]


def evaluate_split(
    method: Method, split: Split, corpus: Corpus, name: str = "test"
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(per_query, metrics) of a split by all kinds of relevance of its corpus, as `Evaluated` holds them: the only way
    from a method to its numbers, for runs, loaded models and pretrained dual encoders.

    metrics also has the rows of `set_spread`. name: of the split in the corpus.
    """
    images, captions = encode_split(method, split)
    pairs = len(images) * len(captions)
    with tqdm(total=pairs, desc="scoring", unit=" pairs", unit_scale=True, leave=False, delay=5, disable=None) as bar:
        scores = Scoring(method.similarity, images, captions, device=method.device)
        evaluation, metrics = evaluate_corpus(scores, corpus, name, bar.update)
    spread = set_spread(images, captions)
    return evaluation.per_query, pd.concat([metrics, *([spread] if len(spread) else [])], ignore_index=True)


def set_spread(images: Representation, captions: Representation) -> pd.DataFrame:
    """Rows for the metrics table: log circular variance of the sets of each modality (natural log of the mean over
    items).

    There are no rows for one vector per item, whose variance is 0.

    >>> sets = EmbeddingSet(torch.eye(2)[None], torch.ones(1, 2, dtype=torch.bool))
    >>> set_spread(sets, sets)["direction"].tolist()
    ['images', 'captions']
    """
    rows = [
        ("", modality, "log_circular_variance", 0, float(log_circular_variance(sets)), len(sets))
        for modality, sets in (("images", images), ("captions", captions))
        if isinstance(sets, EmbeddingSet) and sets.x.shape[1] > 1
    ]
    return pd.DataFrame(rows, columns=METRIC_COLUMNS)


def _chunks(n: int) -> list[np.ndarray]:
    return np.split(np.arange(n), range(_CHUNK, n, _CHUNK))


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
    require_number("samples", samples, low=1)
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
