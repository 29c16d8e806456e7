"""The log of an unexpected exception, ready to paste into an issue."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from pathlib import Path

from envcheck.core.version import __version__


def save_crash_report(err: BaseException) -> Path:
    """Write version, Python, system, command and traceback to a new temporary file, and return its path."""
    head = f"envcheck {__version__}\nPython {sys.version}\n{platform.platform()}\n$ {' '.join(sys.argv)}\n\n"
    with tempfile.NamedTemporaryFile("w", prefix="envcheck-bug-", suffix=".log", delete=False) as log:
        log.write(head + "".join(traceback.format_exception(err)))
    return Path(log.name)
