"""The processes that train one run together, and what each of them does of a step.

Each process (rank) reads the same global batch, encodes its share of the images and captions, and receives the
representations of the others. Scores and loss are then those of the global batch, and every rank computes all of them:
so any similarity, objective and regulariser is trained as in one process. Rank 0 alone validates and writes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from xmr_core.base.errors import BadInput, TrainingFailed, XmrError
from xmr_core.base.types import Batch, Representation, Rows
from xmr_core.methods.method import Method
from xmr_core.training.collectives import DrawsOfAll, batch_statistics_of_all, gathered, share_of

LONGEST_WAIT = timedelta(hours=12)  # of the others, while rank 0 validates; one that is gone is noticed at once
TERMS = tuple[Tensor, dict[str, Tensor], Tensor]


class OneRank:
    """A training in one process: nothing is exchanged."""

    first = True

    def from_first(self, compute: Callable[[], object]) -> object:
        """What `compute` gives on rank 0, on all ranks."""
        return compute()

    def start(self, method: Method) -> None:
        """Give all ranks the weights of rank 0."""

    def loss(self, method: Method, batch: Batch, epoch: int) -> TERMS:
        """The loss of the global batch, its terms and the scores."""
        return method.loss(batch, epoch)

    def average_gradients(self, method: Method) -> None:
        """Make the gradients those of the global batch."""


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
        with batch_statistics_of_all(
            method.image_encoder, method.image_head, method.caption_encoder, method.caption_head
        ):
            images = self._encoded(method.encode_images, batch.images)
            captions = self._encoded(method.encode_captions, batch.captions)
        self._agree_on_random_numbers(method.device)
        return method.loss_of(images, captions, batch.match, epoch)

    def _encoded(self, encode: Callable[[Rows], Representation], items: Rows) -> Representation:
        share = share_of(len(items), self.rank, self.ranks)
        with DrawsOfAll(share, len(items)):
            own = encode(items[share])
        return gathered(own, len(items))

    def _agree_on_random_numbers(self, device: torch.device) -> None:
        """Layers that draw in ways of their own may have drawn more on one rank than on another."""
        state = torch.get_rng_state().to(device)
        dist.broadcast(state, 0)
        torch.set_rng_state(state.cpu())

    def average_gradients(self, method: Method) -> None:
        gradients = [p.grad for p in method.parameters() if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in gradients])
        dist.all_reduce(flat)
        flat /= self.ranks
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient))


def started_ranks() -> int:
    """How many processes torchrun started for this run; 1 without it.

    >>> started_ranks()
    1
    """
    return int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def joined(ranks: int, device: str) -> Iterator[OneRank]:
    """The ranks of this training, which end their exchange with the block. device: 'cpu' is joined by gloo, a GPU by
    NCCL.

    Raises: BadInput when torchrun started another number of processes. TrainingFailed when another process is gone.

    >>> with joined(1, "cpu") as ranks:
    ...     ranks.first
    True
    """
    if ranks == 1:
        yield OneRank()
        return
    if started_ranks() != ranks:
        raise BadInput(
            f"this run is trained by {ranks} processes, and {started_ranks()} started. Start it with "
            f"'torchrun --nproc-per-node {ranks} -m xmr_core train …'."
        )
    if device != "cpu":
        torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(dist.get_default_backend_for_device(device), timeout=LONGEST_WAIT)
    try:
        yield Ranks(dist.get_rank(), ranks)
        dist.barrier()
    except RuntimeError as e:
        if isinstance(e, (XmrError, torch.OutOfMemoryError)) or not _is_of_a_lost_rank(e):
            raise
        raise TrainingFailed(
            "another process of this run has ended, so this one ends too. Start the same command again: it continues "
            f"from the last saved state. ({str(e).splitlines()[0]})"
        ) from None
    finally:
        dist.destroy_process_group()


def _is_of_a_lost_rank(error: Exception) -> bool:
    words = ("gloo", "nccl", "connection", "broken pipe", "socket", "store", "peer")
    return isinstance(error, dist.DistError) or any(word in str(error).lower() for word in words)
