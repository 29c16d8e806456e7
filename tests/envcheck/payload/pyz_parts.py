"""envcheck.pyz, built once, and an isolated Python to run it: no packages, empty home folder, no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envcheck.payload import pyz

BASE = getattr(sys, "_base_executable", sys.executable)


@cache
def make_offline_prefix() -> tuple[str, ...]:
    """Command prefix that removes the network except loopback, where this user may create namespaces; else empty."""
    words = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    may = shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    return words if may else ()


@dataclass(frozen=True)
class BarePython:
    """`home` is the user's, `file` is envcheck.pyz."""

    home: Path
    file: Path

    @property
    def cache_folder(self) -> Path:
        return self.home / ".cache" / "envcheck"

    def start_payload(
        self, *words: str, python: str = BASE, env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        argv = [*make_offline_prefix(), python, "-I", "-S", str(self.file), *words]
        known = {"PATH": "/usr/bin:/bin", "HOME": str(self.home), **(env or {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        return subprocess.Popen(argv, env=known, cwd=self.home, text=True, **pipes)  # type: ignore[call-overload, no-any-return]

    def run_payload(
        self, *words: str, python: str = BASE, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        child = self.start_payload(*words, python=python, env=env)
        try:
            out, err = child.communicate(timeout=240)
        finally:
            child.kill()
        return subprocess.CompletedProcess(child.args, child.returncode, out, err)


def make_payload(folder: Path) -> BarePython:
    """With envcheck.pyz in `folder`, and an empty home."""
    (folder / "home").mkdir(parents=True)
    file = folder / "envcheck.pyz"
    file.write_bytes(pyz.build_payload().data)
    return BarePython(folder / "home", file)


def find_interpreter(version: str) -> str | None:
    """Another Python of this machine: `3.9` or such."""
    shim = shutil.which("pyenv")
    roots = [Path(r) for r in (os.environ.get("PYENV_ROOT"), shim and Path(shim).resolve().parents[1]) if r]
    found = (str(path) for root in roots for path in root.glob(f"versions/{version}.*/bin/python"))
    return next(found, None) or shutil.which(f"python{version}")
