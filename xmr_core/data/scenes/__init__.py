"""`scenes`: the built-in corpus. A procedural world whose every caption is a statement with a known truth."""

from xmr_core.data.scenes.corpus import SIZES, load_scenes, object_masks, scenes_of, scenes_plausible
from xmr_core.data.scenes.world import content_words, shape_words

__all__ = ["SIZES", "content_words", "load_scenes", "object_masks", "scenes_of", "scenes_plausible", "shape_words"]
