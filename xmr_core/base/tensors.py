"""Tensors and their masks: plain ones in place of the package's own types, checked here and nowhere else, and the only
reductions that may see padding.

In every mask of the package, True is a real element. A padded entry never contributes a value and never receives a
gradient, whatever it holds. A row of padding alone is refused before, by `require_element` or, for features,
`require_elements`. What is already of a type of the package passes through as it is, after a check of
its shapes that reads no numbers.
"""

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from xmr_core.base.errors import BadInput, require_flag
from xmr_core.base.types import Embedding, EmbeddingSet, Features, GaussianEmbedding, Representation, Rows, as_bool


def masked_mean(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1) -> Tensor:
    """Σ_{valid} x / #valid along `dim`. x and mask broadcast against each other; an empty row gives 0."""
    x, mask = torch.broadcast_tensors(x, mask)
    return torch.where(mask, x, 0.0).sum(dim) / mask.sum(dim).clamp(min=1)


def masked_max(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1) -> Tensor:
    """max_{valid} x along `dim`; an empty row gives −inf."""
    return torch.where(mask, x, -torch.inf).amax(dim)


def masked_logsumexp(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1) -> Tensor:
    """log Σ_{valid} exp x along `dim`, stable; an empty row gives −inf."""
    return torch.where(mask, x, -torch.inf).logsumexp(dim)


def masked_softmax(x: Float[Tensor, "..."], mask: Bool[Tensor, "..."], dim: int = -1) -> Tensor:
    """exp x / Σ_{valid} exp x along `dim`, exactly 0 on padding; an empty row gives zeros, not NaN."""
    x, mask = torch.broadcast_tensors(x, mask)
    filled = torch.where(mask, x, torch.finfo(x.dtype).min)
    return torch.where(mask, filled.softmax(dim), 0.0)


def xavier(linear: nn.Linear) -> nn.Linear:
    """A linear layer with weights uniform in ±√(6/(in + out)) and bias 0."""
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


class _Mode(threading.local):
    checks, branches = True, True


_MODE = _Mode()


def checking() -> bool:
    """Whether the numbers of what is given are checked: always, except inside `unchecked`."""
    return _MODE.checks


@contextmanager
def unchecked(checks: bool = False) -> Iterator[None]:
    """Inside, in this thread, heads, similarities and losses trust the numbers that they are given, which were looked
    at before, and on a device no number decides what is computed: the host never waits for it, and a similarity or a
    loss can be compiled (`torch.compile(fullgraph=True)`) and mapped (`torch.func.vmap`). Shapes are checked still.
    checks: True checks the numbers too, and computes as without.

    >>> with unchecked():
    ...     require_finite(torch.tensor([[torch.nan]]))
    """
    before = _MODE.checks, _MODE.branches
    _MODE.checks, _MODE.branches = checks, False
    try:
        yield
    finally:
        _MODE.checks, _MODE.branches = before


def may_branch(*tensors: Tensor) -> bool:
    """Whether numbers may decide how the rest is computed, as a copy that is spared where nothing is padding: not in
    what is compiled or mapped, and on a device, where looking is waiting, not inside `unchecked`."""
    return not is_traced(*tensors) and (_MODE.branches or all(t.device.type == "cpu" for t in tensors))


def is_traced(*tensors: Tensor) -> bool:
    """Whether what is computed is compiled, or mapped over these tensors."""
    return torch.compiler.is_compiling() or any(torch._C._functorch.is_batchedtensor(t) for t in tensors)


def require_element(mask: Bool[Tensor, "n l"], what: str) -> None:
    """Raise BadInput naming the first row of `mask` without a single valid element."""
    if checking() and (empty := ~mask.any(-1)).any():
        row = int(empty.nonzero()[0, 0])
        raise BadInput(f"{what} {row} has no valid element (its mask is all False). Drop it or give it at least one.")


def require_mask(mask: Tensor, x: Float[Tensor, "n l e"]) -> None:
    """Raise BadInput unless mask is a Boolean "n l"."""
    if mask.shape != x.shape[:2] or mask.dtype != torch.bool:
        raise BadInput(f"the mask must be Boolean, {tuple(x.shape[:2])}, got {mask.dtype}, {tuple(mask.shape)}.")


def require_finite(x: Float[Tensor, "n d"], what: str = "item") -> None:
    """Raise BadInput naming the first row with a NaN or infinite number in it."""
    if checking() and (wrong := ~x.detach().isfinite().all(-1)).any():
        raise BadInput(f"the vector of {what} {int(wrong.nonzero()[0, 0])} is NaN or infinite.")


def require_elements(x: Float[Tensor, "n l e"], mask: Bool[Tensor, "n l"], width: int, what: str = "item") -> None:
    """Check local features: the right width, an element for every item, finite numbers in all of them.

    Padding may hold anything. One sum detects numbers that are not finite without a mask as large as x.
    Raises: BadInput naming what was given, or the first item and element at fault.
    """
    if x.ndim != 3 or x.shape[-1] != width:
        raise BadInput(f"{what}s × elements × width {width} are needed here, got {tuple(x.shape)}.")
    require_mask(mask, x)
    require_element(mask, what)
    x = x.detach()
    # a total that is not finite may come from padding, and only real elements count
    if checking() and not x.sum(dtype=torch.promote_types(x.dtype, torch.float32)).isfinite():
        wrong = mask & ~x.isfinite().all(-1)
        if wrong.any():
            item, element = wrong.nonzero()[0].tolist()
            raise BadInput(f"element {element} of {what} {item} is NaN or infinite.")


