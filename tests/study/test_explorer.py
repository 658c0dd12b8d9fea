"""The explorer's widgets, driven without a browser: values are set, buttons clicked, and what is shown is read."""

import base64
import io
import re
from dataclasses import replace

import ipywidgets as w
import numpy as np
import pytest
from ipywidgets.widgets.widget import _instances
from PIL import Image
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.retrieval.library import open_folder, open_library
from xmr_core.retrieval.ranking import Query, Settings
from xmr_core.training.runs import train_or_load
from xmr_study.explorer import markup
from xmr_study.explorer.cards import query_html
from xmr_study.explorer.filters import query_key
from xmr_study.explorer.markup import words
from xmr_study.explorer.screen import Explorer
from xmr_study.explorer.state import state_to_link


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


def shown(widget, kind=w.HTML) -> list:
    """All widgets of a kind below one, in order."""
    found = [widget] if isinstance(widget, kind) else []
    return found + [x for child in getattr(widget, "children", ()) for x in shown(child, kind)]


def buttons(explorer, name):
    return [b for b in shown(explorer.answers, w.Button) if b.description == name]


def below(explorer) -> str:
    """What stands in the panel that is open below an answer."""
    return explorer.opened.content.value if explorer.opened else ""


def said(explorer) -> str:
    return explorer.status.value


def test_a_sentence_is_answered_by_pictures(explorer, libraries):
    text = libraries["dive"].texts[3]
    explorer.text.value = text
    html = [card.html.value for card in explorer.columns[0].cards]
    assert sum("data:image/png;base64," in h for h in html) == 4 and "32 images ranked by dive" in said(explorer)
    assert f"“{text}”" in explorer.query.value and len(buttons(explorer, "why?")) == 4
    asked = len(explorer.state.past)
    explorer.buttons["Ask"].click()
    assert len(explorer.state.past) == asked, "the same sentence again is no new step"


def test_words_that_are_not_known_are_named_and_empty_ones_refused(explorer, libraries):
    explorer.text.value = libraries["dive"].texts[3] + " zeppelin"
    assert "not understood: <i>zeppelin</i>" in explorer.query.value
    before = explorer.state
    explorer.text.value = "zeppelin"
    assert "knows none of the words" in said(explorer) and "xmr-error" in said(explorer) and explorer.state is before
    explorer.text.value = ""
    explorer.buttons["Ask"].click()
    assert "text is empty" in said(explorer)
    explorer.buttons["Random image"].click()
    assert "captions ranked" in said(explorer), "it goes on working"


def test_clicking_an_answer_asks_it_and_back_returns(explorer):
    explorer.buttons["Random image"].click()
    first = explorer.state.query
    assert first.kind == "image" and len(explorer.answers.children) == 1
    buttons(explorer, "ask this")[1].click()
    assert explorer.state.query.kind == "caption" and "rank" in shown(explorer.answers)[0].value
    buttons(explorer, "ask this")[0].click()
    assert explorer.state.query.kind == "image"
    explorer.buttons["Back"].click()
    explorer.buttons["Back"].click()
    assert explorer.state.query == first
    explorer.buttons["Back"].click()
    assert "no query before" in said(explorer) and explorer.state.query == first


def test_two_methods_side_by_side_and_their_own_sliders(explorer):
    explorer.buttons["Hard"].click()
    explorer.second.value = "pcme"
    assert explorer.state.methods == ("dive", "pcme") and len(explorer.answers.children) == 2
    (slider,) = shown(explorer.controls, w.FloatLogSlider)
    before = explorer.rankings[0].scores
    slider.value = 2.0
    assert explorer.state.settings_of(0) == Settings(k=4, alpha=2.0) and explorer.state.settings_of(1) == Settings(k=4)
    assert not np.array_equal(before, explorer.rankings[0].scores)
    (menu,) = [d for d in shown(explorer.controls, w.Dropdown)]
    trained = explorer.rankings[1].scores
    menu.value = "mean only"
    assert not np.array_equal(trained, explorer.rankings[1].scores)
    explorer.first.value = "vse++"
    assert explorer.state.methods == ("vse++", "pcme") and not shown(explorer.controls, w.FloatLogSlider)
    explorer.second.value = "–"
    assert explorer.state.methods == ("vse++",) and len(explorer.answers.children) == 1


