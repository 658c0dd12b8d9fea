"""GPO, AdPool and AdOpt against loops over single items and against the authors' outputs."""

import math
from functools import partial

import numpy as np
import pytest
import reference
import torch
from golden import ATOL, CHAIN, RTOL, Case, cases, close_gradient, lengths_mask
from torch.testing import assert_close

from xmr_core.base.types import Features
from xmr_core.heads.gpo import GPOHead, sorted_channels
from xmr_core.heads.pooling import AGGREGATORS, AdaptivePoolHead, aggregator
from xmr_core.losses.adaptive_clustering import AdaptiveClustering

close = partial(assert_close, rtol=RTOL, atol=ATOL)
LENGTHS = (5, 1, 3)


def features_of(d=4, seed=0) -> Features:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(len(LENGTHS), 6, d, generator=g, dtype=torch.float64)
    mask = torch.zeros(x.shape[:2], dtype=torch.bool)
    for row, length in enumerate(LENGTHS):
        mask[row, torch.randperm(6, generator=g)[:length]] = True
    return Features(x, mask)


def ordered(x, mask) -> list[list[np.ndarray]]:
    """Per item its rows, every channel sorted by value."""
    return [list(np.sort(np.array(item), axis=0)[::-1]) for item in reference.real(x, mask)]


def golden_features(case) -> Features:
    x = case["in.features"]
    return Features(x, lengths_mask(case["in.lengths"], x.shape[1]))


# pooling


@pytest.mark.parametrize("junk", [0.0, 1e30, math.nan])
def test_channels_are_sorted_among_real_tokens_only(junk):
    features = features_of()
    x = torch.where(features.mask[..., None], features.local_feats, junk)
    got = sorted_channels(x, features.mask)
    for row, rows in enumerate(ordered(features.local_feats, features.mask)):
        assert_close(got[row, : LENGTHS[row]], torch.tensor(np.array(rows)))
        assert (got[row, LENGTHS[row] :] == 0).all()


def test_gpo_equals_the_loop():
    torch.manual_seed(0)
    head, features = GPOHead(4, 4, d_pe=6, d_hidden=5).double(), features_of()
    got, weights = head(features).x, head.weights(features.mask)
    for row, rows in enumerate(ordered(features.local_feats, features.mask)):
        length = LENGTHS[row]
        codes = torch.tensor(np.array([reference.sine_code(k, 6) for k in range(length)]))
        states = head.gru(codes[None])[0][0]
        theta = reference.softmax([head.linear((s[:5] + s[5:]) / 2).item() / 0.1 for s in states])
        assert weights[row, :length].tolist() == pytest.approx(theta) and (weights[row, length:] == 0).all()
        assert_close(got[row], torch.tensor(reference.unit(sum(t * r for t, r in zip(theta, rows, strict=True)))))


@pytest.mark.parametrize("name", cases("gpo", "gpo_"))
def test_the_authors_gpo(name):
    case = Case(name)
    x = case["in.features"]
    settings = (case.cfg[name] for name in ("d_pe", "d_hidden", "temperature"))
    head = GPOHead(x.shape[2], x.shape[2], *settings, normalise=False)
    head.load_state_dict(case.weights("w.gpool."))
    features = golden_features(case)
    x = features.local_feats.requires_grad_()
    got = head(features)
    close(got.x, case["out.pooled"], rtol=CHAIN)
    stored = case["out.pool_weights"][..., 0]
    close(head.weights(features.mask)[:, : stored.shape[1]], stored, rtol=CHAIN)
    got.x.square().sum().backward()
    close_gradient(x.grad, case["out.grad_features_of_sumsq"])


