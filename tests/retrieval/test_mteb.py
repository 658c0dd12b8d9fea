"""mteb's own evaluation of our models gives our numbers."""

import numpy as np
import pytest
from PIL import Image
from tiny import tiny_config

import xmr_core as xmr

mteb = pytest.importorskip("mteb", reason="the extra mteb is not installed")

from datasets import Dataset  # noqa: E402
from mteb.abstasks.retrieval import AbsTaskRetrieval  # noqa: E402
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402

from xmr_core.models.mteb_model import MtebModel  # noqa: E402
from xmr_core.retrieval.library import example_model  # noqa: E402

TYPES = {"t2i": ["text", "image"], "i2t": ["image", "text"]}


def task_of(run, direction: str):
    """A task of mteb from the test split of a run, by its annotated pairs."""
    corpus = run.prepared().corpus
    i, t = corpus.rows("test")
    pixels = corpus.read_pixels(i)
    images = Dataset.from_dict({"id": [f"i{n}" for n in range(len(i))], "image": [Image.fromarray(p) for p in pixels]})
    texts = corpus.captions["text"].iloc[t].tolist()
    captions = Dataset.from_dict({"id": [f"t{n}" for n in range(len(t))], "text": texts})
    relevance = corpus.relevance_sets["annotated"]("test")
    own, prefixes = relevance if direction == "t2i" else relevance.transpose(), ("t", "i")
    queries, items = (captions, images) if direction == "t2i" else (images, captions)
    first, second = prefixes if direction == "t2i" else prefixes[::-1]
    relevant = {f"{first}{n}": {f"{second}{m}": 1 for m in own[n]} for n in range(len(queries))}

    class Scenes(AbsTaskRetrieval):
        metadata = TaskMetadata(
            name=f"Scenes{direction.upper()}", description="scenes", reference=None, type="Any2AnyRetrieval",
            category=direction, eval_splits=["test"], eval_langs=["eng-Latn"], main_score="hit_rate_at_1",
            dataset={"path": "none", "revision": "1"}, modalities=TYPES[direction], date=None, domains=None,
            task_subtypes=None, license=None, annotations_creators=None, dialect=None, sample_creation=None,
            bibtex_citation=None,
        )  # fmt: skip

        def load_data(self, **_) -> None:
            data = {"queries": queries, "corpus": items, "relevant_docs": relevant, "top_ranked": None}
            self.dataset, self.data_loaded = {"default": {"test": data}}, True

    return Scenes()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["vse++", "dive", "pcme", "scan"])
def test_mteb_gives_our_recalls_to_five_digits(method, shared_home, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(shared_home))
    run = xmr.train_or_load(tiny_config(method, epochs=1))
    model = MtebModel(xmr.load(run.id))
    for direction in ("t2i", "i2t"):
        result = mteb.evaluate(model, task_of(run, direction), cache=None, show_progress_bar=False)
        (theirs,) = result.task_results[0].scores["test"]
        own = run.per_query[(run.per_query["relevance"] == "annotated") & (run.per_query["direction"] == direction)]
        for k in (1, 5, 10):
            assert theirs[f"hit_rate_at_{k}"] == pytest.approx(own[f"R@{k}"].mean(), abs=1e-5), (direction, k)
            if direction == "t2i":
                assert theirs[f"recall_at_{k}"] == pytest.approx(own[f"R@{k}"].mean(), abs=1e-5)
        assert result.task_results[0].task_name == f"Scenes{direction.upper()}"


def rows(**columns):
    return Dataset.from_dict(columns)


def test_a_list_of_candidates_is_ranked_and_nothing_else():
    model = MtebModel(example_model())
    pictures = [Image.fromarray(np.full((64, 64, 3), 60 * n, np.uint8)) for n in range(4)]
    model.index(rows(id=list("abcd"), image=pictures))
    queries = rows(id=["q"], text=["a red square"])
    every = model.search(queries, top_k=10)["q"]
    some = model.search(queries, top_k=10, top_ranked={"q": ["d", "b"]})["q"]
    assert set(every) == set("abcd") and some == pytest.approx({name: every[name] for name in ("d", "b")}, abs=1e-6)
    assert list(model.search(queries, top_k=2)["q"]) == sorted(every, key=every.get, reverse=True)[:2]
    titled = rows(id=["q"], title=["a red"], text=["square"])
    assert model.search(titled, top_k=10)["q"] == pytest.approx(every)
    images = model.search(rows(id=["p"], image=pictures[:1]), top_k=1)["p"]
    assert set(images) <= set("abcd"), "a symmetric similarity compares images with images"
