"""The training loop."""

import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path

import torch

from xmr_core.base.devices import device_name, own_random_numbers, processor
from xmr_core.base.dtype import in_single_precision
from xmr_core.data.batches import Batches
from xmr_core.methods.method import Method
from xmr_core.training.clipping import clip_gradients
from xmr_core.training.collapse import CollapseWatch, require_gradient
from xmr_core.training.config import History, TrainConfig
from xmr_core.training.precision import in_precision
from xmr_core.training.ranks import OneRank
from xmr_core.training.schedule import lr_factor
from xmr_core.training.stages import pretrained_names, thaw
from xmr_core.training.state import load_state, random_state, save_state, set_random_state


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
    own: "OwnState | None" = None,
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
        on from a state of other code is a message of the history. own: where the method was built, if not here.
    Raises: TrainingFailed when the loss or a gradient is not finite; CannotWrite when the state cannot be written.

    >>> from xmr_core.data.prepare import DataConfig, prepare
    >>> from xmr_core.methods.registry import build
    >>> prepared = prepare(DataConfig(size="tiny"), progress=iter)
    >>> method, batches = build("vse++", prepared.inputs, d=8), Batches(prepared.splits["train"], 16, 1, 0)
    >>> train(method, batches, lambda method: {"value": 0.0}, TrainConfig(epochs=1)).best_epoch
    0
    """
    device = method.device
    own = own or OwnState(config, device)
    optimiser = torch.optim.AdamW(_groups(method, config), lr=config.lr, fused=True)
    half = config.precision == "bfloat16" or (config.precision == "auto" and device.type != "cpu")
    autocast = (lambda: torch.autocast(device.type, torch.bfloat16)) if half else nullcontext
    history, watch, sums, best, first_epoch, first_step = History(), CollapseWatch(), {}, None, 0, 0
    machine = processor() if device.type == "cpu" else device_name(device)

    if (state := ranks.from_first(lambda: load_state(state_path, owner) if state_path else None)) is not None:
        method.load_state_dict(state["method"])
        optimiser.load_state_dict(state["optimiser"])
        progress = state["progress"]
        history, watch = History(**progress["history"]), CollapseWatch(**progress["watch"])
        sums, best, first_epoch, first_step = (progress[name] for name in ("sums", "best", "epoch", "step"))
        own.random = state["random"]
        begun, coded = progress.get("device", machine), progress.get("code", code)  # older states do not say it
        at, told = f"from epoch {first_epoch} step {first_step}", []
        if begun != machine and first_epoch < config.epochs:  # named, not refused: a queue may move a run at any time
            where = f"on {machine}, before on {begun}"
            told.append(f"{at} {where}: the bits are those of neither, the result is as another seed's.")
        if coded != code:  # also where only the evaluation is left, because the code of now is recorded
            told.append(f"{at} by code {code}, before by code {coded}: the result is that of neither alone.")
        history.messages += told
        for message in told:
            warnings.warn(message, stacklevel=2)

    ranks.start(method)
    # of a core on a CPU, so that other work on the machine is not counted
    clock = time.process_time if device.type == "cpu" else time.monotonic
    steps, started, saved = len(batches), clock() - history.seconds, time.monotonic()

    def save(epoch: int, step: int) -> None:
        nonlocal saved
        history.seconds = clock() - started
        if state_path is not None:
            progress = {"history": asdict(history), "watch": asdict(watch), "sums": sums, "best": best}
            progress |= {"epoch": epoch, "step": step, "device": machine, "code": code}
            with own.inside():
                save_state(state_path, method, optimiser, progress, owner)
        saved = time.monotonic()

    for epoch in range(first_epoch, config.epochs):
        plan = batches.plan(epoch)
        method.train()
        thaw(method, epoch, config.freeze_epochs, config.unfreeze_every)
        coming = batches.ahead(epoch, first_step, plan, readers)
        for step, batch in enumerate(coming, first_step):
            position, total = epoch * steps + step, config.epochs * steps
            factor = lr_factor(position, total, config.schedule, config.warmup_steps, steps, config.decay_every)
            for group in optimiser.param_groups:
                group["lr"] = config.lr * group["scale"] * factor
            with own.inside():
                batch = batch.to(device)
                with autocast():
                    loss, terms, scores = ranks.loss(method, batch, epoch)
                optimiser.zero_grad(set_to_none=True)
                value, spread = torch.stack([loss.detach().float(), scores.detach().float().std()]).tolist()
                if message := watch.see(value, spread, f"epoch {epoch} step {step}"):
                    history.messages.append(message)
                    if ranks.first:
                        warnings.warn(message, stacklevel=2)
                loss.backward()
                ranks.average_gradients(method)
                if config.clip:
                    norm = clip_gradients(method.parameters(), config.clip)
                    if device.type == "cpu" or step + 1 == steps:  # elsewhere each look waits for the device
                        require_gradient(float(norm), f"epoch {epoch} step {step}")
                optimiser.step()
                for name, term in {"loss": loss, **terms}.items():
                    sums[name] = sums.get(name, 0.0) + float(term.detach())
            report({"epoch": epoch, "step": step + 1, "steps": steps, "epochs": config.epochs, "loss": value})
            if state_path is not None and step + 1 < steps and time.monotonic() - saved > save_every_seconds:
                save(epoch, step + 1)
        first_step = 0
        method.eval()
        with own.inside(), torch.inference_mode():
            values = ranks.from_first(lambda: validate(method))
        means = {name: total / steps for name, total in sums.items()}
        line = {"epoch": epoch, **means, "lr": optimiser.param_groups[0]["lr"], **values}
        history.epochs.append({**line, "seconds": clock() - started})
        sums = {}
        if values["value"] > history.best_value:
            history.best_epoch, history.best_value = epoch, values["value"]
            best = {k: v.detach().clone() for k, v in method.state_dict().items()}
        save(epoch + 1, 0)
        report({**line, "epoch_done": True, "steps": steps, "epochs": config.epochs})
    if best is not None:
        method.load_state_dict(best)
    method.eval()
    return history


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


class OwnState:
    """What a training reads of its process: random numbers, threads, precision and modes of torch.

    It begins with the random numbers of where it is made, and `inside` continues those of the last `inside`, whatever
    other code draws or sets in between. One thread at a time is inside.
    """

    def __init__(self, config: TrainConfig, device: str | torch.device):
        self.config, self.device = config, torch.device(device)
        self.random = random_state(self.device)

    @contextmanager
    def inside(self):
        """Compute as the configuration says, and leave the process as it was."""
        with (
            own_random_numbers(self.device),
            torch.enable_grad(),
            torch.autocast(self.device.type, enabled=False),
            in_single_precision(),
            in_precision(self.config.precision),
            nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"),  # slow, so not always
        ):
            threads = torch.get_num_threads()
            torch.set_num_threads(self.config.threads)  # results do not depend on how many runs share a machine
            set_random_state(self.random, self.device)
            try:
                yield
            finally:
                self.random = random_state(self.device)
                torch.set_num_threads(threads)
