"""Runs: each is trained once, loaded when it is asked for again, continued after an interruption, repaired when
damaged.

`config.py` says what names a run, `folder.py` what lies in its folder.
"""

from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.ensemble import ensemble_of, scores_of
from xmr_core.training.runs.folder import TrainedRun, load
from xmr_core.training.runs.folder import run_table, stored_ids
from xmr_core.training.runs.config import PRESETS, base_config
from xmr_core.training.runs.sweep import train_or_load_all
from xmr_core.training.trackers import TensorBoard, scalars
from xmr_core.training.runs.train_run import train_or_load

__all__ = [
    "PRESETS", "RunConfig", "TensorBoard", "TrainedRun", "base_config", "ensemble_of", "load", "run_table",
    "scalars", "scores_of", "stored_ids", "train_or_load", "train_or_load_all",
]  # fmt: skip
