"""The command `train`: one run, in this process or in those that torchrun started."""

import argparse
import ast
import os
import signal
import sys

from xmr_core.base.errors import BadInput, TrainingFailed

HELP = "train or load one run, also with torchrun; for example: train dive alpha=8 epochs=3"


def add_to(commands) -> None:
    """Add the parser of `train`."""
    train = commands.add_parser("train", help=HELP)
    train.add_argument("method", help="for example dive, or mypackage.mine:SPEC")
    train.add_argument(
        "option", nargs="*", help="name=value of anything that configures a run: alpha=8 seed=1 size=tiny"
    )
    train.add_argument("--dataset", default="scenes", help="scenes (default), flickr8k, flickr30k, coco, cub, …")
    train.add_argument("--data-root", default="", help="the folder of its files")
    train.add_argument("--preset", default="quick", help="quick (default), study or published")


def train(arguments: argparse.Namespace) -> int:
    """0: the run is finished; its id, folder and RSUM are printed, by the first of several processes."""
    from xmr_core.study.presets import base_config
    from xmr_core.training.ranks import started_ranks
    from xmr_core.training.runs import train_or_load

    named = {"dataset": arguments.dataset, "data_root": arguments.data_root, "preset": arguments.preset}
    config = base_config(arguments.method, **{**named, **read_options(arguments.option)})
    if (ranks := started_ranks()) > 1:
        config = config.replace(processes=ranks)
        signal.signal(signal.SIGTERM, _end)  # torchrun sends it to the others when one process has ended
    run = train_or_load(config, _report)
    if is_first():
        rsum = run.metrics[run.metrics["metric"] == "rsum"].groupby("relevance", sort=False)["value"].first()
        print(f"{run.id}\n  folder  {run.folder}")
        for kind, value in rsum.items():
            print(f"  RSUM    {100 * value:.1f} of 600 ({kind})")
    return 0


def read_options(pairs: list[str]) -> dict[str, object]:
    """name=value as Python reads the value; what is no number or list is a word.

    Raises: BadInput for a pair without '='.

    >>> read_options(["alpha=8", "similarity=mil", "nested=True"])
    {'alpha': 8, 'similarity': 'mil', 'nested': True}
    """
    out: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name.isidentifier() and equals):
            raise BadInput(f"an option is given as name=value, got {pair!r}.")
        try:
            out[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            out[name] = text
    return out


def is_first() -> bool:
    """Whether this process speaks for all: the only one, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def _report(event: dict) -> None:
    if event.get("epoch_done") and is_first():
        line = (
            f"epoch {event['epoch'] + 1}/{event['epochs']}  loss {event['loss']:.4f}  validation {event['value']:.4f}"
        )
        print(line, file=sys.stderr, flush=True)


def _end(*_) -> None:
    raise TrainingFailed(
        "another process of this run has ended, so this one ends too. Start the same command again: it continues from "
        "the last saved state."
    )