# what similarities take; a list holds one tensor "k d" for each item
Comparable = Representation | Tensor | np.ndarray | Sequence[Tensor] | Sequence[np.ndarray]


def as_floats(x: Tensor | np.ndarray, what: str, *ranks: int) -> Tensor:
    """x as a floating-point tensor of one of these ranks. Arrays are copied.

    Raises: BadInput for another type, rank or kind of number.
    """
    if isinstance(x, np.ndarray) and x.dtype.kind == "f":
        x = torch.from_numpy(x.astype(x.dtype.newbyteorder("="), order="C"))
    if not isinstance(x, Tensor) or not x.is_floating_point() or (ranks and x.ndim not in ranks):
        axes = f" with {' or '.join(map(str, ranks))} axes" if ranks else ""
        got = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor | np.ndarray) else type(x).__name__
        raise BadInput(f"{what} must be a tensor or a numpy array of floating-point numbers{axes}, got {got}.")
    return x


def padded(items: object, mask: object, what: str) -> tuple[object, object]:
    """A list of one tensor "l e" for each item, of any lengths, as one tensor "n l e" with its mask; all else as it is.

    Raises: BadInput for a list beside a mask, or of tensors that do not fit together.
    """
    if not isinstance(items, list | tuple) or not items:
        return items, mask
    parts = [as_floats(part, f"{what} {n}", 1, 2) for n, part in enumerate(items)]
    if mask is not None or len({(part.ndim, part.shape[-1], part.dtype) for part in parts}) > 1:
        raise BadInput(f"a list of {what} needs tensors of one width and type and no mask: their lengths say the same.")
    lengths = torch.tensor([len(part) if part.ndim == 2 else 1 for part in parts], device=parts[0].device)
    x = pad_sequence([torch.atleast_2d(part) for part in parts], batch_first=True)
    return x, torch.arange(x.shape[1], device=x.device) < lengths[:, None]


