"""What an installed wheel does without a checkout and without a run: `python wheel_proof.py FOLDER`.

FOLDER holds model/ (an exported model), images/0.png … 9.png, and expected.json with ten sentences and the run's scores
[image, sentence]; `written` makes it. The program prints what it measured as JSON, and fails where something is wrong.
tests/docs/test_packaging.py runs it with a wheel alone on the path; docs/howto/install.md says how to do so by hand.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

FIVE_LINES = """\
import xmr_core as xmr
model = xmr.load("model")
images = model.encode_images([f"images/{n}.png" for n in range(10)])
texts = model.encode_texts(sentences)
scores = model.similarity(images, texts)
"""


def written(run, folder: Path) -> Path:
    """Make FOLDER from a run whose corpus has pixels, in the environment that has the run."""
    from PIL import Image

    import xmr_core as xmr
    from xmr_core.evaluation.analysis import encode_split
    from xmr_core.evaluation.scoring import score_matrix

    split, corpus, method = run.prepared().splits["test"], run.prepared().corpus, run.method()
    images, captions = (items[:10] for items in encode_split(method, split))
    scores = score_matrix(method.similarity, images, captions)
    (folder / "images").mkdir(parents=True)
    for n, pixels in enumerate(corpus.read_pixels(split.image_rows[:10])):
        Image.fromarray(pixels).save(folder / "images" / f"{n}.png")
    sentences = corpus.captions["text"].iloc[split.caption_rows[:10]].tolist()
    (folder / "expected.json").write_text(json.dumps({"sentences": sentences, "scores": scores.tolist()}))
    xmr.load(run).save_pretrained(folder / "model")
    return folder


def command(*words: str) -> tuple[str, float]:
    """(output, seconds) of `python -m xmr_core …`."""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "xmr_core", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, time.monotonic() - started


def cost(code: str) -> dict[str, float]:
    """Seconds (of the clock, and of the processor, which other work on the machine changes less) and peak megabytes of
    a new interpreter that runs code, the best of three."""
    code += "\nimport time; print('USED', time.process_time())"
    code += "\nprint(*[line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')])"
    rows = []
    for _ in range(3):
        started = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        processor, *memory = map(float, done.stdout.rpartition("USED")[2].split())
        rows.append((time.monotonic() - started, processor, memory[0] / 1024 if memory else 0.0))
    clock, processor, memory = map(min, zip(*rows, strict=True))
    return {"seconds": round(clock, 2), "processor seconds": round(processor, 2), "megabytes": round(memory)}


def main(folder: Path) -> dict:
    os.chdir(folder)
    expected = json.loads(Path("expected.json").read_text())
    names = {"sentences": expected["sentences"]}
    exec(FIVE_LINES, names)
    ours = names["scores"].tolist()
    differences = [
        abs(a - b) for row, own in zip(ours, expected["scores"], strict=True) for a, b in zip(row, own, strict=True)
    ]
    assert max(differences) <= 1e-6, max(differences)

    from xmr_core.retrieval.index import index_folder

    index_folder(names["model"], "images", "index")
    shutil.move("model", "gone")  # neither the exported model nor a run is left
    best = max(range(10), key=lambda n: expected["scores"][n][0])
    by_text, first = command("search", "index", expected["sentences"][0], "-k", "3")
    assert by_text.splitlines()[1].split()[1] == f"{best}.png", by_text
    by_image, _ = command("search", "index", "--image", "images/4.png", "-k", "3")
    assert by_image.splitlines()[1].split()[1] == "4.png", by_image
    _, second = command("search", "index", expected["sentences"][1], "-k", "3")
    search = "from xmr_core.cli import main; main(['search', 'index', 'a red circle', '-k', '3'])"
    return {
        "package": str(Path(sys.modules["xmr_core"].__file__).parent),
        "largest difference": max(differences),
        "first search, seconds": round(first, 2),
        "second search, seconds": round(second, 2),
        "python alone": cost("pass"),
        "import xmr_core": cost("import xmr_core"),
        "xmr search": cost(search),
    }


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), indent=1))
