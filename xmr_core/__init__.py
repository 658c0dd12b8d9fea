"""Image–text retrieval: models, similarities, losses, retrieval and metrics of five papers under matched conditions.

`import xmr_core as xmr` shows what a user needs; `__init__.pyi` lists it, and each name is imported when it is first
asked for. docs/library.md has an example for each common task.
"""

import lazy_loader

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
