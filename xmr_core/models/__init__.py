"""xmr_core.models."""

from xmr_core.models.dual_encoder import ZeroShot
from xmr_core.models.evaluated import EvaluatedModel
from xmr_core.models.load import fit, load, model_of
from xmr_core.models.model import Model
from xmr_core.models.model_folder import hub_folder, push_folder, read_model, write_model
from xmr_core.models.mteb_model import MtebModel

__all__ = [
    "EvaluatedModel", "Model", "MtebModel", "ZeroShot", "fit", "hub_folder", "load", "model_of", "push_folder",
    "read_model", "write_model",
]  # fmt: skip
