"""Containers as text: the recipe's notation, the command line and the script."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from installers.containers.compare import ContainerAction, ContainerStatus, render_commands
from installers.recipes import catalogue, loader
from installers.recipes.container_spec import (
    ContainerSpec,
    PublishedPort,
    Ulimit,
    build_spec,
    parse_port,
    parse_size,
    parse_ulimit,
)
from installers.recipes.docker_cli import run_argv, shell_words
from installers.recipes.recipe import Mount, RecipeContainer
from tests.installers.containers.container_helpers import SPEC


@pytest.mark.parametrize(
    ("text", "size"),
    (("128g", 128 << 30), ("16G", 16 << 30), ("64MiB", 64 << 20), ("1.5gb", 3 << 29), ("1024", 1024), ("8k", 8192)),
)
def test_sizes(text: str, size: int) -> None:
    """Sizes are read like the engine does: suffixes are powers of 1024."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("7860:7860", PublishedPort("", 7860, 7860)),
        ("127.0.0.1:80:8080", PublishedPort("127.0.0.1", 80, 8080)),
        ("[::1]:80:8080/tcp", PublishedPort("::1", 80, 8080)),
        ("53:53/udp", PublishedPort("", 53, 53, "udp")),
    ),
)
def test_ports(text: str, found: PublishedPort) -> None:
    """Ports are read with address and protocol."""
    assert parse_port(text) == found


@pytest.mark.parametrize(
    ("key", "line"),
    (
        ("shm_size", 'shm_size = "much"'),
        ("shm_size", 'shm_size = "-1g"'),
        ("ports", 'ports = ["0:80"]'),
        ("ports", 'ports = ["80:99999"]'),
        ("ports", 'ports = ["80"]'),
        ("ulimits", 'ulimits = { nofile = "9:1" }'),
        ("ulimits", 'ulimits = { "no file" = "1" }'),
        ("ulimits", 'ulimits = { memlock = "-1:5" }'),
        ("mounts", 'mounts = [{ source = "../x", target = "/x" }]'),
        ("mounts", 'mounts = [{ source = "", target = "/x" }]'),
        ("mounts", 'mounts = [{ source = "/x", target = "x" }]'),
        ("devices", 'devices = ["davinci0"]'),
        ("workdir", 'workdir = "app"'),
        ("environment", 'environment = { "A B" = "1" }'),
    ),
)
def test_a_container_that_no_engine_takes(key: str, line: str, tmp_path: Path) -> None:
    """A recipe whose container the engine would reject or misread is refused with file and key."""
    file = tmp_path / "r.toml"
    own = (Path(loader.__file__).parent / "tiny-npu.toml").read_text(encoding="utf-8")
    file.write_text(f'{own}\n[container]\nname = "box"\n{line}\n', encoding="utf-8")

    with pytest.raises(UsageError, match=rf"r\.toml: container\.{key}: "):
        loader.load_recipe(file)


def test_limits_are_read_from_a_recipe(tmp_path: Path) -> None:
    """The recipe's ulimits are in the command line."""
    recipe = catalogue.find_recipe(catalogue.load_all(), "ernie-300b-npu")
    assert recipe.container
    box = replace(recipe.container, ulimits={"memlock": "-1", "nofile": "1024:2048"})
    made = build_spec(box, "i", "/w")
    words = run_argv(made)

    assert made.ulimits == (parse_ulimit("memlock", "-1"), Ulimit("nofile", 1024, 2048))
    assert [words[n + 1] for n, word in enumerate(words) if word == "--ulimit"] == ["memlock=-1:-1", "nofile=1024:2048"]


def test_a_comma_in_a_path() -> None:
    """A path with a comma is quoted for --mount, and the whole for the shell."""
    spec = ContainerSpec("n", "i", mounts=(Mount("/a,b c", "/x"),))

    assert 'type=bind,"source=/a,b c",target=/x' in run_argv(spec)
    assert "'type=bind,\"source=/a,b c\",target=/x'" in shell_words(spec)


def test_a_pasted_line_runs_nothing_else(tmp_path: Path) -> None:
    """The shell runs nothing that comes from the text of a recipe."""
    sources = ("a b", '$(touch hit)";touch hit;"', "`touch hit`", "it's")
    box = RecipeContainer(
        "box", mounts=tuple(Mount(source, "/x") for source in sources), environment={"A": "$(touch hit)"}
    )
    line = " ".join(shell_words(build_spec(box, "image", str(tmp_path)))).replace("docker run", "printf '%s\\n'", 1)
    said = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    fields = [field for words in csv.reader(said.splitlines()) for field in words]

    assert [f"source={tmp_path}/{source}" in fields for source in sources] == [True, True, True, True]
    assert "A=$(touch hit)" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("action", "starts"),
    (
        (ContainerAction.CREATE, ["mkdir -p -- '/w/a b'", "docker run "]),
        (ContainerAction.RECREATE, ["docker rm --force box", "mkdir -p -- '/w/a b'", "docker run "]),
        (ContainerAction.START, ["mkdir -p -- '/w/a b'", "docker start box"]),
        (ContainerAction.REUSE, []),
        (ContainerAction.REFUSE, []),
    ),
)
def test_a_script_of_it(action: ContainerAction, starts: list[str]) -> None:
    """The script has commands for what is missing, and none if nothing is."""
    lines = render_commands(ContainerStatus(action), SPEC, ["/w/a b"])

    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
