"""Rebuild reports/README.md with its figures, and the answer in README.md, from the rows in reports/protocol and from
reports/verdicts.csv. The text is scripts/report.md; numbers are filled in by name.

python scripts/build_reports.py, or `make reports`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import kendalltau

from xmr_core.base import files
from xmr_core.data.scenes.corpus import DEFAULT_AMBIGUITY
from xmr_core.evaluation.metrics import KS
from xmr_core.evaluation.stats import seed_interval
from xmr_study import decision, ledger, paper_tables, plots, records
from xmr_study.claims import CLAIMS
from xmr_study.claims.claim import RSUM, TRUE_RSUM
from xmr_study.claims.own import CAPACITY as CAPACITY_CLAIMS
from xmr_study.ledger import DECIDED, beside, reached, swept
from xmr_study.protocol import (
    CAPACITY,
    CROSSED,
    GRAPHS,
    KEY,
    LENGTHS,
    PAIRS,
    PARTS,
    PHOTOGRAPH_RATE,
    RATE,
    RATES,
    SEEDS,
    chosen_rate,
    family,
    labels,
    light,
    tried,
    validated,
)
from xmr_study.protocol_results import budget_points, protocol_rows
from xmr_study.records import column

ROOT = Path(__file__).resolve().parents[1]
REPORTS, TEXT = ROOT / "reports", ROOT / "scripts" / "report.md"
SWEPT = {  # symbol: option, values, the paper's curve, whether the axis is logarithmic
    "α": ("alpha", (1, 2, 4, 8, 16, 32, 64), paper_tables.dive_alpha, True),
    "K": ("slots", (1, 2, 3, 4, 5, 6), paper_tables.dive_cardinality, False),
    "T": ("iterations", (1, 2, 3, 4, 5, 6), paper_tables.dive_iterations, False),
}
SAID = ["held", "held", "undecided", "contradicted", "undecided", "held"]  # of how sets are compared, of K, and of α
ASKED = ("dive-smooth-mp", "dive-smooth-mil", "dive-similarity", "dive-k-4", "dive-alpha-16", "dive-alpha-large")
START, END = "<!-- answer: made by `make reports` -->\n", "<!-- end of answer -->"


def markdown(table: pd.DataFrame, digits: int = 1) -> str:
    """A GitHub table; missing numbers are dashes."""
    body = table.map(lambda v: "–" if v is None or v != v else f"{v:,.{digits}f}" if isinstance(v, float) else str(v))
    lines = [list(body.columns), ["---"] * body.shape[1], *body.to_numpy().tolist()]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def stored(figure: Figure, name: str) -> None:
    figure.savefig(REPORTS / "figures" / f"{name}.png", dpi=110)
    plt.close(figure)


def beside_paper(table: pd.DataFrame) -> str:
    """A table of a paper beside what the study reached (study.beside), as it is read."""
    own = beside(table).dropna(subset=["paper", "study"])
    ends = own.apply(lambda r: "" if np.isnan(r["low"]) else f" [{r['low']:+.1f}, {r['high']:+.1f}]", axis=1)
    own["study, difference"] = own["study, difference"].map("{:+.1f}".format).where(ends != "", "–") + ends
    return markdown(own.drop(columns=["low", "high"]).reset_index())


def all_methods(table: pd.DataFrame) -> pd.DataFrame:
    """decision.methods as it is read."""
    out = table[["label", "runs"]].rename(columns={"label": "method"})
    ends = table.apply(lambda r: "" if np.isnan(r["rsum low"]) else f" [{r['rsum low']:.1f}, {r['rsum high']:.1f}]", 1)
    out["RSUM"] = table["rsum"].map("{:.1f}".format) + ends
    shown = {"epochs": "epochs", "train seconds": "train, s", "parameters": "parameters"}
    if "rsum human" in table:
        out["RSUM, human"] = table["rsum human"]
        out["rate"] = table["lr"].map("{:g}".format)
    else:
        out["by world"] = table["by world"].fillna("–")
        out["RSUM, all true answers"] = table["rsum exhaustive"]
        shown["scoring ms"] = "scoring, ms"  # timed at the width that the methods have on scenes
    whole = {name: table[column].map("{:,.0f}".format).replace("nan", "–") for column, name in shown.items()}
    return out.assign(**whole)


def verdicts_by_paper(table: pd.DataFrame) -> pd.DataFrame:
    """One line per paper: of each verdict, how many are confirmatory + exploratory; of the others, how many lines."""
    lines = []
    for paper, own in [*table.groupby("paper", sort=False), ("all", table)]:
        of = {word: own.loc[own["verdict"] == word, "kind"] for word in (*DECIDED, "no verdict yet", "not measured")}
        split = [f"{(of[word] == 'confirmatory').sum()} + {(of[word] == 'exploratory').sum()}" for word in DECIDED]
        lines.append((paper, *split, len(of["no verdict yet"]), len(of["not measured"])))
    return pd.DataFrame(lines, columns=["paper", *DECIDED, "no verdict yet", "not measured"])


def under_way() -> dict[str, object]:
    """Today's protocol, as far as it has rows: hours by part, and what is chosen."""
    rows, plan = records.results(), pd.read_csv(REPORTS / "planned.csv")
    used = rows.assign(seconds=rows["train_seconds"] + rows["evaluate_seconds"]).groupby("part")["seconds"]
    account = plan.groupby("part", sort=False)["seconds"].agg(runs="size", hours="sum")
    once = rows.sort_values("part", key=lambda part: part.map(PARTS.index), kind="stable").drop_duplicates(KEY)
    made = once.groupby("part").size()  # some runs were made again on another processor, or stand in two parts
    account = account.reindex([part for part in PARTS if part in account.index or part in made.index])
    account = account.assign(made=made, used=used.sum() / 3600).fillna({"made": 0, "used": 0.0})
    account = account.assign(hours=account["hours"] / 3600, made=account["made"].astype(int))
    account["runs"] = account["runs"].map("{:.0f}".format).replace("nan", "–")
    names = {"runs": "runs planned", "hours": "hours planned", "made": "runs made", "used": "hours used"}
    lines, rates = [], [*RATES, 2 * RATES[-1]]
    for label in light():
        short, long = (validated(rows, label, epochs, RATE) for epochs in LENGTHS)
        values = tried(rows, label, LENGTHS[-1])
        rate = chosen_rate(rows, label, LENGTHS[-1])
        lines.append(
            (label, short, long, (long or np.nan) - (short or np.nan), *map(values.get, rates), str(rate or "–"))
        )
    shown = ["method", *(f"{n} epochs" for n in LENGTHS), "gain", *(f"rate {rate:g}" for rate in rates), "chosen"]
    choices = pd.DataFrame(lines, columns=shown).astype(dict.fromkeys(shown[1:-1], float))
    wide = [(label, "DivE") for label in (*CAPACITY, *CROSSED) if label != "DivE, 4 × 16"]
    capacity = decision.effects(rows[rows["part"] != "ambiguity"], [*wide, ("VSE∞", "DivE, 4 × 16")], [RSUM, TRUE_RSUM])
    decided = rows[rows["part"].isin(["capacity", "comparison"])]
    levels = decision.levels(decided, [name for name in dict.fromkeys(decided["label"]) if name not in light()])
    masks = decision.false_negatives(rows)
    masked, pays = decision.by_measure(masks), decision.paying(rows)
    annotated, true = (
        t.loc[t["above"].str.contains("InfoNCE"), "mean"] for t in map(masked.get, (RSUM.name, TRUE_RSUM.name))
    )
    if not annotated.max() < 0 < true.min():
        raise SystemExit(f"error: {TEXT.name} says otherwise of false negatives than {masks}.")
    both = {name: masked[name] for name in (RSUM.name, TRUE_RSUM.name)}
    stored(plots.levels(both, "difference from annotated positives (points)", 0), "false_negatives")
    stored(plots.levels(decision.by_measure(pays), "difference (points)", 0), "ambiguity")
    own = decision.verdicts(rows, CAPACITY_CLAIMS)[["sentence", "runs", "effect", "low", "high", "by world", "verdict"]]
    seen = [decision.can_be_seen(claim) for claim in CLAIMS if decision.can_be_seen(claim) is not None]
    return {
        "printed": str(len(seen)),
        "seen": str(sum(seen)),
        "capacity_claims": markdown(own),
        "total": account["used"].sum(),
        "account": markdown(account[list(names)].rename(columns=names).reset_index()),
        "choices": markdown(choices),
        "capacity": markdown(capacity.drop(columns="ambiguity")) if len(capacity) else "No rows yet.",
        "levels": markdown(levels) if len(levels) else "No rows yet.",
        "paying": markdown(pays.astype({"ambiguity": str})),
        "masks": markdown(masks.astype({"ambiguity": str})),
        "pays_runs": str(both[RSUM.name].set_index("label").loc["VSE∞, InfoNCE, true, at 0.1", "runs"]),
        "pays": {
            f"{r.label}, {r.measure}": f"{r.effect:+.0f} [{r.low:+.0f}, {r.high:+.0f}]"
            for own in (*masked.values(), *decision.by_measure(pays).values()) for r in own.itertuples()
        },
        **of_all_answers(decided[decided["ambiguity"] == DEFAULT_AMBIGUITY]),
    }  # fmt: skip


