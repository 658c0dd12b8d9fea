"""Checkpoints of nine repositories, in three layouts, read without executing what is pickled in them."""

import argparse
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZIP_STORED, ZipFile, is_zipfile

import torch
from torch import Tensor

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.regular import printable
from xmr_core.base.weights import require_plain

PARTS = ("img_enc.", "txt_enc.", "sim_enc.")  # of files that hold a list, in its order


@dataclass(frozen=True)
class Official:
    """The contents of an authors' file. tensors: by the authors' names, 'img_enc.…', 'txt_enc.…', 'sim_enc.…',
    'criterion.…'. options: the training options in the file. word2idx: its vocabulary, if there is one (PCME)."""

    tensors: dict[str, Tensor]
    options: dict
    word2idx: dict[str, int] | None = None


def read_official(path: str | Path) -> Official:
    """Read a checkpoint of VSE++, PVSE, PCME, SCAN, SGRAF, VSE∞, VSE+2AD, DivE or CHAN.

    Layouts: a list of state dicts under 'model' (VSE++, SCAN, SGRAF, VSE∞, CHAN), one state dict under 'model' (DivE,
    VSE+2AD, PVSE in training, PCME with 'criterion' beside it), a bare state dict (PVSE's releases); zip files and the
    older streams. A leading 'module.' of DataParallel is dropped. Only tensors, plain containers and argparse.Namespace
    are unpickled.
    Raises: BadInput for a missing file, one that needs any other object, or one without a state dict; DamagedFile for
        one that cannot be read to its end.
    """
    path = files.existing_file(path, "checkpoint")
    try:
        _require_stored(path)
        with torch.serialization.safe_globals([argparse.Namespace]), warnings.catch_warnings():
            # Files of Python 2 need the encoding. torch warns that it is not used, although it is.
            warnings.filterwarnings("ignore", "pickle_load_args only works")
            content = torch.load(path, map_location="cpu", weights_only=True, encoding="latin1")
    except BadInput:
        raise
    except Exception as e:  # a damaged file raises errors of many kinds
        if isinstance(e, pickle.UnpicklingError) and ("Unsupported" in str(e) or "GLOBAL" in str(e)):
            raise BadInput(f"{path.name} asks to run code while it is read: {first_line(e)}. Refused.") from None
        raise DamagedFile(f"{path.name} cannot be read as a checkpoint ({first_line(e)}). Fetch it again.") from None
    return _contents(content, path.name)


def _require_stored(path: Path) -> None:
    """Refuse a zip file whose members are compressed: torch writes none, and a small one may expand without end."""
    if is_zipfile(path):
        with ZipFile(path) as packed:
            members = packed.infolist()
        size = path.stat().st_size
        if any(m.compress_type != ZIP_STORED for m in members) or sum(m.file_size for m in members) > size:
            raise BadInput(f"{path.name} holds compressed or overlapping parts, as torch writes none. Refused.")


def first_line(e: Exception) -> str:
    """The first line of an error's message, at most 200 letters, or its class where there is no message."""
    return printable((str(e).strip().splitlines() or [type(e).__name__])[0])[:200]


def _contents(content, name: str) -> Official:
    model = content.get("model", content) if isinstance(content, dict) else content
    if isinstance(model, (list, tuple)):
        tensors = {prefix + k: v for prefix, part in zip(PARTS, model, strict=False) for k, v in _plain(part).items()}
    elif isinstance(model, dict):
        tensors = _plain(model)
    else:
        tensors = {}
    if not tensors:
        raise BadInput(f"{name} holds no state dict, alone, in a list or under 'model'.")
    extra = content if isinstance(content, dict) and "model" in content else {}
    tensors |= {f"criterion.{k}": v for k, v in _plain(extra.get("criterion", {})).items()}
    require_plain(tensors, name)
    options = next((extra[k] for k in ("opt", "args", "config") if k in extra), {})
    options = vars(options) if isinstance(options, argparse.Namespace) else options
    words = extra.get("word2idx") if isinstance(extra.get("word2idx"), dict) else None
    return Official(tensors, dict(options) if isinstance(options, dict) else {}, words)


def _plain(part) -> dict[str, Tensor]:
    """The tensors of a state dict, without DataParallel's prefix."""
    items = part.items() if isinstance(part, dict) else ()
    items = [(k, v) for k, v in items if isinstance(k, str) and isinstance(v, Tensor)]
    return {k.removeprefix("module.").replace(".module.", "."): v for k, v in items}