@pytest.mark.parametrize("method", ["dive", "pcme", "scan", "vse++", "saf", "sgr", "joint"])
def test_why_says_something_for_every_method(libraries, method):
    explorer = Explorer(lambda label: libraries[label], [method], k=3)
    explorer.buttons["Random image"].click()
    buttons(explorer, "why?")[0].click()
    assert "what each word adds" in below(explorer) and "<figcaption>" in below(explorer)
    assert "why" in said(explorer)
    first = explorer.opened
    explorer.text.value = libraries[method].texts[0]
    assert explorer.opened is None and first.panel.layout.display == "none" and not first.content.value
    buttons(explorer, "why?")[2].click()
    assert "<figcaption>" in below(explorer) and explorer.opened.row == 2
    assert "xmr-open" in explorer.opened.widget._dom_classes and "xmr-open" not in first.widget._dom_classes


def picture_file(kind="PNG") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (50, 80, 3), np.uint8)).save(buffer, kind)
    return buffer.getvalue()


def test_an_uploaded_picture_is_answered_by_captions_and_a_broken_one_refused(explorer):
    explorer.ask_upload(memoryview(picture_file()))
    assert "160 captions ranked" in said(explorer) and "data:image" in explorer.query.value
    before = explorer.state
    explorer.ask_upload(picture_file("JPEG")[:200])
    assert "no image that can be read" in said(explorer) and explorer.state is before
    explorer.ask_upload(b"")
    assert "no image" in said(explorer)
    buttons(explorer, "why?")[0].click()
    assert "Why dive found it" in below(explorer) and "what each word adds" in below(explorer)


def test_a_method_that_cannot_be_opened_leaves_everything_as_it_was(libraries):
    def open_one(label):
        if label == "scan":
            raise BadInput("scan has not been trained; run train.ipynb first.")
        if label == "pcme":
            raise ValueError("what a\nlong story")
        return libraries[label]

    explorer = Explorer(open_one, ["dive", "scan", "pcme"], k=3)
    explorer.buttons["Random image"].click()
    before, columns = explorer.state, explorer.answers.children
    for label, message in (("scan", "has not been trained"), ("pcme", "could not be done (ValueError: what a)")):
        explorer.second.value = label
        assert message in said(explorer) and explorer.state is before and explorer.answers.children is columns
        assert explorer.second.value == "–", "the menu shows what is shown"


def test_text_is_escaped(explorer, libraries):
    card = markup.answer(1, 0.5, text="<script>alert(1)</script>", marks=["annotated", "class"])
    assert "<script>" not in card and "title='class'" in card
    explorer.text.value = "a red circle"
    ranking = replace(explorer.rankings[0], unknown_words=["<u>"], cut="the <u> end")
    _, html = query_html(Query("text", "<i> circle"), {"<i>": libraries["vse++"]}, ranking)
    assert "<i> circle" not in html and "<u>" not in html and "the &lt;u&gt; end" in html
    assert "#0173b2 55.0%" in words([("red", 0.2), ("a", -0.1)]) and "#de8f05 55.0%" in words([("a", -0.1)])
    assert words([]) == "<div class='xmr-words'></div>" and "<b>" not in words([("<b>", 1.0)])


def test_widgets_are_made_once_and_filled_again(explorer, libraries):
    """Otherwise every move of a slider would send the page a hundred new widgets, and it would keep them all."""
    explorer.text.value = libraries["dive"].texts[3]
    explorer.second.value = "pcme"
    before, cards_before, first = len(_instances), explorer.answers.children, shown(explorer.answers)[1].value
    (slider,) = shown(explorer.controls, w.FloatLogSlider)
    for value in (1.0, 2.0, 64.0):
        slider.value = value
    explorer.text.value = libraries["dive"].texts[9]
    assert (
        len(_instances) == before
        and explorer.answers.children is cards_before
        and shown(explorer.answers)[1].value != first
    )


def test_each_answer_tells_its_rank_by_the_other_method(explorer, libraries):
    explorer.text.value = libraries["dive"].texts[3]
    explorer.second.value = "dive"
    assert "dive, left and by dive, right" in said(explorer)
    (left, right) = shown(explorer.controls, w.FloatLogSlider)
    assert (left.description, right.description) == ("α of dive, left", "α of dive, right")
    assert "dive, right: rank 3" in explorer.columns[0].cards[2].html.value
    right.value = 1.0
    first, second = explorer.rankings
    assert not np.array_equal(first.scores, second.scores) and "(α = 1)" in explorer.columns[1].head.value
    everywhere = np.argsort(-second.scores, kind="stable").tolist()
    assert f"dive, right: rank {everywhere.index(first.order[0]) + 1}<" in explorer.columns[0].cards[0].html.value


