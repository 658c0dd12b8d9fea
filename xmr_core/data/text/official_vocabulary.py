"""The authors' vocabulary files, in their three layouts."""

import io
import pickle
from pathlib import Path

from xmr_core.base.errors import BadInput, DamagedFile
from xmr_core.base.files import existing_file
from xmr_core.base.regular import read_regular
from xmr_core.data.text.vocabulary import Vocabulary


def read_vocabulary(path: str | Path, tokeniser: str = "words") -> Vocabulary:
    """An authors' vocabulary: JSON (SCAN, SGRAF, VSE∞, VSE+2AD), a pickled object (VSE++, PVSE, DivE) or dict (PCME).

    A pickle is taken apart without executing anything.
    Args: tokeniser: the rule that made the words, where the file does not name it; the authors used 'treebank'.
    Raises: BadInput, when the file is missing or is a pickle of something else; DamagedFile, when it is no vocabulary.
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     words = {"<pad>": 0, "<start>": 1, "<end>": 2, "<unk>": 3, "dog": 4}
    ...     _ = Path(folder, "vocab.pkl").write_bytes(pickle.dumps({"word2idx": words}))
    ...     read_vocabulary(f"{folder}/vocab.pkl", "treebank").words
    ('<pad>', '<start>', '<end>', '<unk>', 'dog')
    """
    path = existing_file(path, "vocabulary")
    raw = read_regular(path)
    if raw.lstrip()[:1] == b"{":
        return Vocabulary.from_json(raw.decode("utf-8", "replace"), tokeniser)
    try:
        content = _InertUnpickler(io.BytesIO(raw), encoding="latin1").load()
        numbers = content["word2idx"] if isinstance(content, dict) else content.word2idx
        if sorted(numbers.values()) != list(range(len(numbers))) or not all(isinstance(word, str) for word in numbers):
            raise ValueError("the numbers of its words are not 0, 1, …, each once")
    except BadInput:
        raise
    except Exception as e:  # a damaged pickle raises errors of many kinds
        raise DamagedFile(f"{path.name} is no pickled vocabulary ({str(e)[:200] or type(e).__name__}).") from None
    return Vocabulary(tuple(sorted(numbers, key=numbers.get)), tokeniser)


class _Inert:
    """Stands for an unpickled object: it has the state of the object and does nothing."""


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if name == "Vocabulary":
            return _Inert
        if (module, name) in (("copy_reg", "_reconstructor"), ("copyreg", "_reconstructor")):
            return lambda cls, base, state: _Inert()  # protocols 0 and 1 of old Python objects
        if (module, name) in (("__builtin__", "object"), ("builtins", "object")):
            return object
        raise BadInput(f"the vocabulary file uses {module}.{name}, which is no part of a vocabulary. It is refused.")
