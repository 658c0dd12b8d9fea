"""What a person clicks on, for notebooks. All computing is done in xmr_core.retrieval; the widgets only show its
results."""

from xmr_core.base.errors import require

require("the explorer", "notebooks", "ipywidgets", "matplotlib")

from xmr_study.explorer.screen import Explorer, explore
from xmr_study.explorer.views import element_attention, nearest_captions, word_attention_of, word_weights

__all__ = ["Explorer", "element_attention", "explore", "nearest_captions", "word_attention_of", "word_weights"]
