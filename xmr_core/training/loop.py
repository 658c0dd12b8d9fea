"""The training loop and what it watches: gradients that are too long, divergence and collapse, stages of fine-tuning,
and the complete state of a run, with which a killed run ends with the same weights."""

import io
import math
import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.utils._pytree import tree_map

from xmr_core.base import files, machine
from xmr_core.base.errors import (
    LARGEST,
    LARGEST_SEED,
    BadInput,
    DamagedFile,
    TrainingFailed,
    require_choice,
    require_fields,
    require_flag,
)
from xmr_core.base.machine import as_a_run, device_name, own_random_numbers, processor
from xmr_core.base.tensors import unchecked
from xmr_core.base.types import Batch, Brief
from xmr_core.data.batches import Batches
from xmr_core.methods.method import Method

PATIENCE = 40  # steps in a row with equal scores before a collapse is certain
FLAT = 2e-3  # standard deviation of all scores of a batch below which items cannot be told apart
_READ_EVERY = 25  # steps between two looks at what a device computed; each look waits for it
_SHARE, _ROUNDING, _SAMPLE = 2e-3, 1e-5, 32  # of all spread; of the largest score; images and captions
TERMS = tuple[Tensor, dict[str, Tensor], Tensor]
SCHEDULES = ("cosine", "constant", "step")


def lr_factor(
    step: int, total: int, schedule: str, warmup: int = 0, steps_per_epoch: int = 1, every: int = 15
) -> float:
    """The factor on the base learning rate at a 0-based step.

    The first `warmup` steps rise linearly from 1/warmup to 1. Then 'cosine' falls to 0 at `total`, as
    ½(1 + cos π·progress); 'constant' stays at 1; 'step' is multiplied by 0.1 every `every` epochs (VSE++).
    Raises: BadInput for another schedule.

    >>> [lr_factor(step, 10, "cosine", warmup=2) for step in (0, 1, 6, 10)]
    [0.5, 1.0, 0.5, 0.0]
    """
    require_choice("schedule", schedule, SCHEDULES)
    if step < warmup:
        return (step + 1) / warmup
    if schedule == "constant":
        return 1.0
    if schedule == "step":
        return 0.1 ** (step // (every * steps_per_epoch))
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, total - warmup)))


PRECISIONS = ("auto", "float32", "bfloat16")
_LIMITS = {
    "epochs": (1, 1_000_000), "lr": (1e-12, 0.999999), "weight_decay": (0, LARGEST), "clip": (0, LARGEST),
    "warmup_steps": (0, LARGEST), "decay_every": (1, 1_000_000), "threads": (1, 4096), "seed": (0, LARGEST_SEED),
    "pretrained_lr": (0, 1), "freeze_epochs": (0, 1_000_000), "unfreeze_every": (0, 1_000_000),
    "micro_batch": (0, 1_000_000), "accumulate": (0, 1_000_000),
}  # fmt: skip


@dataclass(frozen=True)
class TrainConfig:
    """How to train.

    Args: epochs: at least 1. lr: learning rate of AdamW, from 1e-12 to below 1. weight_decay: of AdamW, on matrices
            only. clip: the norm that gradients are clipped to, 0 for no clipping.
        schedule: 'cosine', 'constant' or 'step' (lr_factor). warmup_steps: batches over which the rate rises linearly.
        decay_every: epochs of a step.
        precision: 'float32', without TF32 on a GPU, or 'bfloat16' for autocast; 'auto' is bfloat16 on a GPU and
            float32 on a CPU.
        pretrained_lr: factor in [0, 1] on the rate of pretrained networks that are fine-tuned. freeze_epochs,
            unfreeze_every: when their stages learn (stages_learning).
        compile: through torch.compile, where torch can; other last bits, and a minute before the first step.
        micro_batch: images or captions that are encoded at a time, so that only their vectors and not their
            computation are kept for a batch of any size; 0 for all. The loss is that of the whole batch.
        accumulate: batches whose gradients are averaged for one step of the optimiser; 0 or 1 for none. Each batch
            has its own negatives. checkpointing: pretrained networks compute their layers again in place of keeping
            them.
        seed: of weights and batches. threads: CPU threads of one run. They are part of a run's identity, because
            another order of sums gives other bits.
    Raises: BadInput for a value out of range.

    >>> TrainConfig(epochs=3).lr
    0.001
    """

    epochs: int = 8
    lr: float = 1e-3
    weight_decay: float = 1e-4
    clip: float = 2.0
    schedule: str = "cosine"
    warmup_steps: int = 20
    decay_every: int = 15
    precision: str = "auto"
    threads: int = 1
    seed: int = 0
    pretrained_lr: float = 0.1
    freeze_epochs: int = 1
    unfreeze_every: int = 0
    compile: bool = False
    micro_batch: int = 0
    accumulate: int = 0
    checkpointing: bool = False

    def __post_init__(self):
        require_flag("compile", self.compile)
        require_flag("checkpointing", self.checkpointing)
        require_fields(self, _LIMITS, {"schedule": SCHEDULES, "precision": PRECISIONS})


