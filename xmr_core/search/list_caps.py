"""How far the inverted lists of an index reach from their centres, which bounds every element that was not searched."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from xmr_core.search.proposals import rounding


@dataclass
class ListCaps:
    """A cap for each list: all its unit vectors are within an angle of the direction of its centre.

    centres: of norm 1, or 0. cosines: the smallest of an element of the list with the centre; 2 for an empty list.
    coding: the largest distance between an element and its code.
    """

    centres: Float[np.ndarray, "n d"]
    cosines: Float[np.ndarray, " n"]
    coding: float = 0.0

    @classmethod
    def empty(cls, index) -> "ListCaps":
        """Of an index of faiss that is trained and holds nothing."""
        return cls(_directions(index), np.full(index.nlist, 2.0, np.float32))

    def add(self, faiss, index, vectors: Float[np.ndarray, "e d"], numbers: Int[np.ndarray, " e"]) -> None:
        """Add unit vectors to the index, and to the caps of their lists."""
        own = index.quantizer.search(vectors, 1)[1][:, 0]
        index.add_core(
            len(vectors), faiss.swig_ptr(vectors), faiss.swig_ptr(np.ascontiguousarray(numbers, np.int64)),
            faiss.swig_ptr(own),
        )  # fmt: skip
        np.minimum.at(self.cosines, own, (vectors * self.centres[own]).sum(1))
        if hasattr(index, "sq"):  # numbers of one byte
            before = vectors - index.quantizer.reconstruct_batch(own) if index.by_residual else vectors
            error = index.sq.decode(index.sq.compute_codes(before)) - before
            self.coding = max(self.coding, float(np.linalg.norm(error, axis=1).max()))

    def outside(self, vectors: Float[np.ndarray, "e d"], searched: Int[np.ndarray, "e p"]) -> Float[np.ndarray, " e"]:
        """The largest cosine that an element of a list that was not searched can have with each unit vector.

        A vector at angle θ from a centre, whose elements are within φ of it, is at least θ − φ from all of them.

        >>> caps = ListCaps(np.eye(2, dtype=np.float32), np.array([1.0, 0.6], np.float32))
        >>> caps.outside(np.array([[1.0, 0.0]], np.float32), np.array([[0]])).round(2).tolist()
        [0.8]
        """
        if searched.shape[1] == len(self.centres):
            return np.full(len(vectors), -np.inf)
        slack = rounding(vectors.shape[1])
        theta = np.arccos(np.clip(vectors @ self.centres.T + slack, -1.0, 1.0).astype(np.float64))
        phi = np.arccos(np.clip(self.cosines.astype(np.float64) - slack, -1.0, 1.0))
        bounds = np.cos(np.maximum(0.0, theta - phi)) + slack
        bounds[:, self.cosines > 1.5] = -np.inf  # empty lists
        np.put_along_axis(bounds, searched, -np.inf, 1)
        return bounds.max(1)

    def to_bytes(self) -> bytes:
        return save_arrays({"cosines": self.cosines})

    @classmethod
    def open(cls, path: Path, index) -> "ListCaps":
        """Of an opened index of faiss."""
        return cls(_directions(index), load_arrays(path.read_bytes())["cosines"])


def _directions(index) -> np.ndarray:
    centres = index.quantizer.reconstruct_n(0, index.nlist)
    return centres / np.maximum(np.linalg.norm(centres, axis=1, keepdims=True), 1e-12)
