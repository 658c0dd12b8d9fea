"""A trained method as one safetensors file that needs no corpus: weights, recipe, input sizes and words."""

import json
from dataclasses import asdict, replace
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_tensors

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.features.word_pieces import WordPieces
from xmr_core.data.text.vocabulary import Vocabulary
from xmr_core.methods.common import Inputs
from xmr_core.methods.method import Method
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
    """Write a method so that load_method restores it, and any program can read the tensors (safetensors, nothing pickled).

    Args: words: what numbers its captions. inputs, form, options: what recipes.build made it from. about: JSON-able, kept as it is
        (run, data, results).
    Raises: CannotWrite when the folder refuses; the file appears whole or not at all.
    """
    sizes = asdict(replace(inputs, word_vectors=None))
    told = {
        "method": method.name, "form": form, "options": options or {}, "inputs": sizes, "words": json.loads(words.to_json()), "about": about or {},
    }  # fmt: skip
    tensors = {k: v.detach().cpu().contiguous() for k, v in method.state_dict().items()}
    return paths.write_atomic(path, save_tensors(tensors, {_KEY: json.dumps(told)}))


def load_method(path: str | Path) -> tuple[Method, Vocabulary | WordPieces, dict]:
    """(method in eval mode on the CPU, its words, what was said about it) from a file of save_method.

    The words are a Vocabulary, or the WordPieces of a text model. A method on frozen features of pictures or of a text model needs
    these features; `about` names the models they came from.

    Raises: BadInput for a missing file or one that this package did not write; DamagedFile for one that is cut or whose
    tensors are not those of its recipe.
    """
    path = paths.existing(path, "checkpoint")
    try:
        with safe_open(path, "pt") as f:
            told = (f.metadata() or {}).get(_KEY)
            if told is None:
                raise BadInput(
                    f"{path.name} does not say which method it holds; it was not written by save_method. For the authors' files: load_official."
                )
            tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118
        told = json.loads(told)
        inputs = Inputs(**told["inputs"])
        method, about = told["method"], told["about"]
        words = (Vocabulary if "word2idx" in told["words"] else WordPieces).from_json(json.dumps(told["words"]))
        made = build(method, inputs, told["form"], **told["options"])
        made.load_state_dict(tensors)
    except (SafetensorError, DamagedFile, KeyError, TypeError, json.JSONDecodeError, RuntimeError) as e:
        raise DamagedFile(
            f"{path.name} cannot be read as a method ({(str(e).strip().splitlines() or [type(e).__name__])[0][:200]}). Save it again."
        ) from None
    return made.eval(), words, about
