"""Options that go together follow from the types of requests."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import click
import pytest
from click.testing import CliRunner

from envcheck.cli import requests
from envcheck.cli.requests import Request, argument, command, convert_request, flag, option
from envcheck.core.errors import UsageError

FOLDER = Path(requests.__file__).parent
PARAMETERS = 6


@dataclass(frozen=True, kw_only=True)
class CommonOptions(Request):
    name: str | None = argument(required=False)
    quiet: bool = flag("--quiet")


@dataclass(frozen=True, kw_only=True)
class RemoveOptions(CommonOptions):
    SELECTED_BY: ClassVar[tuple[str, ...]] = ("remove", "purge")

    remove: bool = flag("--remove")
    purge: bool = flag("--purge")
    whole: bool = flag("--whole")


@dataclass(frozen=True, kw_only=True)
class AddOptions(CommonOptions):
    path: str | None = option("--path")
    url: str | None = option("--url", excludes=("path",), hint="give the file")
    depth: int = option("--depth", default=3, needs=("path", "url"))


@command(RemoveOptions, AddOptions)
def echo_request(request: RemoveOptions | AddOptions) -> None:
    click.echo(repr(request))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("x --quiet", "quiet=True, path=None"),
        ("x --remove --whole", "remove=True, purge=False, whole=True"),
        ("--purge", "remove=False, purge=True"),
        ("--path p --depth 4", "path='p', url=None, depth=4"),
    ],
)
def test_the_request_that_is_meant(words: str, said: str) -> None:
    """An option of SELECTED_BY chooses its type, else the last is meant; all of its fields are read."""
    assert CliRunner().invoke(echo_request, words.split()).output.count(said) == 1


@pytest.mark.parametrize(
    ("words", "message", "next_step"),
    [
        ("--remove --path p", "--path cannot be combined with --remove", "use only one of them"),
        ("--purge --depth 2", "--depth cannot be combined with --purge", "use only one of them"),
        ("--path p --url u", "--url cannot be combined with --path", "give the file"),
        ("--whole", "--whole requires one of --remove, --purge", "add one of them, or remove --whole"),
        ("--depth 2", "--depth requires one of --path, --url", "add one of them, or remove --depth"),
    ],
)
def test_what_does_not_go_together(words: str, message: str, next_step: str) -> None:
    """An option that its request has not, one of two that exclude each other, and one that needs another."""
    found = CliRunner().invoke(echo_request, words.split()).exception

    assert isinstance(found, UsageError)
    assert (found.message, found.next_step) == (message, next_step)


def test_a_default_is_not_given() -> None:
    """Only what the command line has is in `given`, and only that conflicts."""
    assert "given=frozenset()" in CliRunner().invoke(echo_request, []).output


def test_another_layers_dataclass() -> None:
    """Fields of the same names are taken over."""

    @dataclass(frozen=True)
    class Removal:
        name: str
        whole: bool
        why: str = ""

    request = RemoveOptions(name="x", quiet=False, remove=True, purge=False, whole=True)

    assert convert_request(Removal, request, why="y") == Removal("x", True, "y")


def list_functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                yield f"{path.relative_to(FOLDER)}: {node.name}", node


def test_no_function_takes_many_parameters() -> None:
    """A command's options are in its request, not in the parameters of its functions."""
    counts = {
        name: len([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])
        + bool(node.args.vararg)
        + bool(node.args.kwarg)
        for name, node in list_functions()
    }

    assert len(counts) > 200
    assert {name: count for name, count in counts.items() if count > PARAMETERS} == {}


@pytest.mark.parametrize("words", ["recipes", "recipes show tiny-cpu", "explain EI0006", "schema"])
def test_options_before_the_command(words: str) -> None:
    """The language may be chosen before the command, which has that option, too."""
    argv = [sys.executable, "-m", "envcheck"]
    before, after = (
        subprocess.run(argv + each, capture_output=True, text=True, timeout=60)
        for each in (["--lang", "zh", *words.split()], [*words.split(), "--lang", "zh"])
    )

    assert (before.returncode, before.stdout, before.stderr) == (after.returncode, after.stdout, after.stderr)
    assert before.stdout and "Error" not in before.stderr
