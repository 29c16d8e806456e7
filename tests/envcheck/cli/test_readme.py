"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from envcheck.cli.main import COMMANDS

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()


def read_block(mark: str) -> str:
    found = re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)\n```\n<!-- /{mark} -->", README, re.S)
    assert found, mark
    return found[1]


@pytest.mark.parametrize("mark", ("first", "second"))
def test_commands_are_one_line(mark: str) -> None:
    """Each of the two commands is one line."""
    assert "\n" not in read_block(mark)


def test_screen_is_real() -> None:
    """The screen in the README is what its command prints, byte for byte."""
    command, _, screen = read_block("screen").partition("\n")
    env = {**os.environ, "COLUMNS": "80", "LC_ALL": "C.UTF-8", "PYTHONUTF8": "1"}
    env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
    done = subprocess.run(shlex.split(command[2:]), capture_output=True, text=True, env=env, timeout=120)

    assert done.stdout.rstrip() == screen
    assert done.returncode == 1


def test_verbs_exist() -> None:
    """The README names no verb that envcheck does not have."""
    quoted = re.findall(r"`([^`\n]+)`", README)
    named = {verb for text in quoted for verb in re.findall(r"\benvcheck ([a-z]+)", text)}

    assert named <= set(COMMANDS)


def test_links_lead_somewhere() -> None:
    """Every page that the README links to is there."""
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
