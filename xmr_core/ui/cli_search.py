"""The commands `index` and `search`: encode a folder of images once, then search it."""

import argparse
import sys


def add_to(commands) -> None:
    """Declare both commands. commands: the result of add_subparsers."""
    index = commands.add_parser("index", help="encode images with a trained run, once, into a folder to search")
    index.add_argument("run", metavar="RUN_ID", help="a finished run: the name of a folder in runs/")
    index.add_argument("output", metavar="OUT", help="the folder to make; an index that it holds is replaced")
    own = "images of your own, with sub-folders (default: the run's own test images)"
    index.add_argument("--folder", metavar="IMAGES", help=own)
    half = "half precision: half the disk space, cosines differ by less than 0.001"
    index.add_argument("--half", action="store_true", help=half)
    elements = "also index the elements of the sets, for --fast (needs the extra `ann`)"
    index.add_argument("--elements", action="store_true", help=elements)
    search = commands.add_parser("search", help="search an index by a sentence, or by an image")
    search.add_argument("index", metavar="OUT", help="a folder made by `index`")
    search.add_argument("text", nargs="?", default="", help="a sentence, in quotes")
    image = "search by an image instead: for its captions, or for similar images where there are no captions"
    search.add_argument("--image", metavar="FILE", help=image)
    search.add_argument("-k", type=int, default=10, help="how many answers (default: 10)")
    fast = "do not compare every image: the query's elements propose some (needs --elements)"
    search.add_argument("--fast", action="store_true", help=fast)
    certify = "with --fast: ask for N proposals for each element where the answer is not provably exact"
    search.add_argument("--certify", type=int, metavar="N", help=certify)
    also = "another index of the same run, searched together with OUT; may be given several times"
    search.add_argument("--also", action="append", default=[], metavar="OUT", help=also)
    processes = "search each index in a process of its own"
    search.add_argument("--processes", action="store_true", help=processes)
    explain = "show the cosines between elements, and what each element adds to the score"
    search.add_argument("--explain", action="store_true", help=explain)


def index(arguments: argparse.Namespace) -> int:
    """Run `index`. Returns 0."""
    from xmr_core.search import build_elements, faiss_library, index_folder, index_split, open_index
    from xmr_core.training.runs import load

    if arguments.elements:
        faiss_library()  # reports a missing library now, and not after the work
    run, dtype = load(arguments.run), "float16" if arguments.half else "float32"
    if arguments.folder is None:
        out = index_split(run, arguments.output, dtype=dtype)
    else:
        out = index_folder(run, arguments.folder, arguments.output, dtype)
    opened = open_index(out)
    if arguments.elements:
        build_elements(opened.images, out, opened.digest("images"))
    megabytes = sum(file["bytes"] for file in opened.about["files"].values()) / 1e6
    counts = f"{len(opened.images):,} images, {len(opened.texts):,} captions"
    print(f"{out}: {counts}, {megabytes:,.1f} MB, encoded by {run.id}")
    return 0


def search(arguments: argparse.Namespace) -> int:
    """Run `search`. Returns 0."""
    from xmr_core.base.errors import BadInput
    from xmr_core.search import open_elements, open_index, open_shards, search_shards
    from xmr_core.search import search as search_library

    query = arguments.text, arguments.image, arguments.k
    if arguments.also or arguments.processes:
        if arguments.explain:
            raise BadInput("--explain shows the answers of one index; leave out --also and --processes.")
        with open_shards([arguments.index, *arguments.also], arguments.fast, arguments.processes) as shards:
            table = search_shards(shards, *query, arguments.certify)
    else:
        library, elements = open_index(arguments.index), None
        if arguments.fast:
            elements = open_elements(library.folder, library.images, library.digest("images"))
        table = search_library(library, *query, arguments.explain, elements, arguments.certify)
    if "certified" in table.attrs and arguments.certify:
        print(_certificate(**table.attrs), file=sys.stderr)
    if unknown := table.attrs.get("unknown_words"):
        print(f"words that the method does not know: {', '.join(unknown)}", file=sys.stderr)
    print(table.to_string(index=False, float_format=lambda v: f"{v:.4f}"))
    return 0


def _certificate(certified: bool, bound: float, reason: str, **_) -> str:
    if certified:
        return "the answer is provably that of comparing every image"
    return f"the answer is not certified: {reason or f'an image that was not proposed could score {bound:.4f}'}"


COMMANDS = {"index": index, "search": search}
