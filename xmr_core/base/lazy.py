"""Catalogues of packages: names that are imported when somebody asks for them first."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


class _Catalogue(ModuleType):
    """A package in which a public name is never hidden by the module of the same name that defines it (`chamfer` in
    chamfer.py)."""

    def __setattr__(self, name: str, value: object) -> None:
        # the import system binds a module here; a name that is itself a package ('' in the catalogue) stays one
        if isinstance(value, ModuleType) and self.__dict__["_catalogue"].get(name):
            value = getattr(value, name, value)
        super().__setattr__(name, value)


def catalogue(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """(`__getattr__`, `__dir__`, `__all__`) of a package that shows its public names without importing their modules.

    Args: package: `__name__` of the package. modules: public name → module below the package that defines it; '' means
        that the name is itself a module or package below this one.
    Example: `__getattr__, __dir__, __all__ = catalogue(__name__, {"cosine": "cosine", "chamfer": "chamfer"})`
    Raises: AttributeError, when a name is asked for that the catalogue does not hold.
    """

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it offers {', '.join(sorted(modules))}."
            )
        path = f"{package}.{modules[name]}" if modules[name] else f"{package}.{name}"
        value = import_module(path)
        if modules[name]:
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    vars(sys.modules[package])["_catalogue"] = modules
    sys.modules[package].__class__ = _Catalogue
    return get, names, sorted(modules)
