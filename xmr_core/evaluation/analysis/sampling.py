"""Other numbers of samples from a distribution that was trained with one."""

from dataclasses import replace

import numpy as np
import torch

from xmr_core.base.errors import BadInput
from xmr_core.base.types import GaussianEmbedding


def with_samples(items: GaussianEmbedding, samples: int, seed: int = 0) -> GaussianEmbedding:
    """The same means and σ with J other samples z = μ + σ ⊙ ε; all items share one draw of ε "j d", as in evaluation.

    With an equal seed the first samples of a larger J are those of a smaller one. Give the two sides different seeds.
    Raises: BadInput for fewer than one sample.
    """
    if samples < 1:
        raise BadInput(f"samples must be at least 1, got {samples}.")
    noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((samples, items.mean.shape[1]))).to(items.mean)
    return replace(items, samples=items.mean[:, None] + items.log_std.exp()[:, None] * noise)


def numbers_stored(items: GaussianEmbedding, what: str) -> int:
    """How many numbers an item needs on disk for a test-time distance: 'mean' d, 'mean and σ' 2 d (d + 1 if σ is one number), 'samples' J d.

    Raises: BadInput for another word.
    """
    d, one = items.mean.shape[1], bool((items.log_std == items.log_std[:, :1]).all())
    sizes = {"mean": d, "mean and σ": d + 1 if one else 2 * d, "samples": items.samples.shape[1] * d}
    if what not in sizes:
        raise BadInput(f"what is stored must be one of {', '.join(sizes)}, got {what!r}.")
    return sizes[what]
