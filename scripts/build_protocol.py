"""The abstract of the study and the sections on the protocol's rows, as Markdown with figures; scripts/build_reports.py
writes them. Every sentence is made from numbers, and what has no rows yet is named with the hours that it would take.
"""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from xmr_core.base.files import make_folder
from xmr_core.study import findings, results
from xmr_core.study import paper_tables as published
from xmr_core.study.again import THIRD, later_rows, trained_again
from xmr_core.study.ambiguity_results import (
    ambiguity_gains,
    ambiguity_points,
    ambiguity_sentences,
    ambiguity_table,
)
from xmr_core.study.ambiguity_trends import ambiguity_trends, trend_sentences
from xmr_core.study.budgets import deciding_and_budgets, equal_time_sentence, longer_sentence, order_sentence
from xmr_core.study.changed_verdicts import changed_verdicts
from xmr_core.study.claims import CLAIMS, has_verdict, ledger
from xmr_core.study.claims_data import SWEEPS
from xmr_core.study.convergence import unconverged
from xmr_core.study.decision_rows import deciding, equally_long, protocol_curves, protocol_rows
from xmr_core.study.flickr_results import flickr_results
from xmr_core.study.image_values import read_image_values
from xmr_core.study.method_results import at_equal_time, budget_points, protocol_results
from xmr_core.study.progress import earlier_rows, progress
from xmr_core.study.protocol import EPOCHS, LONGER, budget_label, labels, run_label, trial
from xmr_core.study.sensitivity import READINGS, sensitivity
from xmr_core.study.setting_in_words import objective_of
from xmr_core.study.swept_settings import beside_control, swept, swept_sentence
from xmr_core.study.verdict_counts import verdicts_by_paper
from xmr_core.ui import plots


class Swept(NamedTuple):
    """A setting that DivE's paper sweeps."""

    choice: float
    paper: Callable[[], pd.DataFrame]
    option: str
    notebook: str
    log_x: bool
    words: str


ROOT = Path(__file__).resolve().parents[1]
FIGURES = ROOT / "reports" / "figures"
# symbol → the paper's choice, its curve, the option, its notebook, whether the axis is logarithmic, and in words
SWEPT = {
    "α": Swept(16, published.dive_alpha, "alpha", "ablation_alpha", True, "the scale of smooth-Chamfer"),
    "K": Swept(4, published.dive_cardinality, "slots", "ablation_cardinality", False, "the number of elements"),
    "T": Swept(
        4, published.dive_iterations, "iterations", "ablation_iterations", False, "the rounds of slot attention"
    ),
}
PART = "DivE's ablations"
START, END = "<!-- answer: made by `make reports` -->\n", "<!-- end of answer -->"
COMMAND = "python scripts/run_study.py --part {}"


