"""The recipes as tables, for the README: what each varies, and what its published form sets otherwise, per corpus."""

import inspect

from xmr_core.methods.registry import PUBLISHED, RECIPES, options_of
from xmr_core.study.published_settings import COMMON, SETTINGS


def methods_table() -> str:
    """A GitHub table, one row per recipe: name, what it is with its source, options with their matched defaults, published values."""
    rows = ["| method | what it is | options of the matched form | published form |", "|---|---|---|---|"]
    for name, recipe in RECIPES.items():
        what = inspect.getdoc(recipe).split("\n")[0]
        defaults = {n: p.default for n, p in inspect.signature(recipe).parameters.items() if n in options_of(name, "matched")}
        options = " ".join(f"`{n}={_short(v)}`" for n, v in defaults.items())
        published = " ".join(f"`{n}={_short(v)}`" for n, v in PUBLISHED[name].items())
        rows.append(f"| `{name}` | {what} | {options} | {published} |")
    return "\n".join(rows) + "\n"


def published_table() -> str:
    """What the papers trained with: what all share in a line, then a GitHub table with one row per recipe and corpora."""
    shared = " ".join(f"`{k}={_short(v)}`" for k, v in COMMON.items())
    rows = [
        f"The published form trains as the paper did (`preset=published`, `published_for=` a corpus): {shared}, and",
        "",
        "| method | corpus | published settings |",
        "|---|---|---|",
    ]
    for name in RECIPES:
        if name in SETTINGS:
            for corpora, settings in _merged(SETTINGS[name]):
                rows.append(f"| `{name}` | {', '.join(corpora)} | " + " ".join(f"`{k}={_short(v)}`" for k, v in settings.items()) + " |")
    return "\n".join(rows) + "\n"


def _merged(settings: dict[str, dict]) -> list[tuple[list[str], dict]]:
    """Corpora with equal settings together."""
    out: list[tuple[list[str], dict]] = []
    for corpus, values in settings.items():
        for corpora, known in out:
            if known == values:
                corpora.append(corpus)
                break
        else:
            out.append(([corpus], values))
    return out


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