def single(x: Tensor) -> Tensor:
    """x in float32 where it is in half precision, which cannot tell near scores apart; else as it is.

    >>> single(torch.ones(1, dtype=torch.float16)).dtype, single(torch.ones(1, dtype=torch.float64)).dtype
    (torch.float32, torch.float64)
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def as_set(items: Comparable, mask: Tensor | np.ndarray | None = None, what: str = "image") -> EmbeddingSet:
    """Sets of vectors: an EmbeddingSet as it is; an Embedding, or a tensor "n d", as sets of one; a tensor "n k d" with
    its mask "n k", of Booleans or of 0 and 1; a list of tensors "k d" of any lengths.

    Raises: BadInput for another rank or kind of number, another mask or one that is given beside an own one, a set
        without a real element, and NaN or infinity in a plain tensor.
    """
    items, mask = padded(items, mask, f"{what}s")
    if isinstance(items, Embedding):
        items = items.x[:, None]
    elif not isinstance(items, Rows):
        items = as_floats(items, f"the vectors of the {what}s", 2, 3)
        items = items[:, None] if items.ndim == 2 else items
    if isinstance(items, Tensor):
        mask = _as_mask(mask, items)
        require_elements(items, mask, items.shape[-1], what)
        return EmbeddingSet(items, mask)
    if not isinstance(items, EmbeddingSet) or mask is not None:
        kind = f"{type(items).__name__}{'' if mask is None else ' and a mask'}"
        raise BadInput(f"sets, or plain tensors with a mask, are needed for the {what}s, got {kind}.")
    as_floats(items.x, f"the vectors of the {what}s", 3)
    require_mask(items.mask, items.x)
    return items


def as_sets(
    images: Comparable, captions: Comparable, image_mask=None, caption_mask=None, normalise: object = False
) -> tuple[EmbeddingSet, EmbeddingSet]:
    """`as_set` of both modalities. normalise: see `of_unit_length`. Raises: BadInput as there, and as
    require_same_width."""
    sets = as_set(images, image_mask, "image"), as_set(captions, caption_mask, "caption")
    return of_unit_length((images, captions), sets, normalise)


ANY_LENGTH = object()  # in the place of `normalise`
_ROUNDING = 0.02  # of norms: a vector of many numbers in bfloat16 has less


def of_unit_length(originals: Sequence, vectors: Sequence[Rows], normalise: object) -> tuple:
    """Embeddings or sets of vectors for a similarity of unit vectors; zeros, as padding has them, may be among them.

    originals: what they were made of. normalise: True divides all by their norms; False warns where plain tensors have
    other norms than 1, and reads nothing of what a method made; ANY_LENGTH is for other similarities.
    Raises: BadInput as require_same_width.
    """
    require_same_width(*(v.x for v in vectors))
    if normalise is ANY_LENGTH:
        return tuple(vectors)
    require_flag("normalise", normalise)
    if normalise:
        return tuple(replace(v, x=F.normalize(v.x, dim=-1)) for v in vectors)
    if any(_has_other_length(v) for x, v in zip(originals, vectors, strict=True) if not isinstance(x, Rows)):
        fault = "the vectors are not of unit length, so their products are no cosines"
        remedy = "give torch.nn.functional.normalize(x, dim=-1), or normalise=True where the similarity takes it"
        warnings.warn(f"{fault}; {remedy}.", stacklevel=4)
    return tuple(vectors)


def _has_other_length(vectors: Rows) -> bool:
    norms = torch.linalg.vector_norm(single(vectors.x.detach()), dim=-1)
    return bool((((norms - 1).abs() > _ROUNDING) & (norms > 0) & getattr(vectors, "mask", True)).any())


def require_same_width(x: Tensor, y: Tensor) -> None:
    """Raise BadInput unless both modalities have one width (last axis), and both or none of them double precision."""
    if x.shape[-1] != y.shape[-1]:
        raise BadInput(f"vectors of width {x.shape[-1]} cannot be compared with vectors of width {y.shape[-1]}.")
    if (x.dtype == torch.float64) != (y.dtype == torch.float64):
        raise BadInput(f"images and captions must have one precision, got {x.dtype} and {y.dtype}; convert one.")


def as_vectors(items: Comparable, what: str = "image") -> Embedding:
    """One vector per item: an Embedding as it is, sets of one vector, a tensor "n d", or a list of tensors "d".

    Raises: BadInput for sets of several vectors, another rank or kind of number, and NaN or infinity in a plain tensor.
    """
    if isinstance(items, Embedding):
        return items
    if (x := as_set(items, what=what).x).shape[1] != 1:
        raise BadInput(f"single vectors are needed for the {what}s, got sets of {x.shape[1]}. Take another similarity.")
    return Embedding(x[:, 0])


def as_both_vectors(images: Comparable, captions: Comparable, normalise: object = False) -> tuple[Rows, Rows]:
    """`as_vectors` of both modalities, in float32 at least. normalise, Raises: as as_sets."""
    vectors = [Embedding(single(as_vectors(r, what).x)) for r, what in ((images, "image"), (captions, "caption"))]
    return of_unit_length((images, captions), vectors, normalise)


def as_gaussians(items: object, what: str = "image") -> GaussianEmbedding:
    """Distributions, in float32 at least. Raises: BadInput for anything else, and where μ and log σ have two shapes."""
    if not isinstance(items, GaussianEmbedding) or items.mean.shape != items.log_std.shape:
        raise BadInput(f"GaussianEmbeddings, μ and log σ of one shape, are needed for the {what}s.")
    samples = None if items.samples is None else single(items.samples)
    return GaussianEmbedding(single(items.mean), single(items.log_std), samples)


def samples_of(items: GaussianEmbedding, what: str = "image") -> Tensor:
    """The samples "n j d" of distributions, in float32 at least. Raises: BadInput where there are none."""
    if (items := as_gaussians(items, what)).samples is None:
        raise BadInput(f"the distributions of the {what}s have no samples. Draw some, or take a closed form ('KL').")
    return items.samples


def as_features(
    inputs: "Features | Tensor | np.ndarray | Sequence",
    mask: Tensor | np.ndarray | None = None,
    global_feat: Tensor | np.ndarray | None = None,
    width: int | None = None,
) -> Features:
    """What heads read: Features as they are, or a tensor "n l e" with its mask "n l" (all real if None), or a
    list of tensors "l e", and global features "n d".

    width: that the local features must have; None leaves it, and their numbers, unchecked.
    Raises: BadInput for another type, rank or kind of number, for a mask or global features beside Features, and as
        require_elements.
    """
    if isinstance(inputs, Rows):
        if not isinstance(inputs, Features) or mask is not None or global_feat is not None:
            raise BadInput("Features, which bring their own mask and global features, or plain tensors are needed.")
        features = inputs
    else:
        inputs, mask = padded(inputs, mask, "local features")
        x = as_floats(inputs, "the local features", 3)
        g = None if global_feat is None else as_floats(global_feat, "the global features", 2)
        features = Features(x, _as_mask(mask, x), g)
    if width is not None:
        require_elements(features.local_feats, features.mask, width)
    return features


def global_of(features: Features, needs: str) -> Tensor:
    """The global features "n d". needs: what reads them. Raises: BadInput where there are none, or where one is NaN or
    infinite."""
    if features.global_feat is None:
        raise BadInput(f"{needs}, but there is none. Use an encoder with one, or give global_feat=.")
    require_finite(features.global_feat)
    return features.global_feat


def _as_mask(mask: Tensor | np.ndarray | None, x: Tensor) -> Tensor:
    if mask is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    try:
        mask = torch.as_tensor(mask, device=x.device)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise BadInput(f"the mask must be Boolean, {tuple(x.shape[:2])}, got {mask!r:.60}.") from None
    mask = as_bool(mask)
    require_mask(mask, x)
    return mask