@dataclass
class History(Brief):
    """What happened. epochs: one dict per finished epoch, with epoch, loss and its terms, lr, value and seconds.

    best_epoch: 0-based epoch of the best value on the validation split, whose weights stay. messages: warnings.
    seconds: of a core since the start, all threads together, on a CPU; by the wall clock on another device.

    >>> History().best_epoch
    -1
    """

    epochs: list[dict] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    best_epoch: int = -1
    best_value: float = -float("inf")
    seconds: float = 0.0


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale the gradients g of parameters in place, so that their common norm is at most `most`; gives the norm before:

        g ← g · min(1, most / (‖g‖ + 1e-6)),   ‖g‖ = √(Σ of all squares)

    Squares of numbers above 1e19 are infinite in float32, so on a CPU a norm that is not finite is computed again in
    float64, and long but finite gradients are clipped like any other. Elsewhere that look would wait for the device.

    >>> weight = nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3e25, 4e25])
    >>> clip_gradients([weight], 1.0).float(), weight.grad
    (tensor(5.0000e+25), tensor([0.6000, 0.8000]))
    """
    parameters = [parameter for parameter in parameters if parameter.grad is not None]
    norm = get_total_norm([parameter.grad for parameter in parameters])
    if norm.device.type == "cpu" and not norm.isfinite():
        norms = [torch.linalg.vector_norm(p.grad, dtype=torch.float64) for p in parameters]
        norm = torch.linalg.vector_norm(torch.stack(norms))
    clip_grads_with_norm_(parameters, most, norm)
    return norm


@dataclass
class CollapseWatch:
    """Watches the loss and the spread of the scores of each batch. Its fields are its complete state.

    A hinge loss with hardest negatives has a trap: when all embeddings are equal, every triplet costs exactly the
    margin and no gradient separates them (the loss stays at 51.2, 0.2001 or 0.4, say).

    >>> watch = CollapseWatch()
    >>> [watch.see(0.4, 1e-5, f"step {n}") for n in range(PATIENCE)][-1][:22]
    'training has collapsed'
    """

    steps: int = 0
    flat_steps: int = 0
    reported: bool = False

    def see(self, loss: float, spread: float, step: str) -> str | None:
        """One step. loss: its value. spread: standard deviation of scores "i t". step: where it is, 'epoch 0 step 12'.

        Returns: a sentence for the user the first time that a collapse is certain, else None.
        Raises: TrainingFailed when the loss is not a finite number.
        """
        if not math.isfinite(loss):
            remedy = "Lower the learning rate" if self.steps else "Nothing was learned: look for NaN in the features"
            raise TrainingFailed(f"training diverged: the loss is {loss} at {step}. {remedy}.")
        self.steps += 1
        self.flat_steps = self.flat_steps + 1 if spread < FLAT else 0
        if self.flat_steps < PATIENCE or self.reported:
            return None
        self.reported = True
        return (
            f"training has collapsed: for {PATIENCE} steps up to {step} all scores of a batch are equal to within "
            f"{spread:.1e}. Train the first epochs on all negatives (warmup_epochs of the triplet), lower the learning "
            "rate, or use InfoNCE."
        )

    def see_axes(self, scores: Tensor, epoch: int) -> str | None:
        """The scores "i t" of some items in eval mode, where dropout does not hide that a tower gives all its items one
        vector: along its axis they are equal then. Returns: as `see`.

        >>> CollapseWatch().see_axes(torch.tensor([[0.1, 0.1], [0.5, 0.5]]), 0)[:53]
        'training has collapsed: after epoch 0 all captions of'
        """
        scores = scores.double()
        least = max(_SHARE * float(scores.std(correction=0)), _ROUNDING * float(scores.abs().max()))
        spreads = (float(scores.std(axis, correction=0).mean()) for axis in (0, 1))
        alike = [name for name, spread in zip(("images", "captions"), spreads, strict=True) if spread < least]
        if self.reported or not alike or min(scores.shape) < 2:
            return None
        self.reported = True
        what = f"after epoch {epoch} all {' and all '.join(alike)} of a batch score alike"
        return f"training has collapsed: {what}. Lower the learning rate, take another encoder, or use InfoNCE."


def pretrained_parts(method: nn.Module) -> dict[str, nn.Module]:
    """Prefix of parameter names → encoder, for each that holds a pretrained network to be fine-tuned.

    Such a module has `stage_prefixes()`, groups of prefixes of its parameters' names from the output to the input, and
    `train_stages(n)`, after which the first n groups learn and no other.
    """
    return {f"{n}." if n else "": module for n, module in method.named_modules() if hasattr(module, "stage_prefixes")}


def pretrained_names(method: nn.Module) -> set[str]:
    """Names of all pretrained parameters of a method."""
    parts = pretrained_parts(method).items()
    prefixes = tuple(part + p for part, module in parts for group in module.stage_prefixes() for p in group)
    return {name for name, _ in method.named_parameters() if name.startswith(prefixes)}


def stages_learning(epoch: int, stages: int, freeze_epochs: int, unfreeze_every: int) -> int:
    """How many of a network's stages learn in an epoch.

    None in the first freeze_epochs. Then all of them; or, with unfreeze_every above 0, one, and one more every so many
    epochs.
    """
    if epoch < freeze_epochs:
        return 0
    return min(stages, 1 + (epoch - freeze_epochs) // unfreeze_every) if unfreeze_every else stages


def unfreeze(method: nn.Module, epoch: int, freeze_epochs: int, unfreeze_every: int) -> None:
    """Let a method's pretrained networks learn as far as the epoch says; what does not learn keeps no gradient."""
    for module in pretrained_parts(method).values():
        module.train_stages(stages_learning(epoch, len(module.stage_prefixes()), freeze_epochs, unfreeze_every))
        for parameter in module.parameters():
            if not parameter.requires_grad:
                parameter.grad = None


