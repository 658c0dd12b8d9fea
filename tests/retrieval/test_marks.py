"""Judgments of people: a file that only grows, survives kills, and becomes a relevance set and qrels."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import ir_measures
import numpy as np
import pytest

from xmr_core.base.errors import BadInput, CannotWrite
from xmr_core.base.types import Relevance
from xmr_core.evaluation import evaluate_scores
from xmr_core.retrieval.index import open_index, save_index
from xmr_core.retrieval.judgments import Judgments
from xmr_core.retrieval.library import example_library
from xmr_study.explorer.settings import Marks

QUERY, IMAGE = ("caption", "c0"), ("images", "i1")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "judgments.jsonl"


def test_the_last_verdict_counts_and_every_act_stays_in_the_file(path):
    judgments = Judgments.read(path)
    for verdict in ("right", "wrong", "", "wrong"):
        judgments.mark(QUERY, IMAGE, verdict)
        assert Judgments.read(path).verdict(QUERY, IMAGE) == verdict == judgments.verdict(QUERY, IMAGE)
    assert len(path.read_text().splitlines()) == 4


def test_what_is_no_verdict_is_refused_and_tags_of_earlier_versions_are_left_out(path):
    path.write_text('{"item": ["images", "i1"], "tag": "dog", "present": true}\n')
    with pytest.raises(BadInput, match="unknown verdict"):
        Judgments.read(path).mark(QUERY, IMAGE, "maybe")
    assert not Judgments.read(path).verdicts


def test_a_line_that_was_cut_costs_only_itself(path):
    judgments = Judgments.read(path)
    judgments.mark(QUERY, IMAGE, "right")
    with open(path, "ab") as file:
        file.write('{"query": ["caption", "ç'.encode()[:-1])  # a kill in the middle of a letter
        file.write(b'\n{"query": ["caption", "c0"], "item": ["images", "i1"], "verdict": "maybe"}\n')
    again = Judgments.read(path)
    again.mark(QUERY, ("images", "i2"), "wrong")
    with pytest.raises(BadInput, match="named by its kind and its id"):
        again.mark("a dog", "1.jpg", "right")
    assert Judgments.read(path).verdicts == {QUERY: {IMAGE: "right", ("images", "i2"): "wrong"}}


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
@pytest.mark.parametrize("name", ["judgments.jsonl", "judgments.jsonl.lock"])
def test_a_link_in_an_index_of_others_leads_no_mark_elsewhere(path, tmp_path, name, link):
    precious = tmp_path / "precious"
    precious.write_text("set -u")
    link(tmp_path / name, precious)
    with pytest.raises(CannotWrite, match="links|second name"):
        Judgments.read(path).mark(QUERY, IMAGE, "right")
    assert precious.read_text() == "set -u"


def test_marks_lie_under_the_users_home_and_those_that_came_with_an_index_are_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))
    library = open_index(save_index(example_library(), tmp_path / "given"))
    Judgments.read(library.folder / "judgments.jsonl").mark(QUERY, IMAGE, "right")
    given = (library.folder / "judgments.jsonl").read_bytes()
    for verdict in ("right", "wrong"):
        marks = Marks("")
        marks.open(library)
        assert marks.judgments.verdict(QUERY, IMAGE) == verdict
        marks.judgments.mark(QUERY, IMAGE, "wrong")
        assert marks.judgments.path.is_relative_to(tmp_path / "home")
    assert (library.folder / "judgments.jsonl").read_bytes() == given


def _write(path, name):
    judgments = Judgments.read(path)
    for n in range(10_000):
        judgments.mark(("text", name), ("images", str(n)), "right")


@pytest.mark.slow
def test_nothing_is_lost_when_writers_are_killed(path):
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    while not path.exists() or len(path.read_bytes().splitlines()) < 50:
        time.sleep(0.05)
    before = Judgments.read(path).verdicts
    for writer in writers:
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    after = Judgments.read(path)
    after.mark(("text", "c"), IMAGE, "wrong")
    after = Judgments.read(path).verdicts
    for query, answers in before.items():
        assert answers.items() <= after[query].items()
    for name in set(after) & {("text", "a"), ("text", "b")}:
        assert [int(item) for _, item in after[name]] == list(range(len(after[name]))), "no act is missing in between"
    assert after["text", "c"] == {IMAGE: "wrong"}


def test_marks_change_r_precision_of_judged_queries_alone(path):
    base = Relevance.from_pairs([("c0", "i0"), ("c1", "i1"), ("c2", "i2")], ["c0", "c1", "c2"], ["i0", "i1", "i2"])
    scores = np.array([[0.5, 0.0, 0.0], [0.9, 1.0, 0.0], [0.1, 0.0, 1.0]])
    judgments = Judgments.read(path)

    def r_precision():
        summary = evaluate_scores(scores, {"annotated": base, "judgments": judgments.corrected(base)}).summary()
        own = summary[(summary["direction"] == "t2i") & (summary["metric"] == "r_precision")].set_index("relevance")
        return own["value"].to_dict(), own["n_queries"].to_dict()

    judgments.mark(QUERY, IMAGE, "right")  # the first answer to c0, which nobody had annotated
    value, n = r_precision()
    assert value == {"annotated": 2 / 3, "judgments": 1.0} and n == {"annotated": 3, "judgments": 1}
    judgments.mark(QUERY, IMAGE, "wrong")
    assert r_precision()[0]["judgments"] == 0.0
    judgments.mark(("image", "i2"), ("captions", "c2"), "right")  # given from the other direction
    value, n = r_precision()
    assert n["judgments"] == 2 and value["judgments"] == 0.5
    judgments.mark(("text", "a sentence"), IMAGE, "right")
    assert r_precision()[1]["judgments"] == 2, "a typed sentence is no caption of the corpus"


def test_a_judged_image_keeps_its_other_captions(path):
    owner = np.repeat(np.arange(3), 5)
    base = Relevance.from_pairs([(f"c{n}", f"i{i}") for n, i in enumerate(owner)], [f"c{n}" for n in range(15)],
                                ["i0", "i1", "i2"])  # fmt: skip
    judgments = Judgments.read(path)
    judgments.mark(QUERY, IMAGE, "right")  # c0, of i0, fits i1 too
    judgments.mark(("caption", "c1"), ("images", "i0"), "wrong")
    both = judgments.corrected(base)
    assert [own.tolist() for own in both] == [[0, 1], [], *[[]] * 13]
    assert [own.tolist() for own in both.transpose()] == [[0, 2, 3, 4], [0, 5, 6, 7, 8, 9], []]


def test_qrels_are_read_by_other_programs(path):
    judgments = Judgments.read(path)
    judgments.mark(("text", "two dogs"), ("images", "my photos/a 1.jpg"), "right")
    judgments.mark(("text", "two dogs"), IMAGE, "wrong")
    rows = list(ir_measures.read_trec_qrels(judgments.qrels()))
    assert [(r.query_id, r.doc_id, r.relevance) for r in rows] == [
        ("text:two%20dogs", "my%20photos/a%201.jpg", 1),
        ("text:two%20dogs", "i1", 0),
    ]
