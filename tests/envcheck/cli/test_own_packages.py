"""Another distribution's or folder's package in the place of one of ours is named, with what helps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli import own_packages
from envcheck.core.errors import UsageError


@pytest.mark.parametrize("package", own_packages.PACKAGES)
def test_hidden_package(tmp_path: Path, package: str) -> None:
    """The folder of the user has a package of one of our names: one sentence, exit code 2."""
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()

    argv = [sys.executable, "-m", "envcheck", "recipes"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)

    assert done.returncode == 2
    assert f"another package '{package}'" in done.stderr and str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr and "pipx" in done.stderr


def test_overwritten_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other project's distribution in the same folder."""
    site = tmp_path / "site-packages"
    (site / "envcheck" / "cli").mkdir(parents=True)
    (site / "envcheck-0.0.9.dist-info").mkdir()
    monkeypatch.setattr(own_packages, "__file__", str(site / "envcheck" / "cli" / "own_packages.py"))

    with pytest.raises(UsageError, match="another project") as caught:
        own_packages.refuse_foreign_packages()

    assert "uninstall -y envcheck envcheck-toolkit" in str(caught.value.next_step)


def test_our_own_packages() -> None:
    """No error is raised if all packages are ours."""
    own_packages.refuse_foreign_packages()
