"""How exactly matrix products are computed, in evaluation and in training, on hardware that has faster, coarser
ones."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch

from xmr_core.base.errors import unknown

PRECISIONS = {"float32": "highest", "tf32": "high", "bfloat16": "medium"}


@contextmanager
def matrix_precision(name: str) -> Iterator[None]:
    """Inside, float32 products are computed with 24 ('float32'), 11 ('tf32', or three bfloat16 products) or 8 bits
    ('bfloat16') of mantissa, where the hardware has such products; elsewhere nothing changes. Sums and everything else
    stay float32.

    Raises: BadInput for another name.
    """
    if name not in PRECISIONS:
        raise unknown("precision", name, PRECISIONS)
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)
    try:
        before, each = torch.get_float32_matmul_precision(), []
    except RuntimeError:  # set for single backends, which torch does not read back as one word
        before, each = None, [backend.fp32_precision for backend in backends]
    torch.set_float32_matmul_precision(PRECISIONS[name])
    try:
        yield
    finally:
        if before is not None:
            torch.set_float32_matmul_precision(before)
        for backend, precision in zip(backends, each, strict=False):
            backend.fp32_precision = precision


# Float32 that is float32 on hardware that has faster, coarser products.


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
