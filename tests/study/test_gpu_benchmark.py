"""benchmarks/gpu.py at a small size, on the CPU."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from xmr_core.methods.registry import papers

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu.py"


sys.path.insert(0, str(SCRIPT.parent))

import gpu as benchmark  # noqa: E402


def told(*words: str, home: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, SCRIPT, "--device=cpu", "--tiny", f"--rows={home / 'gpu.csv'}", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "XMR_HOME": str(home)})


@pytest.mark.slow
def test_every_part_measures_every_case(tmp_path):
    parts = [f"--part={name}" for name in ("golden", "ranks", "scoring", "steps", "evaluation")]
    done = told(*parts, home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = pd.read_csv(tmp_path / "gpu.csv", keep_default_na=False, dtype=str)
    cases = rows.groupby("part")["case"].agg(set).to_dict()
    every = set(papers())
    timed = set(benchmark.TIMED)
    assert cases == {"golden": {"all"}, "ranks": every, "scoring": timed, "steps": every, "evaluation": every}
    golden = rows[rows["part"] == "golden"]
    assert golden["value"].tolist() == golden["beside"].tolist() and float(golden["value"].iloc[0]) > 10
    assert (rows[["device", "processor", "torch", "commit", "date_utc"]] != "").all().all()
    kept = rows[rows["quantity"].str.startswith("first rank unchanged")]["value"].astype(float)
    assert kept.between(0, 1).all() and (rows[rows["part"] == "steps"]["value"].astype(float) > 0).all()


def test_a_case_that_fails_is_a_row_that_says_why(tmp_path, monkeypatch, capsys):
    def broken(device, sizes):
        def fails():
            yield "first", 1.0, None
            raise RuntimeError("no such\nkernel")

        yield "one", fails
        yield "two", lambda: iter([("second", 2.0, 3.0)])

    monkeypatch.setattr(benchmark, "PARTS", {"steps": broken})
    path = tmp_path / "gpu.csv"
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device=cpu", "--tiny", f"--rows={path}"])
    for _ in range(2):  # measured again, rows are replaced
        assert benchmark.main() == 1
    rows = pd.read_csv(path, keep_default_na=False, dtype=str)
    assert rows[["case", "quantity", "value", "beside", "note"]].to_numpy().tolist() == [
        ["one", "first", "1", "", ""],
        ["one", "failed", "", "", "RuntimeError: no such kernel"],
        ["two", "second", "2", "3", ""],
    ]
    assert "failed: steps, one" in capsys.readouterr().out