def of_all_answers(rows: pd.DataFrame) -> dict[str, object]:
    """What only a corpus that knows every right answer can tell of the compared methods: whether annotated numbers
    order them, and whether uncertainty counts answers."""
    names = [column("exhaustive", d, "map_at_r") for d in ("i2t", "t2i")]
    taus = decision.agreement(rows.assign(truth=rows[names].mean(axis=1)), light(), "annotated both rsum", "truth")
    known = decision.rises(rows)
    stored(plots.levels(known, "captions in which it rises when an attribute is left out (%)", 50), "answers_known")
    by_label = {name: known[shown].set_index("label") for name, shown in decision.RISES.items()}
    rises = {name: table["mean"] for name, table in by_label.items()}
    gaps = pd.concat([rises[name] - rises[f"{name} anyway"] for name in ("entropy rises", "spread rises")])
    high = by_label["spread rises"]["high"]
    if rises["entropy rises anyway"].min() < 60 or {*high[high < 50].index} != {"PVSE", "DivE", "PCME++"}:
        raise SystemExit(f"error: {TEXT.name} says otherwise of uncertainty than {rises}.")
    cells = {
        decision.RISES[name]: t.apply(lambda r: f"{r['mean']:.0f} [{r['low']:.0f}, {r['high']:.0f}]", axis=1)
        for name, t in by_label.items()
    }
    runs = by_label["entropy rises"]["runs"]
    mean, low, high = seed_interval(taus)
    return {
        "order": mean, "order_low": low, "order_high": min(high, 1.0), "batches": len(taus), "rises": rises,
        "least_gap": gaps.min(), "most_gap": gaps.max(),
        "lows": {name: own.min() for name, own in rises.items()},
        "highs": {name: own.max() for name, own in rises.items()},
        "answers_known": markdown(pd.DataFrame({"runs": runs, **cells}).rename_axis("method").reset_index()),
    }  # fmt: skip


