"""The protocol of the study (docs/protocol.md) as lists of runs."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from xmr_core.methods.registry import method_spec
from xmr_core.study.presets import base_config
from xmr_core.study.variants import comparison
from xmr_core.training.runs import RunConfig

EPOCHS, SHORTER, TUNING_EPOCHS = 72, (8, 24), 24
SEEDS, MORE_SEEDS, SHORT = 5, 10, 120.0  # the second where a run takes less than so many seconds
WORLD, DECIDING = 0, (1, 2)
TRIALS: tuple[Mapping[str, object], ...] = (
    {}, {"lr": 1e-3}, {"lr": 4e-3}, {"temperature": 0.1}, {"dropout": 0.1},
    {"objective": "siglip", "temperature": 0.1}, {"objective": "triplet", "margin": 0.2},
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A run of the protocol. part: 'tuning', 'comparison' or 'budget'. variant: of `labels`. label: what its rows are
    called."""

    part: str
    variant: str
    label: str
    config: RunConfig


def in_common_form(label: str, **changes) -> RunConfig:
    """The run of a variant as the protocol has it: every method reads the states of the GRU.

    >>> in_common_form("DivE").options["text_local"]
    'states'
    """
    method, options = comparison()[label]
    reads = {"text_local": "states"} if "text_local" in method_spec(method).options.names("matched") else {}
    return base_config(method, device="cpu", **{**reads, **options, **changes})


def labels() -> list[str]:
    """The variants that are different runs in the common form, under the first label of each.

    >>> "DivE" in labels() and "DivE on GRU states" not in labels()
    True
    """
    first: dict[str, RunConfig] = {}
    for label in comparison():
        if (config := in_common_form(label)) not in first.values():
            first[label] = config
    return list(first)


def trial(label: str, number: int) -> dict[str, object]:
    """What a tuning trial (from 1) changes for a variant: what its method says, else the common one.

    >>> trial("DivE", 4), trial("PCME", 7)
    ({'temperature': 0.1}, {'objective': 'infonce'})
    """
    own = method_spec(comparison()[label][0]).trials
    return dict(own.get(number, TRIALS[number - 1]))


def tuning() -> list[Job]:
    """Seven trials of every variant on the world of choices.

    >>> len(tuning()) == 7 * len(labels())
    True
    """
    fixed = {"epochs": TUNING_EPOCHS, "seed": 0, "world_seed": WORLD}
    return [
        Job("tuning", label, _tuned(label, n), in_common_form(label, **fixed, **trial(label, n)))
        for label in labels()
        for n in range(1, len(TRIALS) + 1)
    ]


def chosen_trials(rows: pd.DataFrame) -> dict[str, int]:
    """Variant → its trial of the highest annotated RSUM on the validation split; the earlier one of equals. Only
    variants whose trials all have rows.

    rows: of results.read.

    >>> chosen_trials(pd.DataFrame(columns=["variant", "metric", "value"]))
    {}
    """
    best = rows[rows["metric"] == "val_rsum"].groupby("variant")["value"].last().astype(float)
    out = {}
    for label in labels():
        values = [best.get(_tuned(label, n)) for n in range(1, len(TRIALS) + 1)]
        if None not in values:
            out[label] = values.index(max(values)) + 1
    return out


def comparisons(rows: pd.DataFrame) -> list[Job]:
    """Every tuned variant at convergence on the worlds that decide, and its budget curve. rows: those there are, which
    hold the tuning and say how long a run takes.

    >>> comparisons(pd.DataFrame(columns=["variant", "metric", "value", "run_id", "train_seconds"]))
    []
    """
    jobs = []
    for label, number in chosen_trials(rows).items():
        own = rows[rows["variant"] == label].drop_duplicates("run_id")["train_seconds"].astype(float)
        more = len(own) >= SEEDS and own.median() < SHORT
        for seed in range(MORE_SEEDS if more else SEEDS):
            config = in_common_form(
                label, seed=seed, world_seed=DECIDING[seed % 2], epochs=EPOCHS, **trial(label, number)
            )
            jobs.append(Job("comparison", label, label, config))
            if seed < 2:
                jobs += [
                    Job("budget", label, f"{label}, {epochs} epochs", config.replace(epochs=epochs))
                    for epochs in SHORTER
                ]
    return jobs


def jobs(rows: pd.DataFrame) -> list[Job]:
    """All runs that can be named with these rows, tuning first.

    >>> {job.part for job in jobs(pd.DataFrame(columns=["variant", "metric", "value"]))}
    {'tuning'}
    """
    return tuning() + comparisons(rows)


def missing(rows: pd.DataFrame) -> list[Job]:
    """Those of `jobs` without rows of their label and seed.

    >>> len(missing(pd.DataFrame(columns=["variant", "metric", "value", "seed"]))) == len(tuning())
    True
    """
    measured = set(zip(rows["variant"], rows["seed"].astype(int), strict=True))
    return [job for job in jobs(rows) if (job.label, job.config.train.seed) not in measured]


def hours(job: Job, rows: pd.DataFrame) -> float | None:
    """How long a run will take on one core: its epochs times the median seconds of an epoch of its variant in the rows;
    None where they hold none of it.

    >>> rows = pd.DataFrame({"variant": ["DivE"], "run_id": ["a"], "train_seconds": [36.0], "epochs": [2]})
    >>> hours(Job("tuning", "DivE", "DivE, tuning 1", in_common_form("DivE", epochs=10)), rows)
    0.05
    """
    same = rows[(rows["variant"] + ",").str.startswith(job.variant + ",")].drop_duplicates("run_id")
    if not len(same):
        return None
    seconds = (same["train_seconds"].astype(float) / same["epochs"].astype(float)).median()
    return float(seconds) * job.config.train.epochs / 3600


def _tuned(label: str, number: int) -> str:
    return f"{label}, tuning {number}"
