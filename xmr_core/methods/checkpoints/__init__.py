"""Trained methods as files. The authors' releases are read without executing them; our own files are safetensors."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        **dict.fromkeys(("load_official", "official_with_inputs"), "load"),
        **dict.fromkeys(("load_method", "load_with_inputs", "save_method"), "ours"),
        **dict.fromkeys(("Official", "read_official"), "read"),
    },
)
