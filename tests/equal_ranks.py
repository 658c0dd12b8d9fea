"""Started by torchrun: one step of every method on the global batch, in this process alone and on all ranks together.

Writes to the file argv[1] what the largest differences of loss, gradients and statistics were, by case.
"""

import copy
import json
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from tiny import TINY, tiny_config

from xmr_core.base.types import Batch
from xmr_core.data.batches import Batches
from xmr_core.data.prepare import prepare
from xmr_core.methods.registry import build, method_spec, papers
from xmr_core.training.distributed import joined, started_ranks

SMALL = {"d": 16, "dropout": 0.3}  # dropout and mixing draw what one process draws
CASES = [(name, "matched", {"objective": o}) for name in papers() for o in ("infonce", "siglip")]
CASES += [(name, "matched", {"objective": "triplet"}) for name in papers() if not name.startswith("pcme")]
CASES += [(name, "matched", {}) for name in ("pcme", "pcme++", "vse+2ad")]
CASES += [(name, "published", {}) for name, spec in papers().items() if spec.published]
CASES += [("sgraf", "matched", {"reasoner": r}) for r in ("saf", "sgr", "joint")]
CASES += [("dive", "matched", {"nested": True}), ("pcme++", "matched", {"mix": 1.0})]


def step(method, losses, seed: int):
    """(loss, terms, scores) of one step with gradients; the same random numbers for the same seed."""
    torch.manual_seed(seed)
    loss, terms, scores = losses()
    loss.backward()
    return [loss.detach(), *terms.values(), scores.detach()]


def difference(ours, theirs) -> float:
    scale = max(1.0, *(float(t.detach().abs().max()) for t in theirs))
    return max(float((a - b).detach().abs().max()) for a, b in zip(ours, theirs, strict=True)) / scale


def measured(ranks, prepared, batch: Batch, name: str, form: str, options: dict) -> dict[str, float]:
    offered = method_spec(name).options.names(form)
    torch.manual_seed(0)
    chosen = {k: v for k, v in {**TINY.get(name, {}), **SMALL, **options}.items() if k in offered}
    alone = build(name, prepared.inputs, form, **chosen).double().train()
    together = copy.deepcopy(alone)
    expected = step(alone, lambda: alone.loss(batch, 1), 7)
    ours = step(together, lambda: ranks.loss(together, batch, 1), 7)
    ranks.average_gradients(together)
    both = zip(together.parameters(), alone.parameters(), strict=True)
    pairs = [(a.grad, b.grad) for a, b in both if b.grad is not None]
    assert all(a is not None for a, _ in pairs)
    buffers = [(a.double(), b.double()) for a, b in zip(together.buffers(), alone.buffers(), strict=True)]
    return {
        "loss": difference(ours, expected),
        "gradients": difference(*zip(*pairs, strict=True)),
        "buffers": difference(*zip(*buffers, strict=True)) if buffers else 0.0,
        "next draw": float(torch.rand(())),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    prepared = prepare(tiny_config().data)
    batches = Batches(prepared.splits["train"], 11, 2, 0)  # odd, so that the shares differ
    batch = batches.batch(0, 0, batches.plan(0))
    wide = lambda rows: rows._map(lambda t: t.double() if t.is_floating_point() else t)  # noqa: E731
    batch = Batch(wide(batch.images), batch.captions, batch.match, batch.image_rows, batch.caption_rows)
    results = {}
    with joined(started_ranks(), "cpu") as ranks:
        for name, form, options in CASES:
            if not set(options) <= set(method_spec(name).options.names(form)):
                continue
            case = " ".join([name, form, *map(str, options.values())])
            try:
                results[case] = measured(ranks, prepared, batch, name, form, options)
            except Exception as e:
                results[case] = f"{type(e).__name__}: {e}"
    Path(f"{sys.argv[1]}.{ranks.rank}").write_text(json.dumps(results))


if __name__ == "__main__":
    np.random.seed(0)
    main()
