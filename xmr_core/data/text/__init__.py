"""Words of captions and their numbers."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "NearestWords": "nearest",
        "Vocabulary": "vocabulary",
        "read_vocabulary": "official_vocabulary",
        "rule": "tokenisers",
        "tokenise": "tokenisers",
    },
)
