"""From a caption to its words: the rules, by name."""

import re
from collections.abc import Callable
from functools import cache

from xmr_core.base.errors import BadInput, unknown

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def tokenise(text: str) -> list[str]:
    """Rule 'words': lower-case words and numbers of any script that parts words by spaces; an apostrophe stays inside its word
    ("aren't"), other punctuation is dropped.

    Needs no downloads. Unlike the rule 'treebank' it keeps no punctuation tokens and does not split contractions.
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def tokenise_treebank(text: str) -> list[str]:
    """Rule 'treebank': NLTK's word tokens of the lower-cased caption, punctuation included ("aren't" → "are", "n't").

    What the authors' vocabularies were made with. NLTK's sentence splitter is not used, because its data must be downloaded; on captions,
    which are one sentence each, the tokens are the same. Raises: BadInput when NLTK is not installed.
    """
    return _treebank().tokenize(text.lower())


RULES: dict[str, Callable[[str], list[str]]] = {"words": tokenise, "treebank": tokenise_treebank}


def rule(name: str) -> Callable[[str], list[str]]:
    """A rule by its name. Raises: BadInput for an unknown one."""
    if name not in RULES:
        raise unknown("tokeniser", name, RULES)
    return RULES[name]


@cache
def _treebank():
    try:
        from nltk.tokenize.destructive import NLTKWordTokenizer
    except ImportError:
        raise BadInput("the tokeniser 'treebank' needs the package nltk (pip install nltk), or use tokeniser='words'.") from None
    return NLTKWordTokenizer()
