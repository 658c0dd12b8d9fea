"""Content-addressed runs: asked for twice, trained once; interrupted, continued; damaged, repaired, and said so."""

from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.fetch import Run, fetch
from xmr_core.training.runs.many import fetch_all
from xmr_core.training.runs.stored import stored_ids, stored_run

__all__ = ["Run", "RunConfig", "fetch", "fetch_all", "stored_ids", "stored_run"]
