"""The field's words, one spelling each: CONTRIBUTING.md says which words are no names here, and this refuses them in
identifiers.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import xmr_core

PACKAGE = Path(xmr_core.__file__).parent
PAGE = PACKAGE.parent / "CONTRIBUTING.md"
MAY = {  # identifiers that another library gave
    "side"  # numpy.searchsorted(side=…)
}


def banned(block: str) -> set[str]:
    """The words of one fenced block of the page."""
    found = re.search(rf"^```{block}\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    assert found, f"CONTRIBUTING.md has no block {block}"
    return set(found[1].split())


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of everything that a file itself names: functions, classes, arguments, variables, attributes it
    sets.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node.lineno


def house_words(source: str) -> list[str]:
    """'line: name' of every identifier that is, or has in it, a banned word."""
    tokens, names = banned("banned-words"), banned("banned-names")
    out = []
    for name, line in identifiers(ast.parse(source)):
        words = set(re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+", name))
        if name not in MAY and (name in names or {w.lower() for w in words} & tokens):
            out.append(f"{line}: {name}")
    return out


def test_identifiers_use_the_fields_words():
    faults = {
        str(p.relative_to(PACKAGE)): words
        for p in sorted(PACKAGE.rglob("*.py"))
        if (words := house_words(p.read_text()))
    }
    assert not faults, "\n".join(f"{path}: {', '.join(words)}" for path, words in faults.items())


def test_modules_use_the_fields_words():
    tokens = banned("banned-words")
    assert not [p for p in PACKAGE.rglob("*.py") if set(p.stem.split("_")) & tokens]


def test_a_house_word_is_noticed_and_ordinary_names_are_fine():
    for source in ("found = 1", "class LooksLike: ...", "def f(told): ...", "self.kept_rows = 2", "for at in x: ..."):
        assert len(house_words(source)) == 1
    assert not house_words("foundation = category = batch = 1\nnp.searchsorted(a, b, side='left')\nkeeper = x.found")
