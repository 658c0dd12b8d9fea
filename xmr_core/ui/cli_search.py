"""The commands `index` and `search`: encode a folder of pictures once, then ask it."""

import argparse
import sys


def add_to(commands) -> None:
    """Declare them. commands: what add_subparsers gave."""
    index = commands.add_parser("index", help="encode pictures with a trained run, once, into a folder that can be searched")
    index.add_argument("run", metavar="RUN_ID", help="a finished run: the name of a folder in runs/")
    index.add_argument("output", metavar="OUT", help="the folder to make; an index that is there is replaced")
    index.add_argument("--folder", metavar="PICTURES", help="pictures of your own, with sub-folders (default: the run's own test pictures)")
    index.add_argument("--half", action="store_true", help="half precision: half the disk, cosines differ by less than 0.001")
    index.add_argument("--elements", action="store_true", help="also index the sets' elements, for --fast (needs the extra `ann`)")
    search = commands.add_parser("search", help="ask an index by a sentence, or by a picture")
    search.add_argument("index", metavar="OUT", help="a folder made by `index`")
    search.add_argument("text", nargs="?", default="", help="a sentence, in quotes")
    search.add_argument(
        "--picture", metavar="FILE", help="ask by a picture instead: its captions, or pictures like it where there are none"
    )
    search.add_argument("-k", type=int, default=10, help="how many answers (default: 10)")
    search.add_argument(
        "--fast", action="store_true", help="do not compare every picture: let the query's elements propose some (--elements)"
    )
    search.add_argument("--explain", action="store_true", help="which elements met, and what each adds to the score")


def index(arguments: argparse.Namespace) -> int:
    from xmr_core.search import build_elements, faiss_library, index_folder, index_split, open_index
    from xmr_core.training.runs import load

    if arguments.elements:
        faiss_library()  # says what is missing now, not after the work
    run, dtype = load(arguments.run), "float16" if arguments.half else "float32"
    if arguments.folder is None:
        out = index_split(run, arguments.output, dtype=dtype)
    else:
        out = index_folder(run, arguments.folder, arguments.output, dtype)
    made = open_index(out)
    if arguments.elements:
        build_elements(made.images, out, made.digest("images"))
    megabytes = sum(told["bytes"] for told in made.about["files"].values()) / 1e6
    print(f"{out}: {len(made.images):,} pictures, {len(made.texts):,} captions, {megabytes:,.1f} MB, encoded by {run.id}")
    return 0


def search(arguments: argparse.Namespace) -> int:
    from xmr_core.search import open_elements, open_index
    from xmr_core.search import search as find

    asked = open_index(arguments.index)
    elements = open_elements(asked.folder, asked.images, asked.digest("images")) if arguments.fast else None
    table = find(asked, arguments.text, arguments.picture, arguments.k, arguments.explain, elements)
    if strange := table.attrs.get("unknown_words"):
        print(f"words that the method does not know: {', '.join(strange)}", file=sys.stderr)
    print(table.to_string(index=False, float_format=lambda v: f"{v:.4f}"))
    return 0


COMMANDS = {"index": index, "search": search}
