"""Text files of word vectors, as GloVe, word2vec and fastText write them."""

import re
from collections.abc import Iterator
from pathlib import Path

from xmr_core.base.errors import BadInput

_LONGEST = 1 << 20  # bytes of a line
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?", re.I)


def word_vector_lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """(number of the line, word, its numbers with single blanks between them) of a text file of word vectors.

    The first line may be a head, 'words width', as word2vec and fastText write it. A word may hold blanks, as some of
    GloVe's 840 billion do. Raises: BadInput for a line that is too long, or has another number of numbers than the
    first.
    """
    width = 0
    with open(path, "rb") as f:
        for number, raw in enumerate(iter(lambda: f.readline(_LONGEST), b""), 1):
            if len(raw) == _LONGEST:
                raise BadInput(f"{path} line {number} has more than {_LONGEST:,} bytes. The file is damaged.")
            line = raw.decode("utf-8", "replace").rstrip(" \r\n")
            if number == 1 and re.fullmatch(r"\d+ \d+", line):
                width = int(line.split(" ")[1])
                continue
            width = width or line.count(" ")
            parts = line.rsplit(" ", width)
            surplus = parts[0].split(" ")[1:]
            if len(parts) <= width or any(_NUMBER.fullmatch(part) for part in surplus):
                count = f"{line.count(' ')} numbers, the lines before it {width}"
                raise BadInput(f"{path} line {number} has {count}. The file is damaged.")
            yield number, parts[0], line[len(parts[0]) + 1 :]
