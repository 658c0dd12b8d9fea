"""The one step that pyproject.toml cannot say: a wheel carries notebooks/, which stays the one source of them."""

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


setup(cmdclass={"build_py": WithNotebooks})
