"""The protocol of the study (docs/protocol.md): which runs there are, and which of them have no rows yet."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

import numpy as np
import pandas as pd

from xmr_core.base.errors import require_choice
from xmr_core.base.machine import only_shapes
from xmr_core.methods.common import Inputs
from xmr_core.methods.registry import method_spec, registered
from xmr_core.training.runs.config import RunConfig, base_config
from xmr_study.claims import Variant
from xmr_study.variants import comparison, labelled

PARTS = (
    "length", "tuning", "capacity", "comparison", "hinge", "ambiguity", "pairs", "graphs", "photographs, rate",
    "photographs", "sets", "slots", "scales",
)  # fmt: skip
KEY = ["label", "epochs", "lr", "world", "seed", "ambiguity", "dataset"]  # what tells the rows of runs apart
LENGTHS, MOST_GAIN = (72, 144), 3.0  # epochs; what doubling the shorter may add, points of RSUM
RATE, RATES = 2e-3, (1e-3, 2e-3, 4e-3, 8e-3)  # of the length; of tuning
CHOOSING, WORLDS = 0, (1, 2, 3, 4)  # the world on which everything is chosen, and those that decide
SEEDS, TUNING_SEEDS = 3, 2
COMMON = {"text_local": "states", "iterations": 4, "warmup_steps": 40}  # where a method has the option
# what a label stands for beside the options of its variant
FIELDS = {"PCME with word drop": {"word_drop": 0.1}, "PCME++": {"objective": "infonce"}}

# One vector of a set's storage and of its cost of scoring, and a set of one vector's storage, on two worlds; what
# crosses elements with width at equal storage, on one.
CAPACITY = ("VSE∞, 4 × wider", "DivE, 4 × 16", "VSE∞, 16 × wider", "VSE∞, 16 × wider, DivE's time")
CROSSED = ("VSE+2AD, 4 × wider", "DivE, 1 × 256", "DivE, 2 × 128")
CONTROLS = ("DivE", "VSE∞", "VSE+2AD")
# DivE's Table 3 (what makes its elements, how sets are compared), App. B.3 (its changes to slot attention, undone) and
# Table 4 (α).
SETS = ("MP, slots", "smooth-Chamfer, PIE-Net", "smooth-Chamfer, transformer", "MIL, slots", "Chamfer, slots")
SLOTS = ("sampled slots", "GRU update", "without global feature", "all three changes off")
SCALES = tuple(f"α={alpha}" for alpha in (1, 2, 4, 8, 32, 64))

# The same images captioned more and more vaguely; who trains on them, by which objective, and what becomes of the true
# pairs that nobody annotated. A hinge is tuned first, on its rate and on the epochs in which it sees all negatives. All
# of it at the shorter length.
AMBIGUITIES = (0.0, 0.1, 0.5)
MASKS = {"annotated": "annotated", "left out": "left out", "true": "exhaustive"}  # label → positives of a run
OBJECTIVES = {"InfoNCE": {"objective": "infonce"}, "hinge": {"objective": "triplet", "margin": 0.2}}
UNCROSSED = ("hinge", "true")  # have no run; nor has a mask but the first at the clearest captions
HINGE_RATES, WARM_UPS = (1e-3, 2e-3, 4e-3), (1 / 3, 2 / 3)
# Methods that score pairs, untuned: words that look for regions, the other direction for claims, and a run each of the
# two that reason on graphs, of which SGR is too dear for the whole length.
PAIRS = ("CHAN", "MaxSim t-i", "SCAN t-i")
REVERSED = ("SCAN i-t", "MaxSim i-t")
GRAPHS = {"SAF": LENGTHS[0], "SGR": 24}
# Flickr8k: light methods, tuned by one seed, and those that score pairs, untuned.
PHOTOGRAPHS = {
    "dataset": "flickr8k", "features": "efficientnet_lite0", "preset": "study", "epochs": 40, "warmup_steps": 93,
}  # fmt: skip
PHOTOGRAPH_RATES, PHOTOGRAPH_RATE, PHOTOGRAPH_SEEDS = (7.5e-4, 1.5e-3, 3e-3, 6e-3), 3e-3, 5

EQUAL_TIME = ", DivE's time"  # the end of a label whose run has as many fewer epochs as its steps take longer
STEP_MS = {  # processor milliseconds of a step, measured before the first run; the last four in the protocol before
    "VSE++": 14, "PVSE": 20, "PCME": 24, "VSE∞": 20, "VSE+2AD": 21, "DivE": 36, "PCME++": 35, "MaxSim": 66,
    "VSE∞, 4 × wider": 42, "VSE∞, 16 × wider": 124, "VSE+2AD, 4 × wider": 64, "DivE, 4 × 16": 38, "DivE, 1 × 256": 32,
    "DivE, 2 × 128": 33, "CHAN": 63, "SCAN": 103, "SAF": 237, "SGR": 504,
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A run of the protocol. part: of PARTS. label: what its rows are called."""

    part: str
    label: str
    config: RunConfig

    @property
    def key(self) -> tuple:
        """What tells its rows from others: KEY."""
        train, data = self.config.train, self.config.data
        return self.label, train.epochs, train.lr, data.world_seed, train.seed, data.ambiguity, data.dataset

    @property
    def batch(self) -> tuple:
        """Runs that are compared, and so are trained on one processor."""
        data = self.config.data
        return self.part, data.dataset, data.world_seed, data.ambiguity, self.config.train.seed


