"""Damage by a seed: what happens to a file on its way, and what somebody may do to it on purpose."""

import random
from pathlib import Path

NUMBERS = (b"-1", b"99999999999999999999999", b"NaN", b"1e999", b"0", b'""', b"null", b"[]", b"{}", b"true")
TEXTS = (b"\x00", b"\xff\xfe", b"\x1b[2J", "\u202e".encode(), b"$5_{", b'"', b"\r", b"\n\n\n", b"../../etc", b"=1+1")


def mutated(raw: bytes, rng: random.Random) -> tuple[str, bytes]:
    """(what was done, the bytes after it)."""
    kind = rng.choice(("flip", "cut", "zeros", "insert", "repeat", "swap", "number", "text", "random", "flips"))
    at, n = rng.randrange(len(raw) + 1), len(raw)
    if kind == "flip":
        return f"bit {at}", flipped(raw, rng)
    if kind == "flips":
        for _ in range(20):
            raw = flipped(raw, rng)
        return "20 bits", raw
    if kind == "cut":
        return f"cut at {at}", raw[:at]
    if kind == "zeros":
        end = min(n, at + rng.randrange(1, 64))
        return f"zeros from {at}", raw[:at] + bytes(end - at) + raw[end:]
    if kind == "insert":
        return f"random bytes at {at}", raw[:at] + rng.randbytes(rng.randrange(1, 40)) + raw[at:]
    if kind == "repeat":
        return f"repeated at {at}", raw[:at] + raw[max(0, at - 40) : at] * 50 + raw[at:]
    if kind == "swap":
        other = rng.randrange(n + 1)
        return "parts swapped", raw[other:] + raw[:other]
    if kind == "random":
        return "random bytes alone", rng.randbytes(rng.randrange(0, 200))
    digits = [i for i in range(n) if raw[i : i + 1].isdigit()]
    if kind == "number" and digits:
        at = end = rng.choice(digits)
        while end < n and raw[end : end + 1].isdigit():
            end += 1
        return f"number at {at}", raw[:at] + rng.choice(NUMBERS) + raw[end:]
    return f"text at {at}", raw[:at] + rng.choice(TEXTS) + raw[at:]


def flipped(raw: bytes, rng: random.Random) -> bytes:
    """One bit changed."""
    at = rng.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << rng.randrange(8)]) + raw[at + 1 :]


def written(path: Path, raw: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path
