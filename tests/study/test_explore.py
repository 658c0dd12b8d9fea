"""The explorer without a browser: queries, rankings, settings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import tiny_config

from xmr_core.base.errors import BadInput
from xmr_core.evaluation.analysis.elements import node_weights, word_attention
from xmr_core.retrieval.explain import pair_of, relative_uncertainty, without_each_cell, without_each_word
from xmr_core.retrieval.library import open_folder, open_library
from xmr_core.retrieval.ranking import Query, Settings, encode, rank
from xmr_core.similarities.gaussian import DISTANCES
from xmr_core.similarities.sets import smooth_chamfer
from xmr_core.training.runs import train_or_load
from xmr_core.training.runs.ensemble import scores_of
from xmr_study.explorer.state import (  # fmt: skip
    State,
    ambiguous_queries,
    answers,
    hard_query,
    random_query,
    ranks_by,
    unsure_queries,
)
from xmr_study.explorer.views import element_attention, nearest_captions, word_attention_of, word_weights

MORE = {"sgraf": {"m": 8, "reasoner": "saf"}}


@pytest.fixture(scope="module")
def runs(shared_home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(shared_home))
        yield {
            name: train_or_load(tiny_config(name, **MORE.get(name, {})))
            for name in ("dive", "pcme", "scan", "vse++", "sgraf")
        }


@pytest.fixture(scope="module")
def libraries(runs):
    return {name: open_library(run, name) for name, run in runs.items()}


@pytest.mark.parametrize("name", ["dive", "pcme", "scan"])
def test_a_ranking_is_the_row_of_the_score_matrix(libraries, runs, name):
    library, scores = libraries[name], scores_of(runs[name])
    for t in (0, 17):
        found = rank(library, Query("caption", item=library.caption_ids[t]), Settings(k=5))
        assert np.allclose(found.scores, scores[:, t], atol=1e-5) and found.target == "images"
        assert found.order.tolist() == sorted(range(32), key=lambda i: (-found.scores[i], i))[:5]
        assert found.table["item"].tolist() == library.image_ids[found.order].tolist() and found.table[
            "rank"
        ].tolist() == [1, 2, 3, 4, 5]
    found = rank(library, Query("image", item=library.image_ids[3]), Settings(k=4))
    assert (
        np.allclose(found.scores, scores[3], atol=1e-5)
        and found.table["text"].tolist() == library.texts[found.order].tolist()
    )


def test_the_ranks_of_right_answers_are_those_of_the_evaluation(libraries, runs):
    library, per_query = libraries["dive"], runs["dive"].per_query
    for kind in ("annotated", "exhaustive"):
        first = per_query[(per_query.relevance == kind) & (per_query.direction == "t2i")].set_index("query")[
            "first_rank"
        ]
        for caption in library.caption_ids[::23]:
            found = rank(library, Query("caption", item=caption))
            mine = found.relevant[found.relevant["kind"] == kind]
            assert (
                mine["rank"].min() == first[caption] and mine["rank"].is_monotonic_increasing and mine["rank"].is_unique
            )
            marked = found.table[found.table[kind]]["item"]
            assert set(marked) == set(mine[mine["rank"] <= 10]["item"])


def test_ties_never_help_a_right_answer(libraries, monkeypatch):
    library = replace(libraries["dive"])
    zeros = lambda s, a, b: np.zeros((len(a), len(b)), np.float32)  # noqa: E731
    monkeypatch.setattr("xmr_core.retrieval.ranking.score_matrix", zeros)
    found = rank(library, Query("caption", item=library.caption_ids[0]))
    own = found.relevant[found.relevant["kind"] == "annotated"]
    assert own["rank"].tolist() == [32]


def test_a_sentence_is_encoded_like_a_caption_and_strange_words_are_named(libraries):
    library = libraries["dive"]
    text = library.texts[5]
    typed, own = (rank(library, q).scores for q in (Query("text", text), Query("caption", item=library.caption_ids[5])))
    assert np.allclose(typed, own, atol=1e-5)
    found = rank(library, Query("text", f"{text} zeppelin"))
    assert found.unknown_words == ("zeppelin",) and found.relevant.empty and "annotated" not in found.table
    reading = library.raw.captions.readings(["zeppelin " + text.split()[0]])[0]
    assert (reading.words, reading.unknown) == ((text.split()[0],), ("zeppelin",))
    with pytest.raises(BadInput, match="knows none of the words 'zeppelin', 'oboe'"):
        rank(library, Query("text", "zeppelin oboe"))


def test_a_picture_from_elsewhere_is_read_like_one_of_the_corpus(libraries):
    library = libraries["dive"]
    pixels = library.pixels(2)
    given = rank(library, Query("upload", pixels=pixels)).scores
    assert np.allclose(given, rank(library, Query("image", item=library.image_ids[2])).scores, atol=1e-4)
    assert encode(library, Query("upload", pixels=np.zeros((100, 50, 3), np.uint8))).x.shape[0] == 1


def test_settings_change_the_similarity_and_nothing_else(libraries):
    dive, query = libraries["dive"], Query("caption", item=libraries["dive"].caption_ids[4])
    sharp = rank(dive, query, Settings(alpha=64.0)).scores
    with torch.inference_mode():
        assert np.allclose(sharp, smooth_chamfer(dive.images, dive.captions[4], 64.0)[:, 0], atol=1e-5)
    assert np.array_equal(rank(dive, query, Settings(alpha=16.0)).scores, rank(dive, query).scores)
    pcme = libraries["pcme"]
    other = rank(pcme, Query("caption", item=pcme.caption_ids[4]), Settings(distance="mean only")).scores
    assert np.allclose(other, DISTANCES["mean only"](pcme.images, pcme.captions[4])[:, 0], atol=1e-5)


def test_queries_that_cannot_be_asked(libraries, runs):
    wrong = np.zeros((9, 9, 5), np.uint8)
    for given in ({"kind": "text", "text": "  "}, {"kind": "sound"}, {"kind": "image"}, {"kind": "upload"},
                  {"kind": "upload", "pixels": wrong}):  # fmt: skip
        with pytest.raises(BadInput):
            Query(**given)
    assert Query("caption", item=np.int64(0)).target == "images", "0 is an id"
    with pytest.raises(BadInput, match="nobody"):
        rank(libraries["dive"], Query("image", item="nobody"))
    with pytest.raises(BadInput, match="dev"):
        open_library(runs["dive"], split="dev")


# ------------------------------------------------------------------------------------------------------------------ why


def test_a_word_is_worth_what_the_score_loses_without_it(libraries):
    dive = libraries["dive"]
    text = dive.texts[2]
    table = without_each_word(pair_of(dive, Query("text", text + " zeppelin"), 5))
    words = text.split()
    assert table["word"].tolist() == words
    whole = rank(dive, Query("text", text)).scores[5]
    for n in (0, len(words) - 1):
        rest = " ".join(w for m, w in enumerate(words) if m != n)
        assert table["adds"].iloc[n] == pytest.approx(whole - rank(dive, Query("text", rest)).scores[5], abs=1e-5)
    assert without_each_word(pair_of(dive, Query("text", words[0]), 5)).empty


@pytest.mark.parametrize("name", ["dive", "pcme", "scan"])
def test_a_cell_is_worth_what_the_score_loses_without_it(libraries, name):
    library = libraries[name]
    worth = without_each_cell(pair_of(library, Query("caption", item=library.caption_ids[7]), 4))
    assert worth.shape == (64,) and np.abs(worth).max() > 0
    features = library.inputs(np.array([4]))
    mask = features.mask.clone()
    mask[0, 10] = False
    with torch.inference_mode():
        image = library.method.encode_images(replace(features, mask=mask))
        score, whole = (
            float(library.method.similarity(i, library.captions[7])[0, 0]) for i in (image, library.images[4])
        )
    assert worth[10] == pytest.approx(whole - score, abs=1e-5)


def test_doubt_is_placed_among_all_items(libraries):
    pcme = libraries["pcme"]
    values = pcme.uncertainty("captions")
    value, share = relative_uncertainty(pcme, "captions", pcme.captions[int(values.argmax())])
    assert value == pytest.approx(values.max()) and share == pytest.approx(159 / 160)
    value, share = relative_uncertainty(pcme, "captions", pcme.captions[int(values.argmin())])
    assert value == pytest.approx(values.min()) and share == 0


def test_where_elements_look_and_which_captions_are_nearest(libraries):
    dive = libraries["dive"]
    looks = element_attention(dive, 3)
    assert looks.shape == (4, 64) and np.allclose(looks.sum(-1), 1, atol=1e-4)
    table = nearest_captions(dive, 3)
    cosines = np.einsum("kd,ted->kte", dive.images.x[3].numpy(), dive.captions.x.numpy()).max(-1)
    assert table["text"].tolist() == dive.texts[cosines.argmax(1)].tolist() and np.allclose(
        table["cosine"], cosines.max(1), atol=1e-5
    )
    for library in (libraries["scan"], libraries["vse++"]):
        with pytest.raises(BadInput, match="no small sets"):
            nearest_captions(library, 3)
        with pytest.raises(BadInput, match="attend to the cells"):
            element_attention(library, 3)


@pytest.mark.parametrize("name", ["scan", "sgraf"])
def test_where_each_word_looks(libraries, name):
    library = libraries[name]
    words, looks = word_attention_of(library, library.texts[2] + " zeppelin", 5)
    assert (
        words == library.texts[2].split()
        and looks.shape == (len(words), 64)
        and np.allclose(looks.sum(-1), 1, atol=1e-4)
    )
    tokens = library.raw.new_captions([library.texts[2]])
    whole = word_attention(library.method, library.inputs(np.array([5])), tokens)[0, 0].numpy()
    assert len(whole) == len(words) + 2 and np.allclose(looks, whole[1:-1], atol=1e-6), "<start> and <end> are no words"
    with pytest.raises(BadInput, match="no attention of words"):
        word_attention_of(libraries["dive"], library.texts[2], 5)


def test_how_much_each_word_counts(libraries):
    library = libraries["sgraf"]
    (table,) = word_weights(library, library.texts[2], 5).values()
    assert table["word"].tolist() == ["(global)", *library.texts[2].split()]
    inputs = library.inputs(np.array([5])), library.raw.new_captions([library.texts[2]])
    whole = node_weights(library.method, *inputs)["SAF"][0, 0].numpy()  # the wholes, <start>, words, <end>
    assert np.allclose(table["weight"], [whole[0], *whole[2:-1]]) and len(set(np.round(whole, 7))) == len(whole)
    with pytest.raises(BadInput, match="no nodes to weigh"):
        word_weights(libraries["scan"], library.texts[2], 5)
    with pytest.raises(BadInput, match="knows none"):
        word_weights(library, "zeppelin", 5)


# ---------------------------------------------------------------------------------------------------------------- state


def test_queries_methods_and_filters_are_steps_and_sliders_are_none(libraries):
    start = State(("dive",))
    first, second = Query("text", "a red circle"), Query("image", item=libraries["dive"].image_ids[0])
    state = start.ask(first).set(0, alpha=4.0)
    assert state.steps_from(start) and not state.set(0, alpha=2.0).show(3).steps_from(state)
    assert state.ask(first) is state and state.ask(second).steps_from(state)
    assert state.restrict(text="red").steps_from(state) and state.compare("dive", "pcme").steps_from(state)
    upload = Query("upload", pixels=np.zeros((8, 8, 3), np.uint8)), Query("upload", pixels=np.ones((8, 8, 3), np.uint8))
    assert state.ask(upload[1]).steps_from(state.ask(upload[0])), "two images are equal queries to no one"
    assert answers(start, libraries) == []


def test_two_methods_answer_the_same_query(libraries):
    query = Query("caption", item=libraries["dive"].caption_ids[8])
    state = State(("dive",)).ask(query).compare("dive", "pcme")
    first, second = answers(state, libraries)
    assert (
        np.array_equal(second.scores, rank(libraries["pcme"], query).scores)
        and len(first.order) == len(second.order) == 10
    )
    equal = replace(second, scores=np.zeros(32, np.float32))
    assert ranks_by(equal, first) == [p + 1 for p in first.order], "equal scores are ranked in file order"
    everywhere = np.argsort(-second.scores, kind="stable").tolist()
    assert ranks_by(second, first) == [everywhere.index(p) + 1 for p in first.order] and ranks_by(first, first) == list(
        range(1, 11)
    )
    with pytest.raises(BadInput, match="one method"):
        state.compare("dive", "pcme", "scan")


def test_queries_that_are_chosen_for_one(libraries):
    dive, pcme = libraries["dive"], libraries["pcme"]
    hard = hard_query(dive, seed=1)
    assert not rank(dive, hard).table["annotated"].iloc[0] and hard == hard_query(dive, seed=1)
    many = ambiguous_queries(dive, "caption", 5)
    counts = dict(zip(dive.caption_ids, dive.relevance_sets["exhaustive"].counts, strict=True))
    assert counts[many[0].item] == max(counts.values()) and len(many) == 5
    assert unsure_queries(pcme, "image", 1)[0].item == pcme.image_ids[pcme.uncertainty("images").argmax()]
    assert {random_query(dive, "caption", n).kind for n in range(3)} == {"caption"}
    assert len({random_query(dive, seed=n).item for n in range(30)}) > 10 and random_query(
        dive, seed=2
    ) == random_query(dive, seed=2)
    alike = replace(dive, relevance_sets={"annotated": dive.relevance_sets["annotated"]})
    bare = replace(dive, relevance_sets={})
    for call in (
        lambda: hard_query(dive, tries=0), lambda: ambiguous_queries(alike), lambda: hard_query(bare),
        lambda: ambiguous_queries(bare), lambda: unsure_queries(libraries["vse++"]),
    ):  # fmt: skip
        with pytest.raises(BadInput):
            call()


def test_a_sentence_is_encoded_once_for_many_settings(libraries, monkeypatch):
    library = replace(libraries["dive"])
    calls = []
    encode_captions = library.method.encode_captions
    monkeypatch.setattr(library.method, "encode_captions", lambda tokens: calls.append(1) or encode_captions(tokens))
    query, other = Query("text", library.texts[0]), Query("text", library.texts[9])
    for alpha in (1.0, 4.0, 16.0):
        rank(library, query, Settings(alpha=alpha))
    assert len(calls) == 1
    assert not np.array_equal(rank(library, other).scores, rank(library, query).scores) and len(calls) == 3


# ------------------------------------------------------------------------------------------------ pictures of one's own


@pytest.fixture
def folder(tmp_path, libraries):
    """The first six pictures of the tiny corpus as files, in a folder with a sub-folder."""
    (tmp_path / "more").mkdir()
    for n in range(6):
        Image.fromarray(libraries["dive"].pixels(n)).save(tmp_path / ("more" if n % 2 else "") / f"{n}.png")
    return tmp_path


@pytest.mark.parametrize("name", ["dive", "pcme", "scan"])
def test_a_folder_of_pictures_without_captions_can_be_searched(runs, libraries, folder, name):
    library, own = open_folder(runs[name], folder, name), libraries[name]
    assert library.image_ids.tolist() == ["0.png", "2.png", "4.png", "more/1.png", "more/3.png", "more/5.png"]
    query = Query("text", own.texts[3])
    found = rank(library, query, Settings(k=9))
    assert np.allclose(found.scores, rank(own, query).scores[[0, 2, 4, 1, 3, 5]], atol=2e-3) and len(found.table) == 6
    assert found.relevant.empty and list(found.table) == ["rank", "item", "score"]
    colours = np.array([own.pixels(n).mean((0, 1)) for n in range(6)])  # a picture file is read larger than it is here
    assert np.abs(colours - library.pixels(3).mean((0, 1))).sum(1).argmin() == 1
    for call in (lambda: rank(library, Query("image", item="0.png")), lambda: random_query(library, "caption")):
        with pytest.raises(BadInput, match="no captions"):
            call()
    assert library.uncertainty("captions") is None
