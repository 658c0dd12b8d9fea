"""Numbers of every stage and method of a tiny study, recorded with the versions they belong to.

`python tests/record_numbers.py` writes tests/numbers.json. Run it after a change of numbers that is meant, together
with the raised version; test_numerics.py says which.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("numbers.json")
STAGES = ("captions", "batches", "features", "evaluation")  # with numbers of their own; methods show the other stages


def expected() -> dict[str, dict]:
    """Name → {'versions', 'numbers'} as recorded."""
    return json.loads(FILE.read_text())


def of_method(method: str, form: str) -> dict:
    """Losses of each epoch and sums over the trained weights (|w| and w²), of a run of seconds."""
    from tiny import TINY

    from xmr_core.methods.registry import method_spec
    from xmr_core.training.runs import train_or_load
    from xmr_core.training.runs.config import base_config

    spec = method_spec(method)
    small = {"size": "tiny", "d": 16, "batch_images": 16, "epochs": 2, **TINY.get(method, {})}
    preset = "published" if form == "published" else "quick"
    names = {*spec.options.names(form), "size", "batch_images", "epochs"}
    config = base_config(method, preset=preset, device="cpu").replace(**{k: v for k, v in small.items() if k in names})
    run = train_or_load(config)
    weights = [w.double() for w in run.weights().values() if w.is_floating_point()]
    sums = [sum(float(w.abs().sum()) for w in weights), sum(float(w.square().sum()) for w in weights)]
    return {"versions": config.identity({})["versions"], "numbers": [*run.history["loss"].tolist(), *sums]}


def of_stage(stage: str) -> dict:
    """Numbers of a stage that needs no training."""
    from xmr_core.training.runs.config import STAGES as versions

    return {"versions": {stage: versions[stage]}, "numbers": [float(x) for x in _MEASURES[stage]()]}


def _captions() -> list[float]:
    from xmr_core.features.words import Vocabulary

    texts = ["A red circle, left of two small squares.", "the Large triangle isn't on a blue sky", "a red-hot star"]
    tokens = Vocabulary.build(texts).encode(texts)
    return [float((tokens.ids.numpy() * (1 + np.arange(tokens.ids.shape[1]))).sum()), *tokens.mask.sum(1).tolist()]


def _batches() -> list[float]:
    from xmr_core.data.batches import Augmentation, Batches
    from xmr_core.data.prepare import DataConfig, prepare

    split = prepare(DataConfig(size="tiny")).splits["train"]
    augmentation = Augmentation(0.2, "each", 0.2, "unknown", 0.0, words=50)
    batches = Batches(split, 16, 2, 3, "images", "annotated", augmentation)
    batch = batches.batch(1, 0, batches.plan(1))
    rows = [float(r.sum()) for r in (batch.image_rows[:8], batch.caption_rows[:8], batch.captions.ids, batch.match)]
    return [*rows, float(batch.images.mask.sum())]


def _features() -> list[float]:
    from xmr_core.features.cells import CellDescriptor

    pixels = np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), np.uint8)
    features = CellDescriptor(64)(pixels).astype(np.float64)
    return [features.sum(), np.square(features).sum(), *features[2, 5, :8]]


def _evaluation() -> list[float]:
    from xmr_core.base.types import Relevance
    from xmr_core.evaluation.evaluate import evaluate_scores

    rng = np.random.default_rng(0)
    scores = rng.integers(0, 40, (20, 60)) / 8 + 2 * np.repeat(np.eye(20), 3, 1)  # with ties
    own = np.repeat(np.eye(20, dtype=bool), 3, 0)
    more = own | (rng.random(own.shape) < 0.1)
    relevances = {
        name: Relevance.from_matrix(m, np.arange(60), np.arange(20)) for name, m in (("own", own), ("more", more))
    }
    return evaluate_scores(scores, relevances).summary()["value"].tolist()


_MEASURES = {"captions": _captions, "batches": _batches, "features": _features, "evaluation": _evaluation}


def main() -> None:
    from xmr_core.methods.registry import papers

    with tempfile.TemporaryDirectory() as home:
        os.environ["XMR_HOME"] = home
        numbers = {stage: of_stage(stage) for stage in STAGES}
        numbers |= {f"{m} {form}": of_method(m, form) for m, spec in papers().items() for form in spec.forms}
    FILE.write_text(json.dumps(numbers, indent=1) + "\n")
    print(f"{len(numbers)} recorded in {FILE}")


if __name__ == "__main__":
    sys.path.insert(0, str(FILE.parents[1]))
    main()
