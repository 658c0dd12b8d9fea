"""Runs: each is trained once, loaded when it is asked for again, continued when it was interrupted, and repaired when damaged."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "RunConfig": "config",
        "TrainedRun": "run",
        "ensemble_of": "ensemble",
        "resolve_device": "config",
        "scores_of": "ensemble",
        "stored_ids": "folder",
        "stored_run": "folder",
        "train_or_load": "produce",
        "train_or_load_all": "many",
        "zero_shot_reference": "reference",
    },
)
