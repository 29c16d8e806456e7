"""--python, and the Python of a new environment: own, pyenv's, uv's, conda's, or one that these can get."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import NOTHING
from envcheck.settings.site_access import SiteAccess
from installers.plan import interpreters
from installers.plan.interpreters import Interpreter, PythonChoice


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a PATH without any Python."""
    for name in ("PYENV_ROOT", "UV_PYTHON_INSTALL_DIR", "CONDA_PREFIX", "MAMBA_ROOT_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}")
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    own = Interpreter(sys.executable, "3.11.7")
    monkeypatch.setattr(interpreters, "read_own", lambda: own)
    return tmp_path


def write_python(path: Path, version: str) -> Path:
    """A program that answers like a Python of this version."""
    return write_program(path, f"""echo 'ENVCHECK ["{version}", "{path}", true]'""")


def write_program(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return path


def test_own_one_suits() -> None:
    """Without --python the Python of envcheck is taken if the recipe accepts it."""
    assert interpreters.choose_interpreter(None, ">=3.10", "little").origin == NOTHING


@pytest.mark.parametrize(
    ("where", "origin"),
    (
        (".pyenv/versions/3.10.13", "pyenv"),
        (".local/share/uv/python/cpython-3.10.13-linux-x86_64-gnu", "uv"),
        ("home/pythons/conda-3.10", "envcheck's own folder"),
        ("conda/envs/paddle", "conda"),
    ),
)
def test_another_one_is_found(where: str, origin: str, bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A recipe for 3.10 takes one that is there; the plan can name where it comes from."""
    monkeypatch.setenv("MAMBA_ROOT_PREFIX", str(bare_machine / "conda"))
    write_python(bare_machine / where / "bin" / "python3", "3.10.13")
    found = interpreters.choose_interpreter(None, ">=3.10,<3.11", "hetero")

    assert (found.version, str(found.origin), found.obtain) == ("3.10.13", origin, ())


def test_newest_that_suits(bare_machine: Path) -> None:
    """3.10.13 is newer than 3.10.9; one that does not run is passed over."""
    for version in ("3.10.9", "3.10.13", "3.12.1"):
        write_python(bare_machine / ".pyenv" / "versions" / version / "bin" / "python3", version)
    write_program(bare_machine / ".pyenv" / "versions" / "3.10.14" / "bin" / "python3", "exit 127")

    assert interpreters.choose_interpreter(None, ">=3.10,<3.11", "hetero").version == "3.10.13"
    assert interpreters.choose_interpreter(PythonChoice("3.12"), ">=3.10", "little").version == "3.12.1"


@pytest.mark.parametrize(
    ("tool", "command"),
    (("uv", "uv python install --install-dir"), ("conda", "conda create --yes --prefix"), ("mamba", "mamba create")),
)
def test_one_that_can_be_got(tool: str, command: str, bare_machine: Path) -> None:
    """Where none is there, the plan names the program that gets it; it is got only when the step is carried out."""
    home = bare_machine / "home" / "pythons"
    into = home / ("cpython-3.10.99" if tool == "uv" else "conda-3.10") / "bin"
    prepared = write_python(bare_machine / "prepared", "3.10.99")
    write_program(bare_machine / "bin" / tool, f"/bin/mkdir -p {into}; /bin/cp {prepared} {into}/python3")
    planned = interpreters.choose_interpreter(None, ">=3.10,<3.11", "hetero")

    assert " ".join(planned.obtain).startswith(command)
    assert not home.exists()
    assert interpreters.obtain_interpreter(planned).version == "3.10.99"
    write_program(bare_machine / "bin" / tool, "echo no network >&2; exit 1")
    with pytest.raises(StepError, match="failed: no network"):
        interpreters.obtain_interpreter(planned)


FAILED_UV = """mkdir -p "$4/.temp"; touch "$4/.lock"
echo 'error: Failed to install cpython-3.10.99' >&2
echo '  cause: Failed to download `http://user:secret@uv.example.org/a.tar.gz`' >&2
echo '  cause: Connection refused (os error 111)' >&2; exit 1"""
FAILED_CONDA = """mkdir -p "$4/conda-meta"
echo 'critical libmamba Could not solve for environment specs' >&2; exit 1"""


@pytest.mark.parametrize(
    ("tool", "text", "reason"),
    (
        ("uv", FAILED_UV, "failed: uv.example.org: Connection refused (os error 111)"),
        ("micromamba", FAILED_CONDA, "failed: Could not solve for environment specs"),
    ),
)
def test_a_failed_download_leaves_nothing(
    tool: str, text: str, reason: str, bare_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one sentence with the server and without its password; a Python that was there stays."""
    monkeypatch.setenv("PATH", f"{bare_machine / 'bin'}:/usr/bin:/bin")
    write_program(bare_machine / "bin" / tool, text)
    planned = interpreters.plan_interpreter(">=3.10,<3.11")
    assert planned
    with pytest.raises(StepError) as caught:
        interpreters.obtain_interpreter(planned)

    assert str(caught.value.message).endswith(reason)
    assert not (bare_machine / "home" / "pythons").exists()
    kept = write_python(bare_machine / "home" / "pythons" / "conda-3.12" / "bin" / "python3", "3.12.1")
    with pytest.raises(StepError):
        interpreters.obtain_interpreter(planned)
    assert kept.exists()
    assert not Path(planned.path).parents[1].exists()


def test_the_site_of_a_download(bare_machine: Path) -> None:
    """uv and conda get the proxy of the site, and the mirror that its rewrites name."""
    site = SiteAccess(
        proxy="http://proxy.example.org:3128",
        rewrites={"https://github.com/": "https://git.example.org/gh/", "https://conda.": "https://c.example.org/"},
    )
    write_program(bare_machine / "bin" / "uv", f"/usr/bin/env > {bare_machine}/seen; exit 1")
    planned = interpreters.plan_interpreter(">=3.10")
    assert planned
    with pytest.raises(StepError, match="exit code 1"):
        interpreters.obtain_interpreter(planned, site)
    seen = (bare_machine / "seen").read_text().splitlines()

    assert "https_proxy=http://proxy.example.org:3128" in seen
    mirror = "https://git.example.org/gh/astral-sh/python-build-standalone/releases/download"
    assert f"UV_PYTHON_INSTALL_MIRROR={mirror}" in seen
    assert "CONDA_CHANNEL_ALIAS=https://c.example.org/anaconda.org" in seen
    assert interpreters.list_mirrors(SiteAccess()) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    (
        ("abc", "neither a version such as 3.10 nor an interpreter"),
        ("/nowhere/python", "neither a version such as 3.10 nor an interpreter"),
        ("4", "neither a version"),
        ("3.99", "--python 3.99: not found on this machine"),
        ("3.9", "--python 3.9: recipe little requires Python >=3.10"),
        ("BROKEN", "not a Python 3.8 or newer that runs"),
        ("OLD", "recipe little requires Python >=3.10"),
    ),
)
def test_wrong_values(text: str, words: str, bare_machine: Path) -> None:
    """A wrong value is wrong usage, in one sentence."""
    named = {
        "BROKEN": write_program(bare_machine / "broken", "exit 3"),
        "OLD": write_python(bare_machine / "old" / "bin" / "python", "3.8.18"),
    }
    with pytest.raises(UsageError) as caught:
        interpreters.choose_interpreter(interpreters.parse_choice(str(named.get(text, text))), ">=3.10", "little")

    assert words in str(caught.value.message)


def test_a_folder_and_a_name(bare_machine: Path) -> None:
    """--python takes the folder of an environment, and the name of a program on PATH."""
    python = write_python(bare_machine / "env" / "bin" / "python", "3.12.1")
    (bare_machine / "bin" / "python3.12").symlink_to(python)

    assert interpreters.parse_choice(str(bare_machine / "env")).path == str(python)
    assert interpreters.parse_choice("python3.12").path == str(bare_machine / "bin" / "python3.12")
