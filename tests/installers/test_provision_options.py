"""Conflicting or invalid options of provision are refused in two lines, before anything is inspected."""

from __future__ import annotations

import dataclasses
import itertools
import json
from dataclasses import replace
from pathlib import Path

import click
import pytest

from envcheck.cli import main
from envcheck.cli.commands.provision import DriverOptions, UndoOptions, provision
from envcheck.core import paths
from envcheck.core.errors import UsageError
from installers.bundle.sources import Supply
from installers.images import reference
from installers.plan.host_facts import HostFacts
from installers.recipes import catalogue
from installers.recipes.recipe import Package
from installers.state.environment import Environment, FolderKind
from installers.steps import python_packages
from installers.steps.target_state import DesiredState
from installers.steps.venv_state import VenvState
from tests.installers.provision_helpers import write_recipe


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nobody/listens")
    return tmp_path / "home"


def run_provision(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str]:
    code = main._run_command(["provision", *options])
    return code, capsys.readouterr().err


NOBODY = "~nosuch/x"


@pytest.mark.parametrize(
    "options",
    (
        ("--device", "cpu", "--into", NOBODY),
        ("--device", "npu", "--install-driver", f"{NOBODY}.run"),
        ("--device", "cpu", "--lock", NOBODY),
        ("--device", "cpu", "--locked", NOBODY),
        ("--bundle", NOBODY),
        ("--device", "cpu", "--weights", NOBODY),
        ("--recipes", NOBODY),
        ("--device", "cpu", "--into", ""),
        ("--device", "cpu", "--into", " "),
        ("--device", "cpu", "--lock", ""),
        ("--device", "cpu", "--weights", ""),
    ),
)
def test_no_path(options: tuple[str, ...], capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """An unknown home and an empty path are wrong usage that names the option."""
    code, said = run_provision(capsys, *options, "--yes")

    assert code == 2
    assert said.startswith(f"envcheck: {options[-2]}")
    assert not home.exists()


@pytest.mark.parametrize("option", ("--into", "--data", "--runs"))
def test_no_path_for_a_training(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """train reads its paths in the same way."""
    code = main._run_command(["train", "--recipe", "tiny-cpu", "--dry-run", option, NOBODY])

    assert code == 2
    assert f"{option} '{NOBODY}': no home directory for ~nosuch" in capsys.readouterr().err


def test_no_home(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """ENVCHECK_HOME is read in the same way."""
    monkeypatch.setenv("ENVCHECK_HOME", "~nosuch")

    assert run_provision(capsys, "--device", "cpu", "--dry-run")[0] == 2
    with pytest.raises(UsageError, match="ENVCHECK_HOME"):
        paths.envcheck_home()


def test_own_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """~ in a path is expanded."""
    monkeypatch.setenv("HOME", "/h")

    assert paths.parse_path("~/x", "--into") == Path("/h/x")


@pytest.mark.parametrize(
    "more", (("--model", "300b"), ("--device", "npu"), ("--framework", "swift"), ("--method", "sftx"))
)
def test_a_recipe_that_is_not_for_it(more: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """A named recipe is refused if it conflicts with the other options."""
    code, said = run_provision(capsys, "--recipe", "tiny-cpu", *more, "--dry-run")

    assert code == 2
    assert f"--recipe tiny-cpu conflicts with {' '.join(more)}" in said


@pytest.mark.parametrize(
    ("recipe", "more"),
    (
        ("tiny-cpu", ("--device", "cpu", "--model", "tiny", "--method", "lora")),
        ("ernie-21b-hetero", ("--model", "21b", "--node-role", "nvidia")),
        ("ernie-21b-hetero", ("--device", "nvidia")),
    ),
)
def test_a_recipe_that_is(recipe: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Options that agree with a named recipe are allowed, also the device of one of its roles."""
    assert run_provision(capsys, "--recipe", recipe, *more, "--dry-run")[0] != 2


@pytest.mark.parametrize("value", ("http://host", "nohost", "", "host.org/UPPER", "a b.org", "host.org/../x"))
def test_no_registry(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--registry is validated before an engine or a network is used, also if the recipe has no image."""
    code, said = run_provision(capsys, "--device", "cpu", "--registry", value, "--dry-run")

    assert code == 2
    assert said.startswith(("envcheck: --registry ", "envcheck: --registry:"))


@pytest.mark.parametrize("value", ("mirror.example.org", "localhost/x", "[::1]:5000/a/b/", "10.0.0.1:5000"))
def test_a_registry(value: str) -> None:
    """Host, port and prefix are accepted."""
    host, prefix = reference.parse_registry(value)

    assert f"{host}/{prefix}".rstrip("/") == value.rstrip("/")


SWITCHES = {p.opts[0]: isinstance(p, click.Option) and p.is_flag for p in provision.params}
WORDS = {p.name: p.opts[0] for p in provision.params}


@pytest.mark.parametrize(("mode", "kind"), [("--undo", UndoOptions), ("--install-driver", DriverOptions)])
def test_what_a_mode_does_not_take(mode: str, kind: type, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """Every option that a mode would ignore is refused, and both are named."""
    values = {"--device": "cpu", "--registry": "a.org", "--host-timeout": "9", "--fanout": "9"}
    known = {WORDS.get(each.name) for each in dataclasses.fields(kind)}
    others = sorted(set(SWITCHES) - known - {"--undo", "--lang", "--help-all"})
    for option in others:
        words = [[o] if SWITCHES[o] else [o, values.get(o, "x")] for o in (mode, option)]
        code, said = run_provision(capsys, *itertools.chain(*words), "--yes")

        assert code == 2
        assert f"{option} cannot be combined with {mode}" in said
    assert len(others) > 10
    assert not home.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--undo --install-driver x", "--install-driver cannot be combined with --undo"),
        ("--as-script --lock x", "--as-script cannot be combined with --lock"),
        ("--as-script --json", "--as-script cannot be combined with --json"),
        ("--weights x --fetch-weights", "--fetch-weights cannot be combined with --weights"),
        ("--into x --registry a.org", "--registry cannot be combined with --into"),
        ("--into x --recreate", "--recreate cannot be combined with --into"),
        ("--bundle x --variant y", "--bundle cannot be combined with --variant"),
        ("--bundle x --registry a.org", "--registry cannot be combined with --bundle"),
        ("--hosts n1 --lock x", "--lock cannot be combined with --hosts"),
        ("--hostfile x --lock x", "--lock cannot be combined with --hostfile"),
        ("--sha256 x", "--sha256 requires --install-driver"),
        ("--unfinished", "--unfinished requires one of --hosts, --hostfile"),
    ],
)
def test_either(words: str, said: str, capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """Of two conflicting options one is refused, and so is one without the option that it needs."""
    code, error = run_provision(capsys, *words.split())

    assert (code, said in error, home.exists()) == (2, True, False), error


@pytest.mark.parametrize("words", [("--recreate",), ("--as-published",), ("--registry", "mirror.example.org")])
def test_for_a_container(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Options for containers are refused if the recipe has none."""
    code, said = run_provision(capsys, "--recipe", "tiny-cpu", "--dry-run", *words)

    assert code == 2
    assert f"{words[0]} requires a container, which tiny-cpu does not use" in said


def test_a_password_of_an_index() -> None:
    """A plan names the index without its credentials."""
    package = Package("alpha", "", "https://someone:hunter22@index.example.org/simple")
    recipe = replace(catalogue.find_recipe(catalogue.load_all(), "tiny-cpu"), packages=(package,))
    nowhere = VenvState(
        Environment(Path("/e"), FolderKind.ABSENT), HostFacts("python3", "3.11.2", True, None, True), recipe.python
    )
    (step,) = python_packages.plan(DesiredState(recipe, Supply(recipe)), nowhere, ())

    assert "index.example.org/simple" in step.title
    assert "hunter22" not in "".join(map(str, (step.title, step.why, step.changes, step.undo)))


@pytest.mark.parametrize("package", ("al\\u001b[2Jpha", "alpha ==\\u001b[2J"))
def test_a_control_sequence_in_a_recipe(package: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in a name do not reach the terminal, also not as a key in an error."""
    write_recipe(tmp_path, package).joinpath("little.toml").rename(tmp_path / "bad\x1b[1m.toml")
    code, said = run_provision(capsys, "--recipes", str(tmp_path), "--recipe", "little", "--dry-run")

    assert code == 2
    assert "packages" in said
    assert "\x1b" not in said


def test_into_what_is_no_environment(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with other files is not an environment, and nothing is reported as satisfied."""
    code = main._run_command(["provision", "--recipe", "tiny-cpu", "--into", "/etc", "--dry-run", "--json"])
    said = json.loads(capsys.readouterr().out)

    assert code == 2
    assert said["satisfied"] == []
    assert said["obstacle"]["why"] == "/etc contains other files and is not a virtual environment"


def test_all_that_is_in_the_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All obstacles are listed at once, each with its next step."""
    code, said = run_provision(capsys, "--recipe", "ernie-300b-npu", "--yes")

    assert code == 1
    assert said.startswith("envcheck: ")
    assert said.count("\n  next: ") == said.count("\n  also: ") + 1 > 2


def test_undo_fails_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--undo --json prints one document also if it refuses."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat").touch()
    code = main._run_command(
        ["provision", "--recipe", "tiny-cpu", "--into", str(tmp_path / "photos"), "--undo", "--json"]
    )
    said = json.loads(capsys.readouterr().out)

    assert (code, said["result"], said["exit_code"]) == (2, "failed", 2)
