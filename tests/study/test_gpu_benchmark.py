"""benchmarks/gpu.py at a small size, on the CPU."""

import sys
from pathlib import Path

import pandas as pd
import pytest

from xmr_core.methods.registry import papers

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


sys.path.insert(0, str(SCRIPT.parent))

import gpu as benchmark  # noqa: E402


@pytest.mark.slow
def test_every_part_measures_every_case(tmp_path, own_home, monkeypatch, capsys):
    parts = [f"--part={name}" for name in ("waits", "steps", "ranks", "golden", "evaluation", "run")]
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device=cpu", "--tiny", f"--rows={tmp_path / 'gpu.csv'}", *parts])
    assert benchmark.main() == 0, capsys.readouterr().out
    rows = pd.read_csv(tmp_path / "gpu.csv", keep_default_na=False, dtype=str)
    cases = rows.groupby("part")["case"].agg(set).to_dict()
    every = set(papers())
    wanted = {"golden": {"all"}, "run": {"dive"}, **dict.fromkeys(("ranks", "steps", "evaluation"), every)}
    assert cases == wanted  # and no waits, which only a GPU tells
    golden = rows[rows["part"] == "golden"]
    assert golden["value"].tolist() == golden["beside"].tolist() and float(golden["value"].iloc[0]) > 10
    assert (rows[["device", "processor", "torch", "commit", "date_utc"]] != "").all().all()
    kept = rows[rows["quantity"].str.startswith("first rank unchanged")]["value"].astype(float)
    assert kept.between(0, 1).all() and (rows[rows["part"] == "steps"]["value"].astype(float) > 0).all()
