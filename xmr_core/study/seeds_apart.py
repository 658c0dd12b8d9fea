"""Seeds of a method that ended far from all its others, so that a mean and its interval are read for what they are."""

from collections.abc import Sequence

import pandas as pd

from xmr_core.study.claims_data.claim import RSUM
from xmr_core.study.comparisons import values_of

FAR, ENOUGH = 6.0, 5  # robust standard deviations; seeds
NORMAL = 1.4826  # a standard deviation in median absolute deviations, for normal values


def seeds_apart(rows: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    r"""One line per seed whose annotated RSUM is far from that of its method's others; columns label, seeds, seed,
    rsum, median, others (the mean without the seeds apart).

        far: |v_s − median(v)| > FAR · max(1.4826 · median_r |v_r − median(v)|, mean_r e_r)

    v: values of seeds, e: their standard errors for the choice of test images. A method with fewer than ENOUGH seeds
    has none. rows: of results.read.

    >>> seeds_apart(pd.DataFrame(columns=["variant"]), ["DivE"]).empty
    True
    """
    named = rows[rows["variant"].isin(names)] if len(rows) else rows
    lines = []
    for by_label in values_of(named, RSUM).values() if len(named) else ():
        for label, table in by_label.items():
            values, median = table["value"], table["value"].median()
            distance = (values - median).abs()
            spread = max(NORMAL * distance.median(), table["error"].astype(float).fillna(0.0).mean())
            far = distance > FAR * spread
            if len(values) >= ENOUGH:
                others = values[~far].mean()
                lines += [(label, len(values), seed, value, median, others) for seed, value in values[far].items()]
    return pd.DataFrame(lines, columns=["label", "seeds", "seed", "rsum", "median", "others"])


def apart_sentence(table: pd.DataFrame) -> str:
    """Which seeds stand apart, and that they count; '' where none does. table: of seeds_apart.

    >>> line = {"label": ["VSE∞"], "seeds": 10, "seed": 7, "rsum": 361.5, "median": 471.0, "others": 469.8}
    >>> apart_sentence(pd.DataFrame(line))
    'One of 10 seeds of VSE∞ ended at 361.5 (median 471.0). It counts; the others have 469.8.'
    """
    said = []
    for label, own in table.groupby("label", sort=False):
        first, values = own.iloc[0], ", ".join(f"{v:.1f}" for v in own["rsum"])
        count, verb = ("One", "It counts") if len(own) == 1 else (len(own), "They count")
        said.append(
            f"{count} of {first['seeds']} seeds of {label} ended at {values} (median {first['median']:.1f}). {verb}; "
            f"the others have {first['others']:.1f}."
        )
    return " ".join(said)
