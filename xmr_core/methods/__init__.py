"""Methods of the field: a file a paper, each with its options, both forms, settings, variants and citation."""

from xmr_core.methods.common import Inputs, MatchedOptions, matched_encoders, matched_objective
from xmr_core.methods.method import Method
from xmr_core.methods.checkpoint import load_method
from xmr_core.methods.registry import Options, option
from xmr_core.methods.registry import build, method_spec, methods, papers, register
from xmr_core.methods.registry import MethodSpec

__all__ = [
    "Inputs", "MatchedOptions", "Method", "MethodSpec", "Options", "build", "load_method", "matched_encoders",
    "matched_objective", "method_spec", "methods", "option", "papers", "register",
]  # fmt: skip
