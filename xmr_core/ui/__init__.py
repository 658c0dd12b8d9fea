"""What people use: the command line (`python -m xmr_core`), notebooks, figures and the explorer."""

from xmr_core.base.lazy import catalogue

__getattr__, __dir__, __all__ = catalogue(
    __name__,
    {
        "main": "cli",
        **dict.fromkeys(("answer", "check_parameters", "finish", "output_folder"), "notebook"),
        **dict.fromkeys(
            ("Parameter", "Parameters", "checked_value", "declared_parameters", "parse_parameters"), "parameters"
        ),
        **dict.fromkeys(("given_parameters", "kernel_environment", "own_kernel", "run_notebook"), "running"),
        **dict.fromkeys(("plots", "widgets"), ""),
    },
)
