"""How long the explorer takes on 5,000 images × 25,000 captions that are encoded: a sentence, a slider, an image, two
methods.

python benchmarks/explorer_speed.py [--method dive] [--width 1024] [--images 5000]. There are five captions for each
image. The embeddings are random, the encoders real but untrained; times are what the kernel needs from a changed widget
to the last message, medians of several. Memory is the peak of the process.
"""

import argparse
import itertools
import os
import resource
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F

from xmr_core.base.types import EmbeddingSet, GaussianEmbedding, Relevance
from xmr_core.data.prepare import DataConfig, Prepared, prepare
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.models.model import Model
from xmr_core.retrieval.library import Library
from xmr_core.retrieval.ranking import Query
from xmr_study.explorer.screen import Explorer

WORDS, TIMES = 12, 7


def like(one, n: int, generator: torch.Generator):
    """Random items of the kind that an encoder makes."""
    if isinstance(one, GaussianEmbedding):
        mean, log_std = (
            F.normalize(torch.randn(n, one.mean.shape[1], generator=generator), dim=-1),
            torch.full((n, one.mean.shape[1]), -2.0),
        )
        samples = torch.randn(n, *one.samples.shape[1:], generator=generator)
        for block, centre in zip(samples.split(1000), mean.split(1000), strict=True):  # in place, as below
            block.mul_(0.1).add_(centre[:, None])
            block /= block.norm(dim=-1, keepdim=True)
        return GaussianEmbedding(mean, log_std, samples)
    shape = (n, *one.x.shape[1:])
    x = torch.randn(shape, generator=generator)
    for block in x.split(1000):  # in place: a second copy would count as memory of the explorer
        block /= block.norm(dim=-1, keepdim=True)
    return EmbeddingSet(x, torch.ones(shape[:2], dtype=torch.bool))


def library(name: str, method: Method, prepared: Prepared, seed: int, n_images: int, n_captions: int) -> Library:
    """A method with random encodings of many items, and random images."""
    generator, split = torch.Generator().manual_seed(seed), prepared.splits["test"]
    with torch.inference_mode():
        one = (
            method.encode_images(split.images_at(np.array([0]))),
            method.encode_captions(split.captions_at(np.array([0]))),
        )
    images, captions = like(one[0], n_images, generator), like(one[1], n_captions, generator)
    ids, caption_ids = np.array([f"i{n}" for n in range(n_images)]), np.array([f"c{n}" for n in range(n_captions)])
    owners = np.arange(n_captions) // (n_captions // n_images)
    own = Relevance.from_positions(np.arange(n_captions), owners, caption_ids, ids)
    texts = np.array([f"caption number {n}" for n in range(n_captions)], dtype=object)
    image = lambda at: np.random.default_rng(at).integers(0, 255, (224, 224, 3), np.uint8)  # noqa: E731
    return Library(
        name,
        Model(name, method, prepared),
        images,
        captions,
        ids,
        caption_ids,
        texts,
        {"annotated": own},
        split.images_at,
        image,
    )


def timed(what: str, acts: list) -> None:
    found = []
    for act in acts:
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    print(f"| {what} | {1000 * statistics.median(found):.0f} | {1000 * max(found):.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", default="dive")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--images", type=int, default=5000)
    asked = parser.parse_args()
    n, n_captions = asked.images, 5 * asked.images
    prepared = prepare(DataConfig(size="tiny"))
    torch.manual_seed(0)
    method = build(asked.method, prepared.inputs, d=asked.width).eval()
    mine = library(asked.method, method, prepared, 0, n, n_captions)
    explorer = Explorer(lambda label: mine, [asked.method])
    words = prepared.vocabulary.words[4:]
    sentences = [" ".join(words[(7 * n + m) % len(words)] for m in range(WORDS)) for n in range(TIMES + 1)]
    print(
        f"{asked.method}, width {asked.width}, {n:,} images × {n_captions:,} captions, {os.cpu_count()} cores, "
        f"torch on {torch.get_num_threads()} threads\n"
    )
    print("| what | median ms | longest ms |\n| --- | --- | --- |")
    said = lambda: explorer.gallery.said["text"]  # noqa: E731
    again = itertools.count()
    image = lambda: explorer.ask(Query("image", item=f"i{next(again)}"))  # noqa: E731
    explorer.tell("sentence", value=sentences[-1])
    assert f"{n:,} images ranked" in said(), said()
    typed = [lambda s=s: explorer.tell("sentence", value=s) for s in sentences[:TIMES]]
    timed(f"a typed sentence, {n:,} images", typed)
    scales, has_alpha = np.linspace(0, 6, TIMES), "alpha" in mine.method.similarity.settings
    moves = [lambda a=a: explorer.tell("setting", place=0, name="alpha", value=float(2**a)) for a in scales]
    if has_alpha:
        timed(f"α moved, {n:,} images", moves)
    timed("ten more answers", [lambda: explorer.tell("more")] * 3)
    timed(f"an image, {n_captions:,} captions", [image] * TIMES)
    assert f"{n_captions:,} captions ranked" in said(), said()
    if has_alpha:
        timed(f"α moved, {n_captions:,} captions", moves)
    if mine.method.similarity.symmetric:
        similar = lambda: explorer.ask(Query("image", item=f"i{next(again)}", similar=True))  # noqa: E731
        timed(f"images like an image, {n:,} images", [similar] * TIMES)
    explorer.tell("method", place=1, value=asked.method)
    timed("an image, the method beside itself", [image] * TIMES)
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
