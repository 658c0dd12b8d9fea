"""The training loop."""

import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from xmr_core.base.errors import BadInput
from xmr_core.data.batches import Batches
from xmr_core.methods.method import Method
from xmr_core.training.collapse import CollapseWatch
from xmr_core.training.schedule import lr_factor
from xmr_core.training.stages import pretrained_names, thaw
from xmr_core.training.state import load_state, save_state, set_random_state


@dataclass(frozen=True)
class TrainConfig:
    """How to train. lr: of AdamW. weight_decay, clip: of the global gradient norm (0 = off). warmup_steps: linear rise.

    precision: 'float32', or 'bfloat16' for autocast on a GPU ('auto' chooses bfloat16 on a GPU, float32 on a CPU).
    pretrained_lr: factor on the rate of pretrained networks that are fine-tuned. freeze_epochs, unfreeze_every: when their stages
    learn (train.stages).
    threads: CPU threads of one run; part of a run's identity because sums in another order are other bits.
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

    def __post_init__(self):
        checks = {
            "epochs": self.epochs >= 1,
            "lr": 0 < self.lr < 1,
            "weight_decay": self.weight_decay >= 0,
            "clip": self.clip >= 0,
            "threads": self.threads >= 1,
            "seed": self.seed >= 0,
            "pretrained_lr": 0 <= self.pretrained_lr <= 1,
            "freeze_epochs": self.freeze_epochs >= 0,
            "unfreeze_every": self.unfreeze_every >= 0,
            "precision": self.precision in ("auto", "float32", "bfloat16"),
        }
        for name, fine in checks.items():
            if not fine:
                raise BadInput(f"{name} = {getattr(self, name)!r} is out of range. See TrainConfig for what is allowed.")


@dataclass
class History:
    """What happened. epochs: one dict per finished epoch: epoch, loss and its terms, lr, val (selection value), seconds."""

    epochs: list[dict] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    best_epoch: int = -1
    best_value: float = -float("inf")
    seconds: float = 0.0


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
) -> History:
    """Train `method` in place and leave it with the weights of its best validation epoch, in eval mode.

    validate: method → {'value': larger is better, …}; called after each epoch in eval mode without gradients.
    state_path: where the resumable state is kept; an undamaged one that is there is continued. None keeps nothing.
    report: called after each step and epoch with {'epoch', 'step', 'steps', 'loss', …}, for progress bars.
    readers: threads that read batches ahead; results do not depend on it.

    A run killed at any moment and started again with the same arguments ends with the same weights (on a CPU, bit for bit):
    the plan of batches depends on seed and epoch alone, and the state holds model, optimiser, schedule position, random
    generators, history and the best weights so far.
    Raises: TrainingFailed when the loss is not finite; CannotWrite when the state cannot be written.
    """
    device = method.device
    optimiser = torch.optim.AdamW(_groups(method, config), lr=config.lr, fused=True)
    half = config.precision == "bfloat16" or (config.precision == "auto" and device.type != "cpu")
    autocast = (lambda: torch.autocast(device.type, torch.bfloat16)) if half else nullcontext
    history, watch, sums, best, at_epoch, at_step = History(), CollapseWatch(), {}, None, 0, 0

    if state_path is not None and (state := load_state(state_path, owner)) is not None:
        method.load_state_dict(state["method"])
        optimiser.load_state_dict(state["optimiser"])
        progress = state["progress"]
        history, watch = History(**progress["history"]), CollapseWatch(**progress["watch"])
        sums, best, at_epoch, at_step = progress["sums"], progress["best"], progress["epoch"], progress["step"]
        set_random_state(state["random"])

    steps, started, saved = len(batches), time.monotonic() - history.seconds, time.monotonic()

    def save(epoch: int, step: int) -> None:
        nonlocal saved
        history.seconds = time.monotonic() - started
        if state_path is not None:
            progress = {"history": asdict(history), "watch": asdict(watch), "sums": sums, "best": best, "epoch": epoch, "step": step}
            save_state(state_path, method, optimiser, progress, owner)
        saved = time.monotonic()

    with _threads(config.threads):
        for epoch in range(at_epoch, config.epochs):
            plan = batches.plan(epoch)
            method.train()
            thaw(method, epoch, config.freeze_epochs, config.unfreeze_every)
            coming = batches.ahead(epoch, at_step, plan, readers)
            for step, batch in enumerate(coming, at_step):
                factor = lr_factor(
                    epoch * steps + step, config.epochs * steps, config.schedule, config.warmup_steps, steps, config.decay_every
                )
                for group in optimiser.param_groups:
                    group["lr"] = config.lr * group["scale"] * factor
                batch = batch.to(device)
                with autocast():
                    loss, terms, scores = method.loss(batch, epoch)
                optimiser.zero_grad(set_to_none=True)
                value, spread = torch.stack([loss.detach().float(), scores.detach().float().std()]).tolist()
                if message := watch.see(value, spread, f"epoch {epoch} step {step}"):
                    history.messages.append(message)
                    warnings.warn(message, stacklevel=2)
                loss.backward()
                if config.clip:
                    torch.nn.utils.clip_grad_norm_(method.parameters(), config.clip)
                optimiser.step()
                for name, term in {"loss": loss, **terms}.items():
                    sums[name] = sums.get(name, 0.0) + float(term.detach())
                report({"epoch": epoch, "step": step + 1, "steps": steps, "epochs": config.epochs, "loss": value})
                if state_path is not None and step + 1 < steps and time.monotonic() - saved > save_every_seconds:
                    save(epoch, step + 1)
            at_step = 0
            method.eval()
            with torch.inference_mode():
                checked = validate(method)
            line = {"epoch": epoch, **{k: v / steps for k, v in sums.items()}, "lr": optimiser.param_groups[0]["lr"], **checked}
            history.epochs.append({**line, "seconds": time.monotonic() - started})
            sums = {}
            if checked["value"] > history.best_value:
                history.best_epoch, history.best_value = epoch, checked["value"]
                best = {k: v.detach().clone() for k, v in method.state_dict().items()}
            save(epoch + 1, 0)
            report({**line, "epoch_done": True, "steps": steps, "epochs": config.epochs})
    if best is not None:
        method.load_state_dict(best)
    method.eval()
    return history


def _groups(method: Method, config: TrainConfig) -> list[dict]:
    """Parameter groups by learning-rate scale and decay: vectors and scalars (norms, biases, learned scales) are not decayed."""
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


@contextmanager
def _threads(n: int):
    """Train on n CPU threads, whatever the process uses otherwise: results then do not depend on how many runs share a machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
