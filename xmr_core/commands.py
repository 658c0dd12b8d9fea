"""The core's commands: `train`, `options`, `runs`, `rm`, `check`, `check-method`, `info`, `evaluate`, `index` and
`search`. With --json a command writes one JSON object to stdout, and nothing else there."""

import argparse
import ast
import gc
import json
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

_FLAGS = {
    "dataset": "scenes (default), flickr8k, flickr30k, coco, cub, …", "data_root": "the folder of its files",
    "preset": "quick (default), study or published",
}  # fmt: skip


def add_to(commands) -> None:
    """Declare the commands. commands: the result of add_subparsers."""
    train = commands.add_parser("train", help="train or load one run, also with torchrun: train dive alpha=8 epochs=3")
    options = commands.add_parser("options", help="list what `train` takes as name=value, and the values that it has")
    for parser in (train, options):
        parser.add_argument("method", nargs="?", default="", help="for example dive, or mypackage.mine:SPEC")
        parser.add_argument("option", nargs="*", default=[], help="name=value of whatever configures a run: alpha=8")
        parser.add_argument("--config", metavar="FILE", help="config.json of a run, instead of a method and a preset")
        parser.set_defaults(flags=[])
        for name, about in _FLAGS.items():  # another way to write name=value
            flag = {"dest": "flags", "action": "append", "metavar": name.upper(), "type": f"{name}={{}}".format}
            parser.add_argument(f"--{name.replace('_', '-')}", help=about, **flag)
    runs = commands.add_parser("runs", help="list finished and interrupted runs, with short names for other commands")
    rm = commands.add_parser("rm", help="delete a run and its trained model")
    rm.add_argument("run", metavar="RUN", help="an id, a short name, or the beginning of one id")
    rm.add_argument("--yes", action="store_true", help="do not ask")
    check = commands.add_parser("check", help="read a folder of data: what it holds, and everything that is wrong")
    check.add_argument("dataset", help="how its files are laid out, for example flickr8k or folder")
    check.add_argument("data_root", help="the folder")
    check.add_argument("--shallow", action="store_true", help="read lists and captions only, not every image")
    check.add_argument("--text-model", metavar="NAME", help="also say which captions this model cuts or does not know")
    method = commands.add_parser("check-method", help="look at a method of your own before it is trained")
    method.add_argument("method", help="an address such as mymodule:SPEC, or an id")
    info = commands.add_parser("info", help="versions, and the folders of runs, caches and outputs")
    evaluate = commands.add_parser("evaluate", help="rank a split of any corpus by any model, in both directions")
    evaluate.add_argument("model", metavar="MODEL", help="a run, a folder, a hub name, or a checkpoint of the authors")
    corpus = "DATASET [DATA_ROOT], or a folder with captions (default: the run's own corpus); and name=value: size, "
    corpus += "world_seed, ambiguity, fold of the data; method, vocabulary, options of a checkpoint of the authors"
    evaluate.add_argument("corpus", nargs="*", metavar="CORPUS", help=corpus)
    evaluate.add_argument("--split", default="test", help="train, val or test (default)")
    evaluate.add_argument("--relevance", action="append", help="a kind beside the annotated pairs (default: all)")
    evaluate.add_argument("--per-query", metavar="FILE", help="write a row for each query as CSV")
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
    for parser in (train, options, runs, check, info, evaluate, search):
        parser.add_argument("--json", action="store_true", help="one JSON object for programs")


def output(arguments: argparse.Namespace, value: dict, text: object) -> int:
    """Print one object for programs, in ASCII and with null for what is no number, or a text for people. Returns 0."""
    if arguments.json:
        text = json.dumps(value, default=lambda v: v.item() if hasattr(v, "item") else str(v))
        text = json.dumps(json.loads(text, parse_constant=lambda _: None))
    say(text)
    return 0


def train(arguments: argparse.Namespace) -> int:
    """0: the run is finished; its id, folder and RSUM are printed, by the first of several processes."""
    from xmr_core.evaluation.evaluate import quality_lines
    from xmr_core.training.distributed import started_ranks
    from xmr_core.training.runs.folder import short_names
    from xmr_core.training.runs.train_run import train_or_load

    config = train_config(arguments)
    if (ranks := started_ranks()) > 1:
        config = config.replace(processes=ranks)
        signal.signal(signal.SIGTERM, _end)  # torchrun sends it to the others when one process has ended
    run = train_or_load(config, _report)
    if is_first():
        short = next(name for name, run_id in short_names().items() if run_id == run.id)
        about = {"run": run.id, "name": short, "folder": str(run.folder)}
        lines = [run.id, f"  name    {short}", f"  folder  {run.folder}", *quality_lines(run)]
        output(arguments, about | results_of(run), "\n".join(lines))
    return 0