def test_a_page_without_widgets_is_told_what_to_do_and_an_example_is_answered(explorer):
    bundle = explorer._repr_mimebundle_()
    assert explorer.state.query.kind == "caption" and "images ranked by dive" in said(explorer)
    again = explorer.state
    explorer._repr_mimebundle_()
    assert explorer.state is again, "shown a second time, it stays where it was"
    assert "application/vnd.jupyter.widget-view+json" in bundle and "run this cell" in bundle["text/html"]


def test_pictures_without_captions_are_searched_and_what_cannot_be_asked_is_said(libraries, file):
    own = libraries["dive"]
    none = {"captions": None, "caption_ids": own.caption_ids[:0], "texts": own.texts[:0], "relevance_sets": {}}
    bare = replace(own, **none)
    explorer = Explorer(lambda label: bare, ["dive"], k=4, judgments=file)
    explorer.begin()
    assert "a red circle" in explorer.state.query.text and "32 images ranked" in said(explorer)
    explorer.text.value = own.texts[3]
    assert "32 images ranked" in said(explorer)
    before = explorer.state
    for button, message in (
        ("Random image", "have no captions"), ("Random caption", "has no captions to choose"),
        ("Hard", "no query can be called hard"), ("Ambiguous", "as many known"),
        ("Unsure", "how sure it is"),
    ):  # fmt: skip
        explorer.buttons[button].click()
        assert message in said(explorer) and explorer.state is before
    buttons(explorer, "why?")[0].click()
    assert "<figcaption>" in below(explorer) and "nearest caption" not in below(explorer)


def test_a_corpus_of_features_shows_names_in_place_of_pictures(libraries):
    unseen = replace(libraries["scan"], pixels=None)
    explorer = Explorer(lambda label: unseen, ["scan"], k=4)
    explorer.text.value = unseen.texts[3]
    first = explorer.rankings[0].table["item"].iloc[0]
    card = explorer.columns[0].cards[0].html.value
    assert first in card and "<img" not in card
    buttons(explorer, "why?")[0].click()
    assert "what each word adds" in below(explorer) and "<img" not in below(explorer)
    buttons(explorer, "ask this")[0].click()
    assert f"“{first}”" in explorer.query.value and "captions ranked" in said(explorer)


