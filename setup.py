"""Compile the message catalogues and make the man pages while envcheck is built; all else is in setup.cfg."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithPages(build_py):
    def run(self) -> None:
        sys.path.insert(0, str(Path(__file__).parent))
        from envcheck.cli.manual import write_pages
        from envcheck.cli.message_catalogue import compile_catalogues

        compile_catalogues()
        super().run()

        folder = Path(self.get_finalized_command("build").build_base) / "man"
        self.distribution.data_files = [("share/man/man1", [str(page) for page in write_pages(folder)])]


setup(cmdclass={"build_py": BuildWithPages})
