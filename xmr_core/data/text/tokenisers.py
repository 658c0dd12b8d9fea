"""The rules that make words of a caption."""

import re
from collections.abc import Callable
from functools import cache

from xmr_core.base.checks import require_choice
from xmr_core.base.errors import BadInput

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def tokenise(text: str) -> list[str]:
    """Rule 'words': lower-case words and numbers of every script that writes spaces between words.

    An apostrophe stays inside its word, and other punctuation is dropped. Nothing has to be downloaded.
    >>> tokenise("A man's dog-walk, isn't IT?")
    ['a', "man's", 'dog', 'walk', "isn't", 'it']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def tokenise_treebank(text: str) -> list[str]:
    """Rule 'treebank': NLTK's word tokens of the lower-case caption, with which the authors' vocabularies were made.

    Punctuation becomes tokens, and contractions are split. NLTK's sentence splitter needs a download and is not used;
    for a caption of one sentence the tokens are the same.
    Raises: BadInput, when NLTK is not installed.
    """
    return _treebank().tokenize(text.lower())


RULES: dict[str, Callable[[str], list[str]]] = {"words": tokenise, "treebank": tokenise_treebank}


def rule(name: str) -> Callable[[str], list[str]]:
    """The rule with this name. Raises: BadInput, when there is none.

    >>> rule("words")("Two dogs!")
    ['two', 'dogs']
    """
    require_choice("tokeniser", name, RULES)
    return RULES[name]


@cache
def _treebank():
    try:
        from nltk.tokenize.destructive import NLTKWordTokenizer
    except ImportError:
        raise BadInput("tokeniser 'treebank' needs nltk (pip install nltk). Or use tokeniser='words'.") from None
    return NLTKWordTokenizer()
