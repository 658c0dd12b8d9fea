"""Asking a trained method: a library of encoded items, queries, rankings, and why. No widget in here; widgets only show it."""

from xmr_core.explore.library import Library, open_folder, open_library
from xmr_core.explore.query import Query
from xmr_core.explore.ranking import Ranking, Settings, rank

__all__ = ["Library", "Query", "Ranking", "Settings", "open_folder", "open_library", "rank"]