def test_photographs_have_their_shape_name_captions_and_split(libraries, file, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    Image.fromarray(np.full((40, 120, 3), 90, np.uint8)).save(folder / "wide.png")
    Image.fromarray(np.full((600, 300, 3), 90, np.uint8)).save(folder / "tall.jpg")
    lines = ["image,caption,split", "wide.png,a red <circle>,train", "tall.jpg,a blue ring,test"]
    (folder / "captions.csv").write_text("\n".join(lines))
    library = open_folder(train_or_load(tiny_config("dive")), folder, "dive")
    explorer = Explorer(lambda label: library, ["dive"], judgments=file)
    explorer.text.value = "a red circle"
    html = {card.query.item: card.html.value for card in explorer.columns[0].cards}
    assert "a red &lt;circle&gt;" in html["wide.png"] and "wide.png" in html["wide.png"]
    for name, shape in (("wide.png", (120, 40)), ("tall.jpg", (120, 240))):
        uri = re.search(r"base64,([^']+)'", html[name])[1]
        assert Image.open(io.BytesIO(base64.b64decode(uri))).size == shape
    buttons(explorer, "why?")[[card.query.item for card in explorer.columns[0].cards].index("tall.jpg")].click()
    uri = re.search(r"base64,([^']+)'", below(explorer))[1]
    assert Image.open(io.BytesIO(base64.b64decode(uri))).size == (300, 600)
    assert "a blue ring" in below(explorer) and ">test<" in below(explorer)


def test_marks_are_kept_and_taken_back_and_change_r_precision(explorer, libraries, file):
    explorer.buttons["Random caption"].click()
    wrong = next(card for card in explorer.columns[0].cards if "xmr-relevant" not in card.html.value)
    wrong.marks["right"].click()
    before = said(explorer)
    assert "marked as right" in before and "R-Precision" in before and "xmr-on" in wrong.marks["right"]._dom_classes
    again = Explorer(lambda label: libraries[label], ["pcme", "dive"], k=4, judgments=file)
    again.ask(explorer.state.query)
    items = [card.query.item for card in again.columns[0].cards]
    marked = again.marks.judgments.verdicts[query_key(explorer.state.query)]
    assert marked == {("images", wrong.query.item): "right"}
    again.first.value = "dive"
    items = [card.query.item for card in again.columns[0].cards]
    assert "xmr-on" in again.columns[0].cards[items.index(wrong.query.item)].marks["right"]._dom_classes
    wrong.marks["right"].click()
    assert "not judged" in said(explorer) and said(explorer) != before
    explorer.ask_upload(picture_file())
    buttons(explorer, "✓")[0].click()
    assert "no name to remember" in said(explorer)


def test_filters(explorer):
    explorer.text.value = "a red circle"
    explorer.columns[0].cards[0].marks["wrong"].click()
    for judged, n in (("wrong", 1), ("judged", 1), ("unjudged", 31)):
        explorer.filter.marked.value = judged
        assert f"{n} of 32 images ranked" in said(explorer)
    explorer.filter.marked.value = "right"
    assert "none of the 32 images passes" in said(explorer) and explorer.filter.marked.value == "unjudged"
    explorer.filter.clear.click()
    explorer.filter.text.value = explorer.columns[0].cards[0].query.item
    assert "of 32 images ranked" in said(explorer)
    explorer.filter.clear.click()
    explorer.second.value = "pcme"
    explorer.filter.moved.value = 5
    far = [abs(a - b) for a, b in zip(*(np.argsort(np.argsort(-r.scores)) for r in explorer.rankings), strict=True)]
    assert f"{sum(d >= 5 for d in far)} of 32 images ranked" in said(explorer)


def test_a_view_opens_again_from_its_link(explorer, libraries, file):
    explorer.text.value = "a red circle"
    explorer.second.value = "pcme"
    (slider,) = shown(explorer.controls, w.FloatLogSlider)
    slider.value = 4.0
    explorer.filter.split.value = "test"
    explorer.k.value = 6
    explorer.share.buttons["Link"].click()
    letters = state_to_link(explorer.state)
    assert letters in explorer.share.out.value
    for view in (letters, "http://localhost:8866/?view=" + letters):
        again = Explorer(lambda label: libraries[label], list(libraries), judgments=file, view=view)
        again.begin()
        assert replace(again.state, past=()) == replace(explorer.state, past=())
        assert again.columns[1].head.value == explorer.columns[1].head.value and again.k.value == 6
    explorer.share.view.value = "?view=nonsense"
    assert "no view of the explorer" in said(explorer) and explorer.state.query.text == "a red circle"
    with pytest.raises(BadInput, match="no view"):
        Explorer(lambda label: None, ["dive"], view="{}")
    few = Explorer(lambda label: libraries[label], ["dive"], judgments=file, view=view)
    few.begin()
    assert "pcme" in said(few)


def test_answers_are_saved_as_table_and_qrels(explorer):
    explorer.share.buttons["Answers (CSV)"].click()
    assert "nothing has been asked" in said(explorer)
    explorer.buttons["Random image"].click()
    explorer.second.value = "pcme"
    explorer.columns[0].cards[0].marks["right"].click()
    frame = explorer.frame()
    assert len(frame) == 8 and frame["method"].unique().tolist() == ["dive", "pcme"]
    assert frame["verdict"].iloc[0] == "right" and {"rank", "item", "text", "score", "annotated"} <= set(frame)
    explorer.share.buttons["Answers (CSV)"].click()
    uri = re.search(r"base64,([^']+)'", explorer.share.out.value)[1]
    assert base64.b64decode(uri).decode().startswith("query,method,rank,")
    explorer.share.buttons["Judgments (qrels)"].click()
    assert "Save qrels.txt" in explorer.share.out.value


def test_queries_worth_judging(explorer):
    explorer.buttons["Disagree"].click()
    assert "choose a second method" in said(explorer)
    explorer.text.value = "a red circle"
    explorer.second.value = "pcme"
    explorer.buttons["Disagree"].click()
    common = set.intersection(*(set(np.argsort(-r.scores, kind="stable")[:10].tolist()) for r in explorer.rankings))
    assert explorer.state.query.kind == "caption" and len(common) < 10
    explorer.buttons["Unjudged"].click()
    first = explorer.state.query
    explorer.columns[0].cards[0].marks["wrong"].click()
    for _ in range(3):
        explorer.buttons["Unjudged"].click()
        assert explorer.state.query != first
