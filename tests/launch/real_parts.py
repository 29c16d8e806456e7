"""The paddle versions that the tests use, each with a plugin for sixteen simulated cards."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.installers.paddle_parts import CACHE
from tests.launch.fake_cards import compile_plugin

ROOT = Path(__file__).parents[2]
NEWER = "tiny-cpu-newer"
# paddle 3.1 reads a field of protobuf's descriptors that protobuf 7 no longer has: no strategy of fleet can be set
# then, "hybrid_configs is not a attribute of DistributedStrategy" (tried: with 5.29, 6.33 and 7.36; 3.3.1 takes all).
PROTOBUF = "protobuf<7"


@dataclass(frozen=True)
class PaddleEnvironment:
    """A paddle version; `path` is added to PYTHONPATH."""

    version: str
    environment: Path
    path: Path | None = None

    @property
    def python_path(self) -> Path:
        return self.environment / "bin" / "python"

    def compile_plugin(self, device_type: str, folder: Path) -> Path:
        """Build the plugin for this version: the sizes of structures differ."""
        place = folder / f"{device_type}-{self.version}"
        place.mkdir(parents=True, exist_ok=True)
        return compile_plugin(self.environment, device_type, place)


@pytest.fixture(scope="session")
def newer_environment(paddle_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with paddlepaddle 3.3, created by envcheck; 30 s the first time, then cached."""
    folder = tmp_path_factory.mktemp("newer")
    text = (ROOT / "installers/recipes/tiny-cpu.toml").read_text()
    assert '"tiny-cpu"' in text and '"==3.1.0"' in text
    (folder / "newer.toml").write_text(text.replace('"tiny-cpu"', f'"{NEWER}"').replace('"==3.1.0"', '"==3.3.*"'))
    argv = [sys.executable, "-m", "envcheck", "provision", "--recipe", NEWER, "--recipes", str(folder), "--yes"]
    with (CACHE / "newer.lock").open("w") as lock:  # two test runs on one machine
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            argv, env={**os.environ, "ENVCHECK_HOME": str(paddle_home)}, capture_output=True, text=True, timeout=900
        )
    assert done.returncode == 0, done.stdout + done.stderr
    return paddle_home / "environments" / NEWER


@pytest.fixture(scope="session")
def older_protobuf(paddle_home: Path) -> Path:
    """A folder with a protobuf version that paddle 3.1's fleet supports."""
    place = CACHE / "protobuf"
    with (CACHE / "newer.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            argv = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", f"{place}.new", PROTOBUF]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            Path(f"{place}.new").rename(place)
    return place


@pytest.fixture(scope="session")
def paddles(paddle_environment: Path, newer_environment: Path, older_protobuf: Path) -> dict[str, PaddleEnvironment]:
    """Return version → paddle."""
    return {
        "3.1": PaddleEnvironment("3.1", paddle_environment, older_protobuf),
        "3.3": PaddleEnvironment("3.3", newer_environment),
    }
