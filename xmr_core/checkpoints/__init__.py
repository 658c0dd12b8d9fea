"""Trained methods as files: the authors' releases, read without running them, renamed and checked; and our own, in safetensors."""

from xmr_core.checkpoints.load import load_official
from xmr_core.checkpoints.ours import load_method, save_method
from xmr_core.checkpoints.read import Official, read_official
from xmr_core.data.official_vocabulary import read_vocabulary

__all__ = ["Official", "load_method", "load_official", "read_official", "read_vocabulary", "save_method"]
