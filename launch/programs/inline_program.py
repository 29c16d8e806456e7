"""Bundle an envcheck program with the envcheck modules it imports into one text for a Python without envcheck."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path

# Linux limits one argument (`python -c TEXT`) to 128 KiB (MAX_ARG_STRLEN); these modules take about 56 KiB.
PROBE_MODULES = (
    "launch.programs.place_probe",
    "launch.programs.data_probe",
    "launch.programs.checkpoint_check",
    "launch.programs.weight_values",
    "installers.bundle.weights",
    "installers.bundle.weights_header",
    "envcheck.core.errors",
    "envcheck.core.messages",
)
_FINDER = '''
import importlib.abc, importlib.util, sys


class BundledImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import the modules in SOURCES; their parent packages are empty."""

    def find_spec(self, name, path=None, target=None):
        above = any(module.startswith(name + ".") for module in SOURCES)
        if name in SOURCES or above:
            return importlib.util.spec_from_loader(name, self, is_package=above)

    def exec_module(self, module):
        text = SOURCES.get(module.__name__, "")
        exec(compile(text, module.__name__, "exec"), module.__dict__)


sys.meta_path.insert(0, BundledImporter())
'''


def bundle_program(modules: Sequence[str] = PROBE_MODULES) -> str:
    """Return the text of a program that runs main() of the first module."""
    sources = {name: _read_source(name) for name in modules}
    return f"SOURCES = {sources!r}\n{_FINDER}\nimport {modules[0]}\n{modules[0]}.main()\n"


def _read_source(name: str) -> str:
    found = importlib.util.find_spec(name)
    assert found and found.origin
    return Path(found.origin).read_text("utf-8")
