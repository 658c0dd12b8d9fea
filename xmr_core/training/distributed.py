"""What the processes of one training exchange: rows with their gradients, statistics of a batch, random numbers.

Every process computes the same total loss from the rows of all. What flows back through an exchange is therefore the
gradient of the sum of all processes' losses, and the mean of the parameters' gradients over the processes is that of
one loss.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.overrides import TorchFunctionMode

from xmr_core.base.errors import BadInput, TrainingFailed, XmrError
from xmr_core.base.tensors import single
from xmr_core.base.types import Batch, Representation, Rows
from xmr_core.methods.method import Method
from xmr_core.training.loop import TERMS, OneRank


def share_of(n: int, rank: int, ranks: int) -> slice:
    """The rows of one process: n rows in order, as even as they come.

    >>> [share_of(5, rank, 2) for rank in (0, 1)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    small, more = divmod(n, ranks)
    start = rank * small + min(rank, more)
    return slice(start, start + small + (rank < more))


class _Sum(torch.autograd.Function):
    """The sum of a tensor over all processes, in both directions."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        total = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return _Sum.forward(ctx, gradient)


def of_all(x: Tensor, share: slice, n: int) -> Tensor:
    """The rows of all processes in order, n in all, with gradients; this one has those of `share`, and adds them to
    zeros. Sets of different length are padded."""
    sizes = torch.tensor(x.shape[1:], device=x.device)
    if len(sizes):
        dist.all_reduce(sizes, dist.ReduceOp.MAX)
    padding = [p for size, own in zip(sizes.tolist()[::-1], x.shape[:0:-1], strict=True) for p in (0, size - own)]
    own = F.pad(x, [*padding, share.start, n - share.stop])
    return _Sum.apply(own.byte() if x.dtype == torch.bool else own).to(x.dtype)


@contextmanager
def batch_statistics_of_all(*modules: nn.Module) -> Iterator[None]:
    """Inside the block, BatchNorm layers of these modules read the rows of all processes while they train.

    torch's SyncBatchNorm does the same on GPUs and refuses the CPU.
    """
    layers = [m for module in modules for m in module.modules() if isinstance(m, _BatchNorm)]
    for layer in layers:
        layer.forward = lambda x, layer=layer: _normalised(layer, x)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _normalised(layer: _BatchNorm, x: Tensor) -> Tensor:
    if not layer.training:
        return type(layer).forward(layer, x)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    wide = single(x)
    count = _Sum.apply(wide.new_tensor(float(x.numel() // x.shape[1])))
    mean = _Sum.apply(wide.sum(axes)) / count
    shape = [1, -1] + [1] * (x.ndim - 2)
    centred = wide - mean.view(shape)
    variance = _Sum.apply(centred.square().sum(axes)) / count
    if layer.track_running_stats:
        with torch.no_grad():
            layer.num_batches_tracked += 1
            rate = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
            layer.running_mean.lerp_(mean.to(layer.running_mean), rate)
            layer.running_var.lerp_((variance * count / (count - 1)).to(layer.running_var), rate)
    out = centred / (variance + layer.eps).sqrt().view(shape)
    if layer.affine:
        out = out * layer.weight.view(shape) + layer.bias.view(shape)
    return out.to(x.dtype)


class DrawsOfAll(TorchFunctionMode):
    """Inside the block, noise for the rows of this process is cut from noise for all n rows.

    Dropout and samples of a distribution then draw what one process would have drawn. share: the rows of this one.
    """

    def __init__(self, share: slice, n: int):
        super().__init__()
        self.share, self.own, self.n = share, share.stop - share.start, n

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function is torch.randn and arguments and arguments[0] == self.own:
            return function(self.n, *arguments[1:], **named)[self.share]
        if function is torch.randn_like and len(arguments[0]) == self.own:
            like = arguments[0].new_empty(self.n, *arguments[0].shape[1:])
            return function(like, *arguments[1:], **named)[self.share]
        if function is F.dropout and len(arguments[0]) == self.own:
            return self._dropout(*arguments, **named)
        return function(*arguments, **named)

    def _dropout(self, x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        return x * F.dropout(x.new_ones(self.n, *x.shape[1:]), p, True)[self.share] if training and p else x


LONGEST_WAIT = timedelta(hours=12)  # of the others, while rank 0 validates; one that is gone is noticed at once


class Ranks(OneRank):
    """Several processes, of torchrun for example. rank: the number of this one. ranks: how many there are."""

    def __init__(self, rank: int, ranks: int):
        self.rank, self.ranks, self.first = rank, ranks, rank == 0

    def from_first(self, compute: Callable[[], object]) -> object:
        box = [compute() if self.first else None]
        dist.broadcast_object_list(box, 0)
        return box[0]

    def start(self, method: Method) -> None:
        for tensor in method.state_dict().values():
            dist.broadcast(tensor, 0)

    def loss(self, method: Method, batch: Batch, epoch: int) -> TERMS:
        batch = method.mixed(batch)
        if min(len(batch.images), len(batch.captions)) < self.ranks:
            raise BadInput(f"a batch of {len(batch.images)} images cannot be divided among {self.ranks} processes.")
        parts = (method.image_encoder, method.image_head, method.caption_encoder, method.caption_head)
        with batch_statistics_of_all(*parts):
            images = self._encoded(method.encode_images, batch.images)
            captions = self._encoded(method.encode_captions, batch.captions)
        # layers that draw in ways of their own may have drawn more on one rank than on another
        state = torch.get_rng_state().to(method.device)
        dist.broadcast(state, 0)
        torch.set_rng_state(state.cpu())
        return method.loss_of(images, captions, batch.match, epoch)

    def _encoded(self, encode: Callable[[Rows], Representation], items: Rows) -> Representation:
        share, n = share_of(len(items), self.rank, self.ranks), len(items)
        with DrawsOfAll(share, n):
            own = encode(items[share])
        tensors = {f.name: v for f in fields(own) if isinstance(v := getattr(own, f.name), Tensor)}
        return replace(own, **{name: of_all(x, share, n) for name, x in tensors.items()})

    def average_gradients(self, method: Method) -> None:
        gradients = [p.grad for p in method.parameters() if p.grad is not None]
        flat = parameters_to_vector(gradients)
        dist.all_reduce(flat)
        vector_to_parameters(flat / self.ranks, gradients)


def started_ranks() -> int:
    """How many processes torchrun started for this run; 1 without it.

    >>> started_ranks()
    1
    """
    return int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def joined(ranks: int, device: str) -> Iterator[Ranks]:
    """The ranks of this training, which end their exchange with the block. device: 'cpu' is joined by gloo, a GPU by
    NCCL.

    Raises: BadInput when torchrun started another number of processes. TrainingFailed when another process is gone.
    """
    if (started := started_ranks()) != ranks:
        raise BadInput(
            f"this run is trained by {ranks} processes, and {started} started. Start it with "
            f"'torchrun --nproc-per-node {ranks} -m xmr_core train …'."
        )
    if device != "cpu":
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(dist.get_default_backend_for_device(device), timeout=LONGEST_WAIT)
    try:
        yield Ranks(dist.get_rank(), ranks)
        dist.barrier()
    except RuntimeError as e:
        lost = isinstance(e, dist.DistError) or any(word in str(e).lower() for word in _OF_A_LOST_RANK)
        if isinstance(e, XmrError | torch.OutOfMemoryError) or not lost:
            raise
        raise TrainingFailed(
            "another process of this run has ended, so this one ends too. Start the same command again: it continues "
            f"from the last saved state. ({str(e).splitlines()[0]})"
        ) from None
    finally:
        dist.destroy_process_group()


_OF_A_LOST_RANK = ("gloo", "nccl", "connection", "broken pipe", "socket", "store", "peer")