def results_of(run) -> dict:
    """RSUM by each kind of relevance, that of random rankings, and all metrics, as JSON has them."""
    from xmr_core.evaluation.evaluate import rsums

    chance = dict(zip(("rsum", "low", "high"), run.chance(), strict=True))
    return {"results": rsums(run.per_query), "chance": chance, "metrics": run.metrics.to_dict("records")}


def train_config(arguments: argparse.Namespace):
    """The configuration that the arguments of `train` mean, as `base_config` makes it from the same names. Raises:
    BadInput for what is given twice, or is not read."""
    from xmr_core.data.config import DataConfig
    from xmr_core.training.runs.config import base_config
    from xmr_core.training.runs.folder import stored_config

    # the words of a DataConfig stay words, whatever they look like: the fold '1', a folder '2026'
    words, texts = [arguments.method, *arguments.option], [f.name for f in fields(DataConfig) if f.type is str]
    method, pairs = ("", words) if arguments.config and "=" in words[0] else (words[0], words[1:])
    options = read_options([*pairs, *arguments.flags], texts)
    if fixed := {"method", "data", "train", "options"} & set(options):
        raise BadInput(f"{min(fixed)} is no option: give single names, such as epochs=8 dataset=flickr8k.")
    if bool(arguments.config) == bool(method) or (arguments.config and "preset" in options):
        raise BadInput("give a method, or --config FILE without a method and a preset.")
    config = stored_config(arguments.config).replace(**options) if arguments.config else base_config(method, **options)
    if unread := config.data.unread(name for name, value in options.items() if value):
        raise BadInput(f"{config.data.dataset} does not read {', '.join(unread)}. Leave them out.")
    return config


def options(arguments: argparse.Namespace) -> int:
    """List what `train` takes as name=value. Returns 0."""
    from xmr_core.training.runs.config import all_options

    table = all_options(train_config(arguments))
    lines = [f"{r.name}={r.value}  {r.help}" for r in table.itertuples(index=False)]
    return output(arguments, {"options": table.to_dict("records")}, "\n".join(lines))


def runs(arguments: argparse.Namespace) -> int:
    """List the runs in the folder `runs`, the oldest first. Returns 0."""
    from xmr_core.base import paths
    from xmr_core.training.runs.folder import run_table

    table = run_table()
    value = {"runs": table.astype(object).where(table.notna(), None).to_dict("records")}
    if table.empty:
        return output(arguments, value, f"no run in {paths.root() / 'runs'}; `python -m xmr_core train dive` makes one")
    for name in ("rsum", "chance"):
        table[name] = table[name].astype(float).map("{:.1f}".format, na_action="ignore")
    text = table.rename(columns={"rsum": "RSUM"}).to_string(index=False, na_rep="")
    note = (
        "RSUM: of 600, on annotated pairs; chance: of a random ranking. A name, an id or its beginning stands for the "
    )
    note += "run in other commands."
    return output(arguments, value, f"{text}\n\n{note}")


