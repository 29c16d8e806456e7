"""The frameworks in PATH, and the release of ms-swift, as files of an environment show it."""

from __future__ import annotations

from pathlib import Path

import pytest
from packaging.version import Version

from envcheck.core.lint.own_job import InstalledFrameworks
from envcheck.job.installed_frameworks import find_installed_frameworks


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """A virtual environment with a program named swift."""
    program = tmp_path / "bin" / "swift"
    program.parent.mkdir()
    program.touch(0o755)
    return tmp_path


@pytest.mark.parametrize("version", ("4.0.4", "4.10.0", "4.1.0.dev0"))
def test_release_of_swift(environment: Path, version: str) -> None:
    """The release is that of the package next to the program."""
    (environment / "lib" / "python3.11" / "site-packages" / f"ms_swift-{version}.dist-info").mkdir(parents=True)

    assert find_installed_frameworks({"PATH": f"{environment}/bin"}).swift == Version(version)


@pytest.mark.parametrize("package", ("", "ms_swift-unknown.dist-info"))
def test_another_swift(environment: Path, package: str) -> None:
    """A program of that name without the package, or with an unreadable version, has no release."""
    (environment / "lib" / "python3.11" / "site-packages" / package).mkdir(parents=True)

    assert find_installed_frameworks({"PATH": f"{environment}/bin"}) == InstalledFrameworks()


def test_commands_in_path(environment: Path) -> None:
    """Commands are those of the variables that the job starts with."""
    (environment / "bin" / "paddleformers-cli").touch(0o755)

    assert find_installed_frameworks({"PATH": f"{environment}/bin"}).commands == {"paddleformers-cli"}
    assert find_installed_frameworks({"PATH": str(environment)}).commands == frozenset()
