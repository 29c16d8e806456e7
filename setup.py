"""The man pages are made from the commands' own help while envcheck is built; the rest stands in setup.cfg."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    def run(self) -> None:
        super().run()
        sys.path.insert(0, str(Path(__file__).parent))
        from envcheck.cli.manual import write_pages

        folder = Path(self.get_finalized_command("build").build_base) / "man"
        self.distribution.data_files = [("share/man/man1", [str(page) for page in write_pages(folder)])]


setup(cmdclass={"build_py": BuildWithPages})
