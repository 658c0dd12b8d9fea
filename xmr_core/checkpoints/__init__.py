"""The authors' released files: read without running them, renamed, checked, and turned into a Method."""

from xmr_core.checkpoints.load import load_official
from xmr_core.checkpoints.read import Official, read_official, read_vocabulary

__all__ = ["Official", "load_official", "read_official", "read_vocabulary"]
