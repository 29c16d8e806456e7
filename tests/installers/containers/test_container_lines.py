"""A container in words: what a recipe writes of it, and the line and the script to paste."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from installers.containers.compare import Action, ContainerStatus, as_script
from installers.recipes import catalogue, recipes_file
from installers.recipes.container_spec import Port, Spec, Ulimit, as_written, port, size_bytes, ulimit
from installers.recipes.docker_cli import run_argv, shell_words
from installers.recipes.recipe import Container, Mount
from tests.installers.containers.container_helpers import SPEC


@pytest.mark.parametrize(
    ("text", "size"),
    (("128g", 128 << 30), ("16G", 16 << 30), ("64MiB", 64 << 20), ("1.5gb", 3 << 29), ("1024", 1024), ("8k", 8192)),
)
def test_sizes(text: str, size: int) -> None:
    """A size is read as the engine reads it: its letters are powers of 1024."""
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "found"),
    (
        ("7860:7860", Port("", 7860, 7860)),
        ("127.0.0.1:80:8080", Port("127.0.0.1", 80, 8080)),
        ("[::1]:80:8080/tcp", Port("::1", 80, 8080)),
        ("53:53/udp", Port("", 53, 53, "udp")),
    ),
)
def test_ports(text: str, found: Port) -> None:
    """A port is read with its address and protocol."""
    assert port(text) == found


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
    """A recipe whose container the engine would refuse or misread is refused first, by file and key."""
    file = tmp_path / "r.toml"
    own = (Path(recipes_file.__file__).parent / "tiny-npu.toml").read_text(encoding="utf-8")
    file.write_text(f'{own}\n[container]\nname = "box"\n{line}\n', encoding="utf-8")

    with pytest.raises(UsageError, match=rf"r\.toml: container\.{key}: "):
        recipes_file.load(file)


def test_limits_are_read_from_a_recipe(tmp_path: Path) -> None:
    """A recipe's ulimits reach the line that makes the container."""
    recipe = catalogue.by_name(catalogue.load_all(), "ernie-300b-npu")
    assert recipe.container
    box = replace(recipe.container, ulimits={"memlock": "-1", "nofile": "1024:2048"})
    made = as_written(box, "i", "/w")
    words = run_argv(made)

    assert made.ulimits == (ulimit("memlock", "-1"), Ulimit("nofile", 1024, 2048))
    assert [words[n + 1] for n, word in enumerate(words) if word == "--ulimit"] == ["memlock=-1:-1", "nofile=1024:2048"]


def test_a_comma_in_a_path() -> None:
    """A path with a comma is quoted as --mount's list of fields wants it, and the whole for the shell."""
    spec = Spec("n", "i", mounts=(Mount("/a,b c", "/x"),))

    assert 'type=bind,"source=/a,b c",target=/x' in run_argv(spec)
    assert "'type=bind,\"source=/a,b c\",target=/x'" in shell_words(spec)


def test_a_pasted_line_runs_nothing_else(tmp_path: Path) -> None:
    """Of a recipe's text the shell that gets the pasted line runs nothing."""
    sources = ("a b", '$(touch hit)";touch hit;"', "`touch hit`", "it's")
    box = Container("box", mounts=tuple(Mount(source, "/x") for source in sources), environment={"A": "$(touch hit)"})
    line = " ".join(shell_words(as_written(box, "image", str(tmp_path)))).replace("docker run", "printf '%s\\n'", 1)
    said = subprocess.run(["sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    fields = [field for words in csv.reader(said.splitlines()) for field in words]

    assert [f"source={tmp_path}/{source}" in fields for source in sources] == [True, True, True, True]
    assert "A=$(touch hit)" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("action", "starts"),
    (
        (Action.CREATE, ["mkdir -p -- '/w/a b'", "docker run "]),
        (Action.RECREATE, ["docker rm --force box", "mkdir -p -- '/w/a b'", "docker run "]),
        (Action.START, ["mkdir -p -- '/w/a b'", "docker start box"]),
        (Action.REUSE, []),
        (Action.REFUSE, []),
    ),
)
def test_a_script_of_it(action: Action, starts: list[str]) -> None:
    """The lines for a script do what is missing, and nothing where nothing is."""
    lines = as_script(ContainerStatus(action), SPEC, ["/w/a b"])

    assert [line[: len(start)] for line, start in zip(lines, starts, strict=True)] == starts
