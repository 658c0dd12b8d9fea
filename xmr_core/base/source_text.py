"""Python source as text without comments, docstrings and layout, and the modules that it imports."""

import ast
import textwrap
from collections.abc import Iterator


def plain_source(text: str) -> str:
    """A text of Python, without comments, docstrings and layout. Raises: SyntaxError."""
    return without_docstrings(parsed_source(text))


def parsed_source(text: str) -> ast.Module:
    """The tree of a text of Python, which may stand indented. Raises: SyntaxError."""
    return ast.parse(textwrap.dedent(text))


def without_docstrings(tree: ast.Module) -> str:
    """The source of a tree, which loses its docstrings."""
    for node in (tree, *_statements(tree)):
        if (
            isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and ast.get_docstring(node, False) is not None
        ):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """All statements of a tree, the outer ones first. Expressions hold none, and they are most of a tree."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for part in list(getattr(tree, name, ())):
            if isinstance(part, ast.stmt):
                yield part
            yield from _statements(part)


def imported_names(tree: ast.AST) -> list[str]:
    """Dotted names that may be modules: 'from xmr_core.a import b' gives both xmr_core.a and xmr_core.a.b."""
    names = []
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names
