"""What each test image says of a metric: the lines of a run, and errors of two methods on the same images."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmr_core.base.provenance import environment
from xmr_core.evaluation.results import METRIC_COLUMNS, Evaluated, Provenance, Setting
from xmr_core.study import comparisons as compared
from xmr_core.study.claims import ledger
from xmr_core.study.claims_data.claim import Claim, Measure
from xmr_core.study.image_values import FILE, ImageValues, image_errors, image_lines, read_image_values
from xmr_core.study.results import append_once

RSUM = ("annotated", "both", "rsum", 0)
CAPTIONS = 5


def run(seed: int, images: int = 12, name: str = "a") -> Evaluated:
    """Random results of images and of CAPTIONS captions of each."""
    rng, parts = np.random.default_rng(seed), []
    for direction, owners in (("i2t", np.arange(images)), ("t2i", np.repeat(np.arange(images), CAPTIONS))):
        rank = rng.integers(1, 15, len(owners))
        table = {f"R@{k}": (rank <= k).astype(float) for k in (1, 5, 10)}
        table |= {"r_precision": rng.random(len(owners)), "map_at_r": rng.random(len(owners))}
        parts.append(pd.DataFrame(table).assign(relevance="annotated", direction=direction, image=owners))
    provenance = Provenance("2026-11-26T09:00:00+00:00", 0.0, 10, environment("cpu"))
    empty = pd.DataFrame(columns=METRIC_COLUMNS)
    return Evaluated(name, Setting("dive", "matched", "scenes"), empty, pd.concat(parts), provenance)


def claim(*key, above=("A",), below=("B",)) -> Claim:
    return Claim("x", "s", "t", above, below, Measure("m", *key, factor=100))


@pytest.mark.parametrize(
    ("key", "direction", "column"),
    [(("annotated", "t2i", "recall", 5), "t2i", "R@5"), (("annotated", "i2t", "recall", 1), "i2t", "R@1"),
     (("annotated", "t2i", "map_at_r", 0), "t2i", "map_at_r"), (("annotated", "both", "mean_r1", 0), None, "R@1")],
)  # fmt: skip
def test_the_mean_over_images_is_the_metric(key, direction, column):
    one = run(0)
    lines = image_lines(one, ["A"], [claim(*key)])
    assert list(map(tuple, lines.iloc[:, 1:5].to_numpy())) == [RSUM, key]
    values = ImageValues({tuple(line): text for *line, text in lines.itertuples(index=False)})["a", *key]
    own = one.per_query
    sides = [own[own["direction"] == d][column].mean() for d in ([direction] if direction else ["i2t", "t2i"])]
    assert values.mean() == pytest.approx(np.mean(sides), abs=1e-3) and len(values) == 12


def test_the_values_of_rsum_count_right_answers_of_an_image_and_its_captions():
    one = run(1)
    (text,) = image_lines(one, ["A"], [])["values"]
    for image, value in enumerate(map(float, text.split())):
        own = one.per_query[one.per_query["image"] == image]
        right = [own[own["direction"] == d][["R@1", "R@5", "R@10"]].to_numpy().sum() for d in ("i2t", "t2i")]
        assert value == pytest.approx(right[0] + right[1] / CAPTIONS, abs=1e-3)


def test_what_no_query_has_and_no_claim_reads_has_no_line():
    keys = [claim("", "images", "log_circular_variance", 0), claim("annotated", "both", "rsum_first", 1)]
    assert len(image_lines(run(0), ["A"], keys)) == 1
    assert len(image_lines(run(0), ["C"], [claim("annotated", "i2t", "recall", 1)])) == 1


@given(st.integers(0, 50), st.integers(1, 3), st.integers(0, 2))
def test_the_paired_error_is_the_loop_over_images(seed, above, below):
    values = np.random.default_rng(seed).random((above + below, 7)).round(3)
    names = [f"r{n}" for n in range(above + below)]
    texts = {(name, *RSUM): " ".join(map(str, v)) for name, v in zip(names, values, strict=True)}
    measure = Measure("RSUM", *RSUM, factor=100)
    error = ImageValues(texts).paired_error(measure, tuple(names[:above]), tuple(names[above:]))
    away = [
        sum(values[n][g] for n in range(above)) / above
        - (sum(values[n][g] for n in range(above, above + below)) / below if below else 0.0)
        for g in range(7)
    ]
    mean = sum(away) / 7
    assert error == pytest.approx(100 * (sum((x - mean) ** 2 for x in away) / 6 / 7) ** 0.5)
    assert ImageValues(texts).paired_error(measure, ("r0", "absent"), ()) is None
    short = texts | {("r9", *RSUM): "1 2"}
    assert ImageValues(short).paired_error(measure, ("r0",), ("r9",)) is None, "other images"


def rows(began: str) -> pd.DataFrame:
    """Rows of five seeds of A and of B, of equal results but for noise, with their errors."""
    rng, parts = np.random.default_rng(0), []
    for label in ("A", "B"):
        for seed in range(5):
            one = run(seed, name=f"{label}{seed}")  # the same images are hard for both
            error = image_errors(one).query("metric == 'rsum_error'")["value"].item()
            value = {"rsum": 3 + 0.01 * rng.random(), "rsum_error": error}
            parts += [{"variant": label, "seed": seed, "run_id": one.id, "metric": m, "value": v, "started_utc": began,
                       "dataset": "scenes", "size": "quick", "world": 1 + seed % 2, "relevance": "annotated",
                       "direction": "both", "k": 0, "origin": "ours"} for m, v in value.items()]  # fmt: skip
    return pd.DataFrame(parts)


@pytest.fixture
def images():
    lines = [image_lines(run(seed, name=f"{label}{seed}"), [], []) for label in ("A", "B") for seed in range(5)]
    return ImageValues({tuple(line): text for *line, text in pd.concat(lines).itertuples(index=False)})


def test_a_comparison_pairs_images_where_all_its_runs_have_them(images):
    later, earlier = "2026-11-26T09:00:00+00:00", "2026-11-24T09:00:00+00:00"
    assert earlier < compared.PAIRED < later
    claims = [claim(*RSUM)]

    def width(table, of_images):
        (line,) = ledger(table, claims, images=of_images).to_dict("records")
        return line["high"] - line["low"]

    paired, apart = width(rows(later), images), width(rows(later), ImageValues({}))
    assert paired < 0.1 * apart, "equal results on equal images leave the seeds alone"
    assert width(rows(earlier), images) == pytest.approx(width(rows(earlier), ImageValues({})))
    without = ImageValues({key: text for key, text in images._texts.items() if key[0] != "B3"})
    assert paired < width(rows(later), without) < apart, "one seed without values counts as independent"


def test_the_file_keeps_each_line_once(tmp_path):
    lines = image_lines(run(3), [], [])
    for _ in range(2):
        append_once(lines, tmp_path / FILE, "values")
    append_once(image_lines(run(4, name="b"), [], []), tmp_path / FILE, "values")
    values = read_image_values(tmp_path)
    assert sorted(key[0] for key in values) == ["a", "b"]
    assert values["a", *RSUM].tolist() == list(map(float, lines["values"].item().split()))
    assert len(read_image_values(tmp_path / "nothing")) == 0
