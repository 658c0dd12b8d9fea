"""Methods of the field: a file a paper, each with its options, both forms, settings, variants and citation."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "Inputs": "common",
        "MatchedOptions": "common",
        "matched_encoders": "common",
        "matched_objective": "common",
        "Method": "method",
        "Options": "options",
        "option": "options",
        "build": "registry",
        "method_spec": "registry",
        "methods": "registry",
        "papers": "registry",
        "register": "registry",
        "MethodSpec": "spec",
    },
)
