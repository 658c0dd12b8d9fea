"""Milliseconds of one core that each method of the comparison takes to score 1,000 images against 5,000 captions, into
reports/protocol/scoring.csv.

python scripts/time_scoring.py [--label NAME …]. Processor time of one thread, so that other work on the machine counts
little; of random items of the study's sizes (width 64, 64 cells, 12 words). What takes long is measured on fewer items,
a tenth or a hundredth of the pairs, and multiplied: time is proportional to pairs (notebook cost). Methods that compare
items of the same shape by the same similarity, as VSE++ and VSE∞ do, all get the median of their times, whose
differences are noise.
"""

import argparse
import statistics
import time
from dataclasses import fields
from pathlib import Path

import pandas as pd
import torch

from xmr_core.base import files
from xmr_core.evaluation.engine import score_blocks
from xmr_core.study import cost
from xmr_core.study.protocol import in_common_form, labels

PATH = Path(__file__).resolve().parents[1] / "reports" / "protocol" / "scoring.csv"
SHAPE = cost.Shape(d=64, regions=64, words=12)
SIZES = ((100, 500), (300, 1667), (1000, 5000))  # images, captions
ENOUGH, TIMES = 3.0, 3  # seconds; repetitions


def seconds(label: str, images: int, captions: int) -> float:
    """The median of a few repetitions, after one that warms up."""
    config = in_common_form(label)
    made = cost.scene(config.method, SHAPE, images, captions, **config.options)
    values = []
    with torch.inference_mode():
        for _ in range(TIMES + 1):
            began = time.process_time()
            for _block in score_blocks(made.similarity, made.images, made.captions):
                pass
            values.append(time.process_time() - began)
    return statistics.median(values[1:])


def scoring_ms(label: str) -> float:
    """Milliseconds for 1,000 × 5,000 items, from the largest size that does not take long."""
    for images, captions in SIZES:
        taken = seconds(label, images, captions)
        if taken > ENOUGH / 10:
            break
    return 1000 * taken * (1000 * 5000) / (images * captions)


def groups() -> list[list[str]]:
    """Labels that do the same work for a score: the same similarity, of items of the same shape."""
    found: dict[tuple, list[str]] = {}
    for label in labels():
        config = in_common_form(label)
        made = cost.scene(config.method, SHAPE, 1, 1, **config.options)
        tensors = [(f.name, getattr(items, f.name)) for items in (made.images, made.captions) for f in fields(items)]
        shapes = tuple((name, value.shape) for name, value in tensors if isinstance(value, torch.Tensor))
        found.setdefault((repr(made.similarity), shapes), []).append(label)
    return [*found.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--label",
        action="append",
        choices=labels(),
        help="only this method and those that score alike; may be repeated",
    )
    wanted = parser.parse_args().label or labels()
    torch.set_num_threads(1)
    for group in (group for group in groups() if {*group} & {*wanted}):
        times = dict(pd.read_csv(PATH).itertuples(index=False, name=None)) if PATH.exists() else {}
        times |= dict.fromkeys(group, statistics.median(map(scoring_ms, group)))
        table = pd.DataFrame([(name, times[name]) for name in labels() if name in times], columns=["label", "ms"])
        files.write_atomic(PATH, table.to_csv(index=False, float_format="%.4g"))
        print(f"{', '.join(group)}: {times[group[0]]:.4g} ms", flush=True)


if __name__ == "__main__":
    main()
