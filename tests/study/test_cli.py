"""`python -m xmr_core run`: refuses before it starts, and succeeds only when the notebook says so itself."""

import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path

import nbformat
import pytest
from PIL import Image
from synthetic import FIGURE, FINISH, build

from xmr_core import commands
from xmr_core.base import files as storage
from xmr_core.cli import main as core_main
from xmr_study import running
from xmr_study.cli import main


@pytest.fixture(autouse=True)
def own_folder(own_home, tmp_path, monkeypatch):
    monkeypatch.delenv("XMR_DEBUG", raising=False)
    monkeypatch.chdir(tmp_path)


def run(*words) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "xmr_study", "run", *map(str, words)], capture_output=True, text=True)


@pytest.mark.parametrize("words", ["dive --preset study epochs=2 d=8", "dive epochs=2 --preset study d=8"])
@pytest.mark.parametrize("command", ["train", "options"])
def test_options_of_a_training_may_stand_anywhere(command, words, monkeypatch):
    seen = []
    monkeypatch.setitem(commands.COMMANDS, command, lambda arguments: seen.append(arguments) or 0)
    assert main([command, *words.split()]) == 0
    assert (seen[0].option, seen[0].flags, seen[0].method) == (["epochs=2", "d=8"], ["preset=study"], "dive")
    for wrong in ("more", "--unknown"):
        with pytest.raises(SystemExit):
            main([command, *words.split(), wrong])
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["n.ipynb", "-p", "alhpa", "8"], "'alpha'"),
        (["n.ipynb", "-p", "alpha", "abc"], "'abc'"),
        (["n.ipynb", "-y", "just words"], "YAML"),
        (["n.ipynb", "-y", "a: &a [1, 1]\nseeds: [*a, *a]"], "YAML"),
        (["a\x1b]8;;http://x\x07b\u202e\x9b31m.ipynb"], "ab��31m.ipynb"),
        (["absent.ipynb"], "not found"),
        (["bare.ipynb"], "parameters"),
        (["n.ipynb", "n.ipynb"], "overwrite"),
        (["n.ipynb", "text.ipynb/out.ipynb"], "cannot write"),
    ],
)
def test_what_cannot_run_is_refused_in_one_line_before_it_starts(tmp_path, capsys, monkeypatch, words, message):
    source = build(tmp_path / "n.ipynb")
    build(tmp_path / "bare.ipynb", parameters=None)
    (tmp_path / "text.ipynb").write_text("hello")
    before = source.read_bytes()
    monkeypatch.setattr(running, "_execute", lambda *_: pytest.fail("it started"))
    assert main(["run", *words]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1 and captured.out == ""
    assert source.read_bytes() == before


def test_the_core_has_its_own_commands_and_help_says_how_it_was_called(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/bin/xmr"])
    for entry, command, known in ((core_main, "explore", False), (main, "explore", True), (core_main, "train", True)):
        with pytest.raises(SystemExit):
            entry([command, "--help"])
        captured = capsys.readouterr()
        assert ("usage: xmr" in captured.out) == known and ("invalid choice" in captured.err) != known


@pytest.fixture
def dogs(tmp_path):
    """A folder whose names, captions and faults few consoles can show."""
    folder = tmp_path / "süß 狗"
    folder.mkdir()
    for n in range(12):
        Image.new("RGB", (9, 9), (n, 0, 0)).save(folder / f"狗{n}.png")
    rows = "".join(f"狗{n}.png,süßer 狗 {n} — ☃\n" for n in range(13))
    (folder / "captions.csv").write_text(f"image,caption\n{rows}", "utf-8")
    return folder


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_no_console_ends_a_command(encoding, dogs, monkeypatch):
    for words in (["check", "folder", str(dogs)], ["check", "folder", "狗"], ["runs"], ["--help"], ["check", "☃", "x"]):
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out), monkeypatch.setattr(sys, "stderr", err)
        with suppress(SystemExit):
            assert main(words) in (0, 1, 2)
        said = (out.buffer.getvalue() + err.buffer.getvalue()).decode(encoding)
        assert said and ("狗" in said or "u72d7" in said or str(dogs) not in words)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["xmr_core", "xmr_study"])
def test_no_console_ends_a_process(module, dogs):
    command = [sys.executable, "-m", module, "check", "folder", str(dogs)]
    for encoding in ("ascii", "cp1252"):
        done = subprocess.run(command, capture_output=True, env=os.environ | {"PYTHONIOENCODING": encoding})
        assert done.returncode in (0, 1) and b"u72d7" in done.stdout and not done.stderr


def test_a_warning_is_one_line_without_a_place_in_the_code(monkeypatch, capsys):
    def warn(arguments):  # as `warnings.warn` writes it where nothing records it, as pytest does
        print(warnings.formatwarning("no word\x1b[31m is known", UserWarning, "model.py", 63, "code"), file=sys.stderr)
        return 0

    usual = warnings.formatwarning
    monkeypatch.setitem(commands.COMMANDS, "runs", warn)
    assert main(["runs"]) == 0
    assert capsys.readouterr().err == "warning: no word is known\n\n" and warnings.formatwarning is usual


