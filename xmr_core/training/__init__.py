"""The training loop and what it uses: schedules, a resumable state, stages of fine-tuning, detection of collapse."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "CollapseWatch": "collapse",
        "History": "config",
        "TrainConfig": "config",
        "TensorBoard": "trackers",
        "check_method": "method_check",
        "lr_factor": "schedule",
        "runs": "",
        "scalars": "trackers",
        "train": "loop",
    },
)
