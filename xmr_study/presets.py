"""What the parameters of a notebook mean: its base configuration and its seeds."""

from xmr_core.base.errors import BadInput
from xmr_core.training.runs.config import RunConfig
from xmr_core.training.runs.presets import base_config

SEEDS = {"quick": 1, "study": 5, "published": 2}
_SHARED = (  # parameters of notebooks
    "dataset", "data_root", "preset", "device", "epochs", "seed",
    "image_model", "text_model", "fine_tune", "features", "ambiguity", "word_drop",
)  # fmt: skip


def config_from(parameters, method: str = "dive", **changes) -> RunConfig:
    """`base_config` from the parameters of a notebook: data set, preset, device, epochs, seed and networks, where it
    has them.

    parameters: a mapping such as check_parameters gives; its epochs 0 keeps the preset's number.

    >>> config_from({"preset": "quick", "epochs": 0, "seed": 3, "device": "cpu"}, "scan").train.seed
    3
    """
    values = {name: parameters[name] for name in _SHARED if name in parameters} | changes
    return base_config(method, **{**values, "epochs": values.get("epochs") or None})


def seeds(preset: str, first: int = 0, n: int = 0) -> list[int]:
    """The seeds of a study: `first`, first + 1, …; n = 0 takes the preset's number.

    Raises: BadInput for a negative n.

    >>> seeds("quick", first=2, n=3)
    [2, 3, 4]
    """
    if n < 0:
        raise BadInput(f"n_seeds must be 0 or more (0 = the preset's number), got {n}.")
    return list(range(first, first + (n or SEEDS[preset])))
