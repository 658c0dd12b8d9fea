"""The file format of golden cases: one .npz per group, smaller than one .npz per case, and exact to the last bit.

A group file holds one array per number type, "float32" say: the distinct arrays of all its cases one after another, as
bytes "b n" (byte b of number n), because the first bytes of numbers compress well only next to each other. The array
"index" is JSON in UTF-8: {case: {"settings": text, "arrays": {name: [type, start, shape]}}}, counted in numbers.
"""

import json
from math import prod
from pathlib import Path

import numpy as np

SETTINGS = "cfg_json"  # an entry of a case that is text, not numbers


def pack(cases: dict[str, dict[str, np.ndarray]], path: Path) -> None:
    """Write {case: {name: array}} as one group file. Equal arrays are stored once."""
    index, parts, ends, starts = {}, {}, {}, {}
    for case, arrays in cases.items():
        index[case] = {"settings": str(arrays.get(SETTINGS, "{}")), "arrays": {}}
        for name, array in arrays.items():
            if name == SETTINGS:
                continue
            kind, content = str(array.dtype), np.ascontiguousarray(array).tobytes()
            if (kind, content) not in starts:
                starts[kind, content] = ends.get(kind, 0)
                ends[kind] = ends.get(kind, 0) + array.size
                parts.setdefault(kind, []).append(content)
            index[case]["arrays"][name] = [kind, starts[kind, content], list(array.shape)]
    planes = {}
    for kind, contents in parts.items():
        numbers = np.frombuffer(b"".join(contents), np.uint8).reshape(-1, np.dtype(kind).itemsize)
        planes[kind] = np.ascontiguousarray(numbers.T)
    text = json.dumps(index, separators=(",", ":"), ensure_ascii=False).encode()
    np.savez_compressed(path, index=np.frombuffer(text, np.uint8), **planes)


def unpack(path: Path) -> dict[str, dict[str, np.ndarray | str]]:
    """{case: {name: array}} of a group file, with the settings of each case as text under "cfg_json"."""
    with np.load(path) as stored:
        index = json.loads(stored["index"].tobytes())
        kinds = [kind for kind in stored.files if kind != "index"]
        flat = {kind: np.ascontiguousarray(stored[kind].T).reshape(-1).view(kind) for kind in kinds}
    cases = {}
    for case, entry in index.items():
        cases[case] = {SETTINGS: entry["settings"]}
        for name, (kind, start, shape) in entry["arrays"].items():
            cases[case][name] = flat[kind][start : start + prod(shape)].reshape(shape)
    return cases
