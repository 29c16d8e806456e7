"""No dead ends: what a screen names as the next command parses, runs, and ends with a documented exit code."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core.errors import BUG, USAGE, EnvcheckError
from envcheck.simulate.faults import list_applicable_faults
from envcheck.simulate.machine_file import list_machines, load_machine
from tests.simulated_machines import Enter
from tests.tiers import thin_out

# What somebody types in the first five minutes.
SCREENS = (
    "doctor", "doctor --model tiny --method lora", "doctor --model 21b --method lora", "doctor --deep --dry-run",
    "plan", "plan --model tiny --method lora", "plan --model 21b --method lora", "provision --dry-run",
    "provision --model 21b --dry-run", "train", "train --model tiny --method lora --dry-run",
    "train --model 21b --method lora --gates", "infer", "infer --run latest", "runs", "runs show latest",
    "explain", "explain latest", "lint", "solve", "bundle", "recipes show tiny-cpu", "snapshot", "init", "simulate",
)  # fmt: skip
MOST_COMMANDS = 90  # of one machine; far more than there are
# Files that examples name.
FILES = {
    "run.sh": "set -euo pipefail\ntorchrun train.py\n",
    "train.log": "RuntimeError: CUDA out of memory\n",
    "my.yaml": "stage: SFT\nmodel_name_or_path: x\n",
    "script.sh": "echo ok\n",
}
# Programs of the system that a remedy may name and a small image may lack.
SYSTEM_NAMES = """
apt-get bash cat chmod chown conda cp crictl depmod df dkms dmesg dnf docker dpkg du echo env ethtool export
free getent grep grubby hash hostnamectl ibstat ibv_devinfo id ip ipmitool journalctl kill kubectl ldconfig
ldd ln ls lscpu lsmod lsof lspci mkdir modinfo modprobe mount mv newgrp nodeset nproc numactl nvidia-ctk pip
podman ps python python3 rdma rm sed sh sinfo source ss ssh stat swapoff sysctl systemctl tail timedatectl
touch udevadm ulimit umount unset update-initramfs usermod yum
"""
SYSTEM = frozenset(SYSTEM_NAMES.split())
CHANGES = re.compile(r"(provision|train|infer|bundle|runs (stop|adopt)|doctor --(fix|deep))\b")
PLACEHOLDER = re.compile(r"(?<![\w-])(?:[A-Z]{2,}(?:\.\w+)?|[A-Z]+=\S+)(?![\w-])|\.\.\.")
NEXT = re.compile(r"^\s*(?:\|\s*)?(?:next|fix|Next|Fix)\b:?(.*)$|^\s+(?:or|details)\b(.*)$")
# In a sentence, a command ends at a comma, a semicolon or the words that follow it.
IN_SENTENCE = re.compile(r"envcheck [a-z][^`;,()]*")
AFTER = re.compile(r"(?:\s+(?:or|to|for|on|with|if|lists?|shows?|and|start|in)\s[^-].*|[.:]\s*)$")


def invoke(words: list[str]) -> tuple[int, str]:
    """Exit code and screen of a command, as the user sees them."""
    result = CliRunner().invoke(main.main, words, standalone_mode=False, prog_name="envcheck")
    error, screen = result.exception, result.output
    if error is None:
        return int(result.return_value or 0), screen
    if isinstance(error, EnvcheckError):
        return error.code, f"{screen}\nenvcheck: {error.message}\n  next: {error.next_step}\n"
    if isinstance(error, click.ClickException):
        return USAGE, f"{screen}\nenvcheck: {error.format_message()}\n"
    raise AssertionError(f"envcheck {shlex.join(words)}: {error!r}") from error


def list_next_commands(screen: str) -> Iterator[str]:
    """The commands of the `next:` and `fix:` lines, and of the indented lines below them."""
    lines = screen.splitlines()
    for number, line in enumerate(lines):
        if not (found := NEXT.match(line)):
            continue
        yield from (AFTER.sub("", text).strip() for text in IN_SENTENCE.findall(found[1] or found[2] or ""))
        indent = len(line) - len(line.lstrip())
        for below in lines[number + 1 :]:
            deeper = len(below) - len(below.lstrip()) > indent
            if not below.strip() or not deeper or NEXT.match(below):
                break
            command = below.strip().removeprefix("$ ")
            if command.startswith("envcheck "):
                yield command


def find_dead_ends(start: list[str], name: str) -> list[str]:
    """Follow all `next:` lines from these screens; return those that lead nowhere."""
    dead, seen = [], set()
    todo = [(f"envcheck {words}", "") for words in start]
    while todo:
        command, source = todo.pop(0)
        if command in seen:
            continue
        seen.add(command)
        assert len(seen) < MOST_COMMANDS, f"{name}: {sorted(seen)}"
        try:
            words = shlex.split(command)[1:]
        except ValueError as err:
            dead.append(f"{source}: {command}: {err}")
            continue
        if words[:2] == ["doctor", "--fix"] and name != "bare":
            continue  # changes the machine of the tests, so it is refused on a simulated one
        if source and PLACEHOLDER.search(command):
            dead += [f"{source}: {command}: {wrong}" for wrong in find_unknown_words(words)]
            continue
        if source and CHANGES.match(" ".join(words)) and not {"--dry-run", "--gates"} & {*words}:
            words.append("--dry-run")
        code, screen = invoke(words)
        if code == BUG or (source and code == USAGE):
            dead.append(f"{name}: {source}: {command}: exit code {code}: {screen[-300:]}")
        todo += [(each, command) for each in list_next_commands(screen)]
    return dead


def find_unknown_words(words: list[str]) -> list[str]:
    """Commands and options of a command with placeholders that envcheck does not have."""
    command: Any = main.main
    context = click.Context(command, info_name="envcheck")
    while isinstance(command, click.Group) and words:
        name, words = words[0], words[1:]
        if (below := command.get_command(context, name)) is None:
            return [name]
        command = below
    known = {word for param in command.params for word in param.opts}
    return [word for word in words if word.startswith("-") and word.split("=")[0] not in known]


SCREEN = """\
[✗] devices.count: 8 devices, 7 listed
    next: Reset the device, or use `envcheck plan` with --cards.
      envcheck doctor --only devices
      npu-smi info
    fix: Install the driver with envcheck.
      $ envcheck provision --device npu --install-driver FILE.run
