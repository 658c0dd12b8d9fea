"""What a person clicks on. All thinking is done in xmr_core.explore; this room only shows it."""

from xmr_core.widgets.explorer import Explorer

__all__ = ["Explorer"]
