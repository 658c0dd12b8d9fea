"""What the claims of PCME measure and vary, against loops."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from tiny import tiny_config
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, GaussianEmbedding
from xmr_core.data.scenes import load_scenes
from xmr_core.data.scenes.corpus import scenes_of, statements_of
from xmr_core.data.scenes.world import say, truth_matrix
from xmr_core.evaluation.analysis import corruption as algebra
from xmr_core.evaluation.analysis.representations import encode_split
from xmr_core.heads.gaussian import GaussianHead, LinearGaussianHead
from xmr_core.losses.scores import hinge_triplet
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import build
from xmr_core.training.runs import train_or_load
from xmr_study import analysis
from xmr_study.claims.pcme import ABLATIONS
from xmr_study.measures import answers_known, counterfactuals, mean_log_std

INPUTS = Inputs(5, 3, 9, word_dim=4)


def features(d_local: int = 4, d: int = 6) -> Features:
    g = torch.Generator().manual_seed(0)
    local, whole = torch.randn(3, 5, d_local, generator=g), torch.randn(3, d, generator=g)
    return Features(local, torch.ones(3, 5, dtype=torch.bool), whole)


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


def test_linear_heads_in_the_plane():
    torch.manual_seed(0)
    x, head = features(), LinearGaussianHead(6, 2, samples=3, seed=1, log_std_start=-1.0).eval()
    out = head(x)
    assert_close(out.mean, x.global_feat @ head.mean.weight.T + head.mean.bias)
    assert_close(out.log_std, x.global_feat @ head.spread.weight.T + head.spread.bias - 1)
    noise = (out.samples - out.mean[:, None]) / out.log_std.exp()[:, None]
    assert_close(noise[0], noise[2], rtol=1e-4, atol=1e-5), "items share one draw in evaluation"
    assert not torch.equal(head.train()(x).samples, head(x).samples)
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


# regions in the plane


def plane(*items: tuple[float, float, float, float]) -> GaussianEmbedding:
    table = torch.tensor(items)
    return GaussianEmbedding(table[:, :2], table[:, 2:].log())


def region(item: tuple[float, float, float, float], level: float = 0.5) -> np.ndarray:
    """Which cells of a fine grid lie in the region of a level."""
    x, y = np.meshgrid(np.arange(-4, 4, 0.02), np.arange(-4, 4, 0.02))
    return ((x - item[0]) / item[2]) ** 2 + ((y - item[1]) / item[3]) ** 2 <= -2 * math.log(1 - level)


def share_on_a_grid(*items) -> float:
    """Share of the cells common to all items but the last that lie in the last."""
    *others, last = map(region, items)
    common = np.logical_and.reduce(others)
    return (common & last).sum() / common.sum()


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
        with pytest.raises(ValueError):
            call()


# measures of a trained run


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        plane_options = dict(ABLATIONS["plane"]["PCME in the plane"][1])
        yield {"pcme": train_or_load(tiny_config("pcme")), "plane": train_or_load(tiny_config("pcme", **plane_options))}


@pytest.mark.slow
def test_the_mean_of_log_sigma_is_that_of_all_items_and_dimensions(runs):
    run = runs["pcme"]
    found = mean_log_std(run)
    for name, items in zip(found, encode_split(run.method(), run.prepared().splits["test"]), strict=True):
        assert found[name] == pytest.approx(np.mean([np.mean(row) for row in items.log_std.tolist()]))


@pytest.mark.slow
def test_set_algebra_of_a_run(runs):
    run = runs["plane"]
    table = analysis.set_algebra(run.method(), run.prepared(), images=12)
    assert len(table) == 12 and table["in_erased"].between(0, 1).all()
    entire = table[["first_in_mixed", "second_in_mixed"]]
    assert entire.isna().eq(table["in_mixed"].isna(), axis=0).all(axis=None), "shares of pairs without a common part"
    assert entire.dropna().stack().between(0, 1).all()
    unchanged = analysis.set_algebra(run.method(), run.prepared(), share=0.0, images=12)
    assert (unchanged[["in_erased", "erased_in"]] == 1).all(axis=None), "an image includes itself"
    images = encode_split(run.method(), run.prepared().splits["test"])[0]
    alone = [float(algebra.share_inside(images[[n]], images[[(n + 1) % 12]])) for n in range(12)]
    assert table["in_next"].tolist() == pytest.approx(alone), "an image and the one after it"
    with pytest.raises(BadInput, match="drawn in the plane"):
        analysis.set_algebra(runs["pcme"].method(), runs["pcme"].prepared(), images=4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pcme", "dive", "vse++"])
def test_a_caption_that_says_less_has_more_answers_and_its_uncertainty_stands_beside(method, own_home):
    run = train_or_load(tiny_config(method, epochs=1))
    table = counterfactuals(run)
    assert {*table["erased"]} == {"colour", "size"} and (table["answers"] >= 1).all()
    assert (table["answers after"] >= table["answers"]).all() and (table["answers after"] > table["answers"]).any()
    assert ("spread" in table) == (method != "vse++")
    prepared, model = run.prepared(), run.method()
    images, _ = encode_split(model, prepared.splits["test"])
    said, scenes = statements_of(run.corpus, "test"), scenes_of(run.corpus, "test")
    line = table.iloc[3]
    own, place = said[[line["caption"]]], {"colour": 1, "size": 2}[line["erased"]]
    truth = [truth_matrix(own, scenes[[n]])[0, 0] for n in range(len(scenes))]
    assert sum(truth) == line["answers"] and own.a[0, place] >= 0 and truth[own.image[0]]
    same = table[table["erased"] == line["erased"]]
    fewer = said[same["caption"].to_numpy()]
    fewer.a[:, place] = -1  # rows taken by an array are a copy
    assert truth_matrix(fewer, scenes).sum(1).tolist() == same["answers after"].tolist()
    texts = say(said[same["caption"].to_numpy()], np.random.default_rng(0))
    with torch.inference_mode():
        items = model.encode_captions(prepared.captions([texts[same.index.get_loc(3)]]))
        scores = model.similarity(images, items)[:, 0].double()
    scale = float(model.objective.score_loss.scale()) if method != "pcme" else 1.0
    shares = (scores * scale).softmax(0)
    assert line["entropy"] == pytest.approx(-float((shares * shares.log()).sum()), rel=1e-4)
    assert table.equals(counterfactuals(run)), "the same words each time"
    assert (table[["entropy", "entropy after"]].to_numpy() <= np.log(len(scenes)) + 1e-9).all()
    known = answers_known(run)
    for name in {"spread", "entropy"} & {*table}:
        risen = {True: [], False: []}
        for one in table.to_dict("records"):
            difference = one[f"{name} after"] - one[name]
            risen[one["answers after"] > one["answers"]].append(float(difference > 0) + 0.5 * (difference == 0))
        assert known[f"{name} rises"] == pytest.approx(sum(risen[True]) / len(risen[True]))
        assert known[f"{name} rises anyway"] == pytest.approx(sum(risen[False]) / len(risen[False]))
        assert known[f"{name} answers"] == pytest.approx(spearmanr(table[name], table["answers"]).statistic)
    assert len(known) == (6 if method != "vse++" else 3)


def test_erasing_an_attribute_changes_no_other_word():
    corpus = load_scenes("tiny")
    own = statements_of(corpus, "test")[[n for n, s in enumerate(statements_of(corpus, "test").kind) if s < 3]]
    own = own[np.flatnonzero((own.a[:, 2] >= 0) & (own.a[:, :2] >= 0).any(1))]
    shorter = own.a.copy()
    shorter[:, 2] = -1
    texts = [say(s, np.random.default_rng(0)) for s in (own, replace(own, a=shorter))]
    for before, after in zip(*texts, strict=True):
        words, fewer = before.split(), after.split()
        gone = [w for w in words if w not in fewer]
        sizes = {"small", "tiny", "medium", "mid-sized", "large", "big"}
        assert len(words) == len(fewer) + 1 and {*gone} - {"a", "an"} <= sizes
