"""`envcheck provision --driver` as a user types it: recipes of the test's own, real .run files, a real terminal.

A driver is refused in a container, and the tests may run in one: the command is started with what is said of the host.
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

from tests.installers.drivers.driver_helpers import archive, installer_processes, is_all_gone

ROOT = Path(__file__).parents[3]
COMMAND = """
import sys
from envcheck.collect.host.collectors import COLLECTORS
seen = COLLECTORS["host"]
COLLECTORS["host"] = lambda vendors, run: {**seen(vendors, run), "euid": 0, "in_container": False}
from envcheck.cli import main
from envcheck.core import terminal
from installers.drivers import dialogue
terminal.GRACE_S, dialogue.SETTLED_S = 0.7, 0.2
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
versions = [{ read = "ROOT/version.info", says = "Version={version}" }]
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


class Bench:
    """One .run file, where it installs to, and the command; `say` writes the recipe anew."""

    def __init__(self, folder: Path, file: Path | None = None) -> None:
        self.folder, self.root, self.scratch = folder, folder / "root", folder / "scratch"
        for each in (self.root, self.scratch, folder / "recipes", folder / "run"):
            each.mkdir()
        self.file = file or archive(folder / "run", "demo-driver_2.0.run")
        self.env = {
            **os.environ,
            "ENVCHECK_HOME": str(folder / "home"),
            "TMPDIR": str(self.scratch),
            "PYTHONPATH": str(ROOT),
            "NO_COLOR": "1",
        }
        self.say("quick")

    def say(self, mode: str, more: str = "", silence_s: int = 15, after: str = "") -> None:
        """`more` are keys of the driver, `after` further tables of it."""
        text = RECIPE.replace("MODE", mode).replace("ROOT", str(self.root)).replace("MORE", more)
        (self.folder / "recipes" / "demo.toml").write_text(text.replace("SILENCE", str(silence_s)) + after)

    def argv(self, *more: str, file: str = "") -> list[str]:
        base = ["provision", "--recipes", str(self.folder / "recipes"), "--recipe", "demo"]
        return [sys.executable, "-c", COMMAND, *base, "--driver", file or str(self.file), *more]

    def run(self, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*more, file=file), cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=60,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def given(self, *more: str, file: str = "") -> subprocess.CompletedProcess[str]:
        """With all that a person would answer."""
        return self.run("--yes", "--accept-licence", "--sha256", self.sha256, *more, file=file)

    def terminal(self, *more: str, file: str = "") -> pexpect.spawn[str]:
        argv = self.argv(*more, file=file)
        return pexpect.spawn(
            argv[0], argv[1:], cwd=str(ROOT), env=self.env, encoding="utf-8", timeout=120, dimensions=(100, 300)
        )  # type: ignore[arg-type]

    @property
    def sha256(self) -> str:
        import hashlib

        return hashlib.sha256(self.file.read_bytes()).hexdigest()

    @property
    def installed(self) -> bool:
        return (self.root / "version.info").exists()

    def journal(self) -> list[dict[str, Any]]:
        path = self.folder / "home" / "environments" / "demo" / ".envcheck" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def events(self) -> list[str]:
        return [entry["event"] for entry in self.journal()]

    def nothing_left(self) -> bool:
        return is_all_gone(self.root, self.scratch)

    def processes(self) -> list[int]:
        return installer_processes(self.root, self.scratch)

    def interrupted(self, *more: str, sign: signal.Signals) -> int:
        """The exit code of a run that was told to stop in the midst of the dialogue."""
        child = subprocess.Popen(self.argv(*more), cwd=ROOT, env=self.env, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 120
        while not (self.root / "unpacked").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        child.send_signal(sign)
        return child.wait(300)
