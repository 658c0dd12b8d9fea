"""The commands `train`, one run in this process or in those that torchrun started, and `runs`, which lists them."""

import argparse
import ast
import os
import signal
import sys
from collections.abc import Iterable

from xmr_core.base.errors import BadInput, TrainingFailed
from xmr_core.ui.parameter_rules import refuse_early

TEXTS = (  # of a DataConfig, whatever they look like: the fold '1', a folder '2026'
    "dataset", "data_root", "size", "fold", "features", "image_model", "text_model", "fine_tune",
    "word_vectors", "vocabulary", "tokeniser", "corpus",
)  # fmt: skip

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
    commands.add_parser("runs", help="list finished and interrupted runs, with short names for other commands")


def train(arguments: argparse.Namespace) -> int:
    """0: the run is finished; its id, folder and RSUM are printed, by the first of several processes."""
    options = read_options(arguments.option, TEXTS)
    if fixed := {"method", "data", "train", "options"} & set(options):
        raise BadInput(
            f"{', '.join(sorted(fixed))} is no option: the method is the first argument, and the rest is given "
            "by single names, such as epochs=8 dataset=flickr8k."
        )
    refuse_early(method=arguments.method, dataset=arguments.dataset, preset=arguments.preset)
    from xmr_core.evaluation.results import rsum_interval
    from xmr_core.study.presets import base_config
    from xmr_core.study.runs import Runs
    from xmr_core.training.ranks import started_ranks
    from xmr_core.training.runs import train_or_load
    from xmr_core.training.runs.names import short_names

    named = {"dataset": arguments.dataset, "data_root": arguments.data_root, "preset": arguments.preset}
    config = base_config(arguments.method, **{**named, **options})
    _require_read(config.data, {**named, **options})
    if (ranks := started_ranks()) > 1:
        config = config.replace(processes=ranks)
        signal.signal(signal.SIGTERM, _end)  # torchrun sends it to the others when one process has ended
    run = train_or_load(config, _report)
    if is_first():
        rsum = run.metrics[run.metrics["metric"] == "rsum"].groupby("relevance", sort=False)["value"].first()
        short = next(name for name, run_id in short_names().items() if run_id == run.id)
        print(f"{run.id}\n  name    {short}\n  folder  {run.folder}")
        for kind, value in rsum.items():
            _, low, high = rsum_interval(run.per_query, kind)
            print(f"  RSUM    {100 * value:.1f} of 600 ({kind}; {low:.1f} to {high:.1f} by the choice of images)")
        print(f"  chance  {Runs([run], [run.config.method]).chance_interval()[0]:.1f} (a random ranking, annotated)")
    return 0


def _require_read(data, options: dict[str, object]) -> None:
    """Refuse what the data set would not read. data: a DataConfig. Raises: BadInput."""
    if unread := data.unread(name for name, value in options.items() if value):
        raise BadInput(f"{data.dataset} does not read {', '.join(unread)}. Leave out what belongs to other data sets.")


def runs(arguments: argparse.Namespace) -> int:
    """List the runs in the folder `runs`, the oldest first. Returns 0."""
    from xmr_core.base import paths
    from xmr_core.training.runs import run_table

    table = run_table()
    if table.empty:
        print(f"no run in {paths.root() / 'runs'}; `python -m xmr_core train dive` makes one")
        return 0
    shown = (
        table.astype(object)
        .where(table.notna(), "")
        .assign(rsum=[f"{value:.1f}" if value == value else "" for value in table["rsum"].astype(float)])
    )
    print(shown.rename(columns={"rsum": "RSUM"}).to_string(index=False))
    print("\nRSUM: of 600, on annotated pairs. A name, an id or its beginning stands for the run in other commands.")
    return 0


def read_options(pairs: list[str], texts: Iterable[str] = ()) -> dict[str, object]:
    """name=value as Python reads the value; what is no number or list is a word.

    Raises: BadInput for a pair without '='.

    >>> read_options(["alpha=8", "similarity=mil", "nested=True"])
    {'alpha': 8, 'similarity': 'mil', 'nested': True}
    >>> read_options(["fold=1"], texts=["fold"])
    {'fold': '1'}
    """
    out: dict[str, object] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (name.isidentifier() and equals):
            raise BadInput(f"an option is given as name=value, got {pair!r}.")
        try:
            out[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            out[name] = text
        if name in texts and not isinstance(out[name], str):
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


COMMANDS = {"train": train, "runs": runs}
