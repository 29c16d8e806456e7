"""The house rules that a program can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck import toml_file
from envcheck.cli import COMMANDS
from envcheck.vendors import VENDORS

ROOT = Path(__file__).parent.parent
PACKAGES = ("envcheck", "probes", "installers", "launch")
SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_ruff() -> None:
    """The linter has nothing to say."""
    done = run("-m", "ruff", "check", ".")

    assert done.returncode == 0, done.stdout


def test_format() -> None:
    """Everything is formatted."""
    done = run("-m", "ruff", "format", "--check", ".")

    assert done.returncode == 0, done.stdout


def test_types() -> None:
    """mypy --strict is content with the four packages."""
    done = run("-m", "mypy")

    assert done.returncode == 0, done.stdout


def imported(source: Path) -> set[str]:
    """Modules that a file imports when it is loaded, so not those inside functions or TYPE_CHECKING blocks."""
    names: set[str] = set()
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return names


@pytest.mark.parametrize("source", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_downwards(source: Path) -> None:
    """Probes know only the core's small modules; installers do not know launch; the core knows neither."""
    package = source.relative_to(ROOT).parts[0]
    allowed = {
        "probes": {"probes", "envcheck"},
        "installers": {"installers", "envcheck", "probes"},
        "launch": {"launch", "installers", "envcheck", "probes"},
        "envcheck": set(PACKAGES) if "commands" in source.parts else {"envcheck", "probes"},
    }[package]

    tops = {name.split(".")[0] for name in imported(source)} & set(PACKAGES)

    assert tops <= allowed
    assert not any(name.startswith("envcheck.commands") for name in imported(source))


def test_model_stands_alone() -> None:
    """The words of envcheck import the standard library alone."""
    tops = {name.split(".")[0] for name in imported(ROOT / "envcheck/model.py")}

    assert tops <= set(sys.stdlib_module_names)


@pytest.mark.parametrize("name", ("docker", "pexpect", "rich", "jinja2"))
def test_doctor_starts_without_heavy_libraries(name: str) -> None:
    """What doctor imports before it looks holds no library that only other verbs need."""
    code = f"""
import sys
from envcheck.commands import doctor
import envcheck.facts, envcheck.checks, envcheck.reports
sys.exit({name!r} in sys.modules)
"""
    done = run("-c", code)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_has_examples(verb: str) -> None:
    """Every verb's --help shows how it is used."""
    done = run("-m", "envcheck", verb, "--help")

    assert done.returncode == 0
    assert f"envcheck {verb}" in done.stdout.split("Options:")[0].replace(f"Usage: envcheck {verb}", "")


@pytest.mark.parametrize("vendor", [v for v in VENDORS.values() if v.tool], ids=lambda v: v.name)
def test_vendor_is_complete(vendor) -> None:  # type: ignore[no-untyped-def]
    """Each vendor has a parser, texts for it, and a recipe."""
    tool = vendor.tool.replace("-", "_")

    assert (ROOT / f"probes/{tool}.py").exists()
    assert list((ROOT / f"tests/data/{tool}").rglob("*.json"))
    assert any(f'"{vendor.name}"' in p.read_text() for p in (ROOT / "installers/recipes").glob("*.toml"))


def test_no_unknown_word() -> None:
    """An unknown verb is a usage error in one sentence, not a traceback."""
    done = run("-m", "envcheck", "frobnicate")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_reader_that_leaves() -> None:
    """A reader that goes away gets no complaint, and the verdict that nobody read does not count as fit."""
    argv = [sys.executable, "-m", "envcheck", "doctor", "--list-checks"]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        said = child.stderr.read()

    assert said == b""
    assert child.returncode == 3


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python has no TOML of its own")
def test_tables_are_read_by_every_parser() -> None:
    """A pod or a host may have Python's own alone, which refuses what later versions of TOML allow."""
    import tomllib

    for path in sorted(path for part in PACKAGES for path in (ROOT / part).rglob("*.toml")):
        text = path.read_text(encoding="utf-8")
        assert toml_file.table(text, path.name, "") == tomllib.loads(text), path