@pytest.mark.parametrize("token_weights", ["matrix", "scalar"])
@pytest.mark.parametrize("choice", [{}, {"levels": "token"}, {"levels": "embedding"}, {"balance": 0.25}])
def test_adpool_equals_the_loop(token_weights, choice):
    torch.manual_seed(0)
    head, features = AdaptivePoolHead(4, 4, token_weights=token_weights, **choice).double(), features_of()
    w, b = head.linear.weight.detach().numpy(), head.linear.bias.detach().numpy()
    w_b, b_b = head.balance.weight.detach().numpy()[0], head.balance.bias.item()
    for row, rows in enumerate(ordered(features.local_feats, features.mask)):
        logits = [w @ r + b for r in rows]
        logits = [np.maximum(v, 0) if token_weights == "matrix" else np.full(4, v[0]) for v in logits]
        token, embedding = np.zeros(4), np.zeros(4)
        for c in range(4):
            theta, soft = reference.softmax([v[c] for v in logits]), reference.softmax([r[c] for r in rows])
            token[c] = sum(t * r[c] for t, r in zip(theta, rows, strict=True))
            embedding[c] = sum(t * r[c] for t, r in zip(soft, rows, strict=True))
        learned = reference.softmax([w_b @ token + b_b, w_b @ embedding + b_b])
        share = {"token": 1.0, "embedding": 0.0}.get(choice.get("levels"), choice.get("balance", learned[0]))
        assert_close(head(features).x[row], torch.tensor(reference.unit(share * token + (1 - share) * embedding)))


@pytest.mark.parametrize("name", cases("adpool", "adpool_"))
def test_the_authors_adpool(name):
    case = Case(name)
    features = golden_features(case)
    d = features.local_feats.shape[2]
    head = AdaptivePoolHead(d, d, padding="official", normalise=False)
    head.load_state_dict(case.weights("w.pool."))
    x = features.local_feats.requires_grad_()
    parts = ("token_level", "embedding_level", "token_weights", "balance_weights")
    for got, stored in zip(head.parts(features), parts, strict=True):
        close(got, case[f"out.{stored}"])
    pooled = head(features).x
    close(pooled, case["out.pooled"])
    pooled.square().sum().backward()
    close_gradient(x.grad, case["out.grad_features_of_sumsq"])


def test_padding_leaks_as_the_authors_do_or_not_at_all():
    case = Case("adpool/padding_leak")
    features = golden_features(case)
    for padding in ("official", "masked"):
        head = AdaptivePoolHead(case.cfg["D"], case.cfg["D"], padding, normalise=False)
        head.load_state_dict(case.weights("w.pool."))
        for more in case.cfg["extra_padding"]:
            x, mask = features.local_feats, features.mask
            wide = Features(torch.nn.functional.pad(x, (0, 0, 0, more)), torch.nn.functional.pad(mask, (0, more)))
            close(head(wide).x, case[f"out.pooled_pad{more}" if padding == "official" else "out.pooled_unpadded"])


def by_hand(name: str, head, rows: list[np.ndarray]) -> np.ndarray:
    """One item's pooled vector from the equation of the aggregator."""
    table = np.array(rows)

    def weighted(logits):
        """Each channel's sum by the softmax of its own logits."""
        return np.array([np.dot(reference.softmax(a), r) for a, r in zip(logits.T, table.T, strict=True)])

    soft = weighted(table)
    if name == "softpool":
        return soft
    if name == "k-max":
        return np.sort(table, axis=0)[::-1][:5].mean(0)
    if name == "lip":
        return weighted(table @ head.importance.weight.detach().numpy().T)
    mean = sum(rows) / len(rows)
    dice = [2 * abs(r @ mean) / (r @ r + mean @ mean) for r in rows]
    near = sum(a * r for a, r in zip(reference.softmax(dice), rows, strict=True))
    beta = 1 / (1 + math.exp(-head.beta.item()))
    return beta * near + (1 - beta) * soft


@pytest.mark.parametrize("name", ["k-max", "softpool", "adapool", "lip"])
def test_aggregators_equal_the_loop(name):
    torch.manual_seed(0)
    head, features = aggregator(name, 4, 4).double(), features_of()
    for got, rows in zip(head(features).x, reference.real(features.local_feats, features.mask), strict=True):
        assert_close(got.detach(), torch.tensor(reference.unit(by_hand(name, head, rows))))


