"""What identifies a run."""

import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

import torch

from xmr_core.base import paths
from xmr_core.base.errors import unknown
from xmr_core.base.numerics import numerics_version
from xmr_core.data.prepare import DataConfig
from xmr_core.methods.registry import full_options, method_spec
from xmr_core.training import TrainConfig


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run's numbers, and nothing else.

    method, form, options: the recipe (see recipes.build). batch_images … positives: the batches (see data.batches.Batches).
    cell_drop … erase: what is left out of training inputs (see data.augment.Augmentation). val_images: how many pictures of the
    validation split, with their captions, choose the epoch; 0 for all. device: where it trains ('cpu', 'cuda'): other devices round differently.
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

    def but(self, **changes) -> "RunConfig":
        """A copy with changes; a name may be a field here, of `data`, of `train`, or an option of the recipe ('alpha')."""
        own, train, data = ({f.name for f in fields(kind)} for kind in (RunConfig, TrainConfig, DataConfig))
        given = {name: value for name, value in changes.items() if name in own}
        # together, not one after the other: some values are allowed only beside others
        of_train = {name: value for name, value in changes.items() if name in train - own}
        of_data = {name: value for name, value in changes.items() if name in data - train - own}
        options = {name: value for name, value in changes.items() if name not in own | train | data}
        out = replace(self, **given)
        return replace(out, train=replace(out.train, **of_train), data=replace(out.data, **of_data), options={**out.options, **options})

    def identity(self, prepared_identity: Mapping[str, str | int]) -> dict:
        """The JSON-able value whose hash names the run. Paths count by the content behind them, not by their spelling."""
        return {
            "method": self.method,
            "form": self.form,
            "options": full_options(self.method, self.form, dict(self.options)),
            "batches": [self.batch_images, self.captions_per_image, self.unit, self.positives],
            "augment": [self.cell_drop, self.cell_rule, self.word_drop, self.word_rule, self.erase],
            "val_images": self.val_images,
            "train": asdict(self.train),
            "word_dim": self.data.word_dim,
            "data": dict(prepared_identity),
            "numerics": self.numerics(),
            "device": self.device,
            "torch": torch.__version__,
            "machine": platform.machine(),
        }

    def numerics(self) -> str:
        """The version of the code that makes this run's numbers."""
        return numerics_version(method_spec(self.method).matched, self.data.dataset)

    def run_id(self, prepared_identity: Mapping[str, str | int]) -> str:
        """'dive-scenes-' and 16 hex digits."""
        word = method_spec(self.method).id.replace("+", "p")
        return f"{word}-{self.data.dataset}-{paths.content_hash(self.identity(prepared_identity))}"


def resolve_device(device: str) -> str:
    """'auto' → 'cuda' when there is one, else 'cpu'; any other name is checked. Raises BadInput for an unknown or absent one."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" or (device == "cuda" and torch.cuda.is_available()):
        return device
    raise unknown("device (or not present on this machine)", device, ["auto", "cpu", *(["cuda"] if torch.cuda.is_available() else [])])
