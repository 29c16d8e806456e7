"""A program of ours with the modules of ours that it imports, as one text for a Python that does not see our files."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

# `python -c` takes 128 KiB (Linux: MAX_ARG_STRLEN); these have a third of that.
SIGHT = (
    "launch.programs.place_probe",
    "launch.programs.data_probe",
    "installers.bundle.weights",
    "installers.bundle.weights_header",
)
_FINDER = '''
import importlib.abc, importlib.util, sys


class Carried(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules in SOURCES; the packages above them are empty."""

    def find_spec(self, name, path=None, target=None):
        above = any(module.startswith(name + ".") for module in SOURCES)
        if name in SOURCES or above:
            return importlib.util.spec_from_loader(name, self, is_package=above)

    def exec_module(self, module):
        text = SOURCES.get(module.__name__, "")
        exec(compile(text, module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, Carried())
'''


def program(modules: Sequence[str] = SIGHT) -> str:
    """Text that runs main() of the first module."""
    sources = {name: _source(name) for name in modules}
    return f"SOURCES = {sources!r}\n{_FINDER}\nimport {modules[0]}\n{modules[0]}.main()\n"


def _source(name: str) -> str:
    found = importlib.util.find_spec(name)
    assert found and found.origin
    return Path(found.origin).read_text("utf-8")
