"""The authors' vocabularies, in the three layouts they have."""

import io
import pickle
from pathlib import Path

from xmr_core.base import paths
from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.data.text.vocabulary import Vocabulary


def read_vocabulary(path: str | Path, tokeniser: str = "words") -> Vocabulary:
    """A vocabulary of the authors: JSON (SCAN line), a pickled `Vocabulary` object (PVSE line) or dict (PCME), never executed.

    tokeniser: the rule that makes words, which such files do not name (theirs were made with 'treebank').
    Raises: BadInput for a missing file or a pickle of anything else; DamagedFile for one that is not a vocabulary.
    """
    path = paths.existing(path, "vocabulary")
    raw = path.read_bytes()
    if raw.lstrip()[:1] == b"{":
        return Vocabulary.from_json(raw.decode("utf-8", "replace"), tokeniser)
    try:
        found = _InertUnpickler(io.BytesIO(raw), encoding="latin1").load()
    except BadInput:
        raise
    except (pickle.UnpicklingError, EOFError, ValueError, IndexError, AttributeError) as e:
        raise DamagedFile(f"{path.name} is not a pickled vocabulary ({str(e)[:200] or type(e).__name__}).") from None
    word2idx = found.get("word2idx") if isinstance(found, dict) else getattr(found, "word2idx", None)
    if not isinstance(word2idx, dict):
        raise DamagedFile(f"{path.name} holds no word2idx.")
    return _vocabulary(word2idx, path.name, tokeniser)


def _vocabulary(word2idx: dict[str, int], name: str, tokeniser: str) -> Vocabulary:
    if sorted(word2idx.values()) != list(range(len(word2idx))):
        raise DamagedFile(f"the word numbers of {name} are not 0 … {len(word2idx) - 1}, each once.")
    return Vocabulary(tuple(sorted(word2idx, key=word2idx.get)), tokeniser)


class _Inert:
    """Stands for an unpickled object: keeps its state, does nothing."""


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name == "Vocabulary":
            return _Inert
        if (module, name) in (("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")):
            return lambda cls, base, state: _Inert()  # protocol 0 and 1 of old Python objects
        if (module, name) in (("__builtin__", "object"), ("builtins", "object")):
            return object
        raise BadInput(f"the vocabulary file asks for {module}.{name}, which is not a vocabulary; it is refused.")
