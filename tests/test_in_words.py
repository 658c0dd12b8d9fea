"""Sentences that notebooks make from measured numbers: each branch says what the numbers say."""

import numpy as np
import pandas as pd
import pytest
import torch

from xmr_core.base.types import EmbeddingSet
from xmr_core.evaluation.analysis import (
    algebra_in_words,
    attention_in_words,
    first_element_share,
    neighbours_in_words,
    nesting_in_words,
)


def measured(**values: float) -> pd.DataFrame:
    return pd.DataFrame(list(values.items()), columns=["metric", "value"])


@pytest.mark.parametrize(
    ("fall", "lead"),
    [(0.1, "Slots sharpen over the rounds here, as in the toy: "),
     (0.001, "It cannot be told here whether slots sharpen"),
     (-0.1, "Slots do not sharpen over the rounds here, unlike the toy: ")],
)  # fmt: skip
def test_rounds_sharpen_or_not_by_the_interval_of_the_entropy(fall, lead):
    (sentence,) = attention_in_words(measured(attention_entropy_fall=fall, attention_entropy_fall_error=0.002))
    assert sentence.startswith(lead) and f"changes by {-fall:+.2f} nats" in sentence


def test_what_attention_says_of_objects():
    rows = {"attention_overlap_gain": 0.03, "attention_overlap_gain_error": 0.01, "slot_pointing": 0.75}
    rows |= {"attention_overlap_over_others": 0.1, "slot_pointing_chance": 0.15}
    table = measured(**rows)
    overlap, others, pointing = attention_in_words(table)
    assert overlap.startswith("Over the rounds they come to lie on objects") and "+3.0 points (± 2.0;" in overlap
    assert "by 10.0 points more than" in others and "in 75 % of cases (15 % by chance)" in pointing
    overlap, _, _ = attention_in_words(table.assign(value=-table["value"]))
    assert overlap.startswith("Over the rounds they move away from objects")
    assert "cannot be told" in attention_in_words(table.replace(0.03, 0.01))[0], "0.01 is within 1.96 errors of 0"
    two = pd.concat([table, table.replace(0.03, 0.01)])
    assert "+2.0 points (± 1.4;" in attention_in_words(two)[0], "the mean of two models is the surer one"
    assert attention_in_words(table.iloc[:0]) == []
    lines = attention_in_words(table.replace(0.1, -0.01))
    assert "no more than those of another (-1.0 points)" in lines[1]


def test_erasing_and_mixing_in_words():
    few = pd.DataFrame({"in_erased": [0.5, 0.6, 0.5], "erased_in": 0.1, "in_mixed": [0.9, 0.8, np.nan]})
    few = few.assign(in_other=[0.2, 0.2, np.nan], first_in_mixed=[0.95, 0.4, np.nan], second_in_mixed=0.3)
    table = pd.concat([few] * 10, ignore_index=True)
    erasing, mixing = algebra_in_words(table)
    assert erasing.startswith("Erasing, yes: ") and mixing.startswith("Mixing, yes: ")
    assert "(20 of 30 pairs have" in mixing and "10 of these 20 mixtures hold over 90 %" in mixing
    assert algebra_in_words(table.iloc[3:])[1].startswith("Mixing, it cannot be told here: "), "18 pairs are too few"
    turned = table.rename(columns={"in_erased": "erased_in", "erased_in": "in_erased"})
    assert algebra_in_words(turned)[0].startswith("Erasing, no: ")
    assert algebra_in_words(table.assign(erased_in=[0.1, 0.9, 0.6] * 10))[0].startswith(
        "Erasing, it cannot be told here: "
    )
    apart = table.assign(in_mixed=np.nan, in_other=np.nan)
    assert algebra_in_words(apart)[1].endswith("no two images have anything in common.")


def test_where_elements_live():
    shares = pd.DataFrame(
        {"same element": [80.0, 23.0, 30.0], "same modality": [96.0, 99.0, 60.0], "same item": [15.0, 75.0, 100.0]},
        ["slot", "item", "none"],
    )
    place, outside, apart = neighbours_in_words(shares, 4)
    assert place == (
        "Elements live beside those of the same number in other sets (“slot”); beside the others of their own set, "
        "which is narrow (“item”, “none”)."
    )
    assert "94 % (“slot”), 92 % (“item”); chance gives 25 %" in outside and "60 to 99 %" in apart
    assert (
        "in no one such place (“x”)"
        in neighbours_in_words(shares.iloc[:1].assign(**{"same element": 50.0}).set_axis(["x"]), 4)[0]
    )


def test_the_first_element_is_counted_where_it_wins_and_padding_never_does():
    x = torch.eye(4)[None].repeat(2, 1, 1)
    images = EmbeddingSet(x[:, :2], torch.tensor([[True, True], [True, False]]))
    captions = EmbeddingSet(
        torch.stack([x[0, [0, 2]], x[0, [2, 1]], 3 * x[0, [0, 1]], x[0, [1, 0]]]), torch.ones(4, 2, dtype=bool)
    )
    owners = np.array([0, 0, 1, 1])
    # 0: first; 1: second; 2: first, whatever its length; 3: the image's second element is padding, so the second wins
    assert first_element_share(images, captions, owners) == 0.5
    captions.mask[3, 1] = False
    assert first_element_share(images, captions, owners) == 0.75


def curves_and_verdicts(words: dict[int, str], own: float = 100.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    kinds = {"nested, cut": 95.0, "trained for this number": own, "plain, cut": 50.0}
    curves = [("DivE", model, k, seed, rsum) for model, rsum in kinds.items() for k in words for seed in (0, 1, 2)]
    curves = pd.DataFrame(curves, columns=["method", "model", "elements", "seed", "rsum"])
    lines = [{"method": "DivE", "stored": k, "nested against": other, "difference": 0.0, "verdict": word}
             for k, word in words.items() for other in ("trained for this number", "plain, cut")]  # fmt: skip
    return pd.DataFrame(lines), curves


@pytest.mark.parametrize(
    ("words", "served", "needed"),
    [({1: "undecided", 2: "undecided", 4: "undecided"}, "it cannot be told whether one nested model serves",
      "it cannot be told whether the training is needed"),
     ({1: "held", 2: "held", 4: "held"}, "yes, one nested model serves every number",
      "the training is needed; a plain model that is cut is worse at 1, 2 elements"),
     ({1: "contradicted", 2: "undecided", 4: "held"}, "no, one nested model does not serve every number; it is worse "
      "at 1 element", "the training does harm; a plain model that is cut is better at 1 element")],
)  # fmt: skip
def test_nesting_serves_every_number_or_not(words, served, needed):
    first, second = nesting_in_words(*curves_and_verdicts(words))
    assert first.startswith(f"DivE: {served}") and second.startswith(f"DivE: {needed}")
    assert "(3 seeds)" in first and "95 to 95 % of the RSUM of models trained for each number" in first
    assert "190 to 190 % of the RSUM of a plain model that is cut" in second
