"""The methods as tables, for the README and the documents: what each varies, and what its paper set, per corpus."""

from collections.abc import Mapping

from xmr_core.methods.registry import COMMON_SETTINGS, Options, papers


def methods_table() -> str:
    """A GitHub table, one row per method: id, label, summary and citation. For the README.

    >>> methods_table().splitlines()[2]
    '| `vse++` | VSE++ | One vector per item, cosine, hardest negatives. | Faghri et al., BMVC 2018 |'
    """
    rows = [(f"`{s.id}`", s.label, s.summary, s.citation) for s in papers().values()]
    return _table(("method", "label", "what it is", "source"), rows)


def options_table() -> str:
    """A GitHub table, one row per method: options with the defaults of the matched form, and those of the published one
    that differ, or that it alone reads.
    """
    rows = []
    for s in papers().values():
        matched, published = _defaults(s.options, "matched"), s.published_options
        if "published" in s.forms:
            published = {n: v for n, v in _defaults(s.options, "published").items() if n not in matched} | published
        rows.append((f"`{s.id}`", _settings(matched), _settings(published) or "–"))
    return _table(("method", "options of the matched form", "published form"), rows)


def _defaults(options: type[Options], form: str) -> dict[str, object]:
    return {name: getattr(options, name) for name in options.names(form)}


def published_table() -> str:
    """What the papers trained with: what all share, then a GitHub table with one row per method and corpora."""
    rows = []
    for s in papers().values():
        rows += [(f"`{s.id}`", ", ".join(corpora), _settings(settings)) for corpora, settings in _merged(s.settings)]
        for corpus, when, settings in s.special:
            corpora = corpus or ", ".join(s.settings)
            rows.append((f"`{s.id}` with {_settings(when)}", corpora, f"as without, but {_settings(settings)}"))
    shared = f"(`preset=published`, `published_for=` a corpus): {_settings(COMMON_SETTINGS)}, and"
    table = _table(("method", "corpus", "published settings"), rows)
    return f"The published form trains as the paper did {shared}\n\n{table}"


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (columns, ("---",) * len(columns), *rows))


def _merged(settings: Mapping[str, Mapping]) -> list[tuple[list[str], Mapping]]:
    """Corpora with equal settings together."""
    groups: list[tuple[list[str], Mapping]] = []
    for corpus, values in settings.items():
        same = next((corpora for corpora, other in groups if other == values), None)
        if same is None:
            groups.append(([corpus], values))
        else:
            same.append(corpus)
    return groups


def _settings(values: Mapping[str, object]) -> str:
    return " ".join(f"`{k}={v:g}`" if isinstance(v, float) else f"`{k}={v}`" for k, v in values.items())
