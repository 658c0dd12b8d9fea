"""One run on several processes: equal to one process, one writer, and nothing lost when a process is killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from tiny import tiny_config
from torch import nn
from torch.testing import assert_close

from xmr_core.base.errors import BadInput
from xmr_core.training.distributed import DrawsOfAll, share_of
from xmr_core.training.runs import load, stored_ids, train_or_load

HERE = Path(__file__).parents[1]
SIZES = ["size=tiny", "d=16", "batch_images=16", "captions_per_image=2", "device=cpu"]
LENGTH = ["epochs=6", "dropout=0.0", "iterations=1"]


@pytest.fixture(scope="module", autouse=True)
def settings():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(HERE.parent), str(HERE), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def together(tmp_path_factory, settings):
    """A run of two processes, in a home of its own: starting them takes longer than the run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XMR_HOME", str(tmp_path_factory.mktemp("home")))
        return load(trained(2, *LENGTH))


def torchrun(ranks: int, *words: str) -> list[str]:
    """The command; --standalone chooses a free port."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), *words]


def trained(ranks: int, *options: str) -> str:
    """The id of a run that these processes trained together with the command `train`."""
    done = subprocess.run(
        torchrun(ranks, "-m", "xmr_core", "train", "dive", *SIZES, *options),
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


@pytest.mark.slow
def test_every_method_and_objective_has_the_loss_and_gradients_of_one_process(tmp_path):
    """On three ranks with unequal shares; also with dropout, mixed samples, noise of distributions and BatchNorm; in
    float64."""
    words = torchrun(3, str(HERE / "equal_ranks.py"), str(tmp_path / "out"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    results = [json.loads((tmp_path / f"out.{rank}").read_text()) for rank in range(3)]
    assert len(results[0]) >= 45
    for case, values in results[0].items():
        assert isinstance(values, dict), f"{case}: {values}"
        assert max(values["loss"], values["gradients"], values["buffers"]) < 1e-9, f"{case}: {values}"
    assert all(other == results[0] for other in results[1:]), "the ranks do not agree"


@pytest.mark.slow
def test_a_run_on_two_processes_equals_the_run_on_one_and_is_its_own_run(together, monkeypatch):
    monkeypatch.setenv("XMR_HOME", str(together.folder.parents[1]))
    alone = train_or_load(tiny_config(epochs=6, dropout=0.0, iterations=1))
    assert together.id != alone.id and together.config.processes == 2 and len(stored_ids()) == 2
    assert_close(together.weights(), alone.weights(), rtol=0, atol=1e-4)  # float32, and AdamW divides by small numbers
    columns = ["loss", "value", "lr"]
    assert_close(*(torch.tensor(run.history[columns].to_numpy()) for run in (together, alone)), rtol=0, atol=1e-2)
    assert abs(together.history["loss"][0] - alone.history["loss"][0]) < 1e-4
    assert train_or_load(together.config).id == together.id, "a finished run is loaded by one process"


@pytest.mark.slow
def test_a_killed_rank_ends_all_with_a_sentence_and_the_restart_ends_the_same(together, tmp_path, monkeypatch):
    psutil = pytest.importorskip("psutil")
    monkeypatch.setenv("XMR_HOME", str(tmp_path / "killed"))
    command = torchrun(2, "-m", "xmr_core", "train", "dive", *SIZES, *LENGTH)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    folder, deadline = tmp_path / "killed" / "runs" / together.id, time.monotonic() + 240
    while not (folder / "state.sealed.previous").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    ranks = [p for p in psutil.Process(process.pid).children() if "xmr_core" in p.cmdline()]
    victim = next(p for p in ranks if p.environ()["RANK"] == "1")
    victim.send_signal(signal.SIGKILL)
    _, errors = process.communicate(timeout=120)
    assert process.returncode != 0 and "another process of this run has ended" in errors
    assert not psutil.wait_procs(ranks, timeout=30)[1], "a process stayed behind"
    assert not (folder / "record.json").exists()
    again = load(trained(2, *LENGTH))
    for name in ("model.safetensors", "metrics.csv"):
        assert (again.folder / name).read_bytes() == (together.folder / name).read_bytes()
    history = [run.history.drop(columns="seconds") for run in (again, together)]
    assert history[0].equals(history[1])


DIVERGING = """
import sys
from tiny import tiny_config
from xmr_core.base.errors import TrainingFailed
from xmr_core.methods.method import Method
from xmr_core.training.runs import train_or_load

steps, real = [], Method.loss_of

def diverging(self, *arguments):
    steps.append(1)
    loss, terms, scores = real(self, *arguments)
    return loss * (float("nan") if len(steps) == 3 else 1.0), terms, scores

Method.loss_of = diverging
try:
    train_or_load(tiny_config(processes=2))
except TrainingFailed as e:
    open(f"{sys.argv[1]}.{len(steps)}.{__import__('os').environ['RANK']}", "w").write(str(e))
"""


@pytest.mark.slow
def test_every_rank_notices_that_training_diverges(tmp_path):
    (tmp_path / "diverging.py").write_text(DIVERGING)
    subprocess.run(torchrun(2, str(tmp_path / "diverging.py"), str(tmp_path / "out")), timeout=300, check=True)
    for rank in (0, 1):
        assert "the loss is nan at epoch 0 step 2" in (tmp_path / f"out.3.{rank}").read_text()


def test_a_run_of_several_processes_says_how_to_start_it():
    with pytest.raises(BadInput, match="trained by 2 processes, and 1 started. Start it with 'torchrun"):
        train_or_load(tiny_config(processes=2))


def test_the_identity_of_a_run_on_one_process_says_nothing_of_processes():
    config = tiny_config()
    assert "processes" not in config.identity({}) and config.replace(processes=2).identity({})["processes"] == 2


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_shares_are_even_and_cover_all(ranks):
    shares = [share_of(11, rank, ranks) for rank in range(ranks)]
    assert [row for s in shares for row in range(11)[s]] == list(range(11))
    sizes = [s.stop - s.start for s in shares]
    assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: nn.Dropout(0.5)(x),
        lambda x: nn.functional.dropout(x, 0.3, training=True),
        lambda x: x + torch.randn_like(x),
        lambda x: x + torch.randn(len(x), 3),
    ],
)
def test_noise_of_a_share_is_cut_from_the_noise_of_all(draw):
    x, share = torch.arange(33.0).view(11, 3), share_of(11, 1, 3)
    torch.manual_seed(0)
    expected, following = draw(x)[share], torch.rand(())
    torch.manual_seed(0)
    with DrawsOfAll(share, 11):
        assert torch.equal(draw(x[share]), expected)
    assert torch.equal(torch.rand(()), following)
