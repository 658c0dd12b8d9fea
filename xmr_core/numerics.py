"""Which version of the numerics made a number: a hash over the code that can change one, blind to comments and docstrings."""

import ast
import hashlib
from functools import cache
from pathlib import Path

# Everything that turns a config into weights and ranks. Not: paths, errors, results, plots, notebooks, command line.
NUMERIC = (
    "types.py", "relevance.py", "masked.py", "data", "encoders", "heads", "similarities", "losses", "method.py", "recipe_parts.py", "recipes",
    "retrieval.py", "metrics.py", "protocols.py", "evaluate.py", "prepare.py", "train", "analysis",
)  # fmt: skip


@cache
def numerics_version() -> str:
    """12 hex digits; equal for two checkouts whose numeric code differs in wording only."""
    package = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=6)
    for name in NUMERIC:
        place = package / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(file.relative_to(package).as_posix().encode())
            digest.update(ast.dump(_without_docstrings(ast.parse(file.read_text()))).encode())
    return digest.hexdigest()


def _without_docstrings(tree: ast.AST) -> ast.AST:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if isinstance(body[0].value.value, str):
                node.body = body[1:] or [ast.Pass()]
    return tree
