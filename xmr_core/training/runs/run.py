"""A trained run: what was evaluated, and the model."""

from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
from safetensors.torch import load as load_tensors

from xmr_core.base.errors import DamagedFile
from xmr_core.base.fingerprint import bytes_hash
from xmr_core.data.prepare import Prepared, prepare
from xmr_core.evaluation.chance import random_rsum
from xmr_core.evaluation.results import Evaluated
from xmr_core.methods.checkpoints import save_method
from xmr_core.methods.method import Method
from xmr_core.methods.registry import build
from xmr_core.training.runs.config import RunConfig

MODEL = "model.safetensors"


@dataclass(frozen=True)
class TrainedRun(Evaluated):
    """A finished run: what was evaluated, and the model.

    folder: where its files lie. history: one row per epoch, with the loss and its terms, the learning rate and the
    value on the validation split.

    >>> from xmr_core.study.presets import base_config
    >>> from xmr_core.training.runs import train_or_load
    >>> run = train_or_load(base_config("vse++", device="cpu", size="tiny", d=8, epochs=1))
    >>> run.method().name, run.setting.dataset
    ('vse++', 'scenes')
    """

    folder: Path
    config: RunConfig
    history: pd.DataFrame

    def weights(self) -> dict:
        """The trained tensors by name, on the CPU. Raises: DamagedFile when their file was altered or is gone."""
        path = self.folder / MODEL
        try:
            content = path.read_bytes()
        except OSError as e:
            raise DamagedFile(f"{path} cannot be read ({e.strerror}). Train the run again.") from None
        if bytes_hash(content) != self.provenance.files[MODEL]:
            raise DamagedFile(f"{path} was altered since the run was trained. Train the run again.")
        return load_tensors(content)

    def method(self) -> Method:
        """The trained method, in eval mode, on the CPU. Raises: DamagedFile when its weights were altered."""
        method = build(self.config.method, self.prepared().inputs, self.config.form, **self.config.options)
        method.load_state_dict(self.weights())
        return method.eval()

    def prepared(self) -> Prepared:
        """The corpus, features and words that the run was trained on."""
        return prepare(self.config.data)

    def chance(self) -> tuple[float, float, float]:
        """(mean, low, high) of the annotated RSUM of random rankings of this test split, 95 % between low and high."""
        relevance = self.prepared().splits["test"].relevance
        galleries = {"i2t": len(relevance.query_ids), "t2i": len(relevance.gallery_ids)}
        return random_rsum(self.per_query[self.per_query["relevance"] == "annotated"], galleries)

    def export(self, path: str | Path) -> Path:
        """Write the method as one safetensors file that needs neither this run nor its corpus; xmr.load and
        checkpoints.load_method read it. A path that does not end in .safetensors gets that ending; returns the path.
        """
        path = Path(path)
        path = path if path.suffix == ".safetensors" else path.with_name(f"{path.name}.safetensors")
        prepared, config = self.prepared(), self.config
        about = {name: getattr(config.data, name) for name in ("dataset", "features", "image_model", "text_model")}
        record = {name: value for name, value in asdict(self.provenance).items() if name != "files"}
        words = prepared.vocabulary or prepared.pieces
        about |= {"run": self.id, "record": record}
        return save_method(path, self.method(), prepared.inputs, words, config.form, dict(config.options), about)
