"""Questions as lists of runs: variants of methods, sweeps over one option, and the labels they stand under."""

from collections.abc import Mapping, Sequence

from xmr_core.base.errors import BadInput, require_choice, unknown
from xmr_core.methods.registry import method_spec, methods
from xmr_core.training.runs.config import RunConfig, base_config
from xmr_study.claims import ABLATIONS, SWEEPS, Variant
from xmr_study.parameters import TRAINED

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
    if values.get("preset") == TRAINED:
        values["preset"] = "quick"
    return base_config(method, **{**values, "epochs": values.get("epochs") or None})


def seeds(preset: str, first: int = 0, n: int = 0) -> list[int]:
    """The seeds of a study: `first`, first + 1, …; n = 0 takes the preset's number.

    >>> seeds("quick", first=2, n=3)
    [2, 3, 4]
    """
    return list(range(first, first + (n or SEEDS.get(preset, 1))))


def comparison() -> dict[str, Variant]:
    """Every method of the study under the matched protocol: label → (method, options), from the methods' own specs.

    >>> comparison()["SAF"]
    ('sgraf', {'reasoner': 'saf'})
    """
    return {
        label: (name, dict(options)) for name, spec in methods().items() for label, options in spec.variants.items()
    }


def ablation(method: str, name: str) -> dict[str, Variant]:
    """A comparison that a paper makes inside its method: label → (method, options). Raises BadInput for another name.

    >>> list(ablation("pcme", "spread"))
    ['PCME', 'PCME, one σ', 'PCME, μ only']
    """
    ablations = ABLATIONS.get(method, {})
    require_choice(f"ablation of {method}", name, ablations)
    return dict(ablations[name])


def labelled() -> dict[str, Variant]:
    """Every label that a comparison, an ablation or a sweep puts on runs: label → (method, options).

    >>> labelled()["α=16"]
    ('dive', {'alpha': 16})
    """
    out = comparison()
    for method in ABLATIONS:
        for table in ABLATIONS[method].values():
            out |= {label: variant for label, variant in table.items() if label not in out}
        for option, (symbol, values) in SWEEPS.get(method, {}).items():
            out |= {f"{symbol}={v}": (method, {option: v}) for v in values if f"{symbol}={v}" not in out}
    return out


def label_of(method: str) -> str:
    """The label of a method without options of its own ('pcme' → 'PCME'), or the name itself where there is none.

    >>> label_of("vse-infty")
    'VSE∞'
    """
    if ":" not in method and method not in methods():
        return method
    return next((label for label, options in method_spec(method).variants.items() if not options), method)


def variant_configs(
    base: RunConfig, labels: Sequence[str], seeds: Sequence[int], variants: Mapping[str, Variant] | None = None
) -> list[RunConfig]:
    """One config per variant and seed, variants outermost.

    Each takes those options of the base config that its method has too (width, objective, …). labels: of the variants,
    or addresses of methods outside the package ('mypackage.mine:SPEC'), which stand for their first variant.
    variants: label → (method, options); `comparison()` when None. Raises: BadInput for no label, or one that is not
    there.

    >>> from xmr_study import base_config
    >>> [c.method for c in variant_configs(base_config("dive", device="cpu"), ["DivE", "SAF"], seeds=[0])]
    ['dive', 'sgraf']
    """
    variants = comparison() if variants is None else variants
    if not len(labels):
        raise BadInput(f"no variant given; choose from {', '.join(variants)}.")
    chosen = [_variant(label, variants) for label in labels]
    configs = []
    for method, options in chosen:
        names = method_spec(method).options.names(base.form)
        shared = {name: value for name, value in base.options.items() if name in names}
        configs += [base.replace(method=method, seed=seed, options={**shared, **options}) for seed in seeds]
    return configs


def _variant(label: str, variants: Mapping[str, Variant]) -> Variant:
    if label in variants:
        return variants[label]
    if ":" in label:
        return label, next(iter(method_spec(label).variants.values()))
    raise unknown("variant", label, variants)
