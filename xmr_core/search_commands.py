"""The commands `index` and `search`: encode a folder of images once, then search it."""

import argparse
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def add_to(commands) -> None:
    """Declare both commands. commands: the result of add_subparsers."""
    index = commands.add_parser("index", help="encode images with a trained run, once, into a folder to search")
    a_run = "a finished run (id or short name, as `runs` lists them), or with --folder any model: a folder, a hub name"
    index.add_argument("run", metavar="RUN", help=a_run)
    index.add_argument("output", metavar="OUT", help="the folder to make; an index that it holds is replaced")
    own = "images of your own, with sub-folders (default: the run's own test images)"
    index.add_argument("--folder", metavar="IMAGES", help=own)
    half = "half precision: half the disk space, cosines differ by less than 0.001"
    index.add_argument("--half", action="store_true", help=half)
    elements = "also index the elements of the sets, for --fast (needs the extra `search`)"
    index.add_argument("--elements", action="store_true", help=elements)
    search = commands.add_parser("search", help="search an index by a sentence, or by an image")
    search.add_argument("index", metavar="OUT", help="a folder made by `index`")
    search.add_argument("text", nargs="?", default="", help="a sentence, in quotes")
    image = "search by an image instead: for its captions, or for similar images where there are no captions"
    search.add_argument("--image", metavar="FILE", help=image)
    search.add_argument("-k", type=int, default=10, help="how many answers (default: 10)")
    fast = "do not compare every image: the query's elements propose some (needs --elements)"
    search.add_argument("--fast", action="store_true", help=fast)
    verify = "compare the digests of all files first, also of galleries of more than 1 GiB"
    search.add_argument("--verify", action="store_true", help=verify)
    explain = "say what each word of the sentence, and the cells of the image that count most, add to each score"
    search.add_argument("--explain", action="store_true", help=explain)


def index(arguments: argparse.Namespace) -> int:
    """Run `index`. Returns 0."""
    from xmr_core.base.files import named
    from xmr_core.models.load import load
    from xmr_core.models.model_folder import building
    from xmr_core.retrieval.engine import build_elements, faiss_library
    from xmr_core.retrieval.index import index_folder, index_split, open_index, require_index_place
    from xmr_core.training.runs.folder import load as load_run

    if arguments.elements:
        faiss_library()  # reports a missing library now, and not after the work
    dtype = "float16" if arguments.half else "float32"
    trained = load_run(arguments.run) if arguments.folder is None else load(arguments.run)
    require_index_place(named(arguments.output, "index"))
    with building(arguments.output):  # until it has elements too, which are those of this build alone
        if arguments.folder is None:
            out = index_split(trained, arguments.output, dtype=dtype)
        else:
            out = index_folder(trained, arguments.folder, arguments.output, dtype)
        opened = open_index(out)
        if arguments.elements:
            build_elements(opened.images, out, opened.digest("images"))
    megabytes = sum(file["bytes"] for file in opened.about["files"].values()) / 1e6
    counts = f"{len(opened.images):,} images, {len(opened.texts):,} captions"
    print(f"{out}: {counts}, {megabytes:,.1f} MB, encoded by {arguments.run}")
    return 0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for cycles among objects, which visits all those of torch again while libraries load."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_uncollected()
def search(arguments: argparse.Namespace) -> int:
    """Run `search`. Returns 0."""
    from xmr_core.base.safe_open import printable
    from xmr_core.data.inputs import pixels_of
    from xmr_core.retrieval.engine import open_elements
    from xmr_core.retrieval.explain import explained, in_sentences
    from xmr_core.retrieval.index import open_index
    from xmr_core.retrieval.ranking import Query
    from xmr_core.retrieval.search import search as search_library

    text, file, verify = arguments.text, arguments.image, arguments.verify or None
    library, elements = open_index(arguments.index, verify), None
    if arguments.fast:
        elements = open_elements(library.folder, library.images, library.digest("images"), verify)
    table, lines = search_library(library, text, file, arguments.k, elements), []
    if arguments.explain:
        query = Query("text", text) if file is None else Query("upload", pixels=pixels_of(file))
        lines = ["\nwhat adds to the scores", *in_sentences(explained(library, query, table))]
    if unknown := table.attrs["unknown_words"]:
        print(printable(f"words that the method does not know: {', '.join(unknown)}"), file=sys.stderr)
    if nearest := table.attrs["nearest"]:
        pairs = ", ".join(f"{word} (as {other})" for word, other in nearest.items())
        print(printable(f"words without a training caption: {pairs}"), file=sys.stderr)
    for name in {"item", "text"} & {*table.columns}:  # names and captions of others
        table[name] = [printable(value).replace("\n", " ") for value in table[name]]
    print(table.to_string(index=False, float_format=lambda v: f"{v:.4f}"))
    for line in lines:
        print(printable(line))
    return 0


COMMANDS = {"index": index, "search": search}
