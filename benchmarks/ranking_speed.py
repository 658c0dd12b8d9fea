"""What ranks cost beside the scores they are made of: a whole evaluation of 5,000 images × 25,000 captions, in both
directions.

    python benchmarks/ranking_speed.py [--images 5000 --captions 25000] [--d 1024] [--k 4] [--similarity smooth-chamfer
    …] [--signal 1.5]

In one process: all blocks scored and thrown away, then an evaluation (scores, ranks of every relevant item both ways,
metrics), and so again; the medians' difference is what ranks and metrics cost. Extra memory is the peak of the
evaluation above inputs. Captions lie near their images, by `signal` times the noise: 0 is an untrained model, for which
half of all items are before the right one.
"""

import argparse
import statistics
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from xmr_core.base.relevance import Relevance
from xmr_core.base.types import EmbeddingSet
from xmr_core.evaluation.engine import Scoring
from xmr_core.evaluation.evaluate import evaluate_scores
from xmr_core.similarities import MatchProbability, chamfer, max_pairwise, smooth_chamfer

SIMILARITIES = {
    "smooth-chamfer": partial(smooth_chamfer, alpha=16.0),
    "chamfer": chamfer,
    "mil": max_pairwise,
    "mp": MatchProbability(),
}


def peak(reset: bool = False) -> float:
    """GiB of resident memory at most since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 2**20


def sets(args: argparse.Namespace) -> tuple[EmbeddingSet, EmbeddingSet]:
    """Images, and captions around them, one after the other as in COCO."""
    g = torch.Generator().manual_seed(0)
    images = F.normalize(torch.randn(args.images, args.k, args.d, generator=g), dim=-1)
    captions = torch.randn(args.captions, args.k, args.d, generator=g)
    owner = torch.arange(args.captions) * args.images // args.captions
    captions.addcmul_(images[owner], torch.tensor(args.signal * args.d**0.5))
    captions /= captions.norm(dim=-1, keepdim=True)
    return tuple(EmbeddingSet(x, torch.ones(x.shape[:2], dtype=torch.bool)) for x in (images, captions))


def main(args: argparse.Namespace) -> None:
    images, captions = sets(args)
    owner = np.arange(args.captions) * args.images // args.captions
    relevances = {
        "annotated": Relevance.from_positions(
            np.arange(args.captions), owner, np.arange(args.captions), np.arange(args.images)
        )
    }
    print("| similarity | scores, s | evaluation, s | ranks and metrics, % of scores | extra GiB | RSUM | error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in args.similarity:
        times, before = {"scores": [], "evaluation": []}, peak(reset=True)
        for _ in range(args.times):
            scores, start = Scoring(SIMILARITIES[name], images, captions), time.perf_counter()
            for i, t in scores.plan():
                scores.block(i, t)
            times["scores"].append(time.perf_counter() - start)
            start = time.perf_counter()
            scores = Scoring(SIMILARITIES[name], images, captions)
            found = evaluate_scores(scores, relevances)
            summary = found.summary().set_index("metric")["value"]
            times["evaluation"].append(time.perf_counter() - start)
        scored, whole = (statistics.median(times[what]) for what in times)
        grown = peak() - before
        share = 100 * statistics.median((b - a) / a for a, b in zip(*times.values(), strict=True))
        print(
            f"| {name} | {scored:.2f} | {whole:.2f} | {share:.1f} | {grown:.2f} | {100 * summary['rsum']:.1f} | "
            f"{scores.error:.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--similarity", choices=SIMILARITIES, action="append")
    for name, default in (("images", 5000), ("captions", 25000), ("d", 1024), ("k", 4), ("times", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--signal", type=float, default=0.15)
    arguments = parser.parse_args()
    arguments.similarity = arguments.similarity or list(SIMILARITIES)
    main(arguments)
