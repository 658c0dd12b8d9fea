"""Plausible uses that ended in a wrong number, an endless loop or an error of another library, each of them once."""

import importlib
import operator
import sys
from dataclasses import replace
from functools import partial
from importlib.metadata import EntryPoint
from itertools import islice

import numpy as np
import pytest
import torch
from PIL import Image
from tiny import tiny_config
from torch import nn
from toy_method import SPEC as TOY

from xmr_core import methods as all_methods
from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.fingerprint import own_code_version
from xmr_core.base.machine import matrix_precision
from xmr_core.base.types import Batch, EmbeddingSet, Features, Relevance, RelevantRanks
from xmr_core.data import corpora
from xmr_core.data.corpora import import_named, register_reader
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.data.scenes import load_scenes
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.features.cache import cached_array
from xmr_core.features.images import convert_to_rgb, read_thumbnail
from xmr_core.features.words import load_word_vectors
from xmr_core.methods import registry
from xmr_core.methods.method import Method
from xmr_core.methods.pcmepp import MixedSamples
from xmr_core.models.load import load
from xmr_core.training.runs import train_or_load


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))


# ------------------------------------------------------------------------------------------------ items by row
OWN = Relevance.from_matrix(np.eye(5, dtype=bool), [*"abcde"], range(5))
SETS = EmbeddingSet(torch.rand(5, 2, 3), torch.ones(5, 2, dtype=torch.bool))


def test_a_loop_over_representations_ends_and_every_item_keeps_its_axis():
    items = list(islice(SETS, 8))
    assert [len(item) for item in items] == [1] * 5
    assert all(torch.equal(item.x, SETS.x[n : n + 1]) for n, item in enumerate(items))


@pytest.mark.parametrize("index", [2, -3, np.int64(2)])
def test_any_integer_keeps_the_item_axis(index):
    assert torch.equal(SETS[index].x, SETS.x[2:3])


@pytest.mark.parametrize("index", [5, -6, np.int64(5)])
@pytest.mark.parametrize(
    "rows",
    [SETS, RelevantRanks(np.arange(6), np.ones(5, int), 5), OWN],
)
def test_an_item_that_is_not_there_is_an_error_and_not_an_empty_one(rows, index):
    with pytest.raises(IndexError, match="of 5 items"):
        operator.getitem(rows, index)


def test_another_dtype_is_for_numbers_and_not_for_masks():
    double = SETS.to(torch.float64)
    assert double.x.dtype == torch.float64 and double.mask.dtype == torch.bool
    assert SETS.to("cpu", torch.float64).mask.dtype == torch.bool


