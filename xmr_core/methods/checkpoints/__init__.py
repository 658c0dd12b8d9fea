"""Trained methods as files: the authors' releases, read without running them, renamed and checked; and our own, in safetensors."""

from xmr_core.data.text.official_vocabulary import read_vocabulary
from xmr_core.methods.checkpoints.load import load_official
from xmr_core.methods.checkpoints.ours import load_method, save_method
from xmr_core.methods.checkpoints.read import Official, read_official

__all__ = ["Official", "load_method", "load_official", "read_official", "read_vocabulary", "save_method"]
