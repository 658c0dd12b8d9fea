"""Print the lowest versions that pyproject.toml allows, as constraints of pip, to test that they are true.

python scripts/lowest_versions.py [--except NAME …] > lowest.txt && pip install -c lowest.txt -e '.[test]'
--except: packages whose lowest version this machine cannot get, a build of torch for the CPU say.
"""

import argparse
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lowest(project: dict, left_out: set[str] = frozenset()) -> dict[str, str]:
    """Package → the version after its >=; the highest of them where several lists name it.

    project: the table [project] of pyproject.toml. Raises: ValueError for a requirement without a lowest version.

    >>> lowest({"dependencies": ["numpy>=2.0", "tqdm>=4.66"], "optional-dependencies": {"app": ["numpy>=2.1"]}})
    {'numpy': '2.1', 'tqdm': '4.66'}
    """
    found: dict[str, str] = {}
    named = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    for requirement in named:
        name = re.match(r"[\w.-]+", requirement)[0]
        if name == project.get("name") or name in left_out:
            continue
        version = re.fullmatch(r"[\w.-]+>=([\d.]+)", requirement)
        if version is None:
            raise ValueError(f"{requirement!r} names no lowest version: write it as {name}>=VERSION.")
        found[name] = max(found.get(name, "0"), version[1], key=lambda v: [int(part) for part in v.split(".")])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--except", dest="left_out", action="append", default=[], metavar="NAME")
    asked = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print("\n".join(f"{name}=={version}" for name, version in lowest(project, set(asked.left_out)).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
