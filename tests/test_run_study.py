"""The script that makes the study's rows: its parameters exist, and what a notebook measured is appended once."""

import sys
from pathlib import Path

import pytest
from tiny import tiny_config

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import run_study  # noqa: E402

from xmr_core.study import results  # noqa: E402
from xmr_core.study.claims import CLAIMS  # noqa: E402
from xmr_core.training.runs import train_or_load  # noqa: E402
from xmr_core.ui.parameters import declared_parameters  # noqa: E402
from xmr_core.ui.running import given_parameters  # noqa: E402


@pytest.mark.parametrize("part", run_study.PARTS)
def test_the_notebooks_take_these_parameters(part):
    notebook, given = run_study.PARTS[part]
    declared = declared_parameters(ROOT / "notebooks" / f"{notebook}.ipynb")
    assert given_parameters(declared, [], [f"{{{name}: {value!r}}}" for name, value in given.items()]) == given


def test_claims_about_sweeps_have_a_part_that_measures_them():
    measured = {f"K={k}" for k in run_study.PARTS["cardinality"][1]["slots"]} | {
        f"T={t}" for t in run_study.PARTS["iterations"][1]["rounds"]
    }
    asked = {name for c in CLAIMS for name in (*c.above, *c.below) if name[:2] in ("K=", "T=")}
    assert asked <= measured


@pytest.mark.slow
def test_rows_are_appended_where_the_notebook_left_them(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(run_study, "ROOT", tmp_path)
    (tmp_path / "notebooks").symlink_to(ROOT / "notebooks")
    run, asked = train_or_load(tiny_config()), []

    def pretend(words):
        asked.append(words)
        results.write(results.rows([run], ["α=16"]), run_study.rows_of("ablation_alpha", {"preset": "study"}))
        return 0

    monkeypatch.setattr(run_study.cli, "main", pretend)
    monkeypatch.setattr(sys, "argv", ["run_study.py", "--part", "alpha"])
    assert run_study.main() == 0 and run_study.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1] == "alpha: 0 new rows in reports/results.csv" and int(said[0].split()[1]) > 20
    assert asked[0][0] == "run" and "{preset: 'study'}" in asked[0]
    monkeypatch.setattr(run_study.cli, "main", lambda words: 1)
    assert run_study.main() == 1
