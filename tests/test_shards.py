"""Several indexes searched as one give the answers of one index, or one line that says which of them failed."""

import os
import signal

import numpy as np
import pytest
import torch
from tiny import tiny_config

from xmr_core.base.errors import BadInput, DamagedFile, ProcessLost
from xmr_core.base.types import Representation
from xmr_core.search import Source, build_elements, open_library, open_shards, save_index, search, search_shards
from xmr_core.search.library import Library
from xmr_core.training.runs import train_or_load
from xmr_core.ui.cli import main

pytestmark = pytest.mark.slow  # a training
SENTENCE = "a small red circle"


def part(library: Library, rows: np.ndarray) -> Library:
    """The images at some positions, without captions."""
    taken: Representation = library.images[torch.from_numpy(rows)]
    options = {n: getattr(library, n) for n in ("label", "method", "prepared", "inputs", "pixels")}
    nothing = np.empty(0, object)
    return Library(
        images=taken, captions=None, image_ids=library.image_ids[rows], caption_ids=nothing, texts=nothing,
        relevance_sets={}, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(run, library, three folders): every fourth image is in two of the folders, so that scores are equal."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("shards")
        patch.setenv("XMR_HOME", str(home / "home"))
        run = train_or_load(tiny_config("dive"))
        library, folders = open_library(run), []
        n = len(library.image_ids)
        for number, rows in enumerate((np.arange(0, n // 2), np.arange(0, n, 4), np.arange(n // 2, n))):
            folder = home / f"part-{number}"
            save_index(part(library, rows), run, folder, Source("split", "test", "x"))
            folders.append(folder)
        yield run, library, folders


def elements_of(folders):
    from xmr_core.search import open_index

    for folder in folders:
        index = open_index(folder)
        build_elements(index.images, folder, index.digest("images"))


@pytest.mark.parametrize("processes", [False, True])
def test_the_answer_is_that_of_one_index(made, processes):
    _, library, folders = made
    rows = np.concatenate([np.arange(0, 16), np.arange(0, 32, 4), np.arange(16, 32)])
    one = search(part(library, rows), SENTENCE, k=12)
    with open_shards(folders, processes=processes) as shards:
        table = search_shards(shards, SENTENCE, k=12)
        assert table["item"].tolist() == one["item"].tolist() and np.allclose(table["score"], one["score"], atol=1e-6)
        twice = table[table["item"].duplicated(keep=False)]
        for _, pair in twice.groupby("item"):
            assert pair["folder"].tolist() == sorted(pair["folder"]), "equal scores are in the order of folders"
        assert len(twice) and "certified" not in table.attrs
        everything = search_shards(shards, SENTENCE, k=500)
        assert len(everything) == len(rows)


@pytest.mark.parametrize("processes", [False, True])
def test_proposals_of_all_shards_are_certified_together(made, processes):
    pytest.importorskip("faiss")
    _, _, folders = made
    elements_of(folders)
    with open_shards(folders, elements=True, processes=processes) as shards:
        table = search_shards(shards, SENTENCE, k=5, most=10**6)
    assert table.attrs["certified"] and not table.attrs["reason"]
    with open_shards(folders) as shards:
        assert table["item"].tolist() == search_shards(shards, SENTENCE, k=5)["item"].tolist()


def test_a_killed_process_is_one_message(made):
    _, _, folders = made
    shards = open_shards(folders, processes=True)
    search_shards(shards, SENTENCE)
    before = search_shards(shards, SENTENCE)
    os.kill(next(iter(shards.workers.processes[1]._processes)).pid, signal.SIGKILL)
    with pytest.raises(ProcessLost, match=r"part-1 is lost.*status -9.*Ask again"):
        search_shards(shards, SENTENCE)
    assert search_shards(shards, SENTENCE).equals(before), "the next question starts another process"
    shards.close()


def test_what_does_not_belong_together_is_refused(made, tmp_path):
    run, library, folders = made
    with pytest.raises(BadInput, match="each once"):
        open_shards([folders[0], folders[0]])
    with pytest.raises(BadInput, match="got none"):
        open_shards([])
    with pytest.raises(BadInput, match="missing does not exist"):
        open_shards([folders[0], tmp_path / "missing"])
    other = train_or_load(tiny_config("vse++"))
    save_index(part(open_library(other), np.arange(4)), other, tmp_path / "other", Source("split", "test", "x"))
    with pytest.raises(BadInput, match=f"was encoded by {other.id} and .* by {run.id}, so .*Index .* again with"):
        open_shards([folders[0], tmp_path / "other"])
    save_index(part(library, np.arange(4)), run, tmp_path / "cut", Source("split", "test", "x"))
    gallery = tmp_path / "cut" / "images.safetensors"
    gallery.write_bytes(gallery.read_bytes()[:-8])
    with pytest.raises(DamagedFile, match=r"cut/images\.safetensors has"):
        open_shards([folders[0], tmp_path / "cut"])


def test_the_command_searches_several_indexes(made, capsys):
    _, _, folders = made
    with open_shards(folders) as shards:
        table = search_shards(shards, SENTENCE, k=3)
    capsys.readouterr()
    assert main(["search", str(folders[0]), SENTENCE, "-k", "3", *(f"--also={f}" for f in folders[1:])]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[2] for line in lines] == table["item"].tolist()
