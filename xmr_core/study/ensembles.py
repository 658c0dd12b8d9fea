"""Ensembles that claims name ("SAF + SGR"): rows made from two members' runs of one seed and world. Nothing is trained
for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from xmr_core.study.claims_data.claim import JOIN, Claim
from xmr_core.study.jobs import comparisons, flickr8k, longer
from xmr_core.study.protocol import Job, run_label
from xmr_core.training.runs.config import readable_id
from xmr_core.training.runs.ensemble import ENSEMBLE


@dataclass(frozen=True)
class Ensemble:
    """An ensemble of one seed. label: its members' labels, joined. members: their runs, in the order of the label."""

    label: str
    members: tuple[Job, ...]

    @property
    def dataset(self) -> str:
        """The data set of all members."""
        return self.members[0].config.data.dataset

    @property
    def seed(self) -> int:
        """The seed of all members."""
        return self.members[0].config.train.seed


def ensemble_labels(claims: Sequence[Claim]) -> list[str]:
    """The ensembles that claims name, each once.

    >>> ensemble_labels([Claim("c", "ours", "Two beat one.", ("SAF + SGR",), ("SAF",))])
    ['SAF + SGR']
    """
    return list(dict.fromkeys(name for c in claims for name in (*c.above, *c.below) if JOIN in name))


def ensembles(
    claims: Sequence[Claim],
    rows: pd.DataFrame,
    curves: pd.DataFrame,
    chosen: Mapping[str, int],
    flickr8k_root: str = "",
) -> list[Ensemble]:
    """The ensembles of every seed that all members are run with, on the worlds that decide and on Flickr8k.

    A member that was not converged counts with its longer run (docs/protocol.md#protocol-budget). chosen: variant → its
    trial; nothing is named before all members have one.

    >>> names = [Claim("c", "ours", "Two beat one.", ("SAF + SGR",), ("SAF",))]
    >>> none = pd.DataFrame(columns=["variant", "run_id", "train_seconds", "epochs"])
    >>> len(ensembles(names, none, pd.DataFrame(columns=["run_id"]), {"SAF": 1, "SGR": 1}))
    5
    """
    chosen = dict(chosen)
    runs = [job for job in comparisons(rows, chosen) if job.part == "comparison"] + longer(rows, curves, chosen)
    if flickr8k_root:
        photographs = flickr8k(flickr8k_root, chosen, rows, curves)
        runs += [job for job in photographs if run_label(job.label) == job.variant]
    by_key: dict[tuple[str, str, int], Job] = {}
    for job in runs:  # a longer run replaces the one before it
        by_key[job.variant, job.config.data.dataset, job.config.train.seed] = job
    corpora = dict.fromkeys((dataset, seed) for _, dataset, seed in by_key)
    out = []
    for label in ensemble_labels(claims):
        for dataset, seed in corpora:
            members = [by_key.get((part, dataset, seed)) for part in label.split(JOIN)]
            if None not in members:
                out.append(Ensemble(label, tuple(members)))
    return out


def ensemble_id(ensemble: Ensemble, rows: pd.DataFrame) -> str | None:
    """The id of an ensemble by the rows of its members; None where a member has none yet."""
    members = []
    for job in ensemble.members:
        own = rows[
            (rows["variant"] == job.label) & (rows["dataset"] == ensemble.dataset)
            & (rows["seed"].astype(int) == ensemble.seed)
        ]  # fmt: skip
        if not len(own):
            return None
        members.append(own["run_id"].iloc[-1])
    return readable_id(ENSEMBLE, ensemble.dataset, ensemble.seed, tuple(members))


def uncomputed(wanted: Sequence[Ensemble], rows: pd.DataFrame) -> list[Ensemble]:
    """Those whose members all have rows and that have none of these members themselves."""
    measured = set(rows["run_id"])
    return [e for e in wanted if (name := ensemble_id(e, rows)) is not None and name not in measured]
