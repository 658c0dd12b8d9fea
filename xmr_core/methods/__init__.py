"""Methods of the field: a file a paper, each with its options, both forms, settings, variants and citation."""

from xmr_core.base.lazy import catalogue

# Every method of the package, id → module, in the order of every table: the five papers and their forerunners, then the
# successors. A new method is one file here and one line in this list.
MODULES = {
    "vse++": "vsepp", "pvse": "pvse", "pcme": "pcme", "scan": "scan", "sgraf": "sgraf", "vse-infty": "vse_infty",
    "vse+2ad": "vse_2ad", "dive": "dive", "pcme++": "pcmepp", "maxsim": "maxsim", "chan": "chan",
}  # fmt: skip

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
