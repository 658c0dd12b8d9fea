"""Experiment trackers, which follow a training by its events (`report=`)."""

from pathlib import Path

from xmr_core.base.errors import require

_COUNTS = ("epoch", "epochs", "step", "steps", "seconds")


def scalars(event: dict) -> tuple[dict[str, float], int]:
    """The numbers of an event of training and the step that they belong to, as trackers take them.

    After a step that is the loss of its batch, 'loss'; after an epoch its means and the values on the validation split,
    as 'epoch/loss', 'epoch/value' and so on. The step counts from 1 over all epochs, and never falls within a run.

    >>> scalars({"run": "dive-1", "epoch": 1, "step": 3, "steps": 10, "epochs": 2, "loss": 0.5})
    ({'loss': 0.5}, 13)
    >>> scalars({"run": "dive-1", "epoch": 0, "steps": 10, "epochs": 2, "loss": 0.5, "value": 2.0, "epoch_done": True})
    ({'epoch/loss': 0.5, 'epoch/value': 2.0}, 10)
    """
    done = bool(event.get("epoch_done"))
    step = event["epoch"] * event["steps"] + (event["steps"] if done else event["step"])
    values = {name: v for name, v in event.items() if isinstance(v, float) and name not in _COUNTS}
    return {f"epoch/{name}" if done else name: float(v) for name, v in values.items()}, step


class TensorBoard:
    """A `report` that writes an event file for each run: folder/<run id>/events.out.tfevents.…

    `tensorboard --logdir folder` shows them. The numbers and steps are those of `scalars`.
    Raises: BadInput where the package tensorboard is not installed.

    Example: `train_or_load_all(configs, report=TensorBoard("logs"))`
    """

    def __init__(self, folder: Path | str):
        require("a log of TensorBoard", "tensorboard", "tensorboard")
        self.folder, self._writers = Path(folder).expanduser(), {}

    def __call__(self, event: dict) -> None:
        run = event.get("run", "run")
        if run not in self._writers:
            from torch.utils.tensorboard import SummaryWriter

            self._writers[run] = SummaryWriter(str(self.folder / run))
        values, step = scalars(event)
        for name, value in values.items():
            self._writers[run].add_scalar(name, value, step)
        if event.get("epoch_done"):
            self._writers[run].flush()

    def close(self) -> None:
        """Write what is still in memory and close the files."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