def noise_on_photographs(rows: pd.DataFrame, methods: pd.DataFrame) -> dict[str, float]:
    """How far the RSUM of two methods must differ on the photographs' test images, at one training each, at as many
    as methods that score pairs have, and as all others have; how many printed differences lie below the first. rows: of
    records.results. methods: of decision.methods."""
    own = rows[rows["dataset"] == "flickr8k"].merge(methods[["label", "lr"]]).drop_duplicates(["label", "seed"])
    own = own[own["label"].isin(light())]
    lines = {name: of.to_dict("records") for name, of in own.groupby("label")}
    added = lambda ks: {name: np.stack([by_image(line, ks) for line in of]) for name, of in lines.items()}  # noqa: E731
    printed = [effect for effect in map(decision.printed_effect, CLAIMS) if effect is not None]
    once, runs = {ks: decision.noise(added(ks)) for ks in {ks for _, ks in printed}}, min(map(len, lines.values()))
    below = sum(abs(effect) < once[ks] for effect, ks in printed)
    fewer, more = (decision.noise(added(KS), n) for n in (SEEDS, runs))
    return {"once": once[KS], "fewer": fewer, "more": more, "each": runs, "below": below}


def photograph_rates(rows: pd.DataFrame) -> pd.DataFrame:
    """Validation RSUM of seed 0 of each method on photographs, by learning rate."""
    own = rows[(rows["dataset"] == "flickr8k") & (rows["seed"] == 0)].drop_duplicates(["label", "lr"])
    own = own.assign(shown=own["validation"].map("{:.1f}".format).replace("nan", "diverged"))
    table = own.pivot(index="label", columns="lr", values="shown").fillna("–")
    table.columns = [f"{rate:g}" for rate in table.columns]
    return table.reindex([*light(), *PAIRS]).rename_axis("method").reset_index()


