"""The verdicts of today as a table, and the comparison that a claim of one's own asks for."""

from collections.abc import Iterable, Sequence
from functools import cache

import pandas as pd

from xmr_core.base.errors import unknown
from xmr_core.data.scenes.corpus import DEFAULT_AMBIGUITY
from xmr_core.evaluation.stats import decided, seed_interval
from xmr_study import decision, records, tidy
from xmr_study.claims import CLAIMS
from xmr_study.claims.claim import RSUM, Claim, Measure
from xmr_study.claims.own import CAPACITY
from xmr_study.protocol import FIELDS, WORLDS, canonical
from xmr_study.protocol_results import ablation_rows, deciding

DECIDED = ("held", "contradicted", "equivalent", "undecided")
COLUMNS = [
    "claim", "method", "paper", "source", "whose", "sentence", "measure", "corpus", "kind", "verdict", "claimed",
    "bound", "effect", "low", "high", "digits", "seeds", "needs", "worlds", "p", "p_holm",
]  # fmt: skip


def ledger(*names: str) -> pd.DataFrame:
    """The verdicts of the study, a line for each claim and corpus; COLUMNS. What today's protocol decided on drawn
    images (`decision.verdicts`) stands in place of the protocol before, which is read.

    effect: of the comparison that decided. low, high: its interval, of today's uncorrected, of the protocol before
    corrected (Holm) within the paper. p: of today's verdict, one-sided and uncorrected ('held' where none is sure).
    kind: 'confirmatory' where the rule stood before the rows. verdict: of DECIDED; 'no verdict yet' with fewer seeds
    than it needs; 'not measured' without rows.
    names: ids of claims, or beginnings of ids ('dive', 'pcme-kl'); every claim without them.
    Raises: BadInput for a name that no claim has.

    >>> ledger("dive-alpha")["verdict"].tolist()
    ['undecided', 'held']
    """
    before = pd.read_csv(tidy.carried("reports") / "verdicts.csv")[COLUMNS].fillna({"corpus": "", "kind": ""})
    today = _of_today(before.drop_duplicates("claim").set_index("claim"))
    replaced = before["claim"].isin(today["claim"])
    table = pd.concat([before[~replaced], today], ignore_index=True)
    of_name = {name: (table["claim"] + "-").str.startswith(f"{name}-") for name in names}
    for name, lines in of_name.items():
        if not lines.any():
            raise unknown("claim", name, table["claim"].unique())
    return table[pd.DataFrame(of_name).any(axis=1)].reset_index(drop=True) if names else table


def _of_today(before: pd.DataFrame) -> pd.DataFrame:
    """before: claim → a line of the protocol before, which names its paper."""
    ours, lines = {"method": "dive", "paper": "ours", "whose": "ours"}, []
    for claim, own in _told():
        if own["verdict"] not in DECIDED:
            continue
        whose = before.loc[claim.id, list(ours)].to_dict() if claim.id in before.index else ours
        of_claim = whose | {"claim": claim.id, "source": claim.source, "sentence": claim.sentence, "bound": claim.bound}
        said = {"measure": claim.rule_text(), "corpus": "scenes (today's protocol)", "kind": "confirmatory"}
        said |= {"claimed": "below" if claim.smaller else "above", "seeds": own["runs"]}
        said |= {"digits": claim.measure.digits, "needs": decision.needed(claim)}
        said["p"] = own.get(f"p {own['verdict']}", own["p held"])
        lines.append(of_claim | said | {name: own[name] for name in ("verdict", "effect", "low", "high", "worlds")})
    return pd.DataFrame(lines, columns=COLUMNS)


@cache
def _told() -> list[tuple[Claim, dict]]:
    """What today's rows say of each claim, a line of decision.verdicts, once in a process: it takes a while."""
    rows = records.read()
    told = ((claims, decision.verdicts(rows, claims).to_dict("records")) for claims in (CAPACITY, CLAIMS))
    return [pair for claims, lines in told for pair in zip(claims, lines, strict=True)]


WORDS = {"held": "yes", "contradicted": "no, the other way round", "equivalent": "there is no difference",
         "undecided": "it cannot be told"}  # fmt: skip


