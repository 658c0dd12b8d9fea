"""Float32 that is float32 on hardware that has faster, coarser products."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from xmr_core.evaluation.engine.precision import matrix_precision


@contextmanager
def full_precision() -> Iterator[None]:
    """Inside, products of float32 have all 24 bits of mantissa, also in GRUs and convolutions, for which torch takes 11
    (TF32) on an NVIDIA GPU if nobody says otherwise, and their kernels give the same bits each time. On a CPU nothing
    changes.

    >>> with full_precision():
    ...     torch.backends.cudnn.allow_tf32
    False
    """
    cudnn = torch.backends.cudnn
    try:
        before = {"allow_tf32": cudnn.allow_tf32}
    except RuntimeError:  # set for single kernels, which torch does not read back as one word
        before = {}
    kernels = [getattr(cudnn, name) for name in ("conv", "rnn") if not before and hasattr(cudnn, name)]
    each, deterministic = [kernel.fp32_precision for kernel in kernels], cudnn.deterministic
    with matrix_precision("float32"):
        try:
            cudnn.deterministic = True
            if before:
                cudnn.allow_tf32 = False
            for kernel in kernels:
                kernel.fp32_precision = "ieee"
            yield
        finally:
            cudnn.deterministic = deterministic
            for name, value in before.items():
                setattr(cudnn, name, value)
            for kernel, precision in zip(kernels, each, strict=True):
                kernel.fp32_precision = precision


def in_precision(name: str) -> AbstractContextManager:
    """`full_precision` for 'float32' (TrainConfig.precision), and what torch is set to for every other name.

    >>> with in_precision("auto"):
    ...     pass
    """
    return full_precision() if name == "float32" else nullcontext()
