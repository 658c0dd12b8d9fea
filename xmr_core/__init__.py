"""Image–text retrieval: models, similarities, losses, retrieval and metrics of five papers under matched conditions."""

__version__ = "0.1.0"