def in_words(table: pd.DataFrame, claim: str, effect: str = "{:+.1f}") -> str:
    """A verdict as the answer to the question whether its sentence is so, with the effect and its interval.

    table: of `ledger`, with one line for the claim. effect: how its number is written.

    >>> line = {"claim": "c", "verdict": "held", "effect": 5.0, "low": 1.0, "high": 9.0}
    >>> in_words(pd.DataFrame([line]), "c"), in_words(pd.DataFrame([line]), "other")
    ('yes (+5.0 [+1.0, +9.0])', 'the study has no rows of it')
    >>> in_words(pd.DataFrame([line | {"verdict": "undecided"}]), "c")
    'it cannot be told once corrected (+5.0 [+1.0, +9.0])'
    """
    for line in table[table["claim"] == claim].to_dict("records"):
        if line["verdict"] in WORDS:
            number = effect[effect.index("{") :]
            ends = f" [{number.format(line['low'])}, {number.format(line['high'])}]"
            side = "less" if line.get("claimed") == "below" else "more"
            bound = line.get("bound", 0.0) * (-1 if side == "less" else 1)  # that of a claim is turned with it
            said = f", where {side} than {bound:g} is claimed" if bound else ""
            beyond = line["verdict"] == "undecided" and not line["low"] <= bound <= line["high"]
            corrected = " once corrected" * beyond  # today's intervals are not
            return f"{WORDS[line['verdict']]}{corrected} ({effect.format(line['effect'])}{ends}{said})"
    return "the study has no rows of it"


def reached(labels: Sequence[str], than: str = "", measure: Measure = RSUM) -> pd.DataFrame:
    """What labels reach on scenes (annotated RSUM, percent), or by how much they exceed the label `than`: index label,
    columns mean, low, high (95 % over runs, uncorrected), size (runs; no line without). Of the worlds and seeds of
    today's protocol on which one processor trained them all, if there are two of a world; else of the protocol before,
    with its control for what varies DivE (protocol_results.ablation_rows)."""
    columns, every = ["mean", "low", "high", "size"], [*labels, *filter(None, [than])]
    names, rows = _together(every, measure)
    if len(rows):
        if than:
            own = decision.effects(rows, [(names[label], names[than]) for label in labels if label != than], [measure])
            own = own.rename(columns={"above": "label", "effect": "mean"})
        else:
            own = decision.levels(rows, [*dict.fromkeys(names.values())], measure)
        own = own.rename(columns={"runs": "size"}).set_index("label")[columns]
        return own.reindex([names[label] for label in labels]).set_axis(pd.Index(labels, name="label")).dropna()
    values = _before(every, measure)
    values = values.sub(values[than], axis=0).drop(columns=than) if than else values
    table = [(*seed_interval(own.dropna()), own.count()) for _, own in values.items()]
    return pd.DataFrame(table, values.columns.rename("label"), columns)


def swept(symbol: str, settings: Sequence[float]) -> pd.DataFrame:
    """Annotated RSUM (percent) of every run at every value of a setting that a label names ('α' of 'α=16'), of the runs
    that `reached` takes: columns setting, seed, rsum, low, high (of the setting's mean, 95 %). Values without runs have
    no line, and the others only the runs that all of them have."""
    labels = {f"{symbol}={x:g}": x for x in settings}
    names, rows = _together([*labels], RSUM)
    if len(rows):
        of_name = rows.pivot_table("annotated both rsum", ["world", "seed"], "label", "first")
        values = RSUM.factor * of_name[[names[label] for label in labels]].set_axis([*labels], axis=1)
    else:
        values = _before([*labels], RSUM).dropna()
    ends = reached([*values])[["low", "high"]]
    table = values.reset_index().melt([*filter(None, values.index.names)], var_name="label", value_name="rsum")
    table = table.assign(setting=table["label"].map(labels)).join(ends, on="label")
    return table[["setting", "seed", "rsum", "low", "high"]].sort_values("setting", kind="stable", ignore_index=True)


