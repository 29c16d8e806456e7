"""A training job that a script starts: the launcher with its options, the program and its options."""

from __future__ import annotations

import re
from dataclasses import dataclass

from envcheck.core.lint.given_options import GivenOption, find_last_option
from envcheck.core.lint.launcher import Launcher
from envcheck.core.lint.script_model import ConfigBlock, ShellCommand, ShellScript, ShellWord

MSRUN_DEFAULT = "8"  # default of both options, MindSpore's documentation

_COUNT = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True)
class TrainingJob:
    """`own` are the launcher's options, `options` the program's, from the command line or from the file `config`."""

    script: ShellScript
    command: ShellCommand
    launcher: Launcher
    own: tuple[GivenOption, ...]
    program: ShellWord | None
    options: tuple[GivenOption, ...]
    verb: str = ""
    config: ConfigBlock | None = None
    open: bool = False
    at: ShellWord | None = None  # the word with the launcher's name
    lent: tuple[GivenOption, ...] = ()  # options in the file that `lender` names, in the script's folder
    lender: ShellWord | None = None

    @property
    def start(self) -> int:
        """The byte offset of the job in the file."""
        return self.at.start if self.at else self.command.start

    @property
    def end(self) -> int:
        """The byte offset after the job in the file."""
        return self.at.end if self.at else self.command.end

    @property
    def is_training(self) -> bool:
        """Whether it trains, and does not serve, evaluate or export."""
        return self.verb not in ("infer", "chat", "export", "eval", "deploy", "api", "webchat", "web-ui", "server")

    def find_option(self, *names: str) -> GivenOption | None:
        """Return the program's option, by any of these names; the last one wins."""
        return find_last_option(self.options, *names)

    def find_given_option(self, *names: str) -> GivenOption | None:
        """Return the option like `find_option`, also from a file in the script's folder."""
        return self.find_option(*names) or find_last_option(self.lent, *names)

    def find_launch_value(self, role: str) -> ShellWord | None:
        """Return the launcher's value for a role (nodes, processes, ...): its option, else the exported variable."""
        given = find_last_option(self.own, *self.launcher.options.get(role, ()))
        if given is not None:
            return given.values[-1] if given.values else ShellWord("", given.start, given.end)
        names = self.launcher.variables.get(role, ())
        return next((self.command.environment[name] for name in names if name in self.command.environment), None)

    def find_launcher_option(self, *names: str) -> GivenOption | None:
        """Return the launcher's option, by any of these names; the last one wins."""
        return find_last_option(self.own, *names)

    @property
    def node_count(self) -> int | None:
        """The number of nodes if the script sets it; None if it is unknown."""
        if self.launcher.options.get("world"):
            return self._node_count_from_world
        nodes = self.find_launch_value("nodes")
        if nodes is None:
            return None if self.open else 1
        text = nodes.text.partition(":")[0]
        return int(text) if _COUNT.fullmatch(text) else None

    @property
    def _node_count_from_world(self) -> int | None:
        """The number of nodes from the total number of processes and those per node."""
        values = [self.find_launch_value("world"), self.find_launch_value("processes")]
        texts = [(each.known_text or "") if each else MSRUN_DEFAULT for each in values]
        if self.open or not all(_COUNT.fullmatch(text) for text in texts):
            return None
        world, own = map(int, texts)
        return max(1, world // own) if own else None

    @property
    def device_list(self) -> ShellWord | None:
        """The launcher's device list, or that of the variable that it reads."""
        return self.find_launch_value("devices")

    @property
    def processes_per_node(self) -> int | None:
        """The number of processes per node if the script sets it; None if it is unknown."""
        given = self.find_launch_value("processes")
        if given is not None and _COUNT.fullmatch(given.text):
            count, nodes = int(given.text), self.node_count
            if not self.launcher.total_processes:
                return count
            return count // nodes if nodes else None
        listed = self.device_list
        if given is None and listed is not None and re.fullmatch(r"\d+(,\d+)*", listed.text):
            return listed.text.count(",") + 1
        return None

    @property
    def world_size(self) -> int | None:
        """The total number of processes; None if it is unknown."""
        nodes, processes = self.node_count, self.processes_per_node
        return nodes * processes if nodes and processes else None
