"""How large: `quick` answers in a minute on two cores, `study` is what reports/ was made with, `published` is the papers' scale."""

from xmr_core.presets.base import PRESETS, SEEDS, base_config
from xmr_core.presets.published import CORPORA, published_settings

__all__ = ["CORPORA", "PRESETS", "SEEDS", "base_config", "published_settings"]
