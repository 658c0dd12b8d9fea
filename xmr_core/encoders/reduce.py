"""Principal components of frozen features: smaller, and equally scaled in every direction."""

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.errors import BadInput


class Whitening:
    """z = (x − μ) P / √(λ + ε): the first `width` principal components, each scaled to about unit variance.

    μ, the components P and their variances λ come from the cells of the given pictures (the training split, so that
    nothing of validation or test enters). ε is 1 % of the mean variance kept, so that weak components are not blown up.

    Args: features "n l e". rows: pictures to learn from. Raises: BadInput for a width outside 1…e.
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray, width: int):
        e = features.shape[-1]
        if not 1 <= width <= e:
            raise BadInput(f"reduced width must lie in 1…{e}, got {width}.")
        total, square, count = torch.zeros(e, dtype=torch.float64), torch.zeros(e, e, dtype=torch.float64), 0
        for part in np.array_split(rows, max(1, len(rows) // 100)):
            x = torch.from_numpy(features[part].astype(np.float32)).flatten(0, 1)
            total += x.sum(0, dtype=torch.float64)
            square += (x.T @ x).double()
            count += len(x)
        self.mean = (total / count).float()
        covariance = square / count - torch.outer(total / count, total / count)
        values, vectors = torch.linalg.eigh(covariance)  # ascending
        values, vectors = values.flip(0)[:width].clamp(min=0), vectors.flip(1)[:, :width]
        # the sign of an eigenvector is arbitrary: fix it, so that two machines agree
        vectors = vectors * torch.sign(vectors.gather(0, vectors.abs().argmax(0, keepdim=True)))
        self.project = (vectors / (values + 0.01 * values.mean()).sqrt()).float()

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n l w"]:
        with torch.inference_mode():
            return ((torch.from_numpy(features.astype(np.float32)) - self.mean) @ self.project).numpy()
