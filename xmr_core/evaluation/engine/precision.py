"""How exactly matrix products are computed on hardware that has faster, coarser ones."""

from collections.abc import Iterator
from contextlib import contextmanager

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
