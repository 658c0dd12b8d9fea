"""What a person clicks on, for notebooks. All computing is done in xmr_core.search; the widgets only show its
results."""

from xmr_core.base.extras import require
from xmr_core.base.lazy import catalogue

require("the explorer", "notebooks", "ipywidgets", "matplotlib")

__getattr__, __dir__, __all__ = catalogue(__name__, {"Explorer": "explorer", "explore": "opening"})
