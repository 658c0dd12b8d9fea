"""One altered number in any compared cell of any notebook makes nbval fail there; nothing is executed for it."""

import altered_outputs
import pytest

PATHS = sorted((altered_outputs.ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow  # a pytest of its own for all notebooks
def test_every_altered_number_is_seen_and_nothing_else():
    found = altered_outputs.failures(PATHS)
    assert set(found) == {path.stem for path in PATHS}
    for name, (kinds, failed) in found.items():
        expected = {n for n, kind in enumerate(kinds, 1) if kind == "altered"}
        assert expected, f"{name} prints no number that is compared"
        assert failed == expected, name


@pytest.mark.slow
def test_without_an_altered_number_nothing_fails(monkeypatch):
    monkeypatch.setattr(altered_outputs, "alter", lambda cell: False)
    assert [failed for _, failed in altered_outputs.failures(PATHS[:3]).values()] == [set()] * 3
