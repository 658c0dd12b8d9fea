"""Runs: each is trained once, loaded when it is asked for again, continued after an interruption, repaired when
damaged.

`versions.py` says what names a run; `folder.py` what lies in its folder.
"""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "RunConfig": "config",
        "TrainedRun": "run",
        "ensemble_of": "ensemble",
        "load": "folder",
        "scores_of": "ensemble",
        "run_table": "names",
        "stored_ids": "names",
        "train_or_load": "produce",
        "train_or_load_all": "many",
        "zero_shot_reference": "reference",
    },
)
