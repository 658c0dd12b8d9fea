"""Runs are listed, and a short name or a unique beginning stands for a run wherever a run is named."""

import os
from pathlib import Path

import pandas as pd
import pytest
from tiny import tiny_config

import xmr_core
from xmr_core.base import files
from xmr_core.base.errors import BadInput
from xmr_core.training.runs import load, run_table, train_or_load
from xmr_core.training.runs.folder import find_run, resolve_run
from xmr_study.cli import main

DIVE = ("dive-scenes-s0-aaaa000000", "dive-scenes-s1-aaaa111111", "dive-my-photos-s0-bbbb000000")
OTHER = ("vsepp-scenes-s0-cccc000000", "sgraf-scenes-s0-dddd000000")


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(home: Path, run_id: str, day: int, rsum: float | None = None, **data) -> Path:
    """The small files of a run. rsum: None for one that was interrupted."""
    folder = files.make_folder(home / "runs" / run_id)
    about = {"dataset": "scenes", "size": "tiny", "features": "auto", "image_model": "", **data}
    config = {
        "method": run_id.split("-")[0],
        "data": about,
        "train": {"seed": int(run_id.split("-s")[-1][0]), "epochs": 3},
    }
    identity = {"data": {"features": "cells-2-64-v1-pca"}}
    files.write_record(folder / "config.json", {"config": config, "identity": identity})
    os.utime(folder / "config.json", (86400 * day, 86400 * day))
    if rsum is not None:
        files.write_record(folder / "record.json", {"started_utc": f"1970-01-{day + 1:02d}T00:00:00+00:00"})
        rows = [("exhaustive", "rsum", 9.9), ("annotated", "R@1", 0.5), ("annotated", "rsum", rsum)]
        pd.DataFrame(rows, columns=["relevance", "metric", "value"]).to_csv(folder / "metrics.csv", index=False)
    return folder


@pytest.fixture
def several(own_home):
    write(own_home, DIVE[1], 1, 2.5)
    write(own_home, DIVE[0], 3, 1.25, features="pixels")
    write(own_home, DIVE[2], 2, dataset="my-photos", image_model="/models/vit-base")
    write(own_home, OTHER[0], 4, 3.0)
    (write(own_home, OTHER[1], 5, 3.0) / "config.json").write_text("half a fi")
    return own_home


def test_the_table_says_what_every_run_is(several):
    table = run_table().set_index("name")
    assert table.index.tolist() == ["dive-1", "dive-2", "dive-3", "vsepp-1", "sgraf-1"], "by the time of their start"
    assert table["run"].tolist() == [DIVE[1], DIVE[2], DIVE[0], OTHER[0], OTHER[1]]
    assert table["state"].tolist() == ["finished", "interrupted", "finished", "finished", "damaged"]
    assert table["features"].tolist()[:4] == ["cells", "vit-base", "pixels", "cells"]
    assert table["data"].tolist()[:4] == ["scenes tiny", "my-photos", "scenes tiny", "scenes tiny"]
    assert table["rsum"].dropna().to_dict() == {"dive-1": 250.0, "dive-3": 125.0, "vsepp-1": 300.0}
    assert table["chance"].isna().all(), "these say nothing of their images"
    assert table.loc["dive-2", ["started", "seed", "epochs"]].tolist() == ["1970-01-03 00:00", 0, 3]


def test_a_name_means_one_run(several):
    assert find_run("dive-1") == DIVE[1] and find_run("dive-3") == DIVE[0] and resolve_run(DIVE[0]) == DIVE[0]
    assert find_run("dive-scenes-s1") == DIVE[1] and find_run("vsepp") == OTHER[0] and find_run("vsepp-1") == OTHER[0]
    assert find_run("nothing") is None and find_run("") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dive", rf"'dive' may mean 2 runs: {DIVE[0]}, {DIVE[1]}\. Write more of the id"),
        ("dive-2", rf"the run {DIVE[2]} is not finished\. Start the same training again"),
        (DIVE[2], r"is not finished"),
        ("dive-9", r"unknown run 'dive-9'\. Did you mean 'dive-[13]'\? Known: dive-1, dive-3, sgraf-1, vsepp-1"),
        (DIVE[0][:-1] + "9", rf"unknown run '{DIVE[0][:-1]}9'\. Did you mean '{DIVE[0]}'"),
    ],
)
def test_other_names_get_one_line_with_candidates(several, name, message):
    with pytest.raises(BadInput, match=message) as error:
        resolve_run(name)
    assert "\n" not in str(error.value)


def test_the_command_lists_runs(several, capsys):
    assert main(["runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert " ".join(lines[0].split()) == "name method data features seed epochs RSUM chance started state run"
    assert lines[1].split()[:8] == ["dive-1", "dive", "scenes", "tiny", "cells", "1", "3", "250.0"]
    assert "interrupted" in lines[2] and "nan" not in "".join(lines) and "annotated pairs" in lines[-1]


@pytest.mark.slow
def test_a_short_name_opens_the_run_everywhere(own_home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run = train_or_load(tiny_config("vse++", epochs=1))
    assert load("vsepp-1").id == load("vsepp").id == load(run.id[:-3]).id == run.id
    model = xmr_core.load("vsepp-1")
    assert model.about["run"] == run.id
    assert main(["index", "vsepp-1", "out"]) == 0 and "encoded by vsepp-1" in capsys.readouterr().out
    row = run_table().iloc[0]
    rsum = run.metrics.query("metric == 'rsum' and relevance == 'annotated'")["value"].iloc[0]
    assert row["state"] == "finished" and row["rsum"] == pytest.approx(100 * rsum) and row["features"] == "cells"
