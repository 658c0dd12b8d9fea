"""The core's commands: `train`, `runs`, `check`, `check-method`, `info`, `index` and `search`."""

import argparse
import ast
import gc
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from functools import partial

from xmr_core import __version__
from xmr_core.base.errors import BadInput, TrainingFailed
from xmr_core.base.paths import printable, say


def add_to(commands) -> None:
    """Declare the commands. commands: the result of add_subparsers."""
    train = commands.add_parser("train", help="train or load one run, also with torchrun: train dive alpha=8 epochs=3")
    train.add_argument("method", help="for example dive, or mypackage.mine:SPEC")
    train.add_argument("option", nargs="*", default=[], help="name=value of whatever configures a run: alpha=8 seed=1")
    train.add_argument("--dataset", default="scenes", help="scenes (default), flickr8k, flickr30k, coco, cub, …")
    train.add_argument("--data-root", default="", help="the folder of its files")
    train.add_argument("--preset", default="quick", help="quick (default), study or published")
    commands.add_parser("runs", help="list finished and interrupted runs, with short names for other commands")
    check = commands.add_parser("check", help="read a folder of data: what it holds, and everything that is wrong")
    check.add_argument("dataset", help="how its files are laid out, for example flickr8k or folder")
    check.add_argument("data_root", help="the folder")
    check.add_argument("--shallow", action="store_true", help="read lists and captions only, not every image")
    method = commands.add_parser("check-method", help="look at a method of your own before it is trained")
    method.add_argument("method", help="an address such as mymodule:SPEC, or an id")
    commands.add_parser("info", help="versions, and the folders of runs, caches and outputs")
    index = commands.add_parser("index", help="encode images with a trained run, once, into a folder to search")
    index.add_argument("run", metavar="RUN", help="a finished run, or with --folder any model: a folder, a hub name")
    index.add_argument("output", metavar="OUT", help="the folder to make; an index that it holds is replaced")
    index.add_argument("--folder", metavar="IMAGES", help="images of your own (default: the run's own test images)")
    index.add_argument("--half", action="store_true", help="half precision: cosines differ by less than 0.001")
    index.add_argument("--elements", action="store_true", help="also index the elements, for --fast (extra `search`)")
    search = commands.add_parser("search", help="search an index by a sentence, or by an image")
    search.add_argument("index", metavar="OUT", help="a folder made by `index`")
    search.add_argument("text", nargs="?", default="", help="a sentence, in quotes")
    search.add_argument("--image", metavar="FILE", help="an image instead: for captions, or where none are, for images")
    search.add_argument("-k", type=int, default=10, help="how many answers (default: 10)")
    search.add_argument("--fast", action="store_true", help="compare what the query's elements propose (--elements)")
    search.add_argument("--verify", action="store_true", help="compare the digests of all files first, of any size")
    search.add_argument("--explain", action="store_true", help="say what words and cells add to each score")


def train(arguments: argparse.Namespace) -> int:
    """0: the run is finished; its id, folder and RSUM are printed, by the first of several processes."""
    from xmr_core.data.config import DataConfig
    from xmr_core.evaluation.evaluate import rsum_interval
    from xmr_core.training.distributed import started_ranks
    from xmr_core.training.runs.config import base_config
    from xmr_core.training.runs.folder import short_names
    from xmr_core.training.runs.train_run import train_or_load

    # the words of a DataConfig stay words, whatever they look like: the fold '1', a folder '2026'
    options = read_options(arguments.option, [f.name for f in fields(DataConfig) if f.type is str])
    if fixed := {"method", "data", "train", "options"} & set(options):
        raise BadInput(f"{min(fixed)} is no option: give single names, such as epochs=8 dataset=flickr8k.")
    named = {"dataset": arguments.dataset, "data_root": arguments.data_root, "preset": arguments.preset}
    config = base_config(arguments.method, **{**named, **options})
    if unread := config.data.unread(name for name, value in {**named, **options}.items() if value):
        raise BadInput(f"{config.data.dataset} does not read {', '.join(unread)}. Leave them out.")
    if (ranks := started_ranks()) > 1:
        config = config.replace(processes=ranks)
        signal.signal(signal.SIGTERM, _end)  # torchrun sends it to the others when one process has ended
    run = train_or_load(config, _report)
    if is_first():
        rsum = run.metrics[run.metrics["metric"] == "rsum"].groupby("relevance", sort=False)["value"].first()
        short = next(name for name, run_id in short_names().items() if run_id == run.id)
        say(f"{run.id}\n  name    {short}\n  folder  {run.folder}")
        for kind, value in rsum.items():
            _, low, high = rsum_interval(run.per_query, kind)
            say(f"  RSUM    {100 * value:.1f} of 600 ({kind}; {low:.1f} to {high:.1f} by the choice of images)")
        say(f"  chance  {run.chance()[0]:.1f} (a random ranking, annotated)")
    return 0