def _together(labels: Sequence[str], measure: Measure) -> tuple[dict[str, str], pd.DataFrame]:
    """label → its name in today's rows, and the rows of the batches that have them all; none before there are two of a
    world."""
    names = {label: canonical().get(label, label) for label in labels}
    rows = records.results()
    rows = rows[(rows["dataset"] == "scenes") & (rows["ambiguity"] == DEFAULT_AMBIGUITY) & rows["world"].isin(WORLDS)]
    numbers = decision.columns_of(measure, rows)
    rows = rows.dropna(subset=numbers) if {*numbers} <= {*rows} else rows[:0]  # nobody asked it yet
    rows = rows[rows["label"].isin([*names.values()])].drop_duplicates(["label", "processor", "world", "seed"])
    batch = rows.groupby(["processor", "world", "seed"])["label"].transform("nunique")
    rows = rows[batch == len({*names.values()})]
    rows = rows[rows["processor"] == rows.groupby(["world", "seed"])["processor"].transform("first")]  # of two one
    return names, rows if rows.groupby(["processor", "world"])["seed"].nunique().gt(1).any() else rows[:0]


def _before(labels: Sequence[str], measure: Measure) -> pd.DataFrame:
    """The values of the protocol before, a line for each seed, a column for each label that it has."""
    rows = tidy.latest(deciding(ablation_rows()))
    rows = _of_measure(rows[rows["variant"].isin(labels)], measure)
    return measure.factor * rows.pivot(index="seed", columns="variant", values="value")


def _of_measure(rows: pd.DataFrame, m: Measure) -> pd.DataFrame:
    same = {"relevance": m.relevance, "direction": m.direction, "metric": m.metric, "k": m.k}
    return rows[(rows[list(same)] == pd.Series(same)).all(axis=1)].astype({"value": float})


def beside(table: pd.DataFrame) -> pd.DataFrame:
    """A table of a paper with what the study reached for the same variants, percent: the sum of the recalls that the
    paper prints, the study's RSUM, its runs (0: no rows), and the differences from the first line that both have, the
    study's at equal seeds, with its interval. Corpora and budgets differ, so only the differences compare. table: of
    paper_tables, with `variant` and `rsum` or `sum`.

    >>> from xmr_study.paper_tables import sgraf_training
    >>> beside(sgraf_training()).columns.tolist()
    ['paper', 'study', 'runs', 'paper, difference', 'study, difference', 'low', 'high']
    """
    own = table.set_index("variant")
    ours = reached([*own.index]).reindex(own.index)
    out = pd.DataFrame({"paper": own["rsum" if "rsum" in own else "sum"], "study": ours["mean"]})
    first = (out.dropna() if out.notna().all(axis=1).any() else out).iloc[0]
    apart = reached([*own.index], first.name) if first.notna().all() else ours[:0]
    out = out.assign(runs=ours["size"].fillna(0).astype(int), **{"paper, difference": out["paper"] - first["paper"]})
    return out.join(apart[["mean", "low", "high"]].rename(columns={"mean": "study, difference"}))


def show_verdicts(verdicts: pd.DataFrame, lead: str = "", most: int = 4, labels: Sequence[str] = ()) -> None:
    """Show what the study says of sentences, as the answer of a notebook: the verdicts in words, and a figure of their
    effects, or of what `labels` reach. More than `most` are counted. verdicts: of study.ledger. lead: what stands
    before them."""
    import matplotlib.pyplot as plt

    from xmr_study import plots
    from xmr_study.notebook import answer

    own = verdicts[verdicts["verdict"].isin(DECIDED)]
    lines = own.to_dict("records")
    said = [f"*{v['sentence']}* {in_words(own.loc[[n]], v['claim'], '{:+.3g}').capitalize()}." for n, v in
            zip(own.index, lines, strict=True)]  # fmt: skip
    if len(own) > most:
        counts = ", ".join(f"{n} {word}" for word, n in own["verdict"].value_counts().items())
        held = own.loc[own["verdict"].isin(["held", "contradicted"]), ["sentence", "verdict"]].head(most)
        said = [f"{counts}.", *(f"*{sentence}* {word}." for sentence, word in held.values)]
    absent = list(dict.fromkeys(verdicts.loc[~verdicts["sentence"].isin(own["sentence"]), "sentence"]))
    where, n = " and ".join(own["corpus"].unique()), own["sentence"].nunique()
    for name, place in (("today's protocol", ""), ("the protocol before", "#protocol-before")):
        where = where.replace(name, f"[{name}](../docs/protocol.md{place})")
    if not lines:
        before = f"Of {len(absent)} claims on this the study has tested none." if absent else ""
    elif absent or len(own) > most:
        before = f"Of {n + len(absent)} claims on this the study tested {n}, on {where}:"
    else:
        before = f"The study, on {where}:"
    answer(lead, before, *said)
    if labels:
        own_levels = reached(labels).reset_index()
        plots.levels({"the study, 95 % over its runs": own_levels}, "annotated RSUM, drawn images (points)")
    elif lines:
        plots.ledger(own)
    plt.show()


