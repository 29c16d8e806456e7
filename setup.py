"""Add the compiled catalogues and the packed tables while envcheck is built; all else is in setup.cfg."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PACKAGES = ("envcheck", "installers", "launch")  # those with tables
LEFT_OUT = ROOT / "envcheck" / "cli" / "docs"


class BuildWithGeneratedFiles(build_py):
    def run(self) -> None:
        sys.path.insert(0, str(ROOT))
        import tomli

        from envcheck.cli.message_catalogue import compile_catalogues
        from envcheck.core import table_pack

        compile_catalogues()
        super().run()
        if not self.editable_mode:
            for name in PACKAGES:
                tables = [path for path in (ROOT / name).rglob("*.toml") if path.parent != LEFT_OUT]
                packed = Path(self.build_lib) / name / table_pack.NAME
                packed.write_bytes(table_pack.pack_tables(ROOT, tables, tomli.loads))


setup(cmdclass={"build_py": BuildWithGeneratedFiles})