@pytest.mark.slow
def test_a_good_notebook_runs_in_this_interpreter_and_says_what_it_made(tmp_path, monkeypatch):
    """With everything against it: another python first in PATH, a foreign kernel called python3, a backend that shows
    nothing.
    """
    decoys = tmp_path / "jupyter" / "kernels" / "python3"
    decoys.mkdir(parents=True)
    decoy = {"argv": ["/bin/false"], "display_name": "decoy", "language": "python"}
    (decoys / "kernel.json").write_text(json.dumps(decoy))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("MPLBACKEND", "Agg")
    look = "import os\nimport sys\n\nprint('at', sys.executable, os.getcwd(), os.environ['PATH'].split(':')[0])"
    bar = "import time\n\nfrom tqdm.auto import tqdm\n\nfor _ in tqdm(range(3), desc='training'):\n    time.sleep(0.1)"
    finish = FINISH.replace("p.alpha}", 'p.alpha, "says": "It **held**."}')
    source = build(tmp_path / "a b{c}" / "small.ipynb", look, bar, FIGURE, finish=finish)
    done = run(source, "-p", "alpha", "8", "-p", "fast", "false", "-y", "seeds: [3]")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("\nIt held.\n")
    assert f"at {sys.executable} {tmp_path} {Path(sys.executable).parent}" in done.stderr
    assert "training:" in done.stderr and "8/8 cells" in done.stderr and "WARNING" not in done.stderr
    (output,) = (tmp_path / "home" / "outputs").glob("small-*/small.ipynb")
    record = storage.read_json(output.parent / "record.json")
    assert record["parameters"] == {"alpha": 8.0, "seeds": [3], "fast": False, "name": "a#b"}
    assert f"  rows      {output.parent / 'rows.csv'}" in done.stdout
    mimes = [m for c in nbformat.read(output, 4).cells for o in c.get("outputs", []) for m in o.get("data", {})]
    assert "image/png" in mimes

    # Asked again, with a notebook that stops half-way: the record of the first run lies there, and does not count.
    build(source, "import sys\n\nsys.exit(0)", check=look)
    stopped = run(source, output)
    assert stopped.returncode == 1 and "completion record" in stopped.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("raise ValueError('first\\nsecond')", "cell In [3]: ValueError: first\n"),
        ("import os\n\nprint('x', file=open('runs', 'a'))\nos.kill(os.getpid(), 9)", "Kernel died"),
    ],
)
def test_a_failing_notebook_fails(tmp_path, capsys, cell, message):
    source = build(tmp_path / "n.ipynb", cell, "print('not reached')")
    assert main(["run", str(source), "out/executed.ipynb"]) == 1
    captured = capsys.readouterr()
    assert message in captured.err and "out/executed.ipynb" in captured.err and "done" not in captured.out
    executed = nbformat.read(tmp_path / "out" / "executed.ipynb", 4)
    assert "not reached" not in str([c.get("outputs") for c in executed.cells])
    if message == "Kernel died":
        assert (tmp_path / "runs").read_text() == "x\n", "work that was begun must not be done twice"


@pytest.mark.slow
def test_a_kernel_that_does_not_start_is_tried_once_more(tmp_path, capsys, monkeypatch):
    attempts, real = [], running.own_kernel

    def flaky(failures):
        attempts.append(1)
        if len(attempts) <= failures:
            raise RuntimeError("Kernel died before replying to kernel_info")
        return real()

    source = build(tmp_path / "n.ipynb")
    monkeypatch.setattr(running, "own_kernel", lambda: flaky(9))
    assert main(["run", str(source)]) == 1
    assert len(attempts) == 2 and "Kernel died before replying" in capsys.readouterr().err
    attempts.clear()
    monkeypatch.setattr(running, "own_kernel", lambda: flaky(1))
    assert main(["run", str(source)]) == 0
    assert len(attempts) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to a child")
def test_an_interrupt_ends_it_and_its_kernel_at_once(tmp_path):
    note = tmp_path / "pid"
    slow = f"import os, pathlib, time\n\npathlib.Path({str(note)!r}).write_text(str(os.getpid()))\ntime.sleep(60)"
    words = [sys.executable, "-m", "xmr_study", "run", str(build(tmp_path / "n.ipynb", slow))]
    # a shell that runs the tests in the background has them ignore SIGINT, and children inherit that
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=listening)
    try:
        waited = time.monotonic()
        while not (note.exists() and note.read_text()):
            assert process.poll() is None and time.monotonic() - waited < 60
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and "interrupted" in errors and "Traceback" not in errors
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_explore_refuses_an_unknown_run_before_it_serves(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("subprocess.call", lambda *a, **k: pytest.fail("the server was started"))
    pytest.importorskip("voila")
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    assert main(["explore", str(tmp_path), "--run", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err
    assert main(["explore", str(tmp_path)]) == 2
    assert "no finished run" in capsys.readouterr().err
