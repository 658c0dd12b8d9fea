"""Versions of code: hashes of source files that are blind to comments, docstrings and layout."""

import ast
import builtins
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

from xmr_core.base.source_text import imported_names, parsed_source, plain_source, without_docstrings
from xmr_core.base.value_text import arguments_text, value_text

PACKAGE = Path(__file__).parent.parent
# Not followed: messages and files, and the list of all readers, of which a run reaches one
_SKIPPED = {"base/errors.py", "base/files.py", "base/paths.py", "base/lazy.py", "data/corpora.py"}


def code_hash(function: Callable, modules: Iterable[str]) -> str:
    """12 hex digits for the code that a function and some modules of this package reach by imports.

    It says whether two results were made by the same code. It is recorded with a run and is no part of its identity.
    function: the builder of a method; one from outside the package counts with its own file.
    """
    function = _defined(function)
    source = _source_file(function)
    try:
        text = source.read_text(encoding="utf-8") if source else inspect.getsource(function)
    except (OSError, TypeError):  # typed where Python keeps no source: the compiled code instead
        text = f"_ = {_compiled(function)!r}"
    reached = _reached([*modules, *imported_names(ast.parse(text))], _package_file) - {source}
    return _digest([plain_source(text), *(_plain_file(f, f.stat().st_mtime_ns)[0] for f in sorted(reached))])


def is_own_code(thing: type | Callable) -> bool:
    """Whether a class, function or callable object is defined outside this package.

    >>> is_own_code(is_own_code), is_own_code(print)
    (False, True)
    """
    thing = _defined(thing)
    return is_own_module(getattr(thing, "__module__", ""))


def is_own_module(name: str) -> bool:
    """Whether a module of this name lies outside this package.

    >>> is_own_module("numpy"), is_own_module("xmr_core.base")
    (True, False)
    """
    return name.partition(".")[0] != "xmr_core"


def own_code_version(thing: type | Callable) -> str:
    """10 hex digits for a user's own class or function: its file, and the files beside it that this one imports.

    A class typed into a notebook counts with its text, and with the text or value of everything of that notebook that
    it names: functions, classes, numbers, texts, arrays, and lists and dicts of such. A partial function counts with
    its arguments. An object of another kind counts by its class alone. Code of this package is not followed, because
    its parts have explicit versions.

    >>> class Doubled:
    ...     def __call__(self, x):
    ...         return 2 * x
    >>> len(own_code_version(Doubled))
    10
    """
    arguments = [text] if (text := arguments_text(thing)) else []
    thing = _defined(thing)
    source = _source_file(thing)
    if source is None:
        return _digest([*sorted(_named_sources(thing).items()), *arguments])[:10]
    return _digest([*_own_sources(source), *arguments])[:10]


def own_module_version(name: str) -> str:
    """10 hex digits for an imported module: its file and the files beside it that this one imports, as for what is
    defined in it; '' for a module without a file."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return _digest(_own_sources(Path(file)))[:10] if file and Path(file).is_file() else ""


def package_content() -> str:
    """12 hex digits that name the text of every file of this package, words and layout included."""
    return _digest((str(p), p.read_text(encoding="utf-8")) for p in sorted(PACKAGE.rglob("*.py")))


def _own_sources(source: Path) -> list[str]:
    """The plain text of a file and of the files beside it that it imports."""
    names = imported_names(ast.parse(source.read_text(encoding="utf-8")))
    files = _reached(names, lambda name: _file_beside(name, source)) | {source}
    return [_plain_file(f, f.stat().st_mtime_ns)[0] for f in sorted(files)]


def _digest(parts: Iterable[object]) -> str:
    return hashlib.blake2b(repr(list(parts)).encode(), digest_size=6).hexdigest()


def _reached(names: Iterable[str], file_of: Callable[[str], Path | None]) -> set[Path]:
    """Files that these module names lead to, import by import."""
    files, waiting = set(), list(names)
    while waiting:
        file = file_of(waiting.pop())
        if file is not None and file not in files:
            files.add(file)
            waiting += _plain_file(file, file.stat().st_mtime_ns)[1]
    return files


@lru_cache(maxsize=1024)
def _plain_file(path: Path, changed: int) -> tuple[str, list[str]]:
    """(source without comments and docstrings, names it imports) of a file that was changed at a time in
    nanoseconds.
    """
    text = path.read_text(encoding="utf-8")
    try:
        tree = parsed_source(text)
        return without_docstrings(tree), imported_names(tree)
    except SyntaxError:  # somebody is editing it; what runs was imported before
        return text, []


def _package_file(module: str) -> Path | None:
    """The file of a module of this package that can change a number, or None."""
    top, *rest = module.split(".")
    if top != "xmr_core" or not rest:
        return None
    base = PACKAGE.joinpath(*rest)
    for file in (base.with_suffix(".py"), base / "__init__.py"):
        if file.exists():
            return None if file.relative_to(PACKAGE).as_posix() in _SKIPPED else file
    return None


def _file_beside(module: str, source: Path) -> Path | None:
    """The file of a user's module that lies in the folder of `source`, below it, or in the package that holds it."""
    folder, name = source.parent, module.lstrip(".")
    roots = [folder]
    while (folder / "__init__.py").exists():
        folder = folder.parent
        roots.append(folder)
    for root in roots if name and not name.startswith("xmr_core") else []:
        base = root.joinpath(*name.split("."))
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.exists():
                return file
    return None


def _defined(thing: type | Callable) -> type | Callable:
    """The class or function behind a partial function, a decorated function or an object that can be called."""
    thing = inspect.unwrap(getattr(thing, "func", thing))
    return thing if inspect.isclass(thing) or inspect.isroutine(thing) else type(thing)


def _source_file(thing: type | Callable) -> Path | None:
    """The file that defines a class or a function; None in a notebook."""
    try:
        name = inspect.getsourcefile(thing)
    except TypeError:  # of __main__ in a notebook
        return None
    return Path(name) if name and Path(name).is_file() else None


def _compiled(thing: type | Callable) -> str:
    """What Python runs for a function without a source: instructions, constants and names."""
    code = thing if inspect.iscode(thing) else getattr(thing, "__code__", None)
    if code is None:
        return getattr(thing, "__qualname__", repr(thing))
    constants = [_compiled(c) if inspect.iscode(c) else repr(c) for c in code.co_consts]
    return repr((code.co_code, constants, code.co_names))


def _named_sources(thing: type | Callable) -> dict[str, str]:
    """Sources of a class or function of a notebook and of everything there that it names, by name."""
    scope, sources, waiting = vars(sys.modules.get(thing.__module__, builtins)), {}, [thing]
    while waiting:
        current = waiting.pop()
        name = getattr(current, "__qualname__", repr(current))
        if name in sources:
            continue
        try:
            tree = parsed_source(inspect.getsource(current))
        except (OSError, TypeError, SyntaxError):  # no source: the compiled code instead
            sources[name] = _compiled(current)
            continue
        sources[name] = plain_source(ast.unparse(tree))
        for used in sorted({node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & scope.keys()):
            value = scope[used]
            if getattr(value, "__module__", None) == thing.__module__ and (
                inspect.isclass(value) or inspect.isroutine(value)
            ):
                waiting.append(value)
            elif (
                not inspect.isclass(value) and not inspect.isroutine(value) and (text := value_text(value)) is not None
            ):
                sources[used] = text
    return sources
