"""What identifies a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from xmr_core.base.checks import require_fields
from xmr_core.base.devices import resolve_device
from xmr_core.base.errors import BadInput, unknown
from xmr_core.base.fingerprint import content_hash
from xmr_core.data.augment import CELL_RULES, WORD_RULES
from xmr_core.data.batches import POSITIVES, UNITS
from xmr_core.data.prepare import DataConfig
from xmr_core.evaluation.results import Setting
from xmr_core.methods.options import FORMS
from xmr_core.methods.registry import full_options, method_spec
from xmr_core.training.config import TrainConfig
from xmr_core.training.runs.names import id_word
from xmr_core.training.runs.versions import component_versions

SCHEME = 2  # of identities: configuration and component versions; see versions.identity_scheme
_LIMITS = {
    "batch_images": (2, 1_000_000), "captions_per_image": (1, 10_000), "cell_drop": (0, 0.999999),
    "word_drop": (0, 0.999999), "erase": (0, 0.999999), "val_images": (0, 100_000_000), "processes": (1, 4096),
}  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers, and nothing else.

    method, form, options: see methods.registry.build. batch_images … positives: the batches (data.batches.Batches).
    cell_drop … erase: what is left out of training inputs (data.augment.Augmentation). val_images: how many images of
    the validation split, with their captions, choose the epoch; 0 for all. device: where it trains, as torch names it
        ('cpu', 'cuda:1', 'mps'); 'auto' becomes the accelerator that is here, or 'cpu'.
    processes: how many train it together (torchrun); another number gives other last bits, as threads do.

    >>> RunConfig().replace(alpha=8.0, epochs=3).options
    {'alpha': 8.0}
    """

    data: DataConfig = DataConfig()
    method: str = "dive"
    form: str = "matched"
    options: Mapping[str, object] = field(default_factory=dict)
    batch_images: int = 100
    captions_per_image: int = 2
    unit: str = "images"
    positives: str = "annotated"
    cell_drop: float = 0.0
    cell_rule: str = "each"
    word_drop: float = 0.0
    word_rule: str = "unknown"
    erase: float = 0.0
    val_images: int = 0
    train: TrainConfig = TrainConfig()
    device: str = "cpu"
    processes: int = 1

    def __post_init__(self):
        choices = {"form": FORMS, "unit": UNITS, "positives": POSITIVES}
        choices |= {"cell_rule": CELL_RULES, "word_rule": WORD_RULES}
        require_fields(self, _LIMITS, choices)
        if self.device == "auto":  # what it means here is part of the run's identity
            object.__setattr__(self, "device", resolve_device("auto"))

    def replace(self, **changes) -> "RunConfig":
        """A copy with changes, checked at once.

        A name may be a field of this class, of TrainConfig, of DataConfig (in this order, where two have it), or an
        option of the method. Raises: BadInput for a name that is none of these, or a value out of range; it suggests a
        near name. Also for a method with an option that is named like a setting.
        """
        own, train, data = ({f.name for f in fields(kind)} for kind in (RunConfig, TrainConfig, DataConfig))
        spec, settings = method_spec(changes.get("method", self.method)), own | train | data
        if taken := sorted(settings & {*spec.options.names()}):
            raise BadInput(f"the option {taken[0]} of {spec.id} is also a setting of every run; give it another name.")
        names = settings | {*spec.options.names()}
        for name in changes.keys() - names:
            raise unknown(f"option of {spec.id}", name, names)
        options = {name: value for name, value in changes.items() if name not in settings}
        options = {**changes.get("options", self.options), **options}
        spec.make_options(changes.get("form", self.form), options)  # which checks them
        # fields of one class change together, because some values are allowed only beside others
        of_train = {name: value for name, value in changes.items() if name in train - own}
        of_data = {name: value for name, value in changes.items() if name in data - train - own}
        made = replace(self, **{name: value for name, value in changes.items() if name in own})
        return replace(made, train=replace(made.train, **of_train), data=replace(made.data, **of_data), options=options)

    @property
    def setting(self) -> Setting:
        """What stands beside the run's numbers in tables."""
        size = self.data.size if self.data.dataset == "scenes" else ""
        world = self.data.world_seed if self.data.dataset == "scenes" else 0
        return Setting(self.method, self.form, self.data.dataset, size, self.train.seed, self.train.epochs, world)

    def identity(self, prepared_identity: Mapping[str, str | int]) -> dict[str, Any]:
        """The JSON-able value whose hash names the run. Files count by their content, not by where they lie.

        The versions of torch and of the processor are recorded and are no part of it: they change the last bits of a
        number and not what it means, and an update must not cost hours of training. The device is part of it, because
        another device trains at another precision (TrainConfig.precision 'auto').
        """
        return {
            "scheme": SCHEME,
            "method": self.method,
            "form": self.form,
            "options": full_options(self.method, self.form, dict(self.options)),
            "batches": [self.batch_images, self.captions_per_image, self.unit, self.positives],
            "augment": [self.cell_drop, self.cell_rule, self.word_drop, self.word_rule, self.erase],
            "val_images": self.val_images,
            "train": asdict(self.train),
            "word_dim": self.data.word_dim,
            "data": dict(prepared_identity),
            "versions": component_versions(self.method, self.data.dataset),
            "device": self.device.partition(":")[0],  # which of several equal ones does not matter
            **({"processes": self.processes} if self.processes > 1 else {}),
        }

    def run_id(self, identity: object) -> str:
        """The readable name of the run with an identity: 'dive-scenes-s0-1a2b3c4d5e'."""
        return readable_id(method_spec(self.method).id, self.data.dataset, self.train.seed, identity)


def readable_id(method: str, dataset: str, seed: int, identity: object) -> str:
    """Method, data set, seed, and 10 hex digits for an identity.

    >>> readable_id("vse++", "scenes", 0, {})[:-10]
    'vsepp-scenes-s0-'
    """
    return "-".join((id_word(method), id_word(dataset), f"s{seed}", content_hash(identity)[:10]))
