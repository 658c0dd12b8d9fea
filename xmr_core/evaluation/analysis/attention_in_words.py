"""What measured attention says about objects, in sentences for a reader."""

import numpy as np
import pandas as pd


def attention_in_words(table: pd.DataFrame, toy: str = "the toy") -> list[str]:
    """Sentences on where slots, and words, attend: over the rounds, against the objects of another image, and whether
    the cell with most attention lies on an object. What was not measured has no sentence.

    table: columns metric and value with rows 'attention_overlap_gain', 'attention_entropy_fall' and
    'attention_overlap_over_others', each with '…_error', and 'slot_pointing', 'word_pointing' with '…_chance'; several
    models are averaged. A change counts where it is more than 1.96 of its standard errors, which are over images.
    toy: the example in which the division sharpens.

    >>> rows = [("attention_entropy_fall", -0.03), ("attention_entropy_fall_error", 0.002)]
    >>> attention_in_words(pd.DataFrame(rows, columns=["metric", "value"]))[0][:66]
    'Slots do not sharpen over the rounds here, unlike the toy: the ent'
    """
    groups = table.groupby("metric")["value"]
    mean = groups.mean()
    error = np.sqrt(groups.agg(lambda errors: (errors**2).mean()) / groups.size())
    out = []

    def direction(metric: str) -> int:
        room = 1.96 * error.get(f"{metric}_error", 0.0)
        return int(mean[metric] > room) - int(mean[metric] < -room)

    if "attention_entropy_fall" in mean:
        lead = {
            1: f"Slots sharpen over the rounds here, as in {toy}",
            0: f"It cannot be told here whether slots sharpen over the rounds, as in {toy}",
            -1: f"Slots do not sharpen over the rounds here, unlike {toy}",
        }[direction("attention_entropy_fall")]
        out.append(f"{lead}: the entropy of a cell's shares changes by {-mean['attention_entropy_fall']:+.2f} nats.")
    if "attention_overlap_gain" in mean:
        lead = {
            1: "Over the rounds they come to lie on objects",
            0: "It cannot be told here whether they come to lie on objects over the rounds",
            -1: "Over the rounds they move away from objects",
        }[direction("attention_overlap_gain")]
        points = 100 * mean["attention_overlap_gain"]
        margin = 196 * error["attention_overlap_gain_error"]
        out.append(f"{lead}: their overlap with objects changes by {points:+.1f} points (± {margin:.1f}; 100 is all).")
    if "attention_overlap_over_others" in mean:
        points = 100 * mean["attention_overlap_over_others"]
        out.append(
            f"After the last round they overlap the objects of their own image by {points:.1f} points more than "
            "those of another image."
            if points > 0
            else f"They overlap the objects of their own image no more than those of another ({points:+.1f} points)."
        )
    for name, what in (("slot", "of a slot lies on an object"), ("word", "of a word lies on an object of its shape")):
        if f"{name}_pointing" in mean:
            hits, chance = 100 * mean[f"{name}_pointing"], 100 * mean[f"{name}_pointing_chance"]
            out.append(f"The strongest cell {what} in {hits:.0f} % of cases ({chance:.0f} % by chance).")
    return out
