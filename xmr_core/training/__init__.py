"""The training loop and what it uses: schedules, a resumable state, stages of fine-tuning, detection of collapse."""

from xmr_core.training.loop import History, TrainConfig, lr_factor
from xmr_core.training.loop import CollapseWatch, train
from xmr_core.training.method_check import check_method
from xmr_core.training.trackers import TensorBoard, scalars

__all__ = ["CollapseWatch", "History", "TensorBoard", "TrainConfig", "check_method", "lr_factor", "scalars", "train"]
