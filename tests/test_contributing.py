"""CONTRIBUTING.md in practice: a similarity, a head and a recipe that the package does not know go all the way."""

import math

import pytest
import torch
from tiny import tiny_config
from torch import Tensor, nn
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.base.types import EmbeddingSet, Features
from xmr_core.methods import registry
from xmr_core.methods.common import Inputs, MatchedOptions, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.methods.spec import MethodSpec
from xmr_core.similarities.pairs import element_products, fill_padding, real_rows
from xmr_core.training.runs import train_or_load

# step 1: what is new


def nearest_two(images: EmbeddingSet, captions: EmbeddingSet) -> Tensor:
    """s(I, T) = mean of the two largest x · y over pairs of elements."""
    products = fill_padding(
        element_products(real_rows(images), real_rows(captions)), images, captions, -math.inf
    )  # i k t l
    return products.transpose(1, 2).flatten(2).topk(2).values.mean(-1)


class FirstAndMean(nn.Module):
    """Two elements: the first token, and the mean of all."""

    def __init__(self, d_local: int, d: int):
        super().__init__()
        self.join = nn.Linear(d_local, d)

    def forward(self, features: Features) -> EmbeddingSet:
        x = self.join(torch.where(features.mask[..., None], features.local_feats, 0.0)) * features.mask[..., None]
        both = torch.stack([x[:, 0], x.sum(1) / features.mask.sum(1, keepdim=True)], 1)
        return EmbeddingSet(nn.functional.normalize(both, dim=-1), torch.ones(both.shape[:2], dtype=torch.bool))


# step 4: the recipe


def toy(inputs: Inputs, o: MatchedOptions) -> Method:
    image, text = matched_encoders(inputs, o.d, o.dropout, local="states")
    return Method(
        "toy",
        image,
        text,
        FirstAndMean(o.d, o.d),
        FirstAndMean(text.local_width, o.d),
        nearest_two,
        matched_objective(o),
    )


SPEC = MethodSpec("toy", "Toy", "Two elements, their best pairs.", "ours", MatchedOptions, toy)


# step 2: the loop


def test_the_similarity_equals_its_loop():
    from test_similarities import ragged

    images, captions = ragged(3, 3, seed=1), ragged(4, 4, seed=2)
    images, captions = (EmbeddingSet(s.x, s.mask | (torch.arange(s.x.shape[1]) < 2)) for s in (images, captions))
    for i in range(3):
        for t in range(4):
            pairs = sorted(
                (float(x @ y) for x in images.x[i][images.mask[i]] for y in captions.x[t][captions.mask[t]]),
                reverse=True,
            )
            assert nearest_two(images, captions)[i, t].item() == pytest.approx(sum(pairs[:2]) / 2)


# step 3: the contract


def test_the_similarity_keeps_the_contract(monkeypatch):
    import test_similarities as contract

    def two(images, captions):
        full = (EmbeddingSet(s.x, s.mask | (torch.arange(s.x.shape[1]) < 2)) for s in (images, captions))
        return nearest_two(*full)

    monkeypatch.setitem(contract.EVERY, "toy", two)
    monkeypatch.setitem(contract.SETWISE, "toy", nearest_two)
    monkeypatch.setitem(contract.GRAPHS, "toy", nearest_two)  # examples with two elements at least
    for check in (contract.test_gradient_is_that_of_the_formula, contract.test_blocks_equal_the_whole,
                  contract.test_items_can_be_permuted,
                  contract.test_the_order_of_elements_does_not_matter):  # fmt: skip
        check("toy")
    for sign in (1.0, -1.0):
        contract.test_finite_at_the_extremes("toy", sign)
    for junk in (1e30, math.nan):
        contract.test_padding_has_no_say_and_gets_no_gradient("toy", junk)


def test_the_contract_catches_a_similarity_that_reads_padding(monkeypatch):
    import test_similarities as contract

    careless = lambda images, captions: (images.x.sum(1) @ captions.x.sum(1).T) / images.x.shape[1]  # noqa: E731
    monkeypatch.setitem(contract.SETWISE, "careless", careless)
    with pytest.raises(AssertionError):
        contract.test_padding_has_no_say_and_gets_no_gradient("careless", 1e3)


def test_the_head_keeps_the_contract(monkeypatch):
    import test_heads as contract

    monkeypatch.setitem(contract.HEADS, "toy", lambda: FirstAndMean(6, 8))
    contract.test_padding_has_no_say_and_gets_no_gradient("toy", 1e30)
    contract.test_more_padding_changes_nothing("toy")
    contract.test_gradients_are_those_of_the_formula("toy")
    contract.test_every_parameter_is_trained("toy")


# step 5: a run


@pytest.mark.slow
def test_the_recipe_trains_is_evaluated_and_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    monkeypatch.setattr(registry, "_registered", {})
    registry.register(SPEC)
    config = tiny_config().replace(method="toy", options={"d": 16}, epochs=4)
    run = train_or_load(config)
    losses = run.history["loss"].tolist()
    assert losses[-1] < losses[0]
    recall = run.metrics.set_index(["relevance", "direction", "metric", "k"])["value"]["annotated", "t2i", "recall", 10]
    pictures = len(run.prepared().splits["test"].image_rows)
    assert recall > 10 / pictures
    again = train_or_load(config)
    assert_close(
        torch.tensor(again.metrics["value"].to_numpy(float)),
        torch.tensor(run.metrics["value"].to_numpy(float)),
        equal_nan=True,
    )
    with pytest.raises(BadInput, match="unknown option of toy 'slots'"):
        registry.build("toy", run.prepared().inputs, slots=3)
