"""`scenes`: the embedded corpus. A procedural world whose every caption is a statement with a known truth."""

from xmr_core.data.scenes.corpus import SIZES, load_scenes, scenes_plausible

__all__ = ["SIZES", "load_scenes", "scenes_plausible"]