def save_state(path: Path, state: dict, owner: str = "") -> None:
    """Write a state to `path`, atomically and with a digest; the state before it stays as `previous(path)`.

    state: plain numbers, strings, lists, dicts and tensors only. owner: the run that it belongs to; load_state gives it
    to no other.
    """
    buffer = io.BytesIO()
    # on the CPU, so that the file can be read where there is no such device
    torch.save(tree_map(lambda v: v.cpu() if isinstance(v, Tensor) else v, {"owner": owner, **state}), buffer)
    if path.exists():
        path.replace(previous(path))
    files.write_sealed(path, buffer.getvalue())


def previous(path: Path) -> Path:
    """Where the state before the last one is kept, in case the last one is damaged."""
    return path.with_name(path.name + ".previous")


@as_a_run()
def load_state(path: Path, owner: str = "") -> dict | None:
    """The newest undamaged state of a run, or None when there is none.

    A file that is damaged or belongs to another run is not used, and a warning says so. Nothing in the file is
    executed: it may hold tensors and plain values only.
    """
    reasons, state = [], None
    for candidate in filter(Path.exists, (path, previous(path))):
        try:
            state = torch.load(io.BytesIO(files.read_sealed(candidate)), weights_only=True)
            if isinstance(state, dict) and state.get("owner") == owner:
                break
            reasons.append(f"{candidate} belongs to another run, or to another torch or architecture.")
        except (DamagedFile, pickle.UnpicklingError, RuntimeError) as e:
            reasons.append(str(e).splitlines()[0])
        state = None
    if reasons:
        instead = "training starts again from the beginning" if state is None else "the state before it is used"
        warnings.warn(f"checkpoint is damaged, {instead}: {' '.join(reasons)}", stacklevel=2)
    return state


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


