"""A word that no training caption has, and the file of word vectors knows, is read as the nearest training word."""

import shutil

import numpy as np
import pytest
import torch

import xmr_core as xmr
from xmr_core.base.errors import DamagedFile
from xmr_core.features.words import LEAST, NearestWords, Vocabulary, read_nearest
from xmr_core.retrieval.index import index_split, open_index
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query, known_words, rank, search

THINGS = ("dog", "cat", "boat", "tree", "house")


def vectors(folder, **more):
    """A file of word vectors of width 6: training words at right angles, 'dogs' and 'ships' near two of them."""
    axes = np.eye(6)
    rows = {word: axes[n] for n, word in enumerate(THINGS)} | {"a": axes[5]}
    rows |= {"dogs": 2 * axes[0] + 0.3 * axes[5], "ships": axes[2] + 0.1 * axes[1], "of": axes[1] + axes[3] + axes[4]}
    lines = [" ".join([word, *map(str, row)]) for word, row in (rows | more).items()]
    path = folder / "vectors.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_nearest_word_is_that_of_the_largest_cosine(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path))
    rng = np.random.default_rng(0)
    words = {f"w{n}": rng.normal(size=6) for n in range(300)}
    vocabulary = Vocabulary.build([" ".join([*THINGS, "a"]), " ".join(list(words)[:10])])
    file = vectors(tmp_path, **words)
    nearest = NearestWords(file, vocabulary)
    rows = {line.split()[0]: np.array(line.split()[1:], float) for line in file.read_text().splitlines()}
    unit = {word: row / np.linalg.norm(row) for word, row in rows.items()}
    expected = {}
    for word in unit:  # a loop, written a second time
        if word not in vocabulary.numbers:
            best = max((w for w in unit if w in vocabulary.numbers), key=lambda w: unit[w] @ unit[word])
            if unit[best] @ unit[word] >= LEAST:
                expected[word] = best
    assert dict(nearest) == expected and nearest["dogs"] == "dog" and 0 < len(nearest) < 250
    file.with_name("other.txt").write_text("dog 1 0\ncat 0 1\ndogs 0 1\n")
    monkeypatch.setattr(NearestWords, "_computed", None)
    assert dict(NearestWords(file, vocabulary)) == expected, "read from the cache"
    with pytest.raises(TypeError):
        dict(NearestWords(file.with_name("other.txt"), vocabulary))  # another file is another name in the cache


def test_a_damaged_table_is_refused(tmp_path):
    (tmp_path / "n.json").write_text('{"dogs": "dog", "öre": "coin"}')
    assert read_nearest(tmp_path / "n.json") == {"dogs": "dog", "öre": "coin"}
    (tmp_path / "n.json").write_text("[1")
    with pytest.raises(DamagedFile):
        read_nearest(tmp_path / "n.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on arrays whose captions name five things, with word vectors that know more words."""
    home = tmp_path_factory.mktemp("nearest")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(home))
        kinds = np.arange(60) % len(THINGS)
        features = np.random.default_rng(0).normal(size=(60, 3, 8)) + 4 * np.eye(8)[kinds][:, None]
        features = features.astype(np.float32)
        sentences = [f"a {THINGS[k]}" for k in kinds]
        options = {"d": 8, "epochs": 1, "batch_images": 16, "device": "cpu"}
        yield xmr.fit("dive", images=features, captions=sentences, word_vectors=str(vectors(home)), **options), home


@pytest.mark.slow
class TestModel:
    def test_dogs_are_read_as_a_dog(self, trained):
        model, _ = trained
        one, many, nothing = (model.encode_texts(f"a {word}").x for word in ("dog", "dogs", "of"))
        assert torch.equal(one, many) and not torch.equal(one, nothing)
        assert torch.equal(nothing, model.encode_texts("a zzz").x), "no neighbour: unknown"

    def test_the_table_travels_with_a_folder_and_an_index(self, trained, tmp_path):
        model, _ = trained
        folder = model.save_pretrained(tmp_path / "model")
        run = xmr.training.runs.load(model.about["run"])
        index = index_split(run, tmp_path / "index")
        assert "nearest_words.json" in (folder / "config.json").read_text()
        (folder / "elsewhere.txt").write_text("")
        moved = shutil.move(folder, tmp_path / "moved")
        assert torch.equal(xmr.load(moved).encode_texts("a dogs").x, model.encode_texts("a dog").x)
        table = search(open_index(index), "a dogs", k=3)
        assert table.attrs["nearest"] == {"dogs": "dog"} and table.attrs["unknown_words"] == ()
        assert table["item"].tolist() == search(open_index(index), "a dog", k=3)["item"].tolist()
        (tmp_path / "index" / "model" / "nearest_words.json").unlink()
        with pytest.raises(DamagedFile):
            open_index(index)

    def test_a_ranking_says_so(self, trained):
        model, _ = trained
        library = xmr.retrieval.open_library(xmr.training.runs.load(model.about["run"]))
        assert isinstance(library, Library) and known_words(library, "dogs of zzz") == ["dogs"]
        ranking = rank(library, Query("text", "dogs of a boat"))
        assert ranking.nearest == {"dogs": "dog"} and ranking.unknown_words == ("of",)

    def test_the_numbers_of_a_run_do_not_use_it(self, trained):
        """The corpus is read by the vocabulary alone, so a table changes no run."""
        prepared = xmr.training.runs.load(trained[0].about["run"]).prepared()
        read = prepared.splits["test"].captions
        rows = prepared.splits["test"].caption_rows
        texts = prepared.corpus.captions["text"].iloc[rows].tolist()
        assert torch.equal(read.ids, prepared.vocabulary.encode(texts).ids)