def rm(arguments: argparse.Namespace) -> int:
    """Delete a run. Returns 0, or 1 where the answer was not yes."""
    from xmr_core.training.runs.folder import remove_run, resolve_run, short_names

    run = resolve_run(arguments.run, finished=False)
    if not arguments.yes:
        print(f"delete the run {run} and its trained model? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("nothing was deleted; --yes deletes without a question", sys.stderr)
            return 1
    before, freed = short_names(), remove_run(run) / 1e6
    say(f"deleted {run}, {freed:.1f} MB; cached features stay for other runs (`info` says where)")
    for name, own in short_names().items():
        if before.get(name) != own:
            say(f"{name} is now the short name of {own}")
    return 0


def check(arguments: argparse.Namespace) -> int:
    """0: the data can be used for training; 1: they cannot."""
    from tqdm import tqdm

    from xmr_core.data.config import DataConfig
    from xmr_core.data.corpora import reader_of
    from xmr_core.data.inputs import planned_network
    from xmr_core.data.readers.check import check_corpus
    from xmr_core.features.pretrained import word_pieces

    dataset, root = arguments.dataset, arguments.data_root
    if dataset == "scenes":
        raise BadInput("scenes is drawn by this package: it has no files to check, and train takes it as it is.")

    progress = partial(tqdm, desc="reading images", leave=False, disable=None)
    network = partial(planned_network, DataConfig(dataset, root))
    read = word_pieces(arguments.text_model).readings if arguments.text_model else None
    report = check_corpus(dataset, reader_of(dataset), root, not arguments.shallow, progress, network, read)
    value = {"usable": report.usable, **vars(report), "splits": report.splits.to_dict("index")}
    output(arguments, value, report.text())
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

    value = {"xmr_core": __version__} | vars(environment(resolve_device("auto")))
    lines = [f"{name:12s} {about}" for name, about in value.items()]
    for kind in ("runs", "cache", "outputs"):
        folder = paths.root() / kind
        sizes = [f.stat().st_size for f in folder.rglob("*") if f.is_file()]
        value[kind] = {"folder": str(folder), "files": len(sizes), "bytes": sum(sizes)}
        lines.append(f"{kind:12s} {folder} ({len(sizes)} files, {sum(sizes) / 1e6:.0f} MB)")
    return output(arguments, value, "\n".join(lines))


def evaluate(arguments: argparse.Namespace) -> int:
    """Print what `Model.evaluate` gives. Returns 0."""
    from xmr_core.base.files import write_table
    from xmr_core.data.config import DataConfig
    from xmr_core.data.corpora import READERS
    from xmr_core.models.evaluated import origin_of_splits
    from xmr_core.models.load import load

    pairs = [w for w in arguments.corpus if "=" in w and w.partition("=")[0].isidentifier()]
    words, options = [w for w in arguments.corpus if w not in pairs], read_options(pairs, ("fold", "vocabulary"))
    if len(words) == 1 and words[0] not in ("scenes", *READERS) and ":" not in words[0]:
        words = ["folder", *words]  # a folder, as in Python
    of_data = {n: options.pop(n) for n in ("size", "ambiguity", "world_seed", "fold") if n in options}
    data = DataConfig(*words, **of_data) if words or of_data else None
    if len(words) > 2 or (data and data.unread([*of_data, *["data_root"][: len(words) - 1]])):
        raise BadInput(f"a corpus is DATASET DATA_ROOT, or scenes with its options; got {' '.join(arguments.corpus)}.")
    evaluated = load(arguments.model, **options).evaluate(data, arguments.split, relevance=arguments.relevance)
    if arguments.per_query:
        write_table(arguments.per_query, evaluated.per_query)
    about = {"model": arguments.model, "id": evaluated.id, **vars(evaluated.setting), "split": evaluated.split}
    about |= dict(zip(("images", "captions"), map(len, evaluated.corpus.rows(evaluated.split)), strict=True))
    about["splits"] = origin_of_splits(evaluated.corpus)
    return output(arguments, about | results_of(evaluated), evaluated)


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
        model = load(arguments.run)
        if str(model.about.get("dataset", "")).startswith("scenes"):
            say(f"note: {arguments.run} was trained on drawn scenes; of photographs it knows little more than colours.")
        out = index_folder(model, arguments.folder, arguments.output, dtype)
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
    from xmr_core.retrieval import engine, explain, ranking
    from xmr_core.retrieval.index import open_index

    gc.enable()
    text, file, verify = arguments.text, arguments.image, arguments.verify
    library, elements = open_index(arguments.index, verify), None
    if arguments.fast:
        elements = engine.open_elements(library.folder, library.images, library.digest("images"), verify)
        if file is not None and library.captions is not None:
            raise BadInput("--fast searches images, and captions answer an image here. Leave out --fast.")
    table, lines = ranking.search(library, text, file, arguments.k, elements), []
    if len(table) < arguments.k:
        say(f"{len(table)} answers, and not {arguments.k}: there are no more", sys.stderr)
    if arguments.explain:
        query = ranking.Query("text", text) if file is None else ranking.Query("upload", pixels=file)
        lines = ["\nwhat adds to the scores", *explain.in_sentences(explain.explained(library, query, table))]
    value = {"answers": table.to_dict("records"), **table.attrs, "explained": lines[1:]}
    nearest = [f"{word} (as {other})" for word, other in table.attrs["nearest"].items()]
    near = ranking.near_words(library, table.attrs["unknown_words"])
    unknown = [f"{w} (did you mean {near[w]}?)" if w in near else w for w in table.attrs["unknown_words"]]
    said = {"words that the method does not know": unknown}
    said |= {"words without a training caption": nearest, "cut off, beyond what the method reads": [table.attrs["cut"]]}
    for title, words in said.items():
        if any(words):
            say(f"{title}: {', '.join(words)}", sys.stderr)
    for name in {"item", "text"} & {*table.columns}:  # names and captions of others
        table[name] = [printable(value).replace("\n", " ") for value in table[name]]
    text = "\n".join([table.to_string(index=False, float_format=lambda v: f"{v:.4f}"), *map(printable, lines)])
    return output(arguments, value, text)


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
        if name in out:
            raise BadInput(f"{name} is given twice. Give it once.")
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
    "train": train, "options": options, "runs": runs, "rm": rm, "check": check, "check-method": check_method,
    "info": info, "evaluate": evaluate, "index": index, "search": search,
}  # fmt: skip
