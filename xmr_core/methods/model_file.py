"""A trained method as one safetensors file that needs no corpus: weights, options, input sizes and words."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import torch
from safetensors import safe_open

from xmr_core.base import files
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import require_plain, require_same_kind, write_tensors
from xmr_core.base.fingerprint import bytes_hash, content_hash
from xmr_core.base.machine import only_shapes
from xmr_core.base.paths import require_trusted
from xmr_core.features.pretrained import WordPieces
from xmr_core.features.words import Vocabulary
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
from xmr_core.methods.official import first_line
from xmr_core.methods.registry import build

_KEY = "xmr_core"


def save_method(
    path: str | Path,
    method: Method,
    inputs: Inputs,
    words: Vocabulary | WordPieces,
    form: str = "matched",
    options: dict | None = None,
    about: dict | None = None,
) -> Path:
    """Write a method so that load_method restores it, and any program can read the tensors (safetensors, nothing
    pickled).

    The file is written completely or not at all.
    Args: inputs, form, options: what registry.build made the method from. words: the vocabulary or word pieces that
        number its captions. about: metadata (run, data, results) that JSON can hold.
    Raises: CannotWrite when the folder refuses.
    """
    description = {
        "method": method.address,
        "form": form,
        "options": options or {},
        "inputs": asdict(replace(inputs, word_vectors=None)),
        "words": json.loads(words.to_json()),
        "about": about or {},
    }
    tensors = {k: v.detach().cpu().contiguous() for k, v in method.state_dict().items()}
    description["digest"] = _digest(description, tensors)
    return write_tensors(path, tensors, {_KEY: json.dumps(description)})


def load_method(path: str | Path) -> tuple[Method, Vocabulary | WordPieces, dict]:
    """(method in evaluation mode on the CPU, its words, its metadata) from a file of save_method.

    The words are a Vocabulary, or the WordPieces of a text model. A method on frozen features of images or of a text
    model needs these features; the metadata names the models that made them.
    Raises: BadInput for a missing file or one that save_method did not write; DamagedFile for one that is cut or whose
        tensors do not fit its options.
    """
    return load_with_inputs(path)[:3]


def load_with_inputs(path: str | Path) -> tuple[Method, Vocabulary | WordPieces, dict, Inputs]:
    """load_method, and the sizes from which the method was built. Raises: as load_method."""
    path = files.existing_file(path, "checkpoint")
    try:
        with safe_open(path, "pt") as f:
            description = (f.metadata() or {}).get(_KEY)
            if description is None:
                raise BadInput(f"{path.name} does not say which method it holds; save_method did not write it.")
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        description = json.loads(description)
        if (digest := description.pop("digest", "")) != _digest(description, tensors):
            raise DamagedFile("it was altered" if digest else "an older version wrote it, without a digest")
        require_trusted(description["method"], path.name)
        require_plain(tensors, path.name)
        kind = Vocabulary if "word2idx" in description["words"] else WordPieces
        words = kind.from_json(json.dumps(description["words"]))
        inputs = Inputs(**description["inputs"])
        arguments = (description["method"], inputs, description["form"])
        with only_shapes():  # costs no memory, whatever sizes the file asks for
            expected = build(*arguments, **description["options"]).state_dict()
        if {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in expected.items()}:
            raise DamagedFile("its tensors do not fit its options")
        require_same_kind(tensors, expected, path.name)
        method = build(*arguments, **description["options"])
        method.load_state_dict(tensors)
        about = description["about"]
    except BadInput:
        raise
    except Exception as e:  # what a hostile description can raise is not limited
        raise DamagedFile(f"{path.name} cannot be read as a method ({first_line(e)}). Save it again.") from None
    return method.eval(), words, about, inputs


def _digest(description: dict, tensors: dict) -> str:
    """Names the description and every tensor with its name, type, shape and bytes."""
    numbers = {}
    for name, t in sorted(tensors.items()):
        held = t.contiguous().flatten().view(torch.uint8).numpy().tobytes() if t.numel() else b""
        numbers[name] = [str(t.dtype), list(t.shape), bytes_hash(held)]
    return content_hash([json.loads(json.dumps(description)), numbers])
