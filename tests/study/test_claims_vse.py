"""What the claims of VSE+2AD measure and vary, against loops."""

import numpy as np
import pytest
import reference
import torch
from tiny import tiny_config
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import Features
from xmr_core.heads.pooling import AdaptivePoolHead
from xmr_core.methods.registry import build
from xmr_core.training.runs import train_or_load
from xmr_study.measures import epochs_to

# what an evaluation does not give


def loop_epochs(values, share):
    """Walks the curve in steps of a hundred-thousandth of an epoch."""
    values, steps = [0.0, *values], 100_000
    for step in range(1, (len(values) - 1) * steps + 1):
        whole, part = divmod(step, steps)
        height = values[whole] + (part / steps) * (values[min(whole + 1, len(values) - 1)] - values[whole])
        if height >= share * values[-1] - 1e-9:
            return step / steps
    raise AssertionError("the last value itself is above every share of it")


@pytest.mark.parametrize("values", [[1.0], [2.0, 3.0, 4.0], [1.0, 5.0, 3.0, 4.0], [4.0, 2.0, 4.1], [0.5, 0.5, 0.5]])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_epochs_to_a_share_of_the_last_value(values, share):
    with pytest.raises(BadInput):
        epochs_to([])
    assert epochs_to(values, share) == pytest.approx(loop_epochs(values, share), abs=2e-5)


# options


def features_of(lengths=(4, 1, 3), width=5):
    x = torch.randn(len(lengths), 4, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return Features(x, torch.arange(4) < torch.tensor(lengths)[:, None])


def test_a_random_balance_is_one_number_that_is_stored_and_not_trained():
    torch.manual_seed(3)
    head, features = AdaptivePoolHead(5, 5, balance="random").double(), features_of()
    share = head.share.item()
    assert 0 <= share < 1 and "share" in head.state_dict() and "share" not in dict(head.named_parameters())
    token, embedding, _, weights = head.parts(features)
    for n in range(3):
        mixed = [share * t + (1 - share) * e for t, e in zip(token[n].tolist(), embedding[n].tolist(), strict=True)]
        assert_close(head(features).x[n], torch.tensor(reference.unit(np.array(mixed))))
    assert weights[:, 0].tolist() == pytest.approx([share] * 3)
    other = AdaptivePoolHead(5, 5, balance="random").double()
    assert other.share != head.share
    other.load_state_dict(head.state_dict())
    assert_close(other(features).x, head(features).x)


@pytest.mark.slow
def test_negatives_in_training_are_those_of_the_run_step_by_step(own_home):
    from xmr_core.data.batches import Batches
    from xmr_study import negatives_in_training

    run = train_or_load(tiny_config("vse+2ad", epochs=3))
    table = negatives_in_training(run.config)
    batches = Batches(run.prepared().splits["train"], 16, 2, 0)
    assert len(table) == 3 * len(batches) and table["epoch"].tolist() == sorted([1, 2, 3] * len(batches))
    assert set(table["i2t of"]) == {32} and set(table["t2i of"]) == {16}
    torch.manual_seed(run.config.train.seed)
    method = build("vse+2ad", run.prepared().inputs, **run.config.options).train()
    batch = batches.batch(0, 0, batches.plan(0))
    scores = method.loss(batch)[2]
    first = table.iloc[0]
    for d, s, match in (("i2t", scores, batch.match), ("t2i", scores.T, batch.match.T)):
        assert first[d] == method.objective.score_loss.how_many(s, match)
        assert table[d].between(1, first[f"{d} of"] - 1).all()
    with pytest.raises(BadInput, match="another objective than AdOpt"):
        negatives_in_training(run.config.replace(objective="triplet"))