def at_one_rate(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """RSUM on the test photographs of seed 0 at the rate at which methods that score pairs run: theirs, and of all
    others."""
    own = rows[(rows["dataset"] == "flickr8k") & (rows["seed"] == 0) & (rows["lr"] == PHOTOGRAPH_RATE)]
    rsum = 100 * own.drop_duplicates("label").set_index("label")["annotated both rsum"]
    return {"regions": rsum[[*PAIRS]], "alone": rsum[[*light()]]}


def by_image(line: dict, ks: Sequence[int] = KS) -> np.ndarray:
    """What each test photograph adds to the RSUM of a row, or to its sum of the recalls at ks, points: their mean is
    that sum. Ranks of a photograph stand before those of all captions, five for each in turn."""
    ranks = records.unpacked(records.ranks_file(line).read_bytes())[0]
    images = len(ranks) // 6
    hits = 100 * sum((ranks <= k).astype(float) for k in ks)
    return hits[:images] + hits[images:].reshape(images, 5).mean(axis=1)


def transfer(drawn: pd.DataFrame, photographs: pd.DataFrame, noise: float) -> dict[str, float]:
    """How many methods have rows on both, Kendall's τ of their RSUM, and the ends between which it lies for 95 % of
    draws of their means within what seeds, and on photographs test images, leave. noise: of decision.noise."""
    both, draw = drawn.merge(photographs, on="label"), np.random.default_rng(0)
    errors = (both["rsum high_x"] - both["rsum low_x"]) / 2 / 1.96, noise / 1.96 / 2**0.5
    taus = [
        kendalltau(draw.normal(both["rsum_x"], errors[0]), draw.normal(both["rsum_y"], errors[1])).statistic
        for _ in range(2000)
    ]
    low, high = np.quantile(taus, (0.025, 0.975))
    tau = kendalltau(both["rsum_x"], both["rsum_y"]).statistic
    return {"shared": len(both), "tau": tau, "tau_low": low, "tau_high": high}


def page() -> str:
    """reports/README.md; its figures are stored on the way."""
    rows, today = protocol_rows(), records.results()
    methods, photographs = (decision.methods(today, records.scoring(), name) for name in ("scenes", "flickr8k"))
    verdicts = ledger()
    families = {label: family(label) for label in labels()}
    stored(plots.pareto(methods.drop(columns="train seconds"), families), "abstract")
    stored(plots.slopes(budget_points(rows, labels()), families), "slopes")
    stored(plots.scoreboard(verdicts), "scoreboard")
    means = {}
    for symbol, (option, values, paper, log_x) in SWEPT.items():
        curve = swept(symbol, values)
        stored(plots.ablation(curve, paper(), "setting", symbol, log_x, option), f"sweep_{option}")
        means[symbol] = {int(x): value for x, value in curve.groupby("setting")["rsum"].mean().items()}
    by_label = methods.set_index("label")
    alone, there = (table[table["label"].isin(light())] for table in (methods, photographs))
    order = (methods["label"].iloc[0], alone["label"].iloc[0], there["label"].iloc[0])
    least = by_label.loc[[*PAIRS, *GRAPHS], "rsum"].min()
    if order != ("SCAN t-i", "DivE", "VSE+2AD") or not least > alone["rsum"].max():
        raise SystemExit(f"error: {TEXT.name} speaks of other methods than the rows: {order} are the best.")
    flickr, known = there.set_index("label")["rsum"], noise_on_photographs(today, there)
    pairs = photographs[~photographs["label"].isin(light())].set_index("label")["rsum"]
    equal = at_one_rate(today)
    if {*flickr.index[-2:]} != {"PCME", "PCME++"}:
        raise SystemExit(f"error: {TEXT.name} has another order on photographs than {flickr.to_dict()}.")
    same = today[today["dataset"] == "flickr8k"].groupby(KEY)["annotated both rsum"].agg(["size", "nunique"])
    if same["size"].max() < 2 or same["nunique"].max() > 1:
        raise SystemExit(f"error: {TEXT.name} says that runs on photographs came out the same on two processors.")
    if [*pairs.index] != ["SCAN t-i", "MaxSim t-i", "CHAN"] or not 0 < flickr.iloc[0] - pairs.iloc[0] < known["fewer"]:
        raise SystemExit(f"error: {TEXT.name} says otherwise of words and regions on photographs than {pairs}.")
    ahead = flickr[["DivE", "VSE+2AD"]] - flickr["VSE∞"]
    stands = ahead.map(lambda d: "not told from" if abs(d) < known["more"] else "above" if d > 0 else "below")
    width = decision.verdicts(today, CAPACITY_CLAIMS).set_index("claim")
    if width["verdict"].tolist() != ["held", "held", "undecided"]:
        raise SystemExit(f"error: {TEXT.name} says otherwise of width than {width['verdict'].to_dict()}.")
    word = verdicts.drop_duplicates("claim", keep="last").set_index("claim")["verdict"]
    if word[list(ASKED)].tolist() != SAID:
        raise SystemExit(f"error: {TEXT.name} says otherwise of sets than {word.filter(like='dive').to_dict()}.")
    usual = today[(today["ambiguity"] == DEFAULT_AMBIGUITY) & (today["dataset"] == "scenes")]
    words = decision.effects(usual, [(label, "DivE") for label in PAIRS], [RSUM]).set_index("above")
    if words["low"].min() < 0:
        raise SystemExit(f"error: {TEXT.name} says otherwise of words and regions than {words}.")
    one_element = decision.paired(today, RSUM, ("DivE, 1 × 256",), ("DivE",))
    constant = verdicts["claim"].str.startswith("vse2ad-negatives") & verdicts["verdict"].isin(DECIDED)
    counts = verdicts["verdict"].value_counts()
    return TEXT.read_text(encoding="utf-8").format(
        times_scan=by_label.loc["SCAN t-i", "scoring ms"] / by_label.loc["DivE", "scoring ms"],
        light={name: f"{r['rsum']:.1f} [{r['rsum low']:.1f}, {r['rsum high']:.1f}]" for name, r in by_label.iterrows()},
        collapsed=alone["collapsed"].max(),
        least_runs=alone["runs"].min(),
        wide=width.loc["capacity-storage"],
        dear=width.loc["capacity-cost"],
        narrow=-one_element.mean(),
        **transfer(alone, photographs, known["more"]),
        all_tau=transfer(methods, photographs, known["more"])["tau"],
        constant=constant.sum(),
        pairs=words["runs"].min(),
        words={r.Index: f"{r.effect:+.1f} [{r.low:+.1f}, {r.high:+.1f}]" for r in words.itertuples()},
        longer=reached(["SCAN i-t", "MaxSim i-t", "SCAN t-i + SCAN i-t"])["mean"].to_dict(),
        attention=word["maxsim-scan-t2i"],
        hard=word["chan-scan"],
        first=word["dive-vse-infty"],
        best_word=word["scan-sum-max-i2t"],
        claim={r.claim: f"{r.effect:+.1f} [{r.low:+.1f}, {r.high:+.1f}]" for r in verdicts.itertuples()},
        today=verdicts["corpus"].str.contains("today").sum(),
        older=verdicts.loc[verdicts["verdict"].isin(DECIDED), "corpus"].str.contains("before").sum(),
        alpha=means["α"],
        k=means["K"],
        flickr=pd.concat([flickr, pairs]).to_dict(),
        equal={kind: f"{own.min():.0f} to {own.max():.0f}" for kind, own in equal.items()},
        beside=stands.to_dict(),
        five=flickr.iloc[0] - flickr.iloc[4],
        gap_flickr=flickr["DivE"] - flickr["VSE++"],
        gap_scenes=verdicts.set_index("claim").loc["dive-sets", "effect"],
        decided=counts[list(DECIDED)].sum(),
        **{word: counts[word] for word in DECIDED},
        methods=markdown(all_methods(methods)),
        similarities=beside_paper(paper_tables.dive_similarity()),
        slots=beside_paper(paper_tables.dive_slots()),
        photographs=markdown(all_methods(photographs)),
        rates=markdown(photograph_rates(today)),
        verdicts=markdown(verdicts_by_paper(verdicts)),
        **under_way(),
        **known,
    )


def with_answer(readme: str, report: str) -> str:
    """README.md with the summary of the report between its marks."""
    summary = re.search(r"<!-- summary -->\n(.*)<!-- end of summary -->", report, re.S)[1]
    before, rest = readme.split(START)
    return before + START + summary.replace("](figures/", "](reports/figures/") + END + rest.split(END)[1]


def main() -> None:
    files.make_folder(REPORTS / "figures")
    report = page()
    files.write_atomic(REPORTS / "README.md", report)
    files.write_atomic(ROOT / "README.md", with_answer((ROOT / "README.md").read_text(encoding="utf-8"), report))


if __name__ == "__main__":
    main()
