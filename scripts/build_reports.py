"""Rebuild reports/README.md, reports/before_protocol.md, reports/figures/ and the answer in README.md from the rows in
reports/ and the embedded corpus. Nothing is typed by hand.

python scripts/build_reports.py, or `make reports`.
"""

import itertools
from collections.abc import Iterable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from build_protocol import SWEPT, markdown, page, with_answer

from xmr_core import study
from xmr_core.base import files
from xmr_core.data.prepare import DataConfig, prepare
from xmr_core.study import paper_tables as published
from xmr_core.study import results
from xmr_core.ui import plots

REPORTS = Path(__file__).resolve().parent.parent / "reports"
RSUM = {"annotated": "rsum annotated", "exhaustive": "rsum exhaustive", "human": "rsum human"}


def wide(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per run, percent, as study.run_table gives: label, seed, rsum per relevance with its interval, recalls,
    log variance.
    """
    out = []
    for (variant, seed), group in rows.groupby(["variant", "seed"], sort=False):
        value = group.set_index(["relevance", "direction", "metric", "k"])["value"].astype(float)
        row = {"label": variant, "seed": int(seed), "epochs": int(group["epochs"].iloc[0])}
        for kind in group.loc[group["metric"] == "kendall_tau_c", "relevance"]:
            row[f"τ {kind}"] = 100 * value[kind, "both", "kendall_tau_c", 0]
        for kind in group.loc[group["metric"] == "rsum", "relevance"].unique():
            names = {"rsum": "", "rsum_low": " low", "rsum_high": " high"}
            row |= {f"rsum {kind}{end}": 100 * value[kind, "both", m, 0] for m, end in names.items()}
            row |= {f"{d} R@{k} {kind}": 100 * value[kind, d, "recall", k] for d in ("i2t", "t2i") for k in (1, 5, 10)}
            row |= {f"{d} R-P {kind}": 100 * value[kind, d, "r_precision", 0] for d in ("i2t", "t2i")}
        spread = group[group["metric"] == "log_circular_variance"]["value"].astype(float)
        row |= {
            "log variance": spread.mean() if len(spread) else float("nan"),
            "train seconds": float(group["train_seconds"].iloc[0]),
        }
        row |= {"parameters": int(group["parameters"].iloc[0])}
        out.append(row)
    return pd.DataFrame(out)


def with_intervals(table: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Label, seeds, and 'mean [low, high]' for each column."""
    means = study.seed_means(table, columns)
    out = means[["label", "seeds"]].copy()
    for c in columns:
        d = 2 if c == "log variance" else 1
        out[c] = [
            "–" if m != m else f"{m:.{d}f}" if low != low else f"{m:.{d}f} [{low:.{d}f}, {high:.{d}f}]"
            for m, low, high in zip(means[c], means[f"{c} low"], means[f"{c} high"], strict=True)
        ]
    return out


def swept(rows: pd.DataFrame, symbol: str, title: str, name: str) -> str:
    """Section on a swept setting: table, verdicts against the paper's choice, figure beside the paper's curve."""
    table = wide(rows[rows["variant"].str.startswith(f"{symbol}=")])
    if table.empty:
        return ""
    choice, paper, setting, notebook, log_x, _ = SWEPT[symbol]
    table = table.assign(**{setting: [float(v.split("=")[1]) for v in table["label"]]}).sort_values([setting, "seed"])
    columns = [c for c in (*RSUM.values(), "i2t R@1 annotated", "t2i R@1 annotated", "log variance") if c in table]
    means = study.seed_means(table, ["rsum annotated"]).rename(
        columns={"rsum annotated low": "low", "rsum annotated high": "high"}
    )
    ours = table.assign(rsum=table["rsum annotated"]).merge(means[["label", "low", "high"]], on="label")
    figure = plots.ablation(ours, paper(), setting, symbol, log_x)
    figure.savefig(REPORTS / "figures" / f"{name}.png", dpi=110)
    plt.close(figure)
    best = f"{symbol}={choice}"
    mine, lines = table[table["label"] == best], []
    for label in [v for v in table["label"].unique() if v != best and len(mine)]:
        verdict = study.verdict(mine, table[table["label"] == label], "rsum annotated")
        lines.append(
            f"- {symbol} = {choice} above {label.replace('=', ' = ')}: {study.verdict_text(verdict, 'RSUM annotated')}"
        )
    seconds = table.groupby("label", sort=False)["train seconds"].mean()
    shown = with_intervals(table, columns).assign(**{"train seconds": [f"{seconds[v]:.0f}" for v in seconds.index]})
    full = ""
    if table["seed"].nunique() == 1:
        recalls = [f"{d} R@{k} annotated" for d in ("i2t", "t2i") for k in (1, 5, 10)]
        full = "\n\n" + markdown(table[["label", *recalls]])
    figure_text = f"![RSUM over {symbol}](figures/{name}.png)\n\n{source(notebook, f'variants {symbol}=…')}"
    return f"## {title}\n\n{markdown(shown)}{full}\n\n{figure_text}\n\n" + "\n".join(lines) + "\n\n"


def source(notebook: str, what: str) -> str:
    """Where a figure comes from."""
    return f"(Notebook: [{notebook}](../notebooks/{notebook}.ipynb); rows: {what} in [results.csv](results.csv).)"


def variants(
    rows: pd.DataFrame, title: str, name: str, labels: Iterable[str] = tuple(study.ablation("dive", "similarity")),
    best: str = "smooth-Chamfer, slots",
    notebook: str = "ablation_similarity", paper: str = "",
) -> str:  # fmt: skip
    """Section on variants of a method: table, verdicts of the paper's choice against each other one, figure. paper: its
    own table, as text.
    """
    table = wide(rows[rows["variant"].isin(labels)])
    if table.empty:
        return ""
    rsums = [c for c in RSUM.values() if c in table]
    extra = [
        c for c in ("i2t R-P exhaustive", "t2i R-P exhaustive", "log variance") if c in table and table[c].notna().any()
    ]
    figure = plots.variants(study.seed_means(table, rsums).rename(columns={"label": "variant"}), rsums)
    figure.savefig(REPORTS / "figures" / f"{name}.png", dpi=110)
    plt.close(figure)
    ours, lines = table[table["label"] == best], []
    for label in [v for v in table["label"].unique() if v != best]:
        for column in rsums:
            verdict = study.verdict(ours, table[table["label"] == label], column)
            lines.append(f"- {best} above {label}: {study.verdict_text(verdict, column.replace('rsum', 'RSUM'))}")
    seconds = table.groupby("label", sort=False)["train seconds"].mean()
    shown = with_intervals(table, [*rsums, *extra]).assign(
        **{"train seconds": [f"{seconds[v]:.0f}" for v in seconds.index]}
    )
    return (
        f"## {title}\n\n{markdown(shown)}\n\n![variants](figures/{name}.png)\n\n{source(notebook, 'these labels')}\n\n"
        + "\n".join(lines)
        + f"\n\n{paper}"
    )


def published_similarity() -> str:
    """DivE's Table 3, as it is printed."""
    paper = markdown(published.dive_similarity()[["variant", "rsum", "log variance"]], 2)
    return f"Published (DivE, Table 3, Flickr30K):\n\n{paper}\n\n"


def real(rows: pd.DataFrame) -> str:
    """Section on methods on Flickr8k: one table, the best first."""
    table = wide(rows[~rows["variant"].str.startswith("α=")])
    if table.empty:
        return ""
    rsums = [c for c in RSUM.values() if c in table]
    return (
        "## Methods on Flickr8k, official 1K test split\n\nFrozen MobileNetV2 (7 × 7 cells, 224 pixels, five crops of "
        "each training image), GloVe-50d and a bi-GRU, `matched` recipes, width 256, 20 epochs in batches of 64 "
        "images with two captions each (the study preset), the epoch chosen on the first 250 images of dev; rows "
        "that differ say how. An ensemble is the mean of score matrices of one seed. Human: pairs that experts rated 3 "
        "or more are right too; τ expert: Kendall's τ_c, times 100, between scores and the ratings of 5,822 pairs.\n\n"
        + ranked(table, rsums)
        + "\n\n"
    )


def comparison(rows: pd.DataFrame, title: str, name: str) -> str:
    """Section on the matched comparison: a table of methods with figure and verdicts, and one of ensembles."""
    rows = rows[rows["size"] == "quick"]
    together = rows["variant"].str.contains(" + ", regex=False)
    table, ensembles = wide(rows[rows["variant"].isin(study.comparison())]), wide(rows[together])
    if table.empty:
        return ""
    rsums = [c for c in RSUM.values() if c in table]
    means = study.seed_means(table, rsums).rename(columns={"label": "variant"}).sort_values(rsums[0], ascending=False)
    figure = plots.variants(means, rsums)
    figure.savefig(REPORTS / "figures" / f"{name}.png", dpi=110)
    plt.close(figure)
    order, lines = means["variant"].tolist(), []
    for better, worse in itertools.pairwise(order):  # neighbours in the table: where is the order certain?
        verdict = study.verdict(table[table["label"] == better], table[table["label"] == worse], rsums[0])
        lines.append(f"- {better} above {worse}: {study.verdict_text(verdict, 'RSUM annotated')}")
    text = (
        f"## {title}\n\n{ranked(table, rsums)}\n\n![all methods](figures/{name}.png)\n\n"
        f"{source('compare_methods', 'these labels')}\n\n" + "\n".join(lines) + "\n\n"
    )
    if len(ensembles):
        text += (
            "Ensembles, by the mean of score matrices (one label twice: two seeds of it; "
            "parameters and seconds of all members):\n\n"
            + ranked(ensembles, rsums) + "\n\n"
        )  # fmt: skip
    return text


def ranked(table: pd.DataFrame, rsums: list[str]) -> str:
    """A table of methods, the best first: RSUMs, R-Precision, R@1, training seconds and parameters."""
    extra = [
        c
        for c in (
            "i2t R-P exhaustive",
            "t2i R-P exhaustive",
            "i2t R-P human",
            "t2i R-P human",
            "τ expert",
            "i2t R@1 annotated",
            "t2i R@1 annotated",
        )
        if c in table
    ]
    mean = table.groupby("label", sort=False)[["train seconds", "parameters", rsums[0]]].mean()
    shown = with_intervals(table, [*rsums, *extra]).set_index("label")
    shown = shown.assign(
        **{
            "train seconds": mean["train seconds"].map("{:.0f}".format),
            "parameters": mean["parameters"].map("{:,.0f}".format),
        }
    )
    return markdown(shown.loc[mean[rsums[0]].sort_values(ascending=False).index].reset_index())


def main() -> None:
    rows = results.latest(results.read(REPORTS / "results.csv"))
    files.make_folder(REPORTS / "figures")
    scenes, flickr = (rows[rows["dataset"] == name] for name in ("scenes", "flickr8k"))
    mine = prepare(DataConfig(size="study"))
    figure = plots.gallery(mine.corpus, mine.splits["test"])
    figure.savefig(REPORTS / "figures" / "scenes.png", dpi=80)
    plt.close(figure)
    origin = (
        rows.drop_duplicates("run_id")
        .groupby(["dataset", "git_commit", "numerics", "torch", "device"])
        .size()
        .reset_index(name="runs")
    )
    study_size = scenes[scenes["size"] == "study"]
    text = (
        "# Rows from before the protocol\n\nThey were made before [docs/protocol.md](../docs/protocol.md), most with "
        "eight epochs and without tuning, so they rank how fast methods learn; all that they say is exploratory. "
        "Built by `make reports` from [results.csv](results.csv) (every number) and "
        "[runs.csv](runs.csv) (the run it came from); never edited by hand. RSUM is the sum of R@1, R@5 and R@10 in "
        "both directions, in percent, at most 600, on the whole test split. Intervals are 95 %: Student over seeds, or "
        "with one seed over resampled images. A verdict is the sign of the paired difference over seeds; fewer than "
        "three seeds decide nothing. Every run selects its epoch on the validation split. Seconds were taken on two "
        "cores that other work shared. Matched form: same encoders, width and batches for all, and InfoNCE for all but "
        "PCME and VSE+2AD, which keep the objective their papers are about.\n\n"
        + comparison(scenes, "All methods under the matched protocol, `scenes` (quick preset)", "scenes_comparison")
        + objectives(scenes)
        + variants(
            study_size,
            "Similarities and architectures on `scenes` (study preset)",
            "scenes_similarity",
            paper=published_similarity(),
        )
        + variants(
            study_size,
            "What DivE changed in slot attention, taken back one by one (`scenes`, study preset)",
            "scenes_slot_attention",
            study.ablation("dive", "slot attention"),
            "slots as in the paper",
            "ablation_slot_attention",
        )
        + variants(
            study_size,
            "PCME with a σ per dimension, one σ, and none (`scenes`, study preset)",
            "scenes_gaussians",
            study.ablation("pcme", "spread"),
            "PCME",
            "gaussian_distances",
        )
        + "".join(
            swept(study_size, symbol, f"{symbol} on `scenes` (study preset)", f"scenes_{SWEPT[symbol].option}")
            for symbol in SWEPT
        )
        + real(flickr)
        + swept(
            flickr,
            "α",
            "α on Flickr8k, official 1K test split (MobileNetV2 7 × 7 grid without crops, GloVe-50d, 30 epochs of 128 "
            "images × 2 captions, one seed)",
            "flickr8k_alpha",
        )
        + "## Where the numbers come from\n\n"
        + markdown(origin)
        + "\n"
    )
    files.write_atomic(REPORTS / "before_protocol.md", text)
    files.write_atomic(REPORTS / "README.md", page())
    readme = REPORTS.parent / "README.md"
    files.write_atomic(readme, with_answer(readme.read_text()))


def objectives(rows: pd.DataFrame) -> str:
    """Section on the choice of the matched objective: rows whose variant starts with 'objective: '."""
    table = rows[rows["variant"].str.startswith("objective: ") & (rows["metric"] == "val_rsum")]
    if table.empty:
        return ""
    shown = table.assign(
        **{"validation RSUM": 100 * table["value"].astype(float), "objective": table["variant"].str[11:]}
    )
    return (
        "## The matched objective\n\nChosen on the validation split of `scenes` (quick preset, one seed), for a single "
        "vector and for sets:\n\n" + markdown(shown[["objective", "validation RSUM"]]) + "\n\n"
    )


if __name__ == "__main__":
    main()
