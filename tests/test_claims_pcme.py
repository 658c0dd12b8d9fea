"""PCME's claims: labels that exist, options that build what they say, and measures against loops."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from tiny import tiny_config
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, GaussianEmbedding
from xmr_core.evaluation.analysis import set_algebra as algebra
from xmr_core.evaluation.analysis.both_directions import gain_rows, mean_rows, precision_of
from xmr_core.evaluation.analysis.corruption import corrupted_uncertainty
from xmr_core.evaluation.stats import image_error
from xmr_core.heads.gaussian import GaussianHead
from xmr_core.heads.gaussian_linear import LinearGaussianHead
from xmr_core.losses.triplet import hinge_triplet
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build, method_spec
from xmr_core.similarities.distances import DISTANCES
from xmr_core.study._measures import gaussian, means
from xmr_core.study.benchmarks import benchmark_run
from xmr_core.study.claims_data.pcme import ABLATIONS, CLAIMS
from xmr_core.study.measures import MEASURES, measured
from xmr_core.study.variants import known_labels
from xmr_core.training.runs import train_or_load

INPUTS = Inputs(5, 3, 9, word_dim=4)


def features(d_local: int = 4, d: int = 6) -> Features:
    g = torch.Generator().manual_seed(0)
    local, whole = torch.randn(3, 5, d_local, generator=g), torch.randn(3, d, generator=g)
    return Features(local, torch.ones(3, 5, dtype=torch.bool), whole)


def test_every_label_of_a_claim_is_run_by_somebody_and_measured():
    labels = {label for claim in CLAIMS for label in (*claim.above, *claim.below)}
    assert labels <= known_labels() and len(CLAIMS) == len({c.id for c in CLAIMS})
    metrics = {claim.measure.metric for claim in CLAIMS} - {"rsum"}
    assert metrics <= set(MEASURES), metrics - set(MEASURES)


@pytest.mark.parametrize("label", sorted({label for table in ABLATIONS.values() for label in table}))
def test_every_variant_builds_and_differs_from_the_default_only_in_what_it_says(label):
    method, options = next(table[label] for table in ABLATIONS.values() if label in table)
    built = build(method, INPUTS, **{"d": 8, **options})
    assert built.n_parameters() > 0
    full = method_spec(method).full_options("matched", options)
    default = method_spec(method).full_options("matched", {})
    assert {k for k in full if full[k] != default.get(k)} <= set(options)


def test_one_label_means_one_run():
    seen = {}
    for table in ABLATIONS.values():
        for label, variant in table.items():
            assert seen.setdefault(label, variant) == variant


# heads


def test_without_attention_the_mean_is_the_normed_global_and_sigma_its_projection():
    torch.manual_seed(0)
    x = features()
    head = GaussianHead(4, 6, mean_attention=False, spread_attention=False, log_std_start=-2.0).eval()
    out = head(x)
    for row in range(3):
        g = x.global_feat[row].double().numpy()
        normed = (g - g.mean()) / math.sqrt(g.var() + 1e-5)
        wanted = normed / np.linalg.norm(normed)
        assert out.mean[row].tolist() == pytest.approx(wanted.tolist(), abs=1e-5)
        w, b = head.fc2.weight.detach().double().numpy(), head.fc2.bias.detach().double().numpy()
        assert out.log_std[row].tolist() == pytest.approx((w @ g + b - 2).tolist(), abs=1e-5)
    changed = Features(x.local_feats + 1, x.mask, x.global_feat)
    assert torch.equal(head(changed).mean, out.mean) and torch.equal(head(changed).log_std, out.log_std)
    with pytest.raises(BadInput, match="leaves an attention out"):
        head.attention_maps(x)


@pytest.mark.parametrize(("mean", "spread"), [(True, False), (False, True)])
def test_one_attention_reads_local_features_and_the_other_does_not(mean, spread):
    torch.manual_seed(0)
    x, head = features(), GaussianHead(4, 6, mean_attention=mean, spread_attention=spread).eval()
    changed = Features(x.local_feats + 1, x.mask, x.global_feat)
    assert torch.equal(head(x).mean, head(changed).mean) != mean
    assert torch.equal(head(x).log_std, head(changed).log_std) != spread


def test_the_default_head_is_what_it_was():
    torch.manual_seed(0)
    names = set(GaussianHead(4, 6).state_dict())
    assert names == {
        "mean.w_1.weight", "mean.w_2.weight", "mean.fc.weight", "mean.fc.bias", "mean.layer_norm.weight",
        "mean.layer_norm.bias", "w_1.weight", "w_2.weight", "fc.weight", "fc.bias", "fc2.weight", "fc2.bias",
    }  # fmt: skip


def test_linear_heads_in_the_plane():
    torch.manual_seed(0)
    x, head = features(), LinearGaussianHead(6, 2, samples=3, seed=1, log_std_start=-1.0).eval()
    out = head(x)
    assert_close(out.mean, x.global_feat @ head.mean.weight.T + head.mean.bias)
    assert_close(out.log_std, x.global_feat @ head.spread.weight.T + head.spread.bias - 1)
    noise = (out.samples - out.mean[:, None]) / out.log_std.exp()[:, None]
    assert_close(noise[0], noise[2], rtol=1e-4, atol=1e-5), "items share one draw in evaluation"
    assert not torch.equal(head.train()(x).samples, head(x).samples)
    for wrong in ({"out": 0}, {"samples": 0}):
        with pytest.raises(BadInput, match="must be at least 1"):
            LinearGaussianHead(**{"d": 6, "out": 2, **wrong})
    with pytest.raises(BadInput, match="takes linear heads"):
        build("pcme", INPUTS, d=8, plane=2, squash=True)


# negatives


@pytest.mark.parametrize("mining", ["hardest", "semi-hard", "all"])
@pytest.mark.parametrize("form", ["matched", "published"])
def test_pvse_takes_the_negatives_that_are_asked_for(mining, form):
    values = {"objective": "triplet"} if form == "matched" else {}
    loss = build("pvse", INPUTS, form, d=8, slots=1, mining=mining, **values).objective
    scores, match = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)), torch.eye(4, dtype=torch.bool)
    reduction = "mean" if form == "matched" or mining == "semi-hard" else "batch_mean"
    assert_close(loss.score_loss(scores, match), hinge_triplet(scores, match, 0.1, mining, reduction))
    assert (loss.warmup_epochs > 0) == (form == "matched" and mining == "hardest")


# numbers of both directions


def per_query(values: dict[str, list[float]], column: str = "r_precision") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"relevance": "own", "direction": d, "query": f"{d}{n}", "image": n // (2 if d == "t2i" else 1), column: v}
            for d, column_values in values.items() for n, v in enumerate(column_values)
        ]
    )  # fmt: skip


def test_mean_of_both_directions_and_its_error_equal_the_loops():
    values = {"i2t": [1.0, 0.5, 0.0], "t2i": [1.0, 0.0, 1.0, 1.0, 0.0, 0.5]}
    rows = mean_rows(per_query(values), {"m": "r_precision"}).set_index("metric")["value"]
    i2t, t2i = sum(values["i2t"]) / 3, sum(values["t2i"]) / 6
    assert rows["m"] == pytest.approx((i2t + t2i) / 2)
    pulls = []
    for image in range(3):
        pull = (values["i2t"][image] - i2t) / 3 / 2
        for caption in (2 * image, 2 * image + 1):
            pull += (values["t2i"][caption] - t2i) / 6 / 2
        pulls.append(pull)
    assert rows["m_error"] == pytest.approx(math.sqrt(3 / 2 * sum(p * p for p in pulls)))
    with pytest.raises(BadInput, match="of 1 direction"):
        mean_rows(per_query({"i2t": [1.0, 0.0]}), {"m": "r_precision"})


def test_a_gain_pairs_queries():
    better = per_query({"i2t": [1.0, 0.5, 0.0], "t2i": [1.0, 0.0, 1.0, 1.0, 0.0, 0.5]})
    than = per_query({"i2t": [0.5, 0.5, 0.5], "t2i": [0.0] * 6}).sample(frac=1, random_state=0)
    rows = gain_rows(better, than, "gain", k=3)
    assert rows["k"].tolist() == [3, 3] and rows["value"].iloc[0] == pytest.approx((0.0 + 3.5 / 6) / 2)
    same = gain_rows(better, better, "gain")
    assert same["value"].tolist() == [0.0, 0.0], "what is the same for every query has no error"


# sets in the plane


def plane(*items: tuple[float, float, float, float]) -> GaussianEmbedding:
    table = torch.tensor(items)
    return GaussianEmbedding(table[:, :2], table[:, 2:].log())


def in_region(x: float, y: float, item: tuple[float, float, float, float], level: float) -> bool:
    (mx, my, sx, sy) = item
    return ((x - mx) / sx) ** 2 + ((y - my) / sy) ** 2 <= -2 * math.log(1 - level)


def share_on_a_grid(first, second, third=None, level=0.5, step=0.02) -> float:
    """Share of the cells of `first` (and of `second` too, where a third is given) that lie in the last."""
    total = hits = 0
    for x in np.arange(-4, 4, step):
        for y in np.arange(-4, 4, step):
            if in_region(x, y, first, level) and (third is None or in_region(x, y, second, level)):
                total += 1
                hits += in_region(x, y, second if third is None else third, level)
    return hits / total


A, B, C = (0.0, 0.0, 1.0, 0.5), (0.7, 0.2, 0.6, 0.9), (0.5, 0.0, 0.4, 0.4)


def test_shares_of_regions_equal_the_count_on_a_grid():
    assert algebra.share_inside(plane(A), plane(B)).item() == pytest.approx(share_on_a_grid(A, B), abs=0.01)
    assert algebra.share_inside(plane(B), plane(A)).item() == pytest.approx(share_on_a_grid(B, A), abs=0.01)
    common = algebra.share_of_common(plane(A), plane(B), plane(C)).item()
    assert common == pytest.approx(share_on_a_grid(A, B, C), abs=0.02) and 0 < common < 1
    far = plane((9.0, 9.0, 0.1, 0.1))
    assert algebra.share_inside(far, plane(A)).item() == 0 and algebra.share_of_common(plane(A), far, far).isnan().all()


def test_half_of_the_probability_lies_in_the_region_of_a_half():
    z = torch.randn(1, 20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert algebra.inside(z, plane((0.0, 0.0, 1.0, 1.0)), 0.5).double().mean() == pytest.approx(0.5, abs=0.01)
    for call in (lambda: algebra.radius(1.0), lambda: algebra.region_points(GaussianEmbedding(*torch.zeros(2, 1, 3)))):
        with pytest.raises(BadInput):
            call()


# measures of a trained run


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        plane_options = dict(ABLATIONS["plane"]["PCME in the plane"][1])
        yield {
            "pcme": train_or_load(tiny_config("pcme")),
            "means": train_or_load(tiny_config("pcme", spread="none")),
            "plane": train_or_load(tiny_config("pcme", **plane_options)),
        }


def one(rows: pd.DataFrame, metric: str, relevance: str, k: int = 0) -> float:
    (value,) = rows.loc[(rows["metric"] == metric) & (rows["relevance"] == relevance) & (rows["k"] == k), "value"]
    return value


def precision_by_hand(i2t: np.ndarray, t2i: np.ndarray, true: np.ndarray) -> float:
    """R-Precision, mean of both directions, each with its own scores "i t", by the matrix of what is true."""
    out = []
    for s, t in ((i2t, true), (t2i.T, true.T)):
        values = []
        for row, relevant in zip(s, t, strict=True):
            r = int(relevant.sum())
            if r:
                # an irrelevant item with an equal score counts as ranked before
                order = sorted(range(len(row)), key=lambda n: (-row[n], bool(relevant[n])))
                values.append(sum(relevant[n] for n in order[:r]) / r)
        out.append(sum(values) / len(values))
    return sum(out) / 2


def truth(run) -> np.ndarray:
    relevance = run.prepared().corpus.relevance_sets["exhaustive"]("test")
    matrix = np.zeros((len(relevance.gallery_ids), len(relevance)), bool)
    for caption in range(len(relevance)):
        matrix[relevance.indices[relevance.indptr[caption] : relevance.indptr[caption + 1]], caption] = True
    return matrix


@pytest.mark.slow
def test_precision_of_means_and_of_divergences_equal_the_loop(runs):
    run, true = runs["pcme"], truth(runs["pcme"])
    _, images, captions = gaussian._encoded(run)
    score = lambda name: DISTANCES[name](images.to(torch.float64), captions.to(torch.float64)).numpy()  # noqa: E731
    of_means = precision_by_hand(score("mean only"), score("mean only"), true)
    assert one(gaussian.means(run), "r_precision_of_means", "exhaustive") == pytest.approx(of_means, abs=2e-3)
    rows = gaussian.divergences(run)
    for metric, forward, backward in (
        ("r_precision_gain_of_kl", "KL", "reverse KL"),
        ("r_precision_gain_of_kl_official", "KL (official)", "reverse KL (official)"),
    ):
        by_hand = precision_by_hand(score(forward), score(backward), true)
        assert one(rows, metric, "exhaustive") == pytest.approx(by_hand - of_means, abs=2e-3)
    only = gaussian.means(runs["means"])
    run = runs["means"]
    trained = one(means.both_directions(run), "mean_r_precision", "exhaustive")
    assert one(only, "r_precision_of_means", "exhaustive") == pytest.approx(trained, abs=1e-3), "its own ranking"


@pytest.mark.slow
def test_samples_at_test_time(runs, monkeypatch):
    monkeypatch.setattr(gaussian, "DRAWS", 1)
    monkeypatch.setattr(gaussian, "SAMPLES", (1, 3, 5))
    run = runs["pcme"]
    rows, base = gaussian.drawn(run), one(gaussian.means(run), "r_precision_of_means", "exhaustive")
    gains = {}
    for j in (1, 3, 5):
        gains[j] = one(rows, "r_precision_gain_of_samples", "exhaustive", j)
        assert one(rows, "r_precision_of_samples", "exhaustive", j) - base == pytest.approx(gains[j])
    assert one(rows, "least_gain_of_samples", "exhaustive", 3) == min(gains[3], gains[5])
    assert (rows.loc[rows["metric"].str.endswith("_error"), "value"] >= 0).all()


@pytest.mark.slow
def test_widths_and_corruption(runs):
    run = runs["pcme"]
    _, images, captions = gaussian._encoded(run)
    found = gaussian.widths(run).set_index(["direction", "metric"])["value"]
    owners = run.prepared().splits["test"].owners
    for name, items, of in (("images", images, np.arange(len(images))), ("captions", captions, owners)):
        by_item = np.array([np.mean(row) for row in items.log_std.tolist()])
        assert found[name, "mean_log_std"] == pytest.approx(by_item.mean())
        assert found[name, "mean_log_std_error"] == pytest.approx(image_error([(by_item, of)]))
    rise = gaussian.corruption(run).set_index(["direction", "metric"])["value"]
    both = corrupted_uncertainty(run.method(), run.prepared(), (0.0, 1.0)).set_index(["side", "share"])
    for name in ("images", "captions"):
        by_hand = both.loc[(name, 1.0), "value"] - both.loc[(name, 0.0), "value"]
        assert rise[name, "uncertainty_rise"] == pytest.approx(by_hand) and by_hand != 0
        apart = sum((both.loc[(name, s), "high"] - both.loc[(name, s), "low"]) ** 2 for s in (0.0, 1.0)) ** 0.5 / 3.92
        assert 0 < rise[name, "uncertainty_rise_error"] < 2 * apart


@pytest.mark.slow
def test_the_errors_of_uncertainty_and_of_sampling(runs):
    run = runs["pcme"]
    made = gaussian.uncertainty(run).set_index(["relevance", "direction", "metric"])["value"]
    assert {f"{m}_error" for _, _, m in made.index if not m.endswith("_error")} <= {m for *_, m in made.index}
    found = gaussian.sampling(run).set_index(["direction", "metric"])["value"]
    method, images, captions = gaussian._encoded(run)
    drawn, means = (
        precision_of(s, images, captions, run.prepared()).query("relevance == 'annotated'")
        for s in (method.similarity, DISTANCES["mean only"])
    )
    both = drawn.merge(means, on=["direction", "query", "image"])
    for direction, own in both.groupby("direction"):
        gain = (own["r_precision_x"] - own["r_precision_y"]).to_numpy()
        assert found[direction, "r_precision_gain_of_sampling"] == pytest.approx(gain.mean(), abs=1e-9)
        wanted = image_error([(gain, own["image"].to_numpy())])
        assert found[direction, "r_precision_gain_of_sampling_error"] == pytest.approx(wanted)


@pytest.mark.slow
def test_plausible_matches(runs):
    run = runs["means"]
    value = one(means.plausible(run), "pmrp", "plausible")
    benchmark = benchmark_run(run)
    assert value == pytest.approx(benchmark.values["PMRP"] / 100)
    assert one(means.both_directions(run), "mean_r1", "annotated") == pytest.approx(
        benchmark.values["R@1 annotated"] / 100
    )


@pytest.mark.slow
def test_set_algebra_of_a_run(runs):
    run = runs["plane"]
    table = algebra.set_algebra(run.method(), run.prepared(), images=12)
    assert len(table) == 12 and table["in_erased"].between(0, 1).all()
    entire = table[["first_in_mixed", "second_in_mixed"]]
    assert entire.isna().eq(table["in_mixed"].isna(), axis=0).all(axis=None), "shares of pairs without a common part"
    assert entire.dropna().stack().between(0, 1).all()
    unchanged = algebra.set_algebra(run.method(), run.prepared(), share=0.0, images=12)
    assert (unchanged[["in_erased", "erased_in"]] == 1).all(axis=None), "an image includes itself"
    with pytest.raises(BadInput, match="drawn in the plane"):
        algebra.set_algebra(runs["pcme"].method(), runs["pcme"].prepared(), images=4)


@pytest.mark.slow
def test_a_run_gets_the_metrics_that_its_claims_read(runs):
    claims = tuple(c for c in CLAIMS if c.id in ("pcme-precision", "pcme-plausible", "pcme-kl-images"))
    run = measured(runs["means"], ["PVSE"], claims)
    assert {"mean_r_precision", "pmrp"} <= set(run.metrics["metric"]) and "mean_log_std" not in set(
        run.metrics["metric"]
    )
