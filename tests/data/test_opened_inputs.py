"""Small inputs of the explorer that others may have written: a file of judgments, and a link to a view."""

import os

import pytest

from xmr_core.base.errors import BadInput
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.ranking import Query
from xmr_study.explorer.state import State, state_from_link, state_to_link


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_the_place_of_judgments_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "judgments.jsonl")
    with pytest.raises(BadInput, match="cannot be read as judgments .* Give a file"):
        Judgments.read(tmp_path / "judgments.jsonl")


def test_a_link_that_unpacks_to_very_much_is_refused():
    link = state_to_link(State(("DivE",), Query("text", "a" * 20_000_000)))
    assert len(link) < 50_000
    with pytest.raises(BadInput, match="no view of the explorer"):
        state_from_link(link)


def test_a_link_whose_end_is_missing_is_refused():
    link = state_to_link(State(("DivE", "PCME")))
    assert state_from_link(link).methods == ("DivE", "PCME")
    for length in range(4, len(link), 4):
        with pytest.raises(BadInput):
            state_from_link(link[:length])
