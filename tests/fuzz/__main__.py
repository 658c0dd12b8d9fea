"""The whole attack by one command, from the root of the checkout: python -m tests.fuzz [--count N] [--flips N]
[--kills N] [--seed N]. It prints what came of every input, by face and class, and ends with 1 if one came out badly."""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

KILLS = ("cache", "index", "training")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="damaged files of others, beside odd ones and values")
    parser.add_argument("--flips", type=int, default=60, help="of single bits, for every kind of file that is written")
    parser.add_argument("--kills", type=int, default=0, help="over all kinds; each takes seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="cases whose face begins so")
    asked = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="xmr-attack-"))
    os.environ["XMR_HOME"] = str(base / "home")
    try:
        return attack(base, asked)
    finally:
        shutil.rmtree(base, ignore_errors=True)


def attack(base: Path, asked: argparse.Namespace) -> int:
    import torch

    from .doors import door_cases
    from .flips import flip_cases
    from .kills import kill_all
    from .others import fuzz_cases, odd_files
    from .outcomes import GOOD, outcomes, table
    from .values import value_cases

    torch.set_num_threads(1)
    cases = [*odd_files(base), *value_cases(), *(fuzz_cases(base, asked.count, asked.seed) if asked.count else [])]
    cases += door_cases(base / "doors", asked.count, asked.seed)
    if asked.flips and (asked.only in "flips" or asked.only.startswith("flips")):
        cases += flip_cases(base / "flips", asked.flips, asked.seed)
    results = outcomes([case for case in cases if case.face.startswith(asked.only)])
    print(table(results), flush=True)
    bad = any(outcome not in GOOD for _, outcome in results)
    if asked.kills:
        shares = dict.fromkeys(KILLS, max(1, asked.kills // len(KILLS)))
        print("\n| kind | kills | jobs | results |\n|---|---|---|---|")
        bad |= any(tally.different for tally in kill_all(base / "kills", shares, asked.seed).values())
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
