"""The explorer's widgets, driven without a browser: values are set, buttons clicked, and what is shown is read."""

import asyncio
import base64
import io
import re
import threading
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.retrieval.library import open_folder, open_library
from xmr_core.retrieval.ranking import Query, Settings, rank
from xmr_core.training.runs import run_table, train_or_load
from xmr_study.explorer import markup
from xmr_study.explorer.filters import query_key
from xmr_study.explorer.gallery import query_of
from xmr_study.explorer.markup import words
from xmr_study.explorer.screen import Explorer
from xmr_study.explorer.state import State, state_from_link, state_to_link


@pytest.fixture(scope="module")
def libraries(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield {
            name: open_library(train_or_load(tiny_config(name)), name) for name in ("dive", "pcme", "scan", "vse++")
        } | {
            name: open_library(train_or_load(tiny_config("sgraf", m=8, reasoner=name)), name)
            for name in ("saf", "sgr", "joint")
        }


@pytest.fixture
def file(tmp_path):
    """Where an explorer keeps marks and tags."""
    return str(tmp_path / "judgments.jsonl")


@pytest.fixture
def explorer(libraries, file):
    return Explorer(lambda label: libraries[label], list(libraries), k=4, judgments=file)


def items(explorer, column=0) -> list[dict]:
    return explorer.gallery.columns[column]["items"]


def html(explorer, column=0) -> list[str]:
    return [item["html"] for item in items(explorer, column)]


def said(explorer) -> str:
    return explorer.gallery.said["text"]


def asked(explorer) -> str:
    return explorer.gallery.asked["html"]


def control(explorer, label) -> dict:
    return next(c for row in explorer.controls() for c in row if c["label"] == label)


def chips(explorer) -> list[str]:
    return [chip["label"] for chip in explorer.gallery.chips]


def ask(explorer, sentence) -> None:
    explorer.tell("sentence", value=sentence)


def draw(explorer, name) -> None:
    explorer.tell("draw", name=name)


def second(explorer, label) -> None:
    explorer.tell("method", place=1, value=label)


def why(explorer, row=0, column=0) -> str:
    explorer.tell("why", column=column, row=row)
    return explorer.gallery.opened.get("html", "")


def sent(explorer, monkeypatch) -> list[dict]:
    """What is sent to the page from now on."""
    out = []
    monkeypatch.setattr(explorer.gallery, "send", out.append)
    return out


def without_captions(library):
    none = {"captions": None, "caption_ids": library.caption_ids[:0], "texts": library.texts[:0]}
    return replace(library, **none, relevance_sets={})


def test_a_sentence_is_answered_by_pictures(explorer, libraries):
    text = libraries["dive"].texts[3]
    ask(explorer, text)
    shown = {item["at"] for item in items(explorer)}
    assert all(uri.startswith("data:image/png;base64,") for uri in explorer.gallery.thumbs.values())
    assert (
        len(items(explorer)) == 4
        and set(explorer.gallery.thumbs) == shown
        and "32 images ranked by dive" in said(explorer)
    )
    assert f"“{text}”" in asked(explorer) and control(explorer, "Sentence")["value"] == text
    draw(explorer, "Random image")
    draw(explorer, "Random caption")
    before = explorer.state
    explorer.tell("back")
    assert explorer.state.query.kind == "image", "one step back"
    explorer.ask(before.query)
    explorer.ask(before.query)
    explorer.tell("back")
    assert explorer.state.query.kind == "image", "the same query again is no step"


def test_images_that_the_page_has_are_not_sent_again_and_those_that_it_lacks_are(explorer, libraries, monkeypatch):
    ask(explorer, libraries["dive"].texts[3])
    first = set(explorer.gallery.thumbs)
    explorer.tell("more")
    assert len(items(explorer)) == 8 and not first & set(explorer.gallery.thumbs)
    out = sent(explorer, monkeypatch)
    explorer.tell("thumbs", items=[*first, "no image"])
    assert set(out[0]["items"]) == first


def test_words_that_are_not_known_are_named_and_empty_ones_refused(explorer, libraries):
    ask(explorer, libraries["dive"].texts[3] + " zeppelin circlle")
    assert "not understood: <i>zeppelin</i><" in asked(explorer)
    assert "<i>circlle</i> (did you mean <i>circle</i>?)" in asked(explorer)
    before = explorer.state
    ask(explorer, "circlle")
    assert "knows none of the words" in said(explorer) and "Did you mean 'circle'?" in said(explorer)
    assert explorer.gallery.said["kind"] == "error" and explorer.state is before
    assert explorer.gallery.said["stale"], "the answers that are shown are none to it"
    explorer.tell("filter", name="text", value="no name has this")
    assert explorer.gallery.said["kind"] == "error" and not explorer.gallery.said["stale"]
    ask(explorer, "")
    assert "text is empty" in said(explorer)
    draw(explorer, "Random image")
    assert "captions ranked" in said(explorer) and not explorer.gallery.said["stale"], "it goes on working"


def test_both_methods_say_what_they_do_not_know(libraries):
    first, other = libraries["dive"], libraries["pcme"]
    words = replace(
        first.raw.vocabulary, words=tuple(x if x != "circle" else "zirkel" for x in first.raw.vocabulary.words)
    )
    captions = replace(other.raw.captions, words=words)
    other = replace(other, model=replace(other.model, raw=replace(other.raw, captions=captions)))
    explorer = Explorer({"dive": first, "pcme": other}.__getitem__, ["dive", "pcme"])
    ask(explorer, "a red circle")
    second(explorer, "pcme")
    assert "pcme: not understood: <i>circle</i>" in asked(explorer) and "dive: not" not in asked(explorer)


def test_clicking_an_answer_asks_it_and_back_returns(explorer):
    draw(explorer, "Random image")
    first = explorer.state.query
    assert first.kind == "image" and len(explorer.gallery.columns) == 1
    explorer.tell("ask", column=0, row=1)
    assert explorer.state.query.kind == "caption" and "rank" in explorer.gallery.columns[0]["head"]
    explorer.tell("ask", column=0, row=0)
    assert explorer.state.query.kind == "image"
    explorer.tell("back")
    explorer.tell("back")
    assert explorer.state.query == first and control(explorer, "Back")["off"]
    explorer.tell("back")
    assert "nothing to take back" in said(explorer) and explorer.state.query == first


def test_two_methods_side_by_side_and_their_own_sliders(explorer):
    draw(explorer, "Hard")
    second(explorer, "pcme")
    assert explorer.state.methods == ("dive", "pcme") and len(explorer.gallery.columns) == 2
    slider = control(explorer, "α of dive")
    assert slider["kind"] == "slider" and slider["value"] == 16 and slider["span"][0] < 4 < slider["span"][1]
    before = explorer.rankings[0].scores
    explorer.tell("setting", value=2.0, **slider["fields"])
    assert explorer.state.settings_of(0) == Settings(k=4, alpha=2.0) and explorer.state.settings_of(1) == Settings(k=4)
    assert not np.array_equal(before, explorer.rankings[0].scores)
    menu, trained = control(explorer, "pcme by"), explorer.rankings[1].scores
    explorer.tell("setting", value="mean only", **menu["fields"])
    assert not np.array_equal(trained, explorer.rankings[1].scores)
    explorer.tell("method", place=0, value="vse++")
    assert explorer.state.methods == ("vse++", "pcme")
    assert not any(c["kind"] == "slider" for row in explorer.controls() for c in row)
    second(explorer, "–")
    assert explorer.state.methods == ("vse++",) and len(explorer.gallery.columns) == 1


@pytest.mark.parametrize("method", ["dive", "pcme", "scan", "vse++", "saf", "sgr", "joint"])
def test_why_says_something_for_every_method(libraries, method):
    explorer = Explorer(lambda label: libraries[label], [method], k=3)
    draw(explorer, "Random image")
    below = why(explorer)
    assert "what each word adds" in below and "<figcaption>" in below and "why" in said(explorer)
    assert why(explorer) == "", "the same again closes it"
    assert why(explorer)
    ask(explorer, libraries[method].texts[0])
    assert explorer.gallery.opened == {}, "other answers close it"
    assert "<figcaption>" in why(explorer, 2) and explorer.gallery.opened["row"] == 2
    explorer.tell("more")
    explorer.tell("mark", column=0, row=2, verdict="right")
    assert len(items(explorer)) == 6 and explorer.gallery.opened["row"] == 2, "more answers and marks leave it open"


@pytest.mark.parametrize("method", ["dive", "scan", "saf"])
def test_why_says_of_an_uploaded_image_what_it_says_of_one_of_the_corpus(libraries, method):
    explorer, library = Explorer(lambda label: libraries[label], [method], k=3), libraries[method]
    explorer.ask(Query("image", item=library.image_ids[2]))
    heads = [re.findall("<h4>(.*?)</h4>", why(explorer))]
    explorer.ask(Query("upload", pixels=library.pixels(2)))
    heads.append(re.findall("<h4>(.*?)</h4>", why(explorer)))
    assert heads[0] == heads[1] and len(heads[0]) > 2


def picture_file(kind="PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 80, 3), np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def test_an_uploaded_picture_is_answered_by_captions_and_a_broken_one_refused(explorer, tmp_path):
    upload = lambda content: explorer._told({"act": "upload", "name": "a.png"}, [content])  # noqa: E731
    upload(memoryview(picture_file()))
    assert "160 captions ranked" in said(explorer) and "data:image" in asked(explorer) and "a.png" in asked(explorer)
    assert not explorer.gallery.address, "no address shows this image"
    before = explorer.state
    upload(picture_file("JPEG")[:200])
    assert "no image that can be read" in said(explorer) and explorer.state is before
    upload(b"")
    assert "no image" in said(explorer)
    below = why(explorer)
    assert "Why dive found it" in below and "what each word adds" in below
    file = tmp_path / "own picture.png"
    file.write_bytes(picture_file())
    ask(explorer, f'"{file}"')
    assert explorer.state.query.kind == "upload" and "own picture.png" in asked(explorer), "a path is an image"


def test_similar_images_words_beside_an_image_and_examples(explorer, libraries, file):
    library = libraries["dive"]
    draw(explorer, "Random caption")
    explorer.tell("similar", column=0, row=0)
    query = explorer.state.query
    assert query.similar and query.target == "images" and "31 of 32 images ranked" in said(explorer)
    assert query.item not in {item["id"] for item in items(explorer)}, "it is no answer to itself"
    assert control_of_query(explorer) == ["captions", ""]
    alone = explorer.rankings[0].scores
    explorer.tell("words", value="a red circle")
    words = rank(library, Query("text", "a red circle")).scores
    standard = lambda x: (x.astype(float) - x.mean()) / x.astype(float).std()  # noqa: E731
    assert np.allclose(explorer.rankings[0].scores, standard(alone) + standard(words), atol=1e-4)
    explorer.tell("mark", column=0, row=1, verdict="right")
    explorer.tell("mark", column=0, row=2, verdict="wrong")
    ids = [items(explorer)[row]["id"] for row in (1, 2)]
    assert "more like ✓, unlike ✗" in chips(explorer)
    explorer.tell("feedback")
    assert (explorer.state.query.like, explorer.state.query.unlike) == ((ids[0],), (ids[1],))
    assert {item["verdict"] for item in items(explorer) if item["id"] in ids} == {"right", "wrong"}, (
        "marks belong to the same question"
    )
    explorer.tell("plain")
    assert not explorer.state.query.like and explorer.state.query.words == "a red circle"
    explorer.tell("captions")
    assert explorer.state.query == Query("image", item=query.item) and "captions ranked" in said(explorer)
    again = state_from_link(state_to_link(replace(explorer.state, query=replace(query, words="x", like=("a",)))))
    assert again.query == replace(query, words="x", like=("a",))


def control_of_query(explorer) -> list[str]:
    return [c["label"] for c in explorer.gallery.asked["controls"]]


def test_what_a_method_cannot_compare_is_not_offered(libraries):
    explorer = Explorer(lambda label: libraries[label], ["scan"], k=3)
    draw(explorer, "Random caption")
    assert [name for name, _ in items(explorer)[0]["asks"]] == ["its captions"]
    explorer.tell("similar", column=0, row=0)
    assert "finds no similar images" in said(explorer) and explorer.state.query.kind == "caption"


def test_a_method_that_cannot_be_opened_leaves_everything_as_it_was(libraries):
    def open_one(label):
        if label == "scan":
            raise BadInput("scan has not been trained; run train.ipynb first.")
        if label == "pcme":
            raise ValueError("what a\nlong story")
        return libraries[label]

    explorer = Explorer(open_one, ["dive", "scan", "pcme"], k=3)
    draw(explorer, "Random image")
    before, columns = explorer.state, explorer.gallery.columns
    for label, message in (("scan", "has not been trained"), ("pcme", "could not be done (ValueError: what a)")):
        second(explorer, label)
        assert message in said(explorer) and explorer.state is before and explorer.gallery.columns is columns
        assert control(explorer, "beside")["value"] == "–", "the menu shows what is shown"


def test_text_is_escaped(explorer, libraries):
    card = markup.answer(1, 0.5, text="<script>alert(1)</script>", marks=["annotated", "class"], image="'><b>")
    assert "<script>" not in card and "title='class'" in card and "<b>" not in card
    ask(explorer, "a red circle")
    ranking = replace(explorer.rankings[0], unknown_words=["<u>"], cut="the <u> end")
    _, shown = query_of(Query("text", "<i> circle"), {"<i>": libraries["vse++"]}, [ranking])
    assert "<i> circle" not in shown["html"] and "<u>" not in shown["html"] and "the &lt;u&gt; end" in shown["html"]
    assert "#0173b2 55.0%" in words([("red", 0.2), ("a", -0.1)]) and "#de8f05 55.0%" in words([("a", -0.1)])
    assert words([]) == "<div class='xmr-words'></div>" and "<b>" not in words([("<b>", 1.0)])
    assert "<b>" not in markup.header([("<b>", "<b>", "<b>")]) + markup.large("", "<b>")


def test_each_answer_tells_its_rank_by_the_other_method(explorer, libraries):
    ask(explorer, libraries["dive"].texts[3])
    second(explorer, "dive")
    assert "dive, left and by dive, right" in said(explorer)
    assert "dive, right: rank 3" in html(explorer)[2]
    explorer.tell("setting", value=1.0, **control(explorer, "α of dive, right")["fields"])
    first, other = explorer.rankings
    assert not np.array_equal(first.scores, other.scores) and "(α = 1)" in explorer.gallery.columns[1]["head"]
    everywhere = np.argsort(-other.scores, kind="stable").tolist()
    assert f"dive, right: rank {everywhere.index(first.order[0]) + 1}<" in html(explorer)[0]


def test_under_a_filter_both_columns_count_the_same_images(explorer, libraries):
    ask(explorer, libraries["dive"].texts[3])
    second(explorer, "pcme")
    some = tuple(libraries["dive"].image_ids[5:9])
    explorer.tell("filter", name="images", value=some)
    for column in (0, 1):
        other = {item["id"]: n for n, item in enumerate(items(explorer, 1 - column), 1)}
        for item in items(explorer, column):
            assert f": rank {other[item['id']]}<" in item["html"]


def test_a_page_without_widgets_is_told_what_to_do_and_an_example_is_answered(explorer):
    bundle = explorer._repr_mimebundle_()
    assert explorer.state.query.kind == "caption" and "images ranked by dive" in said(explorer)
    again = explorer.state
    explorer._repr_mimebundle_()
    assert explorer.state is again, "shown a second time, it stays where it was"
    assert "application/vnd.jupyter.widget-view+json" in bundle and "run this cell" in bundle["text/html"]


def test_the_first_use_offers_own_captions_and_says_what_is_searched(explorer, libraries):
    explorer.begin()
    assert len(chips(explorer)) == 3 and all(chip.startswith("try “") for chip in chips(explorer))
    text = explorer.gallery.chips[0]["fields"]["value"]
    assert text in libraries["dive"].texts and text in control(explorer, "Sentence")["hint"]
    explorer.tell("try", value=text)
    assert explorer.state.query == Query("text", text) and not chips(explorer)
    rsum = libraries["dive"].model.about["results"][0]["rsum"]
    chance = train_or_load(tiny_config("dive")).chance()[0]
    assert run_table()["chance"].dropna().round(6).eq(round(chance, 6)).all(), "`runs` says it, too"
    assert "32 images, 160 captions" in explorer.gallery.header
    assert f"RSUM {rsum:.0f} of 600 on its test images, chance {chance:.0f}" in explorer.gallery.header
    assert "photographs" not in explorer.gallery.header, "its own drawings are no photographs"


def test_a_warning_while_a_folder_is_opened_stands_in_the_header(libraries, file, recwarn):
    def open_one(label):
        warnings.warn("2 images cannot be read.", stacklevel=1)
        return libraries[label]

    explorer = Explorer(open_one, ["dive"], judgments=file)
    explorer.begin()
    assert "2 images cannot be read." in explorer.gallery.header and not recwarn.list


def test_pictures_without_captions_are_searched_by_words_and_by_pictures(libraries, file):
    explorer = Explorer(lambda label: without_captions(libraries[label]), ["dive", "pcme", "scan"], k=4, judgments=file)
    explorer.begin()
    assert "a red circle" in explorer.state.query.text and "32 images ranked" in said(explorer)
    assert [name for name, _ in items(explorer)[0]["asks"]] == ["similar"]
    draw(explorer, "Random image")
    assert explorer.state.query.kind == "image" and "31 of 32 images ranked" in said(explorer)
    explorer._told({"act": "upload"}, [picture_file()])
    assert "32 images ranked" in said(explorer) and "<figcaption>" in why(explorer)
    explorer.tell("method", place=0, value="pcme")
    draw(explorer, "Unsure")
    assert explorer.state.query.kind == "image" and explorer.gallery.said["kind"] == "info"
    before = explorer.state
    for button in ("Random caption", "Hard", "Ambiguous", "Unjudged", "Disagree"):
        assert control(explorer, button)["off"] and len(control(explorer, button)["tip"]) > 10
        draw(explorer, button)
        assert "cannot be asked" in said(explorer) and explorer.state is before
    ask(explorer, "a red circle")
    explorer.tell("method", place=0, value="scan")
    assert control(explorer, "Random image")["off"] and control(explorer, "Unsure")["off"]


def test_a_corpus_of_features_shows_names_in_place_of_pictures(libraries):
    unseen = replace(libraries["scan"], pixels=None)
    explorer = Explorer(lambda label: unseen, ["scan"], k=4)
    ask(explorer, unseen.texts[3])
    first = explorer.rankings[0].table["item"].iloc[0]
    assert first in html(explorer)[0] and "<img" not in html(explorer)[0]
    below = why(explorer)
    assert "what each word adds" in below and "<img" not in below
    explorer.tell("ask", column=0, row=0)
    assert f"“{first}”" in asked(explorer) and "captions ranked" in said(explorer)


def test_photographs_have_their_shape_name_captions_and_split(libraries, file, tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray(np.full((40, 120, 3), 90, np.uint8)).save(folder / "wide.png")
    Image.fromarray(np.full((600, 300, 3), 90, np.uint8)).save(folder / "tall.jpg")
    lines = ["image,caption,split", "wide.png,a red <circle>,train", "tall.jpg,a blue ring,test"]
    (folder / "captions.csv").write_text("\n".join(lines))
    library = open_folder(train_or_load(tiny_config("dive")), folder, "dive")
    explorer = Explorer(lambda label: library, ["dive"], judgments=file)
    ask(explorer, "a red circle")
    shown = {item["id"]: item["html"] for item in items(explorer)}
    assert "a red &lt;circle&gt;" in shown["wide.png"] and "wide.png" in shown["wide.png"]
    for name, shape in (("wide.png", (120, 40)), ("tall.jpg", (120, 240))):
        assert size_of(explorer.gallery.thumbs[name]) == shape
    row = [item["id"] for item in items(explorer)].index("tall.jpg")
    below, out = why(explorer, row), sent(explorer, monkeypatch)
    assert size_of(below) == (300, 600) and "a blue ring" in below and ">test<" in below
    explorer.tell("large", column=0, row=99)
    assert out.pop()["row"] == 1, "there is none after the last"
    explorer.tell("large", column=0, row=row)
    assert size_of(out[0]["html"]) == (300, 600) and (out[0]["column"], out[0]["row"]) == (0, row)
    assert "drawn scenes only" in explorer.gallery.header, "a model of drawings says so of photographs"
    explorer.tell("doubles")
    assert [item["id"] for item in items(explorer)] == ["tall.jpg", "wide.png"] == explorer.frame()["item"].tolist()
    assert "split test" in html(explorer)[0] and "1 of 1 lie in two splits" in asked(explorer)
    assert all("<div>1. " in text for text in html(explorer)), "one pair, one number"
    explorer.tell("back")
    assert "a red circle" in asked(explorer)


def size_of(text: str) -> tuple[int, int]:
    return Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^']+)", text)[1]))).size


def test_a_query_and_its_answers_reach_the_page_together(explorer, monkeypatch):
    """Else a card of the answers before could be pressed below the new query."""
    explorer.begin()
    told = []
    monkeypatch.setattr(
        type(explorer.gallery), "send_state", lambda self, key=None: told.append({*np.atleast_1d([*key])})
    )
    ask(explorer, "a blue ring")
    assert {"asked", "columns", "view"} in [names & {"asked", "columns", "view"} for names in told]


def test_marks_are_kept_and_taken_back_and_change_r_precision(explorer, libraries, file):
    draw(explorer, "Random caption")
    row = next(n for n, card in enumerate(html(explorer)) if "xmr-relevant" not in card)
    item, mark = items(explorer)[row]["id"], lambda: explorer.tell("mark", column=0, row=row, verdict="right")
    mark()
    before = said(explorer)
    assert "marked as right" in before and "R-Precision" in before and items(explorer)[row]["verdict"] == "right"
    again = Explorer(lambda label: libraries[label], ["pcme", "dive"], k=4, judgments=file)
    again.ask(explorer.state.query)
    assert again.marks.judgments.verdicts[query_key(explorer.state.query)] == {("images", item): "right"}
    again.tell("method", place=0, value="dive")
    assert {i["id"]: i["verdict"] for i in items(again)}[item] == "right"
    mark()
    assert "not judged" in said(explorer) and said(explorer) != before
    explorer.tell("back")
    assert items(explorer)[row]["verdict"] == "right", "Back takes a mark back as well"
    explorer._told({"act": "upload"}, [picture_file()])
    mark()
    assert "no name to remember" in said(explorer)


def test_filters(explorer):
    judged = lambda value: explorer.tell("filter", name="marked", value=value)  # noqa: E731
    ask(explorer, "a red circle")
    explorer.tell("panel", name="Filter")
    explorer.tell("mark", column=0, row=0, verdict="wrong")
    for value, n in (("wrong", 1), ("judged", 1), ("unjudged", 31)):
        judged(value)
        assert f"{n} of 32 images ranked" in said(explorer) and "filtered · clear" in chips(explorer)
    judged("right")
    assert "none of the 32 images passes" in said(explorer) and control(explorer, "Judged")["value"] == "unjudged"
    explorer.tell("back")
    assert "1 of 32 images ranked" in said(explorer), "a filter is a step that can be taken back"
    explorer.tell("unfilter")
    explorer.tell("filter", name="text", value=items(explorer)[0]["id"])
    assert "of 32 images ranked" in said(explorer)
    explorer.tell("unfilter")
    second(explorer, "pcme")
    explorer.tell("filter", name="moved", value=5)
    far = [abs(a - b) for a, b in zip(*(np.argsort(np.argsort(-r.scores)) for r in explorer.rankings), strict=True)]
    assert f"{sum(d >= 5 for d in far)} of 32 images ranked" in said(explorer)


def test_a_view_opens_again_from_its_link(explorer, libraries, file):
    ask(explorer, "a red circle")
    second(explorer, "pcme")
    explorer.tell("setting", value=4.0, **control(explorer, "α of dive")["fields"])
    explorer.tell("filter", name="split", value="test")
    explorer.tell("more")
    letters = state_to_link(explorer.state)
    assert explorer.gallery.address == letters, "the address follows the view"
    for view in (letters, "http://localhost:8866/?view=" + letters):
        again = Explorer(lambda label: libraries[label], list(libraries), judgments=file, view=view)
        again.begin()
        assert again.state == explorer.state and len(items(again)) == 8
        assert again.gallery.columns[1]["head"] == explorer.gallery.columns[1]["head"]
    explorer.tell("open", value="?view=nonsense")
    assert "no view of the explorer" in said(explorer) and explorer.state.query.text == "a red circle"
    ask(explorer, "a blue ring")
    explorer.tell("open", value=view)
    explorer.tell("back")
    assert explorer.state.query.text == "a blue ring", "a link that was opened is a step that can be taken back"
    with pytest.raises(BadInput, match="no view"):
        Explorer(lambda label: None, ["dive"], view="{}")
    few = Explorer(lambda label: libraries[label], ["dive"], judgments=file, view=view)
    few.begin()
    assert "pcme" in said(few)


def test_searches_are_kept_by_name_and_the_latest_are_offered(explorer, libraries, file):
    ask(explorer, "a red circle")
    explorer.tell("panel", name="Save and share")
    explorer.tell("keep", value="circles")
    ask(explorer, "a blue ring")
    again = Explorer(lambda label: libraries[label], ["dive"], judgments=file)
    for one, names in ((explorer, ["★ circles", "a blue ring", "a red circle"]), (again, ["★ circles"])):
        one.begin()
        one.panels.add("Save and share")
        assert [name for name, _ in control(one, "Searches")["options"]][1 : len(names) + 1] == names
    again.tell("open", value=dict(control(again, "Searches")["options"])["★ circles"])
    assert again.state.query.text == "a red circle"
    explorer._searches().write_text("no searches")
    explorer.tell("keep", value="more")
    assert "holds no searches" in said(explorer) and explorer._searches().read_text() == "no searches"


def test_answers_are_saved_as_table_and_qrels(explorer, monkeypatch):
    out = sent(explorer, monkeypatch)
    explorer.tell("answers")
    assert "nothing has been asked" in said(explorer)
    draw(explorer, "Random image")
    second(explorer, "pcme")
    explorer.tell("mark", column=0, row=0, verdict="right")
    frame = explorer.frame()
    assert len(frame) == 8 and frame["method"].unique().tolist() == ["dive", "pcme"]
    assert frame["verdict"].iloc[0] == "right" and {"rank", "item", "text", "score", "annotated"} <= set(frame)
    for act in ("answers", "qrels", "map"):
        explorer.tell(act)
    files = {content["name"]: content["text"] for content in out}
    assert files["answers.csv"].startswith("query,method,rank,") and "1" in files["qrels.txt"]
    table = pd.read_csv(io.StringIO(files["map.csv"]))
    assert {"filepath", "text", "split", "x", "y"} <= set(table) and len(table) == 192
    explorer.tell("link")
    assert out[-1] == {"kind": "copy", "text": state_to_link(explorer.state)}


def test_queries_worth_judging(explorer):
    draw(explorer, "Disagree")
    assert "choose a second method" in said(explorer)
    ask(explorer, "a red circle")
    assert control(explorer, "Disagree")["off"]
    second(explorer, "pcme")
    draw(explorer, "Disagree")
    common = set.intersection(*(set(np.argsort(-r.scores, kind="stable")[:10].tolist()) for r in explorer.rankings))
    assert explorer.state.query.kind == "caption" and len(common) < 10
    draw(explorer, "Unjudged")
    first = explorer.state.query
    explorer.tell("mark", column=0, row=0, verdict="wrong")
    for _ in range(3):
        draw(explorer, "Unjudged")
        assert explorer.state.query != first


def test_the_map_shows_the_query_only_where_it_lies_and_a_click_asks(explorer, libraries):
    ask(explorer, "a red circle")
    explorer.tell("panel", name="Map")
    signs = [mark["text"] for mark in explorer.map.page.marks]
    assert signs == ["4", "3", "2", "1"], "a sentence has no place among the items"
    explorer.map.page.clicked = {"trace": 1, "point": 7, "time": 1}
    assert explorer.state.query == Query("caption", item=libraries["dive"].caption_ids[7])
    (star,) = [mark for mark in explorer.map.page.marks if mark["kind"] == "xmr-star"]
    frame = explorer.map.frame
    row = frame[(frame["modality"] == "captions") & (frame["position"] == 7)].iloc[0]
    assert (star["x"], star["y"]) == pytest.approx((row["x"], row["y"]))
    explorer.map.page.selected = {"points": {"0": [1, 2, 3]}, "time": 2}
    assert chips(explorer) == ["3 of 192 selected on the map · clear"] and len(explorer.selection) == 3
    explorer.tell("unselect")
    assert explorer.selection is None and not chips(explorer)
    explorer.map.page.hovered = {"trace": 0, "point": 1, "time": 3}
    assert explorer.map.item.value
    explorer.map.page.hovered = {}
    assert not explorer.map.item.value
    explorer.map.colour.value = "cluster"
    assert "circle" in explorer.map.legend.value or "ring" in explorer.map.legend.value


def test_what_takes_long_leaves_the_page_free_and_can_be_left(libraries):
    """Another method is opened beside the kernel; meanwhile a sentence is answered, and Stop leaves it."""
    gate = threading.Event()

    def open_one(label):
        if label == "pcme":
            gate.wait(20)
        return libraries[label]

    explorer = Explorer(open_one, ["dive", "pcme"], k=3)
    ask(explorer, "a red circle")

    async def walk() -> None:
        second(explorer, "pcme")
        assert explorer.gallery.said == {"text": "opening pcme …", "kind": "busy", "stop": True, "stale": False}
        ask(explorer, "a blue ring")
        assert "images ranked by dive. opening pcme …" in said(explorer) and explorer.gallery.said["stop"]
        gate.set()
        await explorer._task
        assert explorer.state.methods == ("dive", "pcme") and explorer.state.query.text == "a blue ring"
        second(explorer, "–")
        explorer.libraries.pop("pcme")
        gate.clear()
        second(explorer, "pcme")
        explorer.tell("stop")
        assert "left" in said(explorer) and not explorer.gallery.said["stop"]
        gate.set()
        await explorer._task
        assert explorer.state.methods == ("dive",), "what was left is not shown later"

    asyncio.run(walk())


def test_a_click_on_answers_that_have_changed_since_is_refused(explorer):
    ask(explorer, "a red circle")
    view = explorer.gallery.view
    explorer.tell("more")
    assert explorer.gallery.view == view, "more answers are none that have changed"
    ask(explorer, "a blue ring")
    explorer.tell("mark", column=0, row=0, verdict="right", view=view)
    assert "have changed" in said(explorer) and not explorer.marks.judgments.verdicts
    explorer.tell("more")
    explorer.tell("mark", column=0, row=0, verdict="right", view=explorer.gallery.view)
    assert "marked as right" in said(explorer)


def test_there_is_a_page_where_the_first_view_cannot_be_shown(libraries, file, monkeypatch):
    view = state_to_link(State(("nobody",), Query("text", "a red circle")))
    bad = Explorer(lambda label: libraries[label], ["dive"], judgments=file, view=view)
    bad.begin()
    assert "nobody" in said(bad) and bad.gallery.said["kind"] == "error" and len(items(bad)) == 10
    with pytest.raises(BadInput, match="asks nothing"):
        Explorer(lambda label: None, ["dive"], view=state_to_link(State(("dive",))))

    def open_one(label):
        if label == "scan":
            raise BadInput("scan has not been trained.")
        return libraries[label]

    other = Explorer(open_one, ["scan", "dive"], judgments=file)
    other.begin()
    assert "has not been trained" in said(other) and control(other, "Method")["options"][1] == ("dive", "dive")
    other.tell("method", place=0, value="dive")
    assert other.state.methods == ("dive",) and control(other, "Sentence")["value"] == ""
    draw(other, "Random caption")
    assert "images ranked by dive" in said(other)


def test_numbers_may_be_ids(libraries, file):
    library = libraries["dive"]
    rows = np.arange(len(library.image_ids)), np.arange(len(library.caption_ids))
    numbered = replace(library, image_ids=rows[0], caption_ids=rows[1])
    explorer = Explorer(lambda label: numbered, ["dive"], k=3, judgments=file)
    explorer.ask(Query("image", item=0))
    assert "“0”" in asked(explorer) or ">0<" in asked(explorer)
    assert set(explorer.frame()["query"]) == {0}
    explorer.tell("filter", name="captions", value=(1, 2))
    assert "2 of 160 captions ranked" in said(explorer)
    explorer.tell("unfilter")
    explorer.ask(Query("image", item=0, similar=True))
    explorer.tell("mark", column=0, row=0, verdict="right")
    (key,) = explorer.marks.judgments.verdicts
    assert (
        key == ("similar", "0") and explorer.marks.judgments.corrected(numbered_relevance(numbered)).counts.sum() == 0
    )
    first = int(items(explorer)[0]["id"])
    explorer.tell("feedback")
    assert explorer.state.query.like == (first,)


def numbered_relevance(library):
    own = library.relevance_sets["annotated"]
    return replace(own, query_ids=library.caption_ids, gallery_ids=library.image_ids)


def test_methods_with_other_images_are_not_shown_side_by_side(libraries, file):
    turned = replace(libraries["pcme"], image_ids=libraries["pcme"].image_ids[::-1])
    explorer = Explorer({"dive": libraries["dive"], "pcme": turned}.__getitem__, ["dive", "pcme"], judgments=file)
    ask(explorer, "a red circle")
    second(explorer, "pcme")
    assert "have different images" in said(explorer) and explorer.state.methods == ("dive",)


def test_two_things_in_the_background_both_arrive(libraries, file):
    gate = threading.Event()

    def open_one(label):
        if label != "dive":
            gate.wait(20)
        return libraries[label]

    explorer = Explorer(open_one, ["dive", "pcme", "vse++"], k=3, judgments=file)
    ask(explorer, "a red circle")

    async def walk() -> None:
        second(explorer, "pcme")
        opening = explorer._task
        explorer.tell("panel", name="Map")
        gate.set()
        await asyncio.gather(opening, explorer._task)
        assert explorer.state.methods == ("dive", "pcme") and explorer.map.figure is not None
        gate.clear()
        second(explorer, "vse++")
        second(explorer, "–")
        gate.set()
        await explorer._task
        assert explorer.state.methods == ("dive",), "the later choice holds"

    asyncio.run(walk())


def test_files_that_are_something_else_and_sentences_that_look_like_paths(explorer, libraries):
    ask(explorer, "a red circle ~nobody.png")
    assert explorer.state.query.kind == "text"
    ask(explorer, "~nobody/a red circle.png")
    assert "there is no file" in said(explorer)
    for content in ("5", "null", "{"):
        explorer._searches().write_text(content)
        explorer.tell("panel", name="Save and share")
        assert explorer.gallery.said["kind"] != "error"
    explorer.tell("keep", value="x")
    assert "holds no searches" in said(explorer)
