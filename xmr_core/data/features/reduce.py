"""Frozen features made small: principal components per cell, and one vector of full width for the whole picture."""

import numpy as np
import torch
from jaxtyping import Float

from xmr_core.base.errors import BadInput


def check_width(width: int, e: int) -> None:
    """Raise BadInput for a reduced width outside 1…e."""
    if not 1 <= width <= e:
        raise BadInput(f"reduced width must lie in 1…{e}, got {width}.")


class PrincipalComponents:
    """z = (x − μ) P / s: the first `width` principal components, all divided by one number s, so that their mean square is 1.

    μ and P come from the cells of the given pictures (the training split, so that nothing of validation or test enters).
    Components are not scaled one by one: on photographs, giving the weak ones equal weight cost retrieval quality.

    Args: features "n l e". rows: pictures to learn from. Raises: BadInput for a width outside 1…e.
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray, width: int):
        e = features.shape[-1]
        check_width(width, e)
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
        self.explained = float(values.sum() / covariance.diagonal().sum())
        self.project = (vectors / values.mean().clamp(min=1e-12).sqrt()).float()

    def numbers(self) -> Float[np.ndarray, "1+w e"]:
        """What was learned: μ, then a row per component. `of` makes the same transform of them."""
        return torch.cat([self.mean[None], self.project.T]).numpy()

    @classmethod
    def of(cls, numbers: Float[np.ndarray, "1+w e"]) -> "PrincipalComponents":
        """From kept numbers; how much they explain is not among them."""
        self, learned = cls.__new__(cls), torch.from_numpy(np.array(numbers, np.float32))
        self.mean, self.project, self.explained = learned[0], learned[1:].T.contiguous(), float("nan")
        return self

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n l w"]:
        with torch.inference_mode():
            return ((torch.from_numpy(features.astype(np.float32)) - self.mean) @ self.project).numpy()


class RootMean:
    """g = (mean over cells of sign(x) √|x| − μ) / s: the whole picture at full width, with mean square 1.

    Principal components of single cells lose what is weak in every cell but adds up over a picture; this keeps it. The
    root keeps a few strong channels from ruling the mean (power normalisation: Perronnin, Sánchez and Mensink, ECCV 2010).
    μ and s come from the given pictures.

    Args: features "n l e". rows: pictures to learn from.
    """

    def __init__(self, features: Float[np.ndarray, "n l e"], rows: np.ndarray):
        pooled = np.concatenate([self._pool(features[part]) for part in np.array_split(rows, max(1, len(rows) // 100))])
        self.mean = pooled.mean(0)
        self.scale = max(float((pooled - self.mean).std()), 1e-12)

    def numbers(self) -> Float[np.ndarray, "2 e"]:
        """What was learned: μ, then s in every place."""
        return np.stack([self.mean, np.full_like(self.mean, self.scale)])

    @classmethod
    def of(cls, numbers: Float[np.ndarray, "2 e"]) -> "RootMean":
        """From kept numbers."""
        self = cls.__new__(cls)
        self.mean, self.scale = np.array(numbers[0]), float(numbers[1, 0])
        return self

    @staticmethod
    def _pool(features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n e"]:
        x = features.astype(np.float32)
        return (np.sign(x) * np.sqrt(np.abs(x))).mean(1, dtype=np.float64)

    def __call__(self, features: Float[np.ndarray, "n l e"]) -> Float[np.ndarray, "n 1 e"]:
        return ((self._pool(features) - self.mean) / self.scale)[:, None].astype(np.float32)
