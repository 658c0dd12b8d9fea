"""Text and image encoders against loops written from the equations, with captions and pictures of unequal length."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features, Tokens
from xmr_core.encoders.image import GridEncoder
from xmr_core.encoders.text import SUMMARIES, GRUEncoder

LENGTHS = (5, 1, 3)


def captions() -> Tokens:
    generator = torch.Generator().manual_seed(0)
    mask = torch.arange(7) < torch.tensor(LENGTHS)[:, None]  # two columns that no caption uses
    return Tokens(torch.randint(1, 11, mask.shape, generator=generator) * mask, mask)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru_states(encoder: GRUEncoder, words: np.ndarray, suffix: str) -> list[np.ndarray]:
    """h_t = (1 − z) n + z h_{t−1}, one caption, one direction, in the order given."""
    w_in, w_h, b_in, b_h = (
        getattr(encoder.rnn, f"{kind}_l0{suffix}").detach().numpy()
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    h, states = np.zeros(w_h.shape[1]), []
    for x in words:
        (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(w_in @ x + b_in, 3), np.split(w_h @ h + b_h, 3)
        r, z = sigmoid(r_x + r_h), sigmoid(z_x + z_h)
        h = (1 - z) * np.tanh(n_x + r * n_h) + z * h
        states.append(h)
    return states


def by_hand(encoder: GRUEncoder, tokens: Tokens, row: int) -> tuple[np.ndarray, np.ndarray]:
    """(summary "d", states "l d or d_hidden") of one caption."""
    words = encoder.embed.weight.detach().numpy()[tokens.ids[row, : LENGTHS[row]].numpy()]
    forward = gru_states(encoder, words, "")
    if encoder.summary == "last":
        return forward[-1], np.array(forward)
    backward = gru_states(encoder, words[::-1], "_reverse")[::-1]
    averaged = [(f + b) / 2 for f, b in zip(forward, backward, strict=True)]
    joined = [np.concatenate(pair) for pair in zip(forward, backward, strict=True)]
    summary = {
        "average": (forward[-1] + backward[0]) / 2,
        "concatenate": np.concatenate([forward[-1], backward[0]]),
        "concatenate-last-token": joined[-1],
        "concatenate-max": np.max(joined, 0),
        "max": np.max(averaged, 0),
    }[encoder.summary]
    return summary, np.array(averaged if encoder.summary in ("average", "max") else joined)


@pytest.mark.parametrize("local", ["words", "states"])
@pytest.mark.parametrize("summary", SUMMARIES)
def test_gru_encoder_is_its_equation_for_every_summary(summary, local):
    torch.manual_seed(1)
    encoder = GRUEncoder(11, 4, 6, summary=summary, dropout=0.0, local=local).double()
    tokens = captions()
    features = encoder(tokens)
    assert torch.equal(features.mask, tokens.mask) and features.local_feats.shape[-1] == encoder.local_width
    for row, length in enumerate(LENGTHS):
        expected, states = by_hand(encoder, tokens, row)
        assert np.allclose(features.global_feat[row].detach(), expected, atol=1e-12)
        if local == "states":
            assert np.allclose(features.local_feats[row, :length].detach(), states, atol=1e-12)


def pictures(dropped: tuple[int, ...]) -> Features:
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(len(dropped), 9, dtype=torch.bool)
    for row, count in enumerate(dropped):
        mask[row, torch.randperm(9, generator=generator)[:count]] = False
    return Features(torch.randn(len(dropped), 9, 5, generator=generator, dtype=torch.float64), mask)


@pytest.mark.parametrize("cells", [9, 0])
@pytest.mark.parametrize("dropped", [(0, 0, 0), (2, 4, 3), (8, 8, 8)])
def test_leaving_dropped_cells_out_in_training_changes_nothing_that_is_kept(cells, dropped):
    torch.manual_seed(0)
    encoder = GridEncoder(5, 6, cells, dropout=0.0).double()
    features = pictures(dropped)
    whole, short = encoder.eval()(features), encoder.train()(features)
    assert short.local_feats.shape[1] == 9 - min(dropped)
    assert torch.allclose(whole.global_feat, short.global_feat, atol=1e-12)
    for row in range(3):  # the same cells in the same order
        assert torch.allclose(
            whole.local_feats[row][whole.mask[row]], short.local_feats[row][short.mask[row]], atol=1e-12
        )


def test_the_vector_of_the_whole_picture_enters_the_global_feature_only():
    torch.manual_seed(0)
    encoder = GridEncoder(5, 6, 9, dropout=0.0, d_global=3).double().eval()
    plain, g = pictures((2, 4, 3)), torch.randn(3, 3, dtype=torch.float64)
    got, linear = encoder(replace(plain, global_feat=g)), encoder.project_global[1]
    for row in range(3):
        valid = got.local_feats[row][got.mask[row]]
        assert torch.allclose(
            got.global_feat[row], sum(valid) / len(valid) + linear.weight @ g[row] + linear.bias, atol=1e-12
        )
    for given, made in ((plain, encoder), (replace(plain, global_feat=g), GridEncoder(5, 6, 9).double())):
        with pytest.raises(BadInput, match="a global vector of width [03], got [03]"):
            made(given)


def test_grid_encoder_refuses_another_number_of_cells():
    with pytest.raises(BadInput, match="made for 9 cells an image, got 4"):
        GridEncoder(5, 6, 9)(Features(torch.zeros(1, 4, 5), torch.ones(1, 4, dtype=torch.bool)))
