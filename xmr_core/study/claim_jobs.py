"""Which runs a claim needs: to repeat one claim, or to make its rows first."""

from collections.abc import Iterable, Sequence
from functools import cache

import pandas as pd

from xmr_core.study.claims_data.claim import JOIN, Claim
from xmr_core.study.jobs import jobs
from xmr_core.study.protocol import Job, canonical, labels, run_label

_NONE = pd.DataFrame(columns=["variant", "metric", "value", "seed", "run_id", "dataset", "train_seconds", "epochs"])


def jobs_of_claims(wanted: Sequence[Job], claims: Iterable[Claim]) -> list[Job]:
    """Those of `wanted` whose rows decide one of the claims, on any corpus, and the tuning that these runs wait for.

    Budget curves and ambiguity decide no claim, and are left out. An ensemble needs the runs of its members.

    >>> from xmr_core.study.claims_data import CLAIMS
    >>> claims = [claim for claim in CLAIMS if claim.id == "dive-pvse"]
    >>> none = pd.DataFrame(columns=["variant", "metric", "value", "seed"])
    >>> sorted({job.variant for job in jobs_of_claims(jobs(none), claims)})
    ['DivE', 'PCME', 'PVSE']
    """
    first = canonical()
    members = {name for c in claims for label in (*c.above, *c.below) for name in label.split(JOIN)}
    named = {first.get(name, name) for name in members}
    tuned = {variant for variant, label in _planned(tuple(labels())) if label in named}
    return [job for job in wanted if (job.variant in tuned if job.part == "tuning" else run_label(job.label) in named)]


@cache
def _planned(names: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """(variant that is tuned, label) of every run of the protocol for these variants, before any trial is chosen."""
    planned = jobs(_NONE, flickr8k_root="flickr8k", chosen=dict.fromkeys(names, 1))
    return frozenset((job.variant, run_label(job.label)) for job in planned)