def test_the_sequence_encoder_reads_the_order_of_tokens_the_others_do_not():
    for name in AGGREGATORS:
        torch.manual_seed(0)
        head, features = aggregator(name, 4, 4).double(), features_of()
        turned = Features(features.local_feats.flip(1), features.mask.flip(1))
        assert torch.allclose(head(turned).x, head(features).x) == (name != "seq2seq")


# objective


def loop(S, match, form, k, tau, margin, own):
    """One direction, queries as rows; k negatives per row."""
    terms = []
    for q, row in enumerate(S):
        candidates = [(0.0 if m else s, j) for j, (s, m) in enumerate(zip(row, match[q], strict=True))]
        if form == "paper" or not own:
            candidates = [c for c in candidates if not match[q][c[1]]]
        chosen = [j for _, j in sorted(candidates, reverse=True)[:k]]
        for p in np.flatnonzero(match[q]):
            if form == "paper":
                below = sum(math.exp(row[j] / tau) for j in chosen)
            else:
                below = math.exp(row[p] / tau) + sum(math.exp((row[j] + margin) / tau) for j in chosen)
            terms.append(-math.log(math.exp(row[p] / tau) / below))
    return sum(terms) / len(terms)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("form", ["official", "paper"])
@pytest.mark.parametrize("k", [1, 3, 7])
def test_adaptive_clustering_equals_the_loop(form, k, own):
    rng, several = np.random.default_rng(k), 1 if own else 2  # two positives at 0 would tie, and either may be chosen
    S, match = rng.uniform(-0.5, 0.9, (5, 5 * several)), np.eye(5, dtype=bool).repeat(several, 1)
    loss = AdaptiveClustering(form, "constant", k, own_negatives=own, temperature=0.2)
    ways = [loop(s, m, form, min(k, s.shape[1] - 1), 0.2, 0.2, own) for s, m in ((S.T, match.T), (S, match))]
    got = loss(torch.tensor(S), torch.tensor(match)).item()
    assert got == pytest.approx(sum(ways) / (2 if form == "official" else 1))


def test_the_number_of_negatives_falls_as_training_goes_on():
    match, counts = torch.eye(64, dtype=torch.bool), []
    for align in (0.0, 0.2, 0.5, 0.9):
        scores = torch.where(match, align, 0.0)
        counts.append([AdaptiveClustering(form).how_many(scores, match) for form in ("official", "paper")])
    official, paper = zip(*counts, strict=True)
    assert (official[0], official[-1]) == (int(math.cos(1) * 64) + 1, 1)
    assert list(official) == sorted(official, reverse=True)
    assert min(paper) > 40  # the published formula hardly adapts


@pytest.mark.parametrize("name", cases("adopt"))
def test_the_authors_adaptive_objective(name):
    case = Case(name)
    cfg = case.cfg
    mode = {"acc": "adaptive", "constant": "constant", "random": "random"}[cfg["acc_mode"]]
    loss = AdaptiveClustering("official", mode, cfg["const_num"], cfg["tau"], cfg["margin"], cfg["scale"])
    x, y = case["in.img"].requires_grad_(), case["in.txt"].requires_grad_()
    scores, match = x @ y.T, torch.eye(len(x), dtype=torch.bool)
    assert loss.alignment(scores, match) == pytest.approx(case["out.align"].item(), rel=1e-5, abs=1e-6)
    assert loss.uniformity(scores, match) == pytest.approx(case["out.uniform"].item(), rel=1e-5)
    total = loss(scores, match)
    assert loss.history == [tuple(case["out.num_negs"].tolist())]
    for side, k, s in (("t2i", loss.history[0][0], scores.T), ("i2t", loss.history[0][1], scores)):
        assert torch.equal(loss.hardest(s, match)[:, :k], case[f"out.neg_idx_{side}"])
    close(total, case["out.loss"])
    close(loss._one_way(scores.T, match.T, loss.history[0][0]), case["out.loss_t2i"])
    close(loss._one_way(scores, match, loss.history[0][1]), case["out.loss_i2t"])
    total.backward()
    close_gradient(x.grad, case["out.grad_img"])
    close_gradient(y.grad, case["out.grad_txt"])