# ------------------------------------------------------------------------------------------------ code that is named
def test_a_dotted_name_in_a_folder_of_a_model_runs_no_code(tmp_path, monkeypatch):
    """An address without a colon is importable too, by other functions than ours."""
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / "evil.py").write_text("import sys; sys.evil = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(BadInput, match="is no address"):
        import_named("got.evil.X", "features")
    assert not hasattr(sys, "evil") and "got.evil" not in sys.modules


# ------------------------------------------------------------------------------------------------ shared modules
class Projected(nn.Module):
    """A head before a layer that it shares with the other modality."""

    def __init__(self, head: nn.Module, layer: nn.Linear):
        super().__init__()
        self.head, self.layer = head, layer

    def forward(self, features, *more):
        elements = self.head(features, *more)
        return replace(elements, x=self.layer(elements.x))


def siamese(inputs, o):
    made, layer = TOY.build(inputs, d=o.d), nn.Linear(o.d, o.d)
    heads = (Projected(head, layer) for head in (made.image_head, made.caption_head))
    return Method("siamese", made.image_encoder, made.caption_encoder, *heads, made.similarity, made.objective)


@pytest.mark.slow
def test_a_method_that_uses_one_layer_for_images_and_captions_is_saved_and_loaded(tmp_path, monkeypatch):
    spec = replace(TOY, id="siamese", label="Siamese", matched=siamese, variants={"Siamese": {}})
    monkeypatch.setitem(registry._registered, "siamese", spec)
    run = train_or_load(tiny_config("siamese", epochs=1))
    method = load(run.export(tmp_path / "model.safetensors")).method
    assert method.image_head.layer is method.caption_head.layer, "the builder ties them again"
    assert all(torch.equal(t, run.method().state_dict()[name]) for name, t in method.state_dict().items())


# ------------------------------------------------------------------------------------------------ torch
def test_precision_that_was_set_for_one_backend_is_no_obstacle_and_stays(monkeypatch):
    backend = torch.backends.cuda.matmul
    before = backend.fp32_precision
    try:
        backend.fp32_precision = "tf32"
        with matrix_precision("float32"):
            assert backend.fp32_precision == "ieee"
        assert backend.fp32_precision == "tf32"
    finally:
        backend.fp32_precision = before
    torch.get_float32_matmul_precision()  # and torch's own state is not mixed up


@pytest.mark.slow
def test_a_training_leaves_the_random_numbers_of_its_caller_alone():
    torch.manual_seed(5)
    train_or_load(tiny_config("vse++", epochs=1))
    after_training = torch.rand(3)
    torch.manual_seed(5)
    assert torch.equal(after_training, torch.rand(3))


def test_cut_mix_cuts_no_regions_even_where_their_number_is_a_square():
    torch.manual_seed(0)
    images = Features(torch.rand(8, 36, 5), torch.ones(8, 36, dtype=torch.bool))
    rows = torch.arange(8)
    batch = Batch(images, None, torch.eye(8, dtype=torch.bool), rows, rows)

    def cut(mixer: MixedSamples) -> bool:
        """Whether some cells of an image are its own whole and others its partner's."""
        mixed = mixer(batch).images.local_feats
        own, other = (mixed == images.local_feats).all(2), (mixed == images.local_feats.flip(0)).all(2)
        return bool((own.any(1) & other.any(1)).any())

    assert cut(MixedSamples(share=1.0, cut=1.0)) and not cut(MixedSamples(share=1.0, cut=1.0, grid=False))


# ------------------------------------------------------------------------------------------------ data
def test_a_reader_that_is_registered_anew_is_read_anew(monkeypatch):
    monkeypatch.setattr(corpora, "READERS", corpora.READERS.copy())
    monkeypatch.setattr(importlib.import_module("xmr_core.data.prepare"), "READERS", corpora.READERS)
    fingerprints = []
    for seed in (0, 1):
        register_reader("mine", lambda root, seed=seed: load_scenes("tiny", seed))
        fingerprints.append(prepare(DataConfig(dataset="mine"), progress=iter).corpus.fingerprint)
    assert fingerprints[0] != fingerprints[1]


def test_word_vectors_that_nothing_would_read_are_refused():
    with pytest.raises(BadInput, match="leave word_vectors empty"):
        prepare(DataConfig(size="tiny", word_vectors="/no/such.txt"), progress=iter)


def test_word_vectors_with_a_head_and_words_with_blanks_are_read(tmp_path):
    """word2vec and fastText write a head, fastText a blank at the end of a line; some words of GloVe hold blanks."""
    file = tmp_path / "vectors.txt"
    file.write_text("3 2\ndog 1 2 \n. . . 3 4\ncat 5 6\n")
    vectors, covered = load_word_vectors(file, ["cat", "dog"])
    assert vectors.tolist() == [[5.0, 6.0], [1.0, 2.0]] and covered.all()
    file.write_text("dog 1 2\ncat 3 4 5\n")
    with pytest.raises(BadInput, match="line 2 has 3 numbers, the lines before it 2"):
        load_word_vectors(file, ["cat"])


def test_what_an_extractor_cannot_find_is_not_called_a_full_folder(tmp_path):
    def work(start):
        yield np.zeros((1, 2))
        (tmp_path / "no weights").read_bytes()

    with pytest.raises(FileNotFoundError, match="no weights"):
        cached_array("mine", [1], (2, 2), np.float32, work)
    assert not list((tmp_path / "home" / "cache").glob("*.part"))


def test_a_thumbnail_is_read_as_images_are(tmp_path):
    (tmp_path / "x.jpg").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n")
    with pytest.raises(DamagedFile, match="no image"):
        read_thumbnail(tmp_path / "x.jpg", 10)


def test_floating_point_pixels_of_at_most_one_are_not_black():
    image = Image.fromarray(np.array([[0.0, 0.5, 1.0]], np.float32))
    assert np.asarray(convert_to_rgb(image))[0, :, 0].tolist() == [0, 128, 255]


# ------------------------------------------------------------------------------------------------ code that counts
def versions_of(text: str, name: str, *values) -> list[str]:
    """Versions of what `name` is in the main program, for several values of VALUE there."""
    space = sys.modules["__main__"].__dict__
    out = []
    for value in values:
        space["VALUE"] = value
        exec(text, space)
        out.append(own_code_version(space.pop(name)))
    space.pop("VALUE")
    return out


@pytest.mark.parametrize(
    ("one", "two"),
    [([1.0, 2.0], [1.0, 9.0]), ({"a": 1}, {"a": 2}), (np.zeros(3), np.ones(3)), ((1, [2]), (1, [3])), ({1}, {2})],
)
def test_a_value_that_a_function_of_a_notebook_reads_is_part_of_its_version(one, two, monkeypatch):

    text = "def read(x):\n    return x * VALUE\n"
    monkeypatch.setattr(own_code_version.__globals__["inspect"], "getsource", lambda thing: text)  # as IPython keeps it
    first, second, again = versions_of(text, "read", one, two, one)
    assert first != second and first == again


def test_a_number_in_a_function_without_a_source_is_part_of_its_version():
    two, three = (eval(f"lambda x: {n} * x", {"__name__": "__main__"}) for n in (2, 3))
    assert own_code_version(two) != own_code_version(three)


def test_the_arguments_of_a_partial_function_are_part_of_its_version():
    def reader(root, scale):
        return scale

    assert own_code_version(partial(reader, scale=1)) == own_code_version(partial(reader, scale=1))
    assert own_code_version(partial(reader, scale=1)) != own_code_version(partial(reader, scale=2))
    assert own_code_version(partial(reader, 1)) != own_code_version(reader)


# ------------------------------------------------------------------------------------------------ methods and workers
def test_one_broken_package_takes_no_other_method_away(monkeypatch):
    broken = EntryPoint("broken", "no_such_module:SPEC", "xmr_core.methods")
    monkeypatch.setattr(registry, "entry_points", lambda group: [broken])
    registry._installed.cache_clear()
    try:
        with pytest.warns(UserWarning, match="cannot be imported.*left out"):
            assert "dive" in all_methods.methods()
    finally:
        registry._installed.cache_clear()


def test_scores_need_a_relevance_and_may_be_a_tensor():
    relevance = Relevance.from_matrix(np.eye(3, dtype=bool), range(3), range(3))
    assert evaluate_scores(torch.eye(3), {"annotated": relevance}).per_query["first_rank"].eq(1).all()
    with pytest.raises(BadInput, match="must be a mapping"):
        evaluate_scores(np.eye(3), {})


# ------------------------------------------------------------------------------------------------ runs
@pytest.mark.slow
def test_a_run_that_another_process_writes_anew_is_not_thrown_away(monkeypatch):
    """While a run is evaluated by another kind of relevance its tables change before its record does."""
    from xmr_core.training.runs import folder as folders

    run = train_or_load(tiny_config("vse++", epochs=1))
    identity = files.read_record(run.folder / "config.json")["identity"]
    read, calls = folders.read_run, []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise DamagedFile("metrics.csv is missing or altered.")
        return read(*arguments)

    monkeypatch.setattr(folders, "read_run", interrupted)
    assert folders.load_finished(run.folder, run.config, identity).id == run.id
    assert (run.folder / "record.json").exists() and len(calls) == 2
