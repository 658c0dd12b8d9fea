"""What a person clicks on. All thinking is done in xmr_core.search; this room only shows it."""

from xmr_core.ui.widgets.explorer import Explorer

__all__ = ["Explorer"]
