"""The house rules that a program can check."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from envcheck.cli.main import COMMANDS
from envcheck.core import toml_file
from envcheck.vendors import VENDORS
from tests.import_graph import PACKAGES, ImportGraph, find_cycles

ROOT = Path(__file__).parent.parent
GRAPH = ImportGraph(ROOT)


def run_python(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_ruff() -> None:
    """`ruff check` reports nothing."""
    done = run_python("-m", "ruff", "check", ".")

    assert done.returncode == 0, done.stdout


def test_format() -> None:
    """Everything is formatted."""
    done = run_python("-m", "ruff", "format", "--check", ".")

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_types() -> None:
    """mypy --strict is content with the four packages."""
    done = run_python("-m", "mypy")

    assert done.returncode == 0, done.stdout


def test_no_module_cycles() -> None:
    """No module imports itself by way of others."""
    assert find_cycles(GRAPH.modules) == []


def test_every_parser_is_imported_by_name() -> None:
    """Type checks and the rules below see each module of probes/smi: another module imports it."""
    imported = set().union(*GRAPH.modules.values())

    plugged_in = {"probes.smi.ixsmi", "probes.smi.nvidia_smi", "probes.smi.nvidia_kernel"}  # by the vendors' tables

    assert {name for name in GRAPH.modules if name.startswith("probes.smi.")} - imported == plugged_in


def test_no_folder_cycles() -> None:
    """No folder imports itself by way of others."""
    assert find_cycles(GRAPH.folders) == []


# The layers of CONTRIBUTING.md, lowest first: a folder imports those on lines above it, and those left of it on its own
# line.  A folder that is not named belongs to the nearest one above it that is.
LAYERS = (
    "envcheck/core envcheck/core/language envcheck/core/inputs envcheck/core/lint envcheck/core/simulate",
    "probes",
    "envcheck/vendors envcheck/settings envcheck/collect envcheck/compat",
    "installers/recipes launch/catalogue launch/rendering launch/memory launch/planner",
    "envcheck/job/requirements envcheck/checks",
    "envcheck/deep envcheck/report envcheck/scripts envcheck/scripts/interpreter envcheck/scripts/jobs",
    "envcheck/job",
    "envcheck/payload envcheck/fleet",
    "envcheck/lint/context envcheck/lint/rules envcheck/lint/rules/training envcheck/lint",
    "envcheck/simulate envcheck/explain",
    "installers",
    "launch/programs launch/logs launch/targets launch/gates launch/rendezvous launch/run launch/watching launch/runs",
    "launch launch/infer",
    "launch/backends",
    "envcheck/cli",
    "envcheck",
)
RANK = {folder: n for n, folder in enumerate(folder for line in LAYERS for folder in line.split())}


def find_rank(folder: str) -> int:
    named = [folder, *(str(parent) for parent in Path(folder).parents)]
    return next(RANK[name] for name in named if name in RANK)


def test_imports_point_downwards() -> None:
    """A folder imports only from lower layers, or from folders to its left on the same line."""
    upwards = {
        f"{folder} -> {other}"
        for folder, imported in GRAPH.folders.items()
        for other in imported
        if find_rank(other) > find_rank(folder)
    }

    assert upwards == set()


def test_public_names_have_docstrings() -> None:
    """Every public class, function and method of the layers 0 to 4, up to envcheck/job, has a docstring."""
    low = {
        name
        for line in LAYERS[: next(n for n, line in enumerate(LAYERS) if line == "envcheck/job") + 1]
        for name in line.split()
    }
    files = {file for folder in low for file in (ROOT / folder).rglob("*.py")}
    missing = [f"{file.relative_to(ROOT)}: {name}" for file in sorted(files) for name in find_undocumented(file)]

    assert len(files) > 200
    assert missing == []


def find_undocumented(file: Path) -> Iterator[str]:
    """Yield the public names of a module without a docstring."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for node in [*tree.body, *(member for each in classes for member in each.body)]:
        is_named = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
        if is_named and not ast.get_docstring(node):
            yield node.name


def test_only_main_imports_the_command_line() -> None:
    """Only envcheck/__main__.py imports envcheck.cli, and no module imports the bare package envcheck."""
    command_line = {
        module
        for module, imported in GRAPH.modules.items()
        if not module.startswith("envcheck.cli") and any(name.startswith("envcheck.cli") for name in imported)
    }

    assert command_line == {"envcheck.__main__"}
    assert not any("envcheck" in imported for imported in GRAPH.modules.values())


def test_folders_are_small() -> None:
    """No folder has more than 25 modules, not counting __init__.py."""
    sizes = Counter(path.parent for path in GRAPH.files.values() if path.name != "__init__.py")

    assert {str(folder.relative_to(ROOT)): n for folder, n in sizes.items() if n > 25} == {}


def test_model_stands_alone() -> None:
    """envcheck.core.model imports only the standard library."""
    names = GRAPH.names_imported_by("envcheck.core.model")
    others = {name for name in names if name.split(".")[0] not in sys.stdlib_module_names}

    assert {name for name in others if not name.startswith("envcheck.core.messages")} == set()


@pytest.mark.parametrize("name", ("docker", "pexpect", "rich", "jinja2"))
def test_doctor_starts_without_heavy_libraries(name: str) -> None:
    """Starting doctor does not import libraries that only other commands need."""
    code = f"""
import sys
from envcheck.cli.commands import doctor
import envcheck.collect.facts, envcheck.checks, envcheck.report
sys.exit({name!r} in sys.modules)
"""
    done = run_python("-c", code)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", COMMANDS)
def test_help_has_examples(verb: str) -> None:
    """Every verb's --help shows how it is used."""
    done = run_python("-m", "envcheck", verb, "--help")

    assert done.returncode == 0
    assert f"envcheck {verb}" in done.stdout.split("Options:")[0].replace(f"Usage: envcheck {verb}", "")


@pytest.mark.parametrize("vendor", [v for v in VENDORS.values() if v.tool], ids=lambda v: v.name)
def test_vendor_is_complete(vendor) -> None:  # type: ignore[no-untyped-def]
    """Each vendor has a parser, texts for it, and a recipe."""
    tool = vendor.tool.replace("-", "_")

    assert importlib.util.find_spec(vendor.parser)
    assert list((ROOT / f"tests/data/{tool}").rglob("*.json"))
    assert any(f'"{vendor.name}"' in p.read_text() for p in (ROOT / "installers/recipes").glob("*.toml"))


def test_no_unknown_word() -> None:
    """An unknown verb is a usage error in one sentence, not a traceback."""
    done = run_python("-m", "envcheck", "frobnicate")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_reader_that_leaves() -> None:
    """A closed pipe prints no error, and the exit code is 3 since nobody read the result."""
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
    """The TOML tables parse with Python's own tomllib, which rejects syntax of later TOML versions."""
    import tomllib

    for path in sorted(path for part in PACKAGES for path in (ROOT / part).rglob("*.toml")):
        text = path.read_text(encoding="utf-8")
        assert toml_file.parse_table(text, path.name, "") == tomllib.loads(text), path
