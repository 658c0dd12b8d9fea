"""The recipes as a table, for the README: what each varies, and what its published form sets otherwise."""

import inspect

from xmr_core.recipes import PUBLISHED, RECIPES, options_of


def methods_table() -> str:
    """A GitHub table, one row per recipe: name, what it is with its source, options with their matched defaults, published values."""
    rows = ["| method | what it is | options of the matched form | published form |", "|---|---|---|---|"]
    for name, recipe in RECIPES.items():
        what = inspect.getdoc(recipe).split("\n")[0]
        defaults = {n: p.default for n, p in inspect.signature(recipe).parameters.items() if n in options_of(name)}
        options = " ".join(f"`{n}={_short(v)}`" for n, v in defaults.items())
        published = " ".join(f"`{n}={_short(v)}`" for n, v in PUBLISHED[name].items())
        rows.append(f"| `{name}` | {what} | {options} | {published} |")
    return "\n".join(rows) + "\n"


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