def markdown(table: pd.DataFrame, digits: int = 1) -> str:
    """A GitHub table; missing numbers are dashes."""
    body = table.map(lambda v: "–" if v is None or v != v else f"{v:,.{digits}f}" if isinstance(v, float) else str(v))
    lines = [list(body.columns), ["---"] * body.shape[1], *body.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def stored(figure: Figure, name: str) -> str:
    """Save a figure and give its path as reports/README.md names it."""
    make_folder(FIGURES)
    figure.savefig(FIGURES / f"{name}.png", dpi=110)
    plt.close(figure)
    return f"figures/{name}.png"


def with_half(table: pd.DataFrame, value: str, low: str, high: str) -> list[str]:
    """'470.1 ± 5.2' for every line; without an interval the value alone."""
    halves = (table[high] - table[low]) / 2
    return [f"{v:.1f} ± {h:.1f}" if h == h else f"{v:.1f}" for v, h in zip(table[value], halves, strict=True)]


def quality_and_cost(table: pd.DataFrame) -> str:
    """`study.method_results` as a table to read: quality with ±, training, cost."""
    columns = {
        "method": table["label"],
        "seeds": table["seeds"],
        "RSUM": with_half(table, "rsum", "rsum low", "rsum high"),
        "seeds from, to": [
            f"{a:.1f}, {b:.1f}" for a, b in zip(table["rsum lowest"], table["rsum highest"], strict=True)
        ],
        "RSUM, all true answers": with_half(table, "rsum exhaustive", "rsum exhaustive low", "rsum exhaustive high"),
        "best epoch": _epochs(table),
        "converged": _converged(table),
        "trial, objective": [_trial(label, n) for label, n in zip(table["label"], table["trial"], strict=True)],
        "train, s": table["train seconds"].map("{:,.0f}".format),
        "parameters": table["parameters"].map("{:,.0f}".format),
        "scoring, ms": table["scoring ms"].map(lambda v: "–" if v != v else f"{v:,.0f}"),
    }
    return markdown(pd.DataFrame(columns))


def _trial(label: str, number: int) -> str:
    """'3: lr 0.004; InfoNCE': the number of a tuning trial, what it changes, and the objective; without a trial the
    objective alone."""
    changes = trial(label, number, EPOCHS) if number else {}
    told = ", ".join(f"{name} {value}" for name, value in changes.items() if name != "objective")
    by = objective_of(label, number)
    return (f"{number}: {told or 'defaults'}; " if number else "") + ("its own" if by.startswith("`") else by)


def _other_objectives(table: pd.DataFrame) -> str:
    """Which methods stand in the table with another objective than that of their paper, or of all."""
    chosen = {
        label: trial(label, n, EPOCHS).get("objective")
        for label, n in zip(table["label"], table["trial"], strict=True)
        if n
    }
    return "".join(
        f"{label} stands here with the objective `{name}`, which its tuning chose in place of its own.\n\n"
        for label, name in chosen.items()
        if name
    )


def _converged(table: pd.DataFrame) -> list[str]:
    """'no, +8.0' for each line; '–' where no validation curve is stored."""
    return [
        {True: "yes", False: "no"}.get(c, "–") + (f", +{g:.1f}" if g == g else "")
        for c, g in zip(table["converged"], table["gain"], strict=True)
    ]


def _epochs(table: pd.DataFrame) -> list[str]:
    """'59 of 72' for each line; '–' for an ensemble, whose members kept theirs."""
    pairs = zip(table["best epoch"], table["epochs"], strict=True)
    return [f"{best:.0f} of {n}" if best > 0 else "–" for best, n in pairs]


def abstract(figure_folder: str = "") -> str:
    """The findings as a list, and one figure. figure_folder: what stands before 'figures/' on the page."""
    said = findings.findings()
    table = protocol_results()
    shown = table if len(table) else findings.earlier_results()
    path = stored(plots.pareto(shown, labels()), "abstract")
    when = " or ".join(map(str, sorted(set(shown["epochs"])))) + " epochs"
    when += "" if len(table) else ", before the protocol"
    lines = "".join(
        textwrap.fill(f"- {text}", 116, subsequent_indent="  ", break_on_hyphens=False) + "\n" for text in said
    )
    return f"{lines}\n![Quality against time of scoring and of training, {when}]({figure_folder}{path})\n"


def convergence(left: pd.Series) -> str:
    """Section: all methods at convergence, or what stands in for it."""
    table = protocol_results()
    text = "## All methods, `scenes`\n\n"
    if not len(table):
        text += (
            _absent("comparison", left)
            + "Until then, what was measured before the protocol (untuned, world 0; times of two shared cores):\n\n"
        )
        table = findings.earlier_results()
    return text + (
        f"{quality_and_cost(table)}\n\nRSUM: sum of six recalls in percent, at most 600; ± half of its 95 % interval, "
        "which carries seeds and test images where rows have them. *best epoch*: mean over runs. *converged*: "
        "by the rule of the [protocol](../docs/protocol.md#protocol-budget), and how many points of RSUM the last "
        "quarter of the epochs added on the validation split. The rule has an edge: methods just short of its two "
        "points were not run longer, and might have gained as those that were. *trial*: of its tuning trials, most of "
        "which are by InfoNCE; who took the largest learning rate might have been better at a larger one. "
        "The objective is that of the trial, and not that of the paper, which is most often the hinge with the hardest "
        "negatives. "
        "*train*: median seconds of a run on one core, of several models of processor, which differ by up to half "
        "(`runs.csv`, column device). *scoring*: 1,000 images of 64 regions against 5,000 captions of "
        "12 words, width 64, on one thread; of slow methods from fewer pairs, in proportion.\n\n"
        + _other_objectives(table)
        + (_absent("comparison", left, start="Not all yet") if len(protocol_results()) else "")
    )


def budgets(left: pd.Series) -> str:
    """Section: the budget curve of every method, and equal training time."""
    points = budget_points(deciding_and_budgets(protocol_rows()), labels())
    text = "## Budget, and equal training time\n\n"
    if points["epochs"].nunique() < 2:
        return text + _absent("budget", left)
    path = stored(plots.budget_curves(points, labels()), "budget_curves")
    epochs = ", ".join(map(str, sorted(set(points["epochs"]))))
    text += f"![Annotated RSUM after {epochs} epochs, over epochs and over seconds]({path})\n\n"
    fewest, most = points["seeds"].min(), points["seeds"].max()
    seeds = f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"
    text += (
        f"{seeds}; the bars go from the lowest to the highest. Seconds: epochs times those of an epoch in the longest "
        "runs. What a training time buys is read off a line over its logarithm, between two budgets, where no run "
        "ended. Runs are of several models of processor, on which the seconds of one method differ by up to half.\n\n"
    )
    said = [longer_sentence(protocol_rows()), order_sentence(points), equal_time_sentence(points)]
    equal = at_equal_time(points).rename(columns={"label": "method", "seconds": "train, s", "rsum": "RSUM"})
    said.append(markdown(equal) if len(equal) else "")
    return text + "".join(f"{part}\n\n" for part in said if part)


def settings(left: pd.Series) -> str:
    """Section: every other variant of DivE beside its one control, and the curves over what its paper sweeps."""
    rows = protocol_rows()
    table = beside_control(rows, images=read_image_values())
    text = "## What DivE's settings do\n\n"
    if not len(table):
        return text + _absent(PART, left)
    for symbol, about in SWEPT.items():
        points = swept(rows, *SWEEPS["dive"][about.option])
        if sentence := swept_sentence(points, symbol, about.choice, about.words):
            figure = plots.ablation(points, about.paper(), "setting", symbol, about.log_x, about.option)
            text += (
                f"{sentence}\n\n![RSUM over {symbol}, and the paper's]({stored(figure, f'sweep_{about.option}')})\n\n"
            )
    longest = int(table["epochs"].max())
    short = unconverged(deciding(rows), protocol_curves(), table["label"].tolist(), longest)
    shown = pd.DataFrame(
        {
            "variant": table["label"],
            "seeds": table["seeds"],
            "RSUM": with_half(table, "rsum", "rsum low", "rsum high"),
            "converged": ["no" if label in short else "yes" for label in table["label"]],
            "beside DivE": [f"{r.difference:+.1f} [{r.low:+.1f}, {r.high:+.1f}]" for r in table.itertuples()],
        }
    )
    return (
        f"{text}Each variant beside the same runs of DivE (four slots, smooth-Chamfer with α = 16, four rounds), "
        f"{longest} epochs. DivE's own runs are of another processor than the variants'; below is what came "
        "of training it on theirs. *beside DivE*: the difference over common seeds with a 95 % interval that "
        "carries seeds and test images, and is not corrected for how many differences there are; the verdicts of the "
        f"ledger are.\n\n{markdown(shown)}\n\n{_absent(PART, left, '', 'Not all yet')}"
    )


def ambiguous(left: pd.Series) -> str:
    """Section: when sets, distributions, pairs and hard negatives pay."""
    points = ambiguity_points(protocol_rows())
    gains = ambiguity_gains(points)
    text = "## When do sets, distributions and hard negatives pay?\n\n"
    if not len(gains):
        return text + _absent("ambiguity", left)
    path = stored(plots.ambiguity_curves(gains, labels()), "ambiguity")
    trends = ambiguity_trends(gains)
    said = [*trend_sentences(trends), *ambiguity_sentences(gains)]
    shown = pd.DataFrame(
        {
            "choice": trends["what"],
            "method": trends["label"],
            "against": trends["against"],
            "seeds": trends["seeds"],
            "mean gain": _with_ends(trends, "mean"),
            "per tenfold ambiguity": _with_ends(trends, "slope"),
        }
    )
    return (
        text + "".join(f"- {sentence}\n" for sentence in said) + f"\n![Gain over ambiguity]({path})\n\n"
        f"{_pooling()}Gains in RSUM by all true answers, paired by seed: of each kind of representation on VSE∞, both "
        "under InfoNCE, and of the hinge with hardest negatives, or the own loss of distributions, on InfoNCE. Bars go "
        "from the lowest to the highest seed. All runs have 72 epochs, which are few for some (see converged, above). "
        "Nothing is corrected for how many choices there are, and all of it is exploratory. The table has 95 % "
        f"intervals from what is left over beside the line through the gains.\n\n{markdown(shown)}\n\n"
        "RSUM by all true answers at each ambiguity, a mean over the seeds that are there, and the learning rate that "
        "validated better (the gains above are of common seeds):\n\n"
        f"{markdown(ambiguity_table(points))}\n\n"
        f"{_absent('ambiguity', left, '', 'Not all yet')}"
    )


def _pooling() -> str:
    """What else than its distributions separates PCME from VSE∞; '' before the comparison has them."""
    table = protocol_results()
    value = dict(zip(table["label"], table["rsum exhaustive"], strict=True)) if len(table) else {}
    if not {"PCME", "VSE++", "VSE∞"} <= value.keys():
        return ""
    return (
        "A gain on VSE∞ is not one of the representation alone, because VSE∞ also pools by a learned operator. In the "
        f"comparison above, by all true answers, PCME has {value['PCME']:.1f}, VSE++, one vector without that "
        f"operator, {value['VSE++']:.1f}, and VSE∞ {value['VSE∞']:.1f}. DivE and PCME are not converged at the 72 "
        "epochs of this section.\n\n"
    )


def _with_ends(table: pd.DataFrame, name: str) -> list[str]:
    """'+4.0 [+1.0, +7.0]' for each line."""
    columns = table[name], table[f"{name} low"], table[f"{name} high"]
    return [f"{value:+.1f} [{low:+.1f}, {high:+.1f}]" for value, low, high in zip(*columns, strict=True)]


def photographs(left: pd.Series) -> str:
    """Section: Flickr8k by annotated and by human relevance, with Kendall's τ beside."""
    table = flickr_results(protocol_rows(), protocol_curves())
    text = "## Flickr8k, official 1K test split\n\n"
    if not len(table):
        return text + _absent("flickr8k", left, " --flickr8k FOLDER")
    shown = {
        "method": table["label"],
        "seeds": table["seeds"],
        "RSUM": with_half(table, "rsum", "rsum low", "rsum high"),
        "best epoch": _epochs(table),
        "converged": _converged(table),
        "RSUM, human": with_half(table, "human", "human low", "human high"),
        "τ experts": table["τ expert"],
        "τ crowd": table["τ crowd"],
        "train, s": table["train seconds"].map("{:,.0f}".format),
        "parameters": table["parameters"].map("{:,.0f}".format),
    }
    return text + markdown(pd.DataFrame(shown)) + (
        "\n\nFeatures of EfficientNet-Lite0, four crops of each image, and a GRU over words that start from GloVe (50 "
        "dimensions), or MiniLM where the label says so. Where there is one seed, the interval is that of the images "
        "alone. *human*: pairs that experts rated "
        "3 or more are right too. τ: Kendall's τ_c, times 100, between scores and ratings.\n\n"
        f"{_absent('flickr8k', left, ' --flickr8k FOLDER', 'Not all yet')}"
    )  # fmt: skip


def _floor(flat: pd.DataFrame) -> str:
    """What it means where the constant number is AdOpt's number of negatives, 5.5 above its effect; '' elsewhere."""
    own = flat[flat["claim"].str.startswith("vse2ad-negatives-")]
    if not len(own):
        return ""
    ends = " or ".join(f"{value:.2f}" for value in sorted({round(5.5 - effect, 2) for effect in own["effect"]}))
    return (
        f" (AdOpt's number of negatives ends at {ends} of 128 candidates in every run. One of a batch's 100 captions "
        "is 1.28 of 128, and one of its 50 images 2.56, so the objective has become that of the hardest negative.)"
    )


def by_paper() -> str:
    """Section: how the claims of each paper fare."""
    lines = ledger(results.study_rows(before=False), CLAIMS)
    table, flat = verdicts_by_paper(lines), lines[has_verdict(lines) & (lines["high"] - lines["low"] < 1e-9)]
    alike = f"A number that is the same in every run decides {len(flat)}: {' '.join(flat['sentence'])}"
    alike += f"{_floor(flat)}\n\n"
    return (
        "## Verdicts by paper\n\nConfirmatory + exploratory verdicts, corrected (Holm) among the claims of a paper (of "
        "the successors together) on one corpus. Where they are confirmatory, every comparison that is planned counts "
        "from the beginning, measured or not, so that later rows of other claims take no verdict back. A claim has one "
        "for each corpus with rows. *ours*: claims of this study's own. The sentences with their verdicts "
        "are in the [report](../notebooks/report.ipynb). Differences of RSUM can hardly be *equivalent*: with five "
        "seeds, at the level of families of these sizes, even seeds that differ by two points make an interval wider "
        "than the bounds of ±5, so *undecided* is no sign of equality.\n\n"
        f"{markdown(table)}\n\n{alike if len(flat) else ''}"
    )


def readings() -> str:
    """Section: verdicts that another way of counting would change."""
    others = {
        "second training": later_rows(),
        f"{EPOCHS} epochs": equally_long(protocol_rows()),
    }
    if (ROOT / "reports" / "protocol" / THIRD).exists():
        others["third training"] = later_rows(which=THIRD)
    table = sensitivity(results.study_rows(before=False), CLAIMS, others)
    text = "## Verdicts that rest on how they were counted\n\n"
    if not len(table):
        return text + "None.\n\n"
    shown = pd.DataFrame(
        {
            "claim": table["sentence"],
            "verdict": table["verdict"],
            "by another reading": [_otherwise(line) for line in table.to_dict("records")],
        }
    )
    return (
        f"{text}VSE∞, DivE and PCME++ had ten seeds only after their verdicts by five had been seen; the correction "
        "counts both looks. *first seeds*: what those five alone say, *later seeds*: what the other five alone say, "
        "with less power, and each with the degrees of freedom that its runs have. *n − 1* and *later rule*: the "
        "verdict if all comparisons had the degrees of freedom of the "
        "[first or of the later rule](../docs/protocol.md#protocol-changes), which depend here on when their runs "
        "began. *second training*, *third training*: with the later trainings of the next section instead of the "
        "first, of the runs that have them. "
        f"*{EPOCHS} epochs*: with the runs of {EPOCHS} epochs of methods that the rule of the budget ran for longer "
        f"({_runs_of(EPOCHS)}).\n\n"
        f"{markdown(shown)}\n\n"
    )


def _runs_of(epochs: int) -> str:
    """How many runs of so many epochs the methods have that were run for longer: 'VSE++ 10, DivE 5'."""
    every = protocol_rows()
    own = every[(every["epochs"].astype(int) == epochs) & (every["dataset"] == "scenes")].drop_duplicates("run_id")
    longer = {run_label(name) for name in every["variant"].unique() if name.endswith(budget_label("", LONGER))}
    counts = own["variant"].value_counts()
    return ", ".join(f"{label} {counts[label]}" for label in labels() if label in longer and label in counts)


def _otherwise(line: dict[str, str]) -> str:
    """Which readings of a line of study.sensitivity give another verdict: 'held (second training, n − 1)'."""
    others: dict[str, list[str]] = {}
    for name in READINGS:
        if line[name] not in ("", line["verdict"]):
            others.setdefault(line[name], []).append(name)
    return "; ".join(f"{verdict} ({', '.join(names)})" for verdict, names in others.items())


def twice() -> str:
    """Section: what another processor makes of the same runs."""
    table = trained_again()
    if not len(table):
        return ""
    shown = pd.DataFrame(
        {
            "method": table["label"],
            "trained again on": table["processor"],
            "seeds": table["seeds"],
            "RSUM, first": table["first"].round(1),
            "RSUM, again": table["again"].round(1),
            "difference": [f"{r.difference:+.1f} [{r.low:+.1f}, {r.high:+.1f}]" for r in table.itertuples()],
            "sd of one seed": table["of one seed"].round(1),
            "sd between seeds": table["between seeds"].round(1),
        }
    )
    return (
        "## The same runs on another processor\n\nOn one model of processor a run gives the same bits again. On "
        "another the last bits differ, and after some epochs it is another run. These runs were trained on more than "
        "one model of processor, partly with earlier code (of the same versions of all parts; for DivE it gives the "
        "[same bits](../docs/protocol.md#protocol-changes) on one of them); the rows of the study are those of the "
        "first training. *sd of one seed*: what one training of a seed leaves open. Intervals of "
        "95 %, over seeds, not corrected.\n\n"
        f"{markdown(shown)}\n\n"
    )


def changes() -> str:
    """Section: which verdicts of the first ledger changed."""
    table = changed_verdicts(results.study_rows(), CLAIMS)
    text = "## Which verdicts of the first ledger changed\n\n"
    if not len(table):
        return text + "None yet: no claim has rows from the worlds that decide.\n\n"
    changed = table[table["changed"]]
    shown = pd.DataFrame(
        {
            "claim": changed["sentence"],
            "before": _verdicts(changed, "before"),
            "after": _verdicts(changed, "after"),
            "kind": changed["kind"],
            "moved": changed["moved"].map({True: "yes", False: "no"}),
        }
    )
    text += f"{len(changed)} of {len(table)}."
    if not len(changed):
        return text + "\n\n"
    return text + (
        " *moved*: whether the two effects differ by more than √(h² + k²), with h and k the halves of their "
        "intervals, so that more runs alone do not explain the change. Epochs, tuning, common form and worlds differ, "
        "too.\n\n"
        f"{markdown(shown)}\n\n"
    )


def _verdicts(changed: pd.DataFrame, when: str) -> list[str]:
    """'held, +3.1 (72 epochs)' for each claim, with two digits for correlations. when: 'before' or 'after'."""
    columns = changed[when], changed[f"effect {when}"], changed[f"epochs {when}"]
    return [
        f"{verdict}, {effect:+.{2 if abs(effect) < 1 else 1}f} ({epochs} epochs)"
        for verdict, effect, epochs in zip(*columns, strict=True)
    ]


def hours_left() -> pd.Series:
    """Part → what is missing of it, as text."""
    table = progress(protocol_rows(), protocol_curves(), earlier_rows())
    table = table[table["done"] < table["runs"]]
    text = [
        f"{r.runs - r.done} of {r.runs} runs are missing, {r.hours:.1f} hours of a core" for r in table.itertuples()
    ]
    return pd.Series(text, index=table["part"], dtype=str)


def _absent(part: str, left: pd.Series, more: str = "", start: str = "No row yet") -> str:
    """What is missing of a part, and the command that makes it; '' where nothing is."""
    name = f'"{part}"' if " " in part else part
    return f"{start}: {left[part]} (`{COMMAND.format(name)}{more}`).\n\n" if part in left else ""


def page() -> str:
    """reports/README.md."""
    left = hours_left()
    return (
        f"# What the study found\n\n{abstract()}\n"
        "Made by `make reports` from the rows in [reports/protocol](protocol) and, where it says so, from those of "
        "before ([reports/results.csv](results.csv), [reports/successors](successors/README.md)); no number is typed. "
        "How it is decided: [docs/protocol.md](../docs/protocol.md). Tables from before the protocol: "
        "[reports/before_protocol.md](before_protocol.md).\n\n"
        + convergence(left) + budgets(left) + settings(left) + ambiguous(left) + photographs(left)
        + by_paper() + readings() + twice() + changes()
    )  # fmt: skip


def with_answer(readme: str) -> str:
    """README.md with the abstract as it must be now, between its marks."""
    before, rest = readme.split(START)
    return before + START + abstract("reports/") + END + rest.split(END)[1]
