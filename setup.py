"""What pyproject.toml cannot say: a wheel carries notebooks/ and the tables of reports/, which stay where they are, and
its description is README.md without links and pictures of the repository, which an index of packages does not have."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithStudy(build_py):
    """Copies both into the built package; an installation in place (pip install -e) reads them where they are."""

    def run(self):
        super().run()
        if not self.editable_mode:
            for path in sorted([*Path("notebooks").glob("*.ipynb"), *Path("reports").rglob("*.csv")]):
                target = Path(self.build_lib) / "xmr_study" / path
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def description() -> str:
    own = r"\[([^\]]*)\]\((?!https?:)[^)]*\)"  # a link to a file of the repository
    text = re.sub(own, r"\1", re.sub("!" + own, "", Path("README.md").read_text(encoding="utf-8")))
    return f"{text}\nThe folders docs/, notebooks/ and reports/ are in the source distribution.\n"


setup(
    cmdclass={"build_py": WithStudy},
    long_description=description(),
    long_description_content_type="text/markdown",
)
