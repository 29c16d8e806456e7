"""Run `envcheck provision --install-driver` as a user would: own recipes, real .run files, a real terminal.

Drivers are refused in a container, where the tests may run, so the command starts with modified host facts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pexpect

from tests.installers.drivers.driver_helpers import is_all_gone, list_installer_processes, make_run_file

ROOT = Path(__file__).parents[3]
COMMAND = """
import sys
from envcheck.collect.host.collectors import COLLECTORS
seen = COLLECTORS["host"]
COLLECTORS["host"] = lambda vendors, run: {**seen(vendors, run), "euid": 0, "in_container": False}
from envcheck.cli import main
from envcheck.core import terminal
from installers.drivers import dialogue
terminal.GRACE_S, dialogue.SETTLED_S = 2.0, 0.2
main.entry(sys.argv[1:])
"""
RECIPE = """
name = "demo"
title = "A demo"
device = "nvidia"
framework = "envcheck"
models = ["demo"]
source = "a test"
driver_minimum = "1.0"
[hardware]
product = "any"
source = "a test"
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["true"]
[[drivers]]
name = "driver"
title = "Demo driver"
source = "a test"
files = ["demo-driver_{version}.run"]
arguments = ["--", "MODE", "ROOT"]
versions = [{ read = "ROOT/version.info", pattern = "Version={version}" }]
reboot = ["reboot now"]
undo = ["demo-uninstall --all"]
caution = ["power must stay on"]
silence_s = SILENCE
deadline_s = 20
MORE
[[drivers.prompts]]
pattern = "accept the licence*(accept/decline"
answer = "accept"
refusal = "decline"
licence = true
meaning = "accept"
[[drivers.prompts]]
pattern = "Where shall it go"
answer = "k"
enter = false
meaning = "the kernel's folder"
[[drivers.prompts]]
pattern = "Load it now"
answer = "y"
meaning = "load the module"
"""


class DriverCommand:
    """One .run file, its installation folder, and the command; `write_recipe` replaces the recipe."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self.folder, self.root, self.scratch = folder, folder / "root", folder / "scratch"
        for each in (self.root, self.scratch, folder / "recipes", folder / "run"):
            each.mkdir()
        self.file = file or make_run_file(folder / "run", "demo-driver_2.0.run")
        self.env = {
            **os.environ,
            "ENVCHECK_HOME": str(folder / "home"),
            "TMPDIR": str(self.scratch),
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
        }
        self.write_recipe("quick")

    def write_recipe(self, mode: str, more: str = "", silence_s: int = 15, after: str = "") -> None:
        """Write the recipe; `more` are keys of the driver, `after` further tables."""
        text = RECIPE.replace("MODE", mode).replace("ROOT", str(self.root)).replace("MORE", more)
        (self.folder / "recipes" / "demo.toml").write_text(text.replace("SILENCE", str(silence_s)) + after)

    def make_argv(self, *more: str, file: str = "") -> list[str]:
        base = ["provision", "--recipes", str(self.folder / "recipes"), "--recipe", "demo"]
        return [sys.executable, "-c", COMMAND, *base, "--install-driver", file or str(self.file), *more]

    def run_command(self, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.make_argv(*more, file=file), cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def run_with_answers(self, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
        """Run with an option for every question."""
        return self.run_command("--yes", "--accept-licence", "--sha256", self.file_sha256, *more, file=file)

    def open_terminal(self, *more: str, file: str = "") -> pexpect.spawn[str]:
        argv = self.make_argv(*more, file=file)
        return pexpect.spawn(
            argv[0], argv[1:], cwd=str(ROOT), env=self.env, encoding="utf-8", timeout=120, dimensions=(100, 300)
        )  # type: ignore[arg-type]

    @property
    def file_sha256(self) -> str:
        import hashlib

        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    @property
    def is_installed(self) -> bool:
        return (self.root / "version.info").exists()

    def read_journal(self) -> list[dict[str, Any]]:
        path = self.folder / "home" / "environments" / "demo" / ".envcheck" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def list_events(self) -> list[str]:
        return [entry["event"] for entry in self.read_journal()]

    def has_nothing_left(self) -> bool:
        return is_all_gone(self.root, self.scratch)

    def list_processes(self) -> list[int]:
        return list_installer_processes(self.root, self.scratch)

    def interrupt_dialogue(self, *more: str, sign: signal.Signals) -> int:
        """Return the exit code of a run that is interrupted during the dialogue."""
        child = subprocess.Popen(self.make_argv(*more), cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not (self.root / "unpacked").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        child.send_signal(sign)
        return child.wait(300)