Next: envcheck train --model tiny --method lora --provision --yes
      or check a specific job with --model and --method
envcheck: no runs found
  next: start one, for example: envcheck train --model tiny; or set the folder with --runs DIR
"""


def test_next_lines_are_found() -> None:
    """Commands in sentences and below them, without the words that follow them; no command in other lines."""
    assert list(list_next_commands(SCREEN)) == [
        "envcheck plan",
        "envcheck doctor --only devices",
        "envcheck provision --device npu --install-driver FILE.run",
        "envcheck train --model tiny --method lora --provision --yes",
        "envcheck train --model tiny",
    ]
    assert find_unknown_words(["provision", "--install-driver", "FILE.run", "--fast"]) == ["--fast"]
    assert find_unknown_words(["runs", "shwo", "ID"]) == ["shwo"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files that examples name, and an empty home."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("ENVCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("machine", thin_out(4, sorted(list_machines())))
def test_no_dead_end_on_a_machine(machine: str, place: Path, on_machine: Enter) -> None:
    """Every command that a screen names, and that the screens behind it name, works on that machine."""
    on_machine(machine)

    assert find_dead_ends([*SCREENS], machine) == []


@pytest.mark.slow
def test_no_dead_end_on_a_bare_machine(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where the tests run, with nothing on the search path but the system's own programs."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("COLUMNS", "400")

    assert find_dead_ends([*SCREENS], "bare") == []


FAULTS = [
    (machine, fault)
    for machine in ("atlas-800t-a2", "bi-v150x8", "h200x8", "p800x8")
    for fault in sorted(list_applicable_faults(load_machine(machine)))
]


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "fault"), thin_out(10, FAULTS))
def test_no_dead_end_after_a_fault(machine: str, fault: str, place: Path, on_machine: Enter) -> None:
    """What the doctor names for a fault works: envcheck's own commands, and programs that exist there or anywhere."""
    on_machine(machine, fault)
    _code, document = invoke(["doctor", "--json"])
    remedies = [finding["remedy"] for finding in json.loads(document)["findings"] if finding["remedy"]]
    programs = {name for remedy in remedies for command in remedy["commands"] for name in list_programs(command)}

    assert find_dead_ends(["doctor"], f"{machine} {fault}") == []
    assert {name for name in programs if name not in SYSTEM and not shutil.which(name)} == set()


def list_programs(command: str) -> Iterator[str]:
    """The programs of a command line, without sudo, assignments and paths of a vendor's installation."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = ""
    starts = True
    for word in lexer:
        if set(word) <= set("|&;()"):
            starts = True
        elif starts and word != "sudo" and not re.match(r"\w+=", word):
            starts = False
            yield from [word] if not word.startswith("/") else []