class OwnState:
    """What a training reads of its process: random numbers, threads, precision and modes of torch.

    It begins with the random numbers of where it is made, and `inside` continues those of the last `inside`, whatever
    other code draws or sets in between. One thread at a time is inside. What other threads draw in the middle comes
    from the same generator and cannot be kept apart; `disturbed` warns of it, if they draw between two steps too.
    """

    def __init__(self, config: TrainConfig, device: str | torch.device):
        self.config, self.device, self.outside, self.disturbed = config, torch.device(device), None, ""
        self._keep()

    def _keep(self) -> None:
        self.random = {"cpu": torch.get_rng_state(), "device": machine.random_state(self.device)}

    @contextmanager
    def inside(self):
        """Compute as the configuration says, and leave the process as it was."""
        with own_random_numbers(self.device), as_a_run(exact_kernels=self.config.precision == "float32"):
            networks, before = self.outside or (-1, None)
            if networks == machine.networks_built and not torch.equal(before, torch.get_rng_state()):
                draws = "another thread draws torch's random numbers between the steps of this training"
                self.disturbed = f"{draws}: inside a step it changes the result. Train in a process of its own."
            self.outside = None
            threads = torch.get_num_threads()
            torch.set_num_threads(self.config.threads)  # results do not depend on how many runs share a machine
            torch.set_rng_state(self.random["cpu"])
            machine.set_random_state(self.device, self.random["device"])
            try:
                yield
            finally:
                self._keep()
                torch.set_num_threads(threads)


