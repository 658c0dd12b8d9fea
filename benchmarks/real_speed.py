"""Do images reach the network, and features the training loop, fast enough?

    python benchmarks/real_speed.py

Two ratios, each of two speeds measured in turn in one process. (1) extraction: describing JPEG files into the cache,
against the bare forward pass of the same network on the same batches, already decoded; it must reach 60 %. (2) cached
reads: batches read from the cache (with views, dropped cells and dropped words), against the batches that a step of
training uses up; it must reach 5. Images are drawn, the network has random weights: neither changes the speed.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image


def corpus_files(root: Path, n: int) -> None:
    """A corpus in Flickr8k's layout: n training images of 224 pixels, and a few more."""
    from xmr_core.data.scenes import load_scenes

    folder, text = root / "Flicker8k_Dataset", root / "Flickr8k_text"
    folder.mkdir(parents=True), text.mkdir()
    scenes = load_scenes("tiny")
    captions, names = scenes.captions["text"].tolist(), [f"{i}.jpg" for i in range(n + 20)]
    for i, name in enumerate(names):
        image = Image.fromarray(scenes.read_pixels(np.array([i % 128]))[0]).resize((224, 224), Image.Resampling.BICUBIC)
        image.save(folder / name, quality=85)
    lines = [f"{name}#{c}\t{captions[(5 * i + c) % len(captions)]}" for i, name in enumerate(names) for c in range(5)]
    (text / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    for split, part in (("train", names[:n]), ("dev", names[n : n + 10]), ("test", names[n + 10 :])):
        (text / f"Flickr_8k.{split}Images.txt").write_text("\n".join(part) + "\n")


def measure(images: int, rounds: int, steps: int, method: str) -> dict:
    from xmr_core.base import paths
    from xmr_core.base.machine import reused_buffers
    from xmr_core.data.batches import Augmentation, Batches
    from xmr_core.data.prepare import prepare
    from xmr_core.data.readers.official import load_flickr8k
    from xmr_core.features.cache import cached_features
    from xmr_core.features.efficientnet_lite import EfficientNetLiteGrid
    from xmr_core.methods.registry import build
    from xmr_core.training.runs.config import base_config

    with tempfile.TemporaryDirectory() as home:
        os.environ["XMR_HOME"] = home
        root = Path(home) / "data"
        corpus_files(root, images)
        torch.manual_seed(0)
        corpus, grid = load_flickr8k(root), EfficientNetLiteGrid()
        rows = corpus.rows("train")[0]
        batches = [rows[at : at + grid.batch] for at in range(0, len(rows), grid.batch)]
        decoded = [corpus.read_pixels(batch, grid.resolution) for batch in batches]
        grid(decoded[0])
        bare, extracted = [], []
        for n in range(rounds):
            with reused_buffers():
                grid(decoded[0])
                clock = time.perf_counter()
                for pixels in decoded:
                    grid(pixels)
                bare.append(len(rows) / (time.perf_counter() - clock))
            clock = time.perf_counter()
            cached_features(corpus, grid, progress=iter, rows=rows, crops=_Whole(n))
            extracted.append(len(rows) / (time.perf_counter() - clock))

        config = base_config(method, dataset="flickr8k", data_root=str(root), preset="study", device="cpu")
        prepared = prepare(config.replace(views=1).data, progress=iter)
        train = Batches(
            prepared.splits["train"], config.batch_images, config.captions_per_image, 0, config.unit, config.positives,
            Augmentation(config.cell_drop, config.cell_rule, config.word_drop),
        )  # fmt: skip
        torch.set_num_threads(1)
        model, plan = build(method, prepared.inputs, config.form, **config.options), train.plan(0)
        read, used = [], []
        for n in range(steps):
            clock = time.perf_counter()
            batch = train.batch(0, n % len(plan), plan)
            read.append(1 / (time.perf_counter() - clock))
            clock = time.perf_counter()
            model.loss(batch, 0)[0].backward()
            used.append(1 / (time.perf_counter() - clock))
        del os.environ["XMR_HOME"]
        assert paths.root() != Path(home)
    mid = statistics.median
    return {
        "images per second, bare forward pass": round(mid(bare), 1),
        "images per second, from files into the cache": round(mid(extracted), 1),
        "extraction / bare": round(mid(extracted) / mid(bare), 2),
        "batches per second, read": round(mid(read), 1),
        f"batches per second, used by {method}": round(mid(used), 2),
        "read / used": round(mid(read) / mid(used), 1),
    }


class _Whole:
    """The whole image under another name, so that every round extracts anew."""

    def __init__(self, n: int):
        self.identity = f"round {n}"

    def __call__(self, rows: np.ndarray) -> list:
        from xmr_core.features.images import Crop

        return [Crop()] * len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--method", default="vse++", help="the fastest method is the hardest to feed")
    given = parser.parse_args()
    found = measure(given.images, given.rounds, given.steps, given.method)
    print(json.dumps(found, indent=1))
    short = [name for name, least in (("extraction / bare", 0.6), ("read / used", 5.0)) if found[name] < least]
    raise SystemExit(f"too slow: {', '.join(short)}" if short else 0)
