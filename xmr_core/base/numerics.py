"""Which version of the numerics made a number: a hash over the code that can change one, blind to comments and docstrings.

Only code that a run reaches counts: a new method or data set leaves the numbers of all others, and their runs, valid.
"""

import ast
import hashlib
import inspect
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
# Where every run passes through. With the recipe and the reader of the data set, and all that these import, this is what
# turns a config into weights and ranks. `prepare` is not: what it makes is named by content in a run's identity.
SHARED = (
    "xmr_core.training", "xmr_core.evaluation.evaluate", "xmr_core.training.runs.judging", "xmr_core.evaluation.analysis.representations", "xmr_core.data.batches", "xmr_core.data.text.vocabulary",
    "xmr_core.data.features.feature_cache", "xmr_core.data.features.cells", "xmr_core.data.features.mobilenet_v2", "xmr_core.data.features.reduce",
    "xmr_core.data.features.glove", "xmr_core.data.images.crops", "xmr_core.data.images.files",
)  # fmt: skip
_WORDS_ONLY = {"errors.py", "paths.py", "__init__.py"}  # messages and files


@cache
def numerics_version(recipe: Callable, dataset: str) -> str:
    """12 hex digits for a recipe and a data set; equal for two checkouts whose code for them differs in wording only.

    A recipe from outside the package counts with its own file (and what that imports from here), one typed into a notebook
    with its text.
    """
    source = _source_file(recipe)
    own = ast.parse(source.read_text() if source else inspect.getsource(recipe))
    reached = _closure([*SHARED, f"xmr_core.data.{dataset}", f"xmr_core.data.readers.{dataset}", *_imports(own)])
    digest = hashlib.blake2b(digest_size=6)
    for tree in [own, *(ast.parse(file.read_text()) for file in sorted(reached - {source}))]:
        digest.update(ast.dump(_without_docstrings(tree)).encode())
    return digest.hexdigest()


def _closure(modules: Iterable[str]) -> set[Path]:
    """Files of the package that these modules lead to, import by import."""
    found, waiting = set(), list(modules)
    while waiting:
        file = _file_of(waiting.pop())
        if file is not None and file not in found:
            found.add(file)
            waiting += _imports(ast.parse(file.read_text()))
    return found


def _imports(tree: ast.AST) -> list[str]:
    """Dotted names that may be modules: 'from xmr_core.a import b' gives both xmr_core.a and xmr_core.a.b."""
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            out += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return out


def _file_of(module: str) -> Path | None:
    """The file of a module of this package that can change a number, or None."""
    top, *rest = module.split(".")
    base = _PACKAGE.joinpath(*rest)
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if top == "xmr_core" and rest and file.exists():
            return None if file.parent == _PACKAGE / "base" and file.name in _WORDS_ONLY else file
    return None


def _source_file(recipe: Callable) -> Path | None:
    name = inspect.getsourcefile(inspect.unwrap(recipe))
    return Path(name) if name and Path(name).is_file() else None


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if isinstance(body[0].value.value, str):
                node.body = body[1:] or [ast.Pass()]
    return tree