@machine.learning()  # all else is set inside, and is the caller's in a report
def train(
    method: Method,
    batches: Batches,
    validate: Callable[[Method], dict[str, float]],
    config: TrainConfig,
    state_path: Path | None = None,
    report: Callable[[dict], None] = lambda event: None,
    save_every_seconds: float = 20.0,
    readers: int = 1,
    owner: str = "",
    ranks: OneRank = OneRank(),
    code: str = "",
    own: OwnState | None = None,
    miner: Callable[[Method], np.ndarray] | None = None,
) -> History:
    """Train `method` in place and leave it with the weights of its best validation epoch, in eval mode.

    A run that is killed at any moment and started again with the same arguments ends with the same weights (on one
    model of CPU, bit for bit; another is a message of the history): the plan of batches depends on seed and epoch
    alone, and the state holds the model, the optimiser, the position in the schedule, the random generators, the
    history and the best weights so far.

    Args: validate: method → {'value': larger is better, …}; called after each epoch in eval mode without gradients.
        state_path: where the resumable state lies; an undamaged one of the same owner is continued. None for no state.
        report: called after each step and epoch with {'epoch', 'step', 'steps', 'loss', …}, for progress bars.
        save_every_seconds: at least so long between two states inside an epoch. readers: threads that read batches
        ahead; results do not depend on them. owner: the run that the state belongs to. ranks: the processes that
        train together; all of them call this, rank 0 with the state_path. code: a hash of the code that trains; going
        on from a state of other code is a message of the history. own: where the method was built, if not here. miner:
        method → mining.hard_images, called before each epoch but the first; its batches hold what it gave.
    On a CPU every step is looked at. On a device the host goes ahead of it: losses and norms are read every 25 steps,
    at the end of an epoch and before a state is written, and a message names the first step that it is about; what is
    given is checked on the host, and in the first step by heads, similarity and loss too.
    Raises: TrainingFailed when the loss or a gradient is not finite; CannotWrite when the state cannot be written.

    >>> from xmr_core.data.prepare import DataConfig, prepare
    >>> from xmr_core.methods.registry import build
    >>> prepared = prepare(DataConfig(size="tiny"), progress=iter)
    >>> method, batches = build("vse++", prepared.inputs, d=8), Batches(prepared.splits["train"], 16, 1, 0)
    >>> train(method, batches, lambda method: {"value": 0.0}, TrainConfig(epochs=1)).best_epoch
    0
    """
    device, averaged = method.device, max(1, config.accumulate)
    on_cpu = device.type == "cpu"
    _save_memory(method, config)
    own = own or OwnState(config, device)
    optimiser = torch.optim.AdamW(_groups(method, config), lr=config.lr, fused=True)
    half = config.precision == "bfloat16" or (config.precision == "auto" and not on_cpu)
    history, watch, sums, best, first_epoch, first_step = History(), CollapseWatch(), {}, None, 0, 0
    hard = None  # what was mined for the epoch
    pending: list[tuple[str, list[str], Tensor]] = []  # where, names of the terms, (loss, spread, norm, terms …)
    loss_of, checks, shown = torch.compile(ranks.loss) if config.compile else ranks.loss, True, math.nan
    place = processor() if on_cpu else device_name(device)

    def tell(message: str | None) -> None:
        if message and message not in history.messages:
            history.messages.append(message)
            if ranks.first:
                warnings.warn(message, stacklevel=3)

    if (state := ranks.from_first(lambda: load_state(state_path, owner) if state_path else None)) is not None:
        method.load_state_dict(state["method"])
        optimiser.load_state_dict(state["optimiser"])
        progress, own.random = state["progress"], state["random"]
        history, watch = History(**progress["history"]), CollapseWatch(**progress["watch"])
        sums, best, first_epoch, first_step = (progress[name] for name in ("sums", "best", "epoch", "step"))
        hard = progress.get("hard")
        changes = [(f"by code {progress.get('code', code)}", f"by code {code}")]  # also of a run that is only evaluated
        if first_epoch < config.epochs:
            changes.append((f"on {progress.get('device', place)}", f"on {place}"))
            changes.append((f"with {progress.get('libraries', machine.libraries())}", f"with {machine.libraries()}"))
        where = f"from epoch {first_epoch} step {first_step}"
        for before, now in changes:  # and not refused: a queue may move a run at any time
            if before != now:
                tell(f"{where} {now}, before {before}: the result is that of neither alone.")

    ranks.start(method)
    # of a core on a CPU, so that other work on the machine is not counted
    clock = time.process_time if on_cpu else time.monotonic
    steps, started, saved = len(batches), clock() - history.seconds, time.monotonic()

    def read() -> None:
        """See to what was computed since the last look, step by step."""
        nonlocal shown
        rows = torch.stack([row for *_, row in pending]).tolist() if pending else []
        for (where, names, _), (shown, spread, norm, *terms) in zip(pending, rows, strict=True):
            tell(watch.see(shown, spread, where))
            if not math.isfinite(norm):
                raise TrainingFailed(f"the loss is finite at {where}, and the gradient has norm {norm:g}.")
            for name, term in zip(names, terms, strict=True):
                sums[name] = sums.get(name, 0.0) + term
        pending.clear()

    def save(epoch: int, step: int) -> None:
        nonlocal saved
        read()
        history.seconds = clock() - started
        if state_path is not None:
            progress = {"history": asdict(history), "watch": asdict(watch), "sums": sums, "best": best}
            progress |= {"epoch": epoch, "step": step, "device": place, "code": code, "libraries": machine.libraries()}
            progress |= {} if hard is None else {"hard": torch.as_tensor(hard)}
            state = {"method": method.state_dict(), "optimiser": optimiser.state_dict(), "random": own.random}
            save_state(state_path, {**state, "progress": progress}, owner)
        saved = time.monotonic()

    for epoch in range(first_epoch, config.epochs):
        if miner and epoch and not first_step:
            with own.inside(), torch.inference_mode():
                hard = ranks.from_first(lambda: miner(method.eval()))
        if hard is not None:
            batches.hard = np.asarray(hard)
        plan = batches.plan(epoch)
        method.train()
        unfreeze(method, epoch, config.freeze_epochs, config.unfreeze_every)
        read_ahead = batches.ahead(epoch, first_step, plan, readers, machine.pins_memory(device))
        for step, batch in enumerate(read_ahead, first_step):
            where, position = f"epoch {epoch} step {step}", epoch * steps + step
            schedule = (config.schedule, config.warmup_steps, steps, config.decay_every)
            factor = lr_factor(position, config.epochs * steps, *schedule)
            for group in optimiser.param_groups:
                group["lr"] = config.lr * group["scale"] * factor
            with own.inside():
                batch = batch.to(device, non_blocking=True)
                with torch.autocast(device.type, torch.bfloat16) if half else nullcontext(), unchecked(checks):
                    loss, terms, scores = loss_of(method, batch, epoch)
                begins, ends = step % averaged == 0, (step + 1) % averaged == 0 or step + 1 == steps
                if begins:
                    optimiser.zero_grad(set_to_none=True)
                (loss / min(averaged, steps - step // averaged * averaged)).backward()
                norm = torch.zeros_like(loss)
                if ends:
                    ranks.average_gradients(method)
                    norm = clip_gradients(method.parameters(), config.clip or math.inf)
                row = [loss, scores.detach().float().std(), norm, loss, *terms.values()]
                wide = torch.float64 if on_cpu else torch.float32  # some devices have no other
                row = torch.stack([x.detach().to(device, wide).reshape(()) for x in row])
                pending.append((where, ["loss", *terms], row))
                if on_cpu or checks or step + 1 == steps or len(pending) == _READ_EVERY:
                    read()  # before the step is taken, so that a CPU keeps the weights that led to a failure
                if ends:
                    optimiser.step()
                tell(own.disturbed)
                checks = False
            report({"epoch": epoch, "step": step + 1, "steps": steps, "epochs": config.epochs, "loss": shown})
            with machine.alone:
                own.outside = machine.networks_built, torch.get_rng_state()
            if ends and step + 1 < steps and time.monotonic() - saved > save_every_seconds:
                save(epoch, step + 1)
        first_step = 0
        method.eval()
        with own.inside(), torch.inference_mode():
            values = ranks.from_first(lambda: validate(method))
            with own_random_numbers(device):
                images, captions = batch.images[:_SAMPLE], batch.captions[:_SAMPLE]
                scores = method.similarity.score(method.encode_images(images), method.encode_captions(captions))
                tell(watch.see_axes(scores, epoch))
        means = {name: total / steps for name, total in sums.items()}
        line = {"epoch": epoch, **means, "lr": config.lr * factor, **values}
        history.epochs.append({**line, "seconds": clock() - started})
        sums = {}
        if values["value"] > history.best_value:
            history.best_epoch, history.best_value = epoch, values["value"]
            best = {k: v.detach().clone() for k, v in method.state_dict().items()}
        save(epoch + 1, 0)
        report({**line, "epoch_done": True, "steps": steps, "epochs": config.epochs})
    equal = sum(line["value"] == history.best_value for line in history.epochs)
    if equal > max(2, config.epochs / 2) and not watch.reported:  # a collapse has been told
        alike = f"validation is best in {equal} of {config.epochs} epochs alike, and the first of them is kept"
        tell(f"{alike}, epoch {history.best_epoch}. Give split val more images.")
    if best is not None:
        method.load_state_dict(best)
    method.eval()
    return history


def _save_memory(method: Method, config: TrainConfig) -> None:
    """Let a method compute again what it does not keep. Raises: BadInput for a micro_batch where a layer reads the
    statistics of the batch, which are not those of its parts."""
    method.rows_at_once = config.micro_batch
    if config.micro_batch and any(isinstance(m, _BatchNorm) for m in method.train().modules() if m.training):
        raise BadInput("micro_batch changes a BatchNorm, which reads the whole batch. Leave it out, or use accumulate.")
    for part in pretrained_parts(method).values() if config.checkpointing else ():
        part.backbone.gradient_checkpointing_enable({"use_reentrant": False})


def _groups(method: Method, config: TrainConfig) -> list[dict]:
    """Parameter groups by scale of the learning rate and decay; norms, biases and learned scales are not decayed."""
    groups: dict[tuple[float, bool], list] = {}
    pretrained = pretrained_names(method)
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            scale = next((f for prefix, f in method.lr_scales.items() if name.startswith(prefix)), 1.0)
            scale *= config.pretrained_lr if name in pretrained else 1.0
            groups.setdefault((scale, parameter.ndim > 1), []).append(parameter)
    return [
        {"params": parameters, "weight_decay": config.weight_decay if decayed else 0.0, "scale": scale}
        for (scale, decayed), parameters in groups.items()
    ]