def variants() -> dict[str, Variant]:
    """Every label that a comparison, an ablation or a sweep puts on runs: label → (method, options).

    >>> variants()["α=16"]
    ('dive', {'alpha': 16})
    """
    return _variants(registered())


@cache
def _variants(key: tuple) -> dict[str, Variant]:
    return labelled()


def in_common_form(label: str, **changes) -> RunConfig:
    """The run of a label as the protocol has it: every method reads the states of the GRU, slots take four rounds, the
    rate rises over an epoch, and a hinge sees all negatives for a third of the epochs where the label says nothing
    else.

    Raises: BadInput for a label that no method has.

    >>> in_common_form("DivE").options["text_local"]
    'states'
    >>> in_common_form("SCAN i-t, hinge", epochs=72).options["warmup_epochs"]
    24
    """
    require_choice("label", label, variants())
    method, options = variants()[label]
    names = {*method_spec(method).options.names("matched"), "warmup_steps"}
    common = {name: value for name, value in COMMON.items() if name in names}
    config = base_config(method, device="cpu", **{**common, **FIELDS.get(label, {}), **options, **changes})
    unsaid = "warmup_epochs" in names and "warmup_epochs" not in config.options
    hinge = config.options.get("objective") == "triplet"
    return config.replace(warmup_epochs=config.train.epochs // 3) if hinge and unsaid else config


def canonical() -> dict[str, str]:
    """Label → the first label of the same run in the common form: one control stands under one label.

    >>> canonical()["α=16"], canonical()["DivE on GRU states"], canonical()["K=2"]
    ('DivE', 'DivE', 'DivE, K=2')
    """
    return _canonical(registered())


@cache
def _canonical(key: tuple) -> dict[str, str]:
    first: dict[str, RunConfig] = {}
    out: dict[str, str] = {}
    for label in variants():
        config = in_common_form(label)
        config = replace(config, options=method_spec(config.method).full_options("matched", config.options))
        out[label] = next((other for other, held in first.items() if held == config), label)
        first.setdefault(out[label], config)
    return out


def labels() -> list[str]:
    """The variants that are compared with each other and are different runs in the common form.

    >>> "DivE" in labels() and "DivE on GRU states" not in labels()
    True
    """
    same = canonical()
    return [label for label in comparison() if same[label] == label]


def light() -> list[str]:
    """The compared variants whose items are a vector, a set or a distribution.

    >>> light()
    ['VSE++', 'PVSE', 'PCME', 'VSE∞', 'VSE+2AD', 'DivE', 'PCME++']
    """
    return [label for label in labels() if not compares_pairs(label)]


def compares_pairs(label: str) -> bool:
    """Whether the method of a label computes something for every pair, and is dear for it.

    >>> compares_pairs("SAF"), compares_pairs("DivE")
    (True, False)
    """
    return _compares_pairs(variants()[label][0], registered())


@cache
def _compares_pairs(method: str, key: tuple) -> bool:
    with only_shapes():
        built = method_spec(method).build(Inputs(image_width=8, cells=4, vocabulary=9))
    return built.similarity.compares in ("tokens", "graphs")


def family(label: str) -> str:
    """What a label makes of an item.

    >>> family("SAF"), family("DivE"), family("VSE++")
    ('words and regions, compared pair by pair', 'a set or a distribution', 'one vector')
    """
    if compares_pairs(label):
        return "words and regions, compared pair by pair"
    return "a set or a distribution" if variants()[label][0] in ("pvse", "dive", "pcme", "pcme++") else "one vector"


def base_of(label: str) -> str:
    """The compared variant whose learning rate a label takes: of the same method, with most of its options; for a
    method that is compared under no label of its own, the label itself.

    >>> base_of("K=2"), base_of("SAF"), base_of("single vector")
    ('DivE', 'SAF', 'VSE++')
    """
    method, options = variants()[label]
    same = {c: variants()[c][1] for c in labels() if variants()[c][0] == method}
    inside = [c for c, own in same.items() if own.items() <= options.items()] or list(same) or [label]
    return max(inside, key=lambda c: len(same.get(c, {})))


# What is chosen on world 0: the length, and the learning rate of each method at that length.


def validated(rows: pd.DataFrame, label: str, epochs: int, rate: float, seeds: int = TUNING_SEEDS) -> float | None:
    """The mean over the seeds of tuning of the best RSUM on the validation split, percent: −∞ where one failed, None
    before all have rows."""
    own = rows[(rows["label"] == label) & (rows["epochs"] == epochs) & (rows["lr"] == rate)]
    own = own[(own["dataset"] == "scenes") & (own["world"] == CHOOSING) & (own["seed"] < seeds)]
    own = own.drop_duplicates("seed")
    return float(own["validation"].fillna(-np.inf).mean()) if len(own) == seeds else None


def length(rows: pd.DataFrame) -> int | None:
    """The epochs of all light methods: the shorter of LENGTHS if the longer adds less than MOST_GAIN to each of them,
    else the longer, which is as long as the hours allow. A method that fails says nothing of it. None before all have
    rows. rows: of records.read."""
    short, long = ([validated(rows, label, epochs, RATE) for label in light()] for epochs in LENGTHS)
    if None in short + long:
        return None
    gains = [b - a for a, b in zip(short, long, strict=True) if np.isfinite(a + b)]
    return LENGTHS[max(gains) >= MOST_GAIN]


def tried(rows: pd.DataFrame, label: str, epochs: int) -> dict[float, float | None]:
    """Learning rate → its `validated`: RATES, and one more where the best of these is an edge."""
    values = {rate: validated(rows, label, epochs, rate) for rate in RATES}
    if None not in values.values():
        best = max(values, key=values.__getitem__)
        for edge, beyond in ((RATES[0], RATES[0] / 2), (RATES[-1], 2 * RATES[-1])):
            if best == edge:
                values[beyond] = validated(rows, label, epochs, beyond)
    return values


def chosen_rate(rows: pd.DataFrame, label: str, epochs: int) -> float | None:
    """The learning rate of the highest `validated`, the lower of equals; None before all that are tried have rows."""
    values = tried(rows, base_of(label), epochs)
    return None if None in values.values() else max(sorted(values), key=values.__getitem__)


# The runs, in the order of their value.


def jobs(rows: pd.DataFrame, assumed: bool = False, flickr8k: str = "") -> list[Job]:
    """All runs that can be named with the rows that are there: what is not chosen yet has no further runs.

    rows: of records.read. A run that two parts need is named in both. assumed: for a plan, take the longer length, RATE
    and the shorter warm-up where nothing is chosen. flickr8k: the folder of its photographs; without it none.
    """
    every = [*_jobs(rows, assumed), *(_photographs(rows, assumed, flickr8k) if flickr8k else ())]
    return list({(job.part, job.key): job for job in every}.values())


def _jobs(rows: pd.DataFrame, assumed: bool) -> Iterator[Job]:
    for epochs, seed, label in product(LENGTHS, range(TUNING_SEEDS), light()):
        yield _job("length", label, epochs, RATE, CHOOSING, seed)
    if (epochs := length(rows) or (LENGTHS[-1] if assumed else None)) is None:
        return
    for label in sorted(light(), key=lambda label: label not in CONTROLS):
        for rate in tried(rows, label, epochs):
            for seed in range(TUNING_SEEDS):
                yield _job("tuning", label, epochs, rate, CHOOSING, seed)
    rates = {label: chosen_rate(rows, label, epochs) or (RATE if assumed else None) for label in light()}
    decided = (
        ("capacity", (*CONTROLS, *CAPACITY), WORLDS[:2]), ("capacity", CROSSED, WORLDS[:1]),
        ("comparison", light(), WORLDS), ("sets", ("DivE", *SETS), WORLDS[:2]),
        ("slots", ("DivE", *SLOTS), WORLDS[:2]), ("scales", ("DivE", *SCALES), WORLDS[:2]),
        ("pairs", ("VSE++", *CONTROLS), WORLDS[:2]),
    )  # fmt: skip
    for part, names, worlds in decided:
        for seed, world, label in product(range(SEEDS), worlds, names):
            variant = label.removesuffix(EQUAL_TIME)
            if (rate := rates[base_of(variant)]) is not None:
                ratio = STEP_MS["DivE"] / STEP_MS[variant] if variant != label else 1
                yield _job(part, label, round(epochs * ratio), rate, world, seed)
    epochs = LENGTHS[0]
    for label, warm_up, rate in product(("VSE∞", "DivE"), _warm_ups(epochs), HINGE_RATES):
        changes = OBJECTIVES["hinge"] | {"warmup_epochs": warm_up, "ambiguity": 0.1}
        yield _job("hinge", _hinge_label(label, warm_up), epochs, rate, CHOOSING, 0, label, **changes)
    for world, seed, ambiguity in product(WORLDS[:2], range(2), AMBIGUITIES):
        for (name, loss), (mask, positives) in product(OBJECTIVES.items(), MASKS.items()):
            if (name, mask) == UNCROSSED or (ambiguity == AMBIGUITIES[0] and mask != "annotated"):
                continue
            for label in ("VSE∞", "DivE"):
                changes = loss | {"positives": positives, "ambiguity": ambiguity}
                rate = rates[label]
                if name == "hinge":
                    unknown = (RATE if assumed else None, _warm_ups(epochs)[0])
                    rate, changes["warmup_epochs"] = chosen_hinge(rows, label, epochs) or unknown
                if rate is not None:
                    yield _job("ambiguity", f"{label}, {name}, {mask}", epochs, rate, world, seed, label, **changes)
        if (seed, world) == (0, WORLDS[0]):
            for label, rate in (("PCME++", rates["PCME++"]), ("MaxSim t-i", RATE)):
                if rate is not None:
                    yield _job("ambiguity", label, epochs, rate, world, seed, ambiguity=ambiguity)
    for seed, world, label in product(range(SEEDS), WORLDS[:2], (*PAIRS, *REVERSED)):
        yield _job("pairs", label, LENGTHS[0], RATE, world, seed)
    for label, epochs in GRAPHS.items():
        yield _job("graphs", label, epochs, RATE, WORLDS[0], 0)


def variant_of(label: str) -> str:
    """The variant that a label trains: the longest of `variants` with which it begins.

    >>> variant_of("DivE, hinge, left out"), variant_of("VSE∞, 16 × wider, DivE's time")
    ('DivE', 'VSE∞, 16 × wider')
    """
    return max((name for name in variants() if f"{label},".startswith(f"{name},")), key=len)


def step_ms(label: str) -> int:
    """STEP_MS of the method that a label trains, or varies.

    >>> step_ms("DivE, hinge, left out"), step_ms("VSE∞, 16 × wider, DivE's time")
    (36, 124)
    """
    return STEP_MS[max((name for name in STEP_MS if label.startswith(name)), key=len, default="DivE")]


def _warm_ups(epochs: int) -> list[int]:
    return [round(epochs * share) for share in WARM_UPS]


def _photographs(rows: pd.DataFrame, assumed: bool, data_root: str) -> Iterator[Job]:
    def job(part: str, label: str, rate: float, seed: int) -> Job:
        return Job(part, label, in_common_form(label, **PHOTOGRAPHS, data_root=data_root, lr=rate, seed=seed))

    for label, rate in product(light(), PHOTOGRAPH_RATES):
        yield job("photographs, rate", label, rate, 0)
    rates = {label: photograph_rate(rows, label) or (PHOTOGRAPH_RATE if assumed else None) for label in light()}
    for seed, label in product(range(PHOTOGRAPH_SEEDS), light()):
        if rates[label]:
            yield job("photographs", label, rates[label], seed)
    for seed, label in product(range(SEEDS), PAIRS):
        yield job("photographs", label, PHOTOGRAPH_RATE, seed)


def photograph_rate(rows: pd.DataFrame, label: str) -> float | None:
    """The learning rate whose run of seed 0 validates best on photographs, the lower of equals; None before all have
    rows. Of a method that scores pairs PHOTOGRAPH_RATE, untuned."""
    if label in PAIRS:
        return PHOTOGRAPH_RATE
    own = rows[(rows["dataset"] == PHOTOGRAPHS["dataset"]) & (rows["label"] == label) & (rows["seed"] == 0)]
    values = own.drop_duplicates("lr").set_index("lr")["validation"].fillna(-np.inf).reindex(PHOTOGRAPH_RATES)
    return None if values.isna().any() else float(values.idxmax())


def _hinge_label(label: str, warm_up: int) -> str:
    return f"{label}, hinge, warm-up {warm_up}"


def chosen_hinge(rows: pd.DataFrame, label: str, epochs: int) -> tuple[float, int] | None:
    """(learning rate, epochs of all negatives) under which a method's hinge validates best; None before all have
    rows."""
    values = {
        (rate, warm_up): validated(rows, _hinge_label(label, warm_up), epochs, rate, seeds=1)
        for warm_up, rate in product(_warm_ups(epochs), HINGE_RATES)
    }
    return None if None in values.values() else max(sorted(values), key=values.__getitem__)


def _job(part: str, label: str, epochs: int, rate: float, world: int, seed: int, variant: str = "", **changes) -> Job:
    variant = variant or label.removesuffix(EQUAL_TIME)
    return Job(part, label, in_common_form(variant, epochs=epochs, lr=rate, world_seed=world, seed=seed, **changes))


def missing(wanted: list[Job], rows: pd.DataFrame, processor: str) -> list[Job]:
    """Those of some jobs without rows, each once. What is compared comes from one processor: a batch that another one
    left unfinished is made again on this one."""
    made = {name: {*zip(*(own[c] for c in KEY), strict=True)} for name, own in rows.groupby("processor")}
    batches: dict[tuple, set] = {}
    for job in wanted:
        batches.setdefault(job.batch, set()).add(job.key)
    done = {batch for batch, keys in batches.items() if any(keys <= held for held in made.values())}
    here, anywhere = made.get(processor, set()), set().union(*made.values())
    held = dict.fromkeys(("length", "tuning", "hinge", "photographs, rate"), anywhere)
    lacking: dict[tuple, Job] = {}
    for job in wanted:
        if job.batch not in done and job.key not in held.get(job.part, here):
            lacking.setdefault(job.key, job)
    return [*lacking.values()]
