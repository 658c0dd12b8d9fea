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
from pathlib import Path

import numpy as np

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
    from xmr_core.evaluation.ranks import score_matrix

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


def found(*words: str) -> str:
    """The best answer of `python -m xmr_core search`."""
    command = [sys.executable, "-m", "xmr_core", "search", "index", *words, "-k", "3"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1].split()[1]


def main(folder: Path) -> dict:
    os.chdir(folder)
    expected = json.loads(Path("expected.json").read_text())
    names = {"sentences": expected["sentences"]}
    exec(FIVE_LINES, names)
    difference = np.abs(np.asarray(names["scores"]) - np.array(expected["scores"])).max().item()
    assert difference <= 1e-6, difference

    from xmr_core.retrieval.index import index_folder

    index_folder(names["model"], "images", "index")
    shutil.move("model", "gone")  # neither the exported model nor a run is left
    best = max(range(10), key=lambda n: expected["scores"][n][0])
    assert found(expected["sentences"][0]) == f"{best}.png"
    assert found("--image", "images/4.png") == "4.png"
    return {"package": str(Path(sys.modules["xmr_core"].__file__).parent), "largest difference": difference}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), indent=1))