def unlike_study(rows: pd.DataFrame, verdicts: pd.DataFrame | None = None) -> tuple[str, dict[str, str]]:
    """Where runs lie on the other side of a claim than the study's verdict, in words ('' for nowhere), and what they
    say themselves: claim → 'held' or 'contradicted', for claims that the study decided and whose variants they have.
    Labels that stand for other settings in the study (protocol.FIELDS) are left out.

    rows: of tidy.rows, of one corpus. verdicts: of `ledger`, by default today's.
    """
    table = ledger() if verdicts is None else verdicts
    of_corpus = table["corpus"].str.startswith(rows["dataset"].iloc[0])
    decided_here = table[table["verdict"].isin(["held", "contradicted"]) & of_corpus].set_index("claim")
    said, apart = {}, []
    for claim in CLAIMS:
        labels = {*claim.above, *claim.below}
        there = claim.id in decided_here.index and labels <= {*rows["variant"]} - FIELDS.keys()
        if there and len(effects := compared(rows, [claim])["effect"]):
            turned = (-1 if claim.smaller else 1) * effects - claim.bound
            said[claim.id] = "held" if turned.min() > 0 else "contradicted"
            verdict, effect = decided_here.loc[claim.id, ["verdict", "effect"]]
            if said[claim.id] != verdict:
                apart.append(f"*{claim.sentence}* ({effect:+.3g} there, {effects[turned.idxmin()]:+.3g} here)")
    if not apart:
        return "", said
    epochs, seeds = rows["epochs"].astype(int).max(), rows["seed"].nunique()
    longer = f"This run has {seeds} seed{'s' * (seeds > 1)} of {epochs} epochs; the study has more, and trains longer."
    return f"**The study decided otherwise:** {' '.join(apart)}. {longer}", said


def compared(rows: pd.DataFrame, claims: Iterable[Claim]) -> pd.DataFrame:
    """What rows of one corpus (tidy.rows) say of claims: a line for each comparison, paired by seed. Columns claim,
    above, below, seeds, effect (above − below), low, high (95 % over seeds, Student, uncorrected), verdict.

    'held' where the interval lies beyond the claim's bound on its side, 'contradicted' on the other; else, or with
    fewer than three seeds, 'undecided'. A claim that lacks a variant has no line.

    >>> rows = pd.DataFrame({"variant": ["mine"] * 3 + ["DivE"] * 3, "seed": [0, 1, 2] * 2, "world": 1, "k": 0,
    ...     "relevance": "annotated", "direction": "both", "metric": "rsum", "value": [3.1, 3.2, 3.0, 2.9, 2.9, 2.8]})
    >>> compared(rows, [Claim("c", "ours", "Mine is better.", ("mine",), ("DivE",))])["verdict"].tolist()
    ['held']
    """
    lines = []
    for claim in claims:
        m, sign = claim.measure, -1 if claim.smaller else 1
        value = m.factor * _of_measure(rows, m).pivot_table("value", ["world", "seed"], "variant", "last")
        pairs = [((a,), (b,)) for a in claim.above for b in claim.below or ("",)]
        for above, below in [(claim.above, claim.below)] if claim.rule == "means" else pairs:
            below = tuple(filter(None, below))
            if {*above, *below} <= {*value.columns}:
                other = value[list(below)].mean(axis=1) if below else 0.0
                effects = (value[list(above)].mean(axis=1) - other).dropna()
                mean, low, high = seed_interval(effects)
                ends = sorted((sign * low - claim.bound, sign * high - claim.bound))
                names = ", ".join(above), ", ".join(below)
                lines.append((claim.id, *names, len(effects), mean, low, high, decided(*ends, len(effects))))
    columns = ["claim", "above", "below", "seeds", "effect", "low", "high", "verdict"]
    return pd.DataFrame(lines, columns=columns)
