"""What pyproject.toml cannot say: a wheel carries notebooks/, which stays the one source of them, and its description
is README.md without links and pictures of the repository, which an index of packages does not have."""

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithNotebooks(build_py):
    """Copies notebooks/ into the built package; an installation in place (pip install -e) reads them where they are."""

    def run(self):
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "xmr_study" / "notebooks"
            target.mkdir(parents=True, exist_ok=True)
            for path in sorted(Path("notebooks").glob("*.ipynb")):
                shutil.copyfile(path, target / path.name)


def description() -> str:
    own = r"\[([^\]]*)\]\((?!https?:)[^)]*\)"  # a link to a file of the repository
    text = re.sub(own, r"\1", re.sub("!" + own, "", Path("README.md").read_text(encoding="utf-8")))
    return f"{text}\nThe folders docs/, notebooks/ and reports/ are in the source distribution.\n"


setup(
    cmdclass={"build_py": WithNotebooks},
    long_description=description(),
    long_description_content_type="text/markdown",
)
