"""The golden cases themselves: exact to the bit, each compared by a test or listed with the reason why not."""

import ast
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytest
from golden import group, groups, listings
from golden_pack import SETTINGS, pack, unpack
from golden_uncompared import NOT_COMPARED

TESTS = Path(__file__).parents[1]


def stored() -> set[str]:
    """Every case as "group/case"; the listings of the authors' checkpoints are a group too."""
    cases = {f"{name}/{stem}" for name in groups() for stem in group(name)}
    return cases | {f"state_dicts/{stem}" for stem in listings()}


def matching(pattern: str) -> set[str]:
    """Cases that an entry of the list stands for; an entry for outputs stands for the cases that have such outputs."""
    if ":" not in pattern:
        return {name for name in stored() if fnmatch(name, pattern)}
    outputs = [(f"{name}/{stem}", key) for name in groups() for stem, case in group(name).items() for key in case]
    return {name for name, key in outputs if fnmatch(f"{name}:{key}", pattern)}


def named(sources: list[str]) -> set[str]:
    """Cases that tests name: "group/case" or the name of a listing as a string, or a call cases("group", "start")."""
    strings, starts = set(), []
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            strings |= {node.value, f"state_dicts/{node.value}"}
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "cases":
            assert node.args and all(isinstance(a, ast.Constant) for a in node.args), "cases() takes plain strings only"
            starts.append(node.args[0].value + "/" + "".join(a.value for a in node.args[1:]))
    return {name for name in stored() if name in strings or name.startswith(tuple(starts))}


def faults(compared: set[str], listed: dict[str, str]) -> list[str]:
    """Cases neither compared nor listed, and entries of the list that are out of date or give no reason."""
    excused = set().union(*(matching(pattern) for pattern in listed if ":" not in pattern))
    advice = "compare it, or say why not in golden_uncompared.py"
    out = [f"{name} is never compared: {advice}" for name in stored() - compared - excused]
    for pattern in listed:
        hits = matching(pattern)
        if not hits:
            out.append(f"{pattern}: no such case or output")
        elif ":" not in pattern and hits & compared:
            out.append(f"{pattern}: a test compares it")
    return sorted(out)


@pytest.fixture(scope="module")
def compared() -> set[str]:
    return named([path.read_text() for path in sorted(TESTS.rglob("test_*.py")) if path.name != Path(__file__).name])


def test_every_case_is_compared_or_listed_with_a_reason(compared):
    assert not faults(compared, NOT_COMPARED)


def test_nothing_is_missing():
    assert set(groups()) == {
        "adopt", "adpool", "chan", "dive", "eccv", "evaluation", "gpo", "maxsim", "pcme", "pcmepp", "pvse", "scan",
        "sgraf", "siglip", "vsepp",
    }  # fmt: skip
    arrays = [key for name in groups() for case in group(name).values() for key in case if key != SETTINGS]
    assert (len(stored()), len(arrays)) == (157, 2724)
    assert all(key.startswith(("in.", "w.", "out.")) for key in arrays)


def test_packing_is_exact_and_stores_equal_arrays_once(tmp_path):
    odd = np.array([[0.0, -0.0, np.nan], [np.inf, 1e-45, 1 / 3]], np.float32)
    large = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    first = {"in.x": odd, "in.n": np.int64(-7).reshape(()), "in.none": np.zeros((0, 4), np.float32), "w.a": large}
    cases = {"first": first, "second": {"in.m": odd < 0.5, "w.b": large.reshape(50, 100)}}
    pack({**cases, "first": first | {SETTINGS: np.array('{"note": "λ"}')}}, tmp_path / "group.npz")
    back = unpack(tmp_path / "group.npz")
    assert back["first"].pop(SETTINGS) == '{"note": "λ"}' and back["second"].pop(SETTINGS) == "{}"
    exact = lambda arrays: {key: (a.dtype, a.shape, a.tobytes()) for key, a in arrays.items()}  # noqa: E731
    assert {name: exact(arrays) for name, arrays in back.items()} == {name: exact(a) for name, a in cases.items()}
    assert (tmp_path / "group.npz").stat().st_size < 1.1 * large.nbytes, "one copy of the large array"
