"""A training that a script starts: launcher, what it is told, the program, its options."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.core.lint.given_options import GivenOption, last_option
from envcheck.core.lint.launcher import Launcher
from envcheck.core.lint.model import Command, Config, Script, Word

MSRUN_DEFAULT = "8"  # of both, MindSpore's documentation


@dataclass(frozen=True)
class TrainingJob:
    """`own` are the launcher's options, `options` the program's, from the command line or, `config`, from a file."""

    script: Script
    command: Command
    launcher: Launcher
    own: tuple[GivenOption, ...]
    program: Word | None
    options: tuple[GivenOption, ...]
    verb: str = ""
    config: Config | None = None
    open: bool = False
    at: Word | None = None  # the launcher's word
    lent: tuple[GivenOption, ...] = ()  # of the file beside the script that `lender` names
    lender: Word | None = None

    @property
    def start(self) -> int:
        return self.at.start if self.at else self.command.start

    @property
    def end(self) -> int:
        return self.at.end if self.at else self.command.end

    @property
    def trains(self) -> bool:
        return self.verb not in ("infer", "chat", "export", "eval", "deploy", "api", "webchat", "web-ui", "server")

    def option(self, *names: str) -> GivenOption | None:
        return last_option(self.options, *names)

    def given(self, *names: str) -> GivenOption | None:
        """As `option`, also of a file that lies beside the script."""
        return self.option(*names) or last_option(self.lent, *names)

    def told(self, role: str) -> Word | None:
        """What the launcher is told: by an option, else by a variable that the script exports."""
        given = last_option(self.own, *self.launcher.options.get(role, ()))
        if given is not None:
            return given.values[-1] if given.values else Word("", given.start, given.end)
        names = self.launcher.variables.get(role, ())
        return next((self.command.environment[name] for name in names if name in self.command.environment), None)

    def says(self, *names: str) -> GivenOption | None:
        return last_option(self.own, *names)

    @property
    def nodes(self) -> int | None:
        """How many, where the script says so; None where it may be any number."""
        if self.launcher.options.get("world"):
            return self._shared_out
        told = self.told("nodes")
        if told is None:
            return None if self.open else 1
        text = told.text.partition(":")[0]
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def _shared_out(self) -> int | None:
        """As `nodes`, by the processes of all nodes and those of one."""
        told = [self.told("world"), self.told("processes")]
        texts = [(each.plain or "") if each else MSRUN_DEFAULT for each in told]
        if self.open or not all(re.fullmatch(r"[0-9]{1,6}", text) for text in texts):
            return None
        world, own = map(int, texts)
        return max(1, world // own) if own else None

    @property
    def devices(self) -> Word | None:
        """The list of devices: of the launcher, else of the variable that it reads."""
        return self.told("devices")

    @property
    def processes(self) -> int | None:
        """On each node, where the script says so."""
        told = self.told("processes")
        if told is not None and told.text.isascii() and told.text.isdigit():
            count, nodes = int(told.text), self.nodes
            if not self.launcher.total_processes:
                return count
            return count // nodes if nodes else None
        listed = self.devices
        if told is None and listed is not None and re.fullmatch(r"\d+(,\d+)*", listed.text):
            return listed.text.count(",") + 1
        return None

    @property
    def world(self) -> int | None:
        nodes, processes = self.nodes, self.processes
        return nodes * processes if nodes and processes else None
