"""Image–text retrieval: models, similarities, losses, retrieval and metrics of five papers under matched conditions.

`import xmr_core as xmr` shows what a user needs; each name is imported when it is asked for first. docs/library.md has
an example for each common task.
"""

from xmr_core.base.lazy import catalogue

__version__ = "0.1.0"

_STAGES = (
    "data",
    "encoders",
    "heads",
    "similarities",
    "losses",
    "methods",
    "evaluation",
    "training",
    "study",
    "search",
    "ui",
)
_NAMES = {
    "BadInput": "base.errors",
    "Embedding": "base.types",
    "EmbeddingSet": "base.types",
    "Features": "base.types",
    "GaussianEmbedding": "base.types",
    "Relevance": "base.relevance",
    "Method": "methods.method",
    "MethodSpec": "methods.spec",
    "base_config": "study.presets",
    "evaluate": "evaluation.evaluate",
    "fit": "search.fit",
    "from_arrays": "data",
    "Model": "search.model",
    "load": "search.load",
    "rank_metrics": "evaluation",
    "check_method": "training.method_check",
    "train_or_load": "training.runs",
    "train_or_load_all": "training.runs",
}
__getattr__, __dir__, __all__ = catalogue(__name__, {**dict.fromkeys(_STAGES, ""), **_NAMES})
