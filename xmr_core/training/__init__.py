"""One readable training loop, and what it leans on: schedule, resumable state, collapse detection."""

from xmr_core.training.loop import History, TrainConfig, train

__all__ = ["History", "TrainConfig", "train"]