def runs(arguments: argparse.Namespace) -> int:
    """List the runs in the folder `runs`, the oldest first. Returns 0."""
    from xmr_core.base import paths
    from xmr_core.training.runs.folder import run_table

    table = run_table()
    if table.empty:
        say(f"no run in {paths.root() / 'runs'}; `python -m xmr_core train dive` makes one")
        return 0
    table["rsum"] = table["rsum"].astype(float).map("{:.1f}".format, na_action="ignore")
    say(table.rename(columns={"rsum": "RSUM"}).to_string(index=False, na_rep=""))
    say("\nRSUM: of 600, on annotated pairs. A name, an id or its beginning stands for the run in other commands.")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """0: the data can be used for training; 1: they cannot."""
    from tqdm import tqdm

    from xmr_core.data.config import DataConfig
    from xmr_core.data.corpora import reader_of
    from xmr_core.data.inputs import planned_network
    from xmr_core.data.readers.check import check_corpus

    dataset, root = arguments.dataset, arguments.data_root
    if dataset == "scenes":
        raise BadInput("scenes is drawn by this package: it has no files to check, and train takes it as it is.")

    progress = partial(tqdm, desc="reading images", leave=False, disable=None)
    network = partial(planned_network, DataConfig(dataset, root))
    report = check_corpus(dataset, reader_of(dataset), root, not arguments.shallow, progress, network)
    say(report.text())
    return 0 if report.usable else 1


def check_method(arguments: argparse.Namespace) -> int:
    """0: nothing was found; 1: something was."""
    from xmr_core.training.method_check import check_method

    faults = check_method(arguments.method)
    say("\n".join(f"- {sentence}" for sentence in faults) or "Nothing was found that is wrong.")
    return 1 if faults else 0


def info(arguments: argparse.Namespace) -> int:
    """Versions, and what lies in the folders of this package. Returns 0."""
    from xmr_core.base import paths
    from xmr_core.base.machine import environment, resolve_device

    for name, value in ({"xmr_core": __version__} | vars(environment(resolve_device("auto")))).items():
        say(f"{name:12s} {value}")
    for kind in ("runs", "cache", "outputs"):
        folder = paths.root() / kind
        sizes = [f.stat().st_size for f in folder.rglob("*") if f.is_file()]
        say(f"{kind:12s} {folder} ({len(sizes)} files, {sum(sizes) / 1e6:.0f} MB)")
    return 0


def index(arguments: argparse.Namespace) -> int:
    """Encode images into an index. Returns 0."""
    from xmr_core.models.load import load
    from xmr_core.retrieval.engine import build_elements, faiss_library
    from xmr_core.retrieval.index import index_folder, index_split, open_index
    from xmr_core.training.runs.folder import load as load_run

    if arguments.elements:
        faiss_library()  # reports a missing library now, and not after the work
    dtype = "float16" if arguments.half else "float32"
    if arguments.folder is None:
        out = index_split(load_run(arguments.run), arguments.output, dtype=dtype)
    else:
        out = index_folder(load(arguments.run), arguments.folder, arguments.output, dtype)
    opened = open_index(out)
    if arguments.elements:
        build_elements(opened.images, out, opened.digest("images"))
    megabytes = sum(file["bytes"] for file in opened.about["files"].values()) / 1e6
    counts = f"{len(opened.images):,} images, {len(opened.texts):,} captions"
    say(f"{out}: {counts}, {megabytes:,.1f} MB, encoded by {arguments.run}")
    return 0


def search(arguments: argparse.Namespace) -> int:
    """Print the answers to a sentence or an image, and with --explain why they are answers. Returns 0."""
    gc.disable()  # while libraries load, it would visit all objects of torch again and again
    from xmr_core.data.inputs import pixels_of
    from xmr_core.retrieval import engine, explain, ranking
    from xmr_core.retrieval.index import open_index

    gc.enable()
    text, file, verify = arguments.text, arguments.image, arguments.verify
    library, elements = open_index(arguments.index, verify), None
    if arguments.fast:
        elements = engine.open_elements(library.folder, library.images, library.digest("images"), verify)
    table, lines = ranking.search(library, text, file, arguments.k, elements), []
    if arguments.explain:
        query = ranking.Query("text", text) if file is None else ranking.Query("upload", pixels=pixels_of(file))
        lines = ["\nwhat adds to the scores", *explain.in_sentences(explain.explained(library, query, table))]
    nearest = [f"{word} (as {other})" for word, other in table.attrs["nearest"].items()]
    said = {"words that the method does not know": table.attrs["unknown_words"]}
    for title, words in (said | {"words without a training caption": nearest}).items():
        if words:
            say(f"{title}: {', '.join(words)}", sys.stderr)
    for name in {"item", "text"} & {*table.columns}:  # names and captions of others, each in one line
        table[name] = [printable(value).replace("\n", " ") for value in table[name]]
    say("\n".join([table.to_string(index=False, float_format=lambda v: f"{v:.4f}"), *lines]))
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
        out[name] = text
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            value = ast.literal_eval(text)
            out[name] = value if isinstance(value, str) or name not in texts else text
    return out


def is_first() -> bool:
    """Whether this process speaks for all: the only one, or the first that torchrun started."""
    return os.environ.get("RANK", "0") == "0"


def _report(event: dict) -> None:
    if event.get("epoch_done") and is_first():
        line = "epoch {}/{epochs}  loss {loss:.4f}  validation {value:.4f}".format(event["epoch"] + 1, **event)
        say(line, sys.stderr)


def _end(*_) -> None:
    raise TrainingFailed("another process of this run has ended. The same command continues from the last saved state.")


COMMANDS = {
    "train": train, "runs": runs, "check": check, "check-method": check_method, "info": info, "index": index,
    "search": search,
}  # fmt: skip
