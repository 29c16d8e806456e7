"""Real .run files made by makeself, and a recipe for them."""

from __future__ import annotations

import http.server
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from envcheck.collect import answer_sources
from envcheck.collect.answer_sources import AnswerSource
from envcheck.core.model import Answer, Question
from installers.drivers import installation
from installers.drivers.dialogue import InstallerDialogue
from installers.recipes import catalogue
from installers.recipes.recipe import DriverInstaller, Prompt, Recipe, VersionQuery

# What a vendor's installer may do: `sh FILE.run -- MODE FOLDER`.
SCRIPT = r"""#!/bin/bash
mode=$1; root=$2
echo "Demo driver 2.0, log in /nowhere"
pwd > "$root/unpacked"
licence() {
    printf 'Do you accept the licence? (accept/decline): '
    read -r answer
    [ "$answer" = accept ] || { echo "declined"; exit 2; }
}
put() { echo "Version=2.0" > "$root/version.info"; echo "token=abcdefghijklmnop"; }
case $mode in
good) licence; printf 'working'; sleep 0.6; printf '\rworking 100%%\n'
      read -rn1 -p 'Where shall it go? [k] ' key; echo; [ "$key" = k ] || exit 3
      read -r -p 'Load it now (y/n)? ' load; [ "$load" = y ] || exit 4
      put; echo "done";;
quick) licence; put;;
plain) put; env > "$root/env";;
reboot) echo "Demo installed. Reboot now to use it";;
absent) echo "installed";;
unknown) echo "Formatting is next."; read -r -p 'Erase the disk? [y/N] ' x; touch "$root/erased";;
fails) echo "the compiler is broken"; exit 17;;
hangs) trap 'touch "$root/heard"; exit 130' INT; echo "Waiting for device startup..."; sleep 600 & wait;;
slow) while :; do echo tick; sleep 0.1; done;;
floods) yes "line of an endless log";;
password) read -rs -p 'Password for root: ' word; touch "$root/got";;
again) while :; do read -r -p 'Load it now (y/n)? ' x; done;;
stubborn) trap '' INT TERM HUP; echo "stubborn"; while :; do sleep 1; done;;
daemon) setsid sleep 120 & put;;
esac
"""
DRIVER = DriverInstaller(
    name="driver",
    title="Demo driver",
    files=("demo-driver_{version}_{architecture}.run", "demo-driver_{version}.run"),
    prompts=(
        Prompt("accept the licence*(accept/decline", "accept", "accept", licence=True, refusal="decline"),
        Prompt("type y to accept, n otherwise", "y", "accept", licence=True, refusal="n"),
        Prompt("Where shall it go", "k", "the kernel's folder", enter=False),
        Prompt("Load it now", "y", "load the module"),
    ),
    reboot=("reboot now",),
    silence_s=20,
    deadline_s=30,
    log="/var/log/demo.log",
)


def require_makeself() -> None:
    if not shutil.which("makeself"):
        pytest.skip("needs makeself (tests/system-packages.sh)")


def make_run_file(folder: Path, name: str, *options: str) -> Path:
    """Return a .run file whose script is SCRIPT."""
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    (inside / "install.sh").write_text(SCRIPT)
    (inside / "install.sh").chmod(0o755)
    argv = ["makeself", "--nox11", "--sha256", *options, str(inside), str(folder / name), "Demo driver", "./install.sh"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    return folder / name


def make_host(**more: object) -> AnswerSource:
    """Return this machine with modified facts, because the tests may run as root in a container."""

    def ask(question: Question) -> Answer:
        answer = answer_sources.live_machine()(question)
        if question.key != "ask host":
            return answer
        said = {**json.loads(answer.out), "euid": 0, "in_container": False, **more}
        return replace(answer, out=json.dumps(said))

    return ask


@dataclass
class DriverFile:
    """One .run file, its installation folder, and the recorded dialogues."""

    file: Path
    root: Path
    scratch: Path
    kept: list[InstallerDialogue]

    def make_recipe(self, mode: str, **changes: object) -> Recipe:
        query = VersionQuery("Version={version}", read=str(self.root / "version.info"))
        own = replace(DRIVER, arguments=("--", mode, str(self.root)), versions=(query,), **changes)  # type: ignore[arg-type]
        return replace(catalogue.find_recipe(catalogue.load_all(), "tiny-nvidia"), driver_minimum="1.0", drivers=(own,))

    def inspect_file(self, mode: str, **changes: object) -> installation.DriverState:
        return installation.inspect_installer(self.make_recipe(mode, **changes), self.file, machine=make_host())

    def install_driver(
        self, mode: str, ask: Callable[[str], bool] = lambda text: True, accept: bool = False, **changes: object
    ) -> str:
        seen = self.inspect_file(mode, **changes)
        return installation.install_driver(
            seen,
            sha256=seen.sha256,
            ask_licence=ask,
            on_dialogue=self.kept.append,
            accept_licence=accept,
            machine=make_host(),
        )

    @property
    def last_output(self) -> str:
        return self.kept[-1].output

    def has_nothing_left(self) -> bool:
        return is_all_gone(self.root, self.scratch)

    def list_processes(self) -> list[int]:
        return list_installer_processes(self.root, self.scratch)


def list_installer_processes(root: Path, scratch: Path) -> list[int]:
    """Return processes that name the installer's folder or run where it unpacks."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "cwd"]):
        if str(root) in " ".join(process.info["cmdline"] or []) or str(scratch) in (process.info["cwd"] or ""):
            found.append(process.info["pid"])
    return found


def is_all_gone(root: Path, scratch: Path) -> bool:
    """Return whether no process and no unpacked file of the installer remains."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if not list_installer_processes(root, scratch) and not list(scratch.iterdir()):
            return True
        time.sleep(0.05)
    return False


@contextmanager
def serve_file(file: Path) -> Iterator[str]:
    """Yield the file's URL on a vendor's server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(file.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/{file.name}"
    server.shutdown()
    server.server_close()
