"""A program that starts the processes of a training: its command, and its options and variables for nodes, ranks and
cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

Names = tuple[str, ...]


@dataclass(frozen=True)
class Launcher:
    """`words` are the starts of its command.  `options` and `variables` are by role: nodes (or world, the processes of
    all nodes), processes, rank, master, port, devices; `flags` take no value.  `program`: the first word that is not an
    option is the program; otherwise the options are the training's own.  `rank_default` is the rank of a node without a
    setting."""

    name: str
    words: tuple[Names, ...]
    options: Mapping[str, Names] = field(default_factory=dict)
    variables: Mapping[str, Names] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    more: frozenset[str] = frozenset()
    program: bool = True
    rank_default: str = ""
    rank_severe: bool = True
    master_default: str = ""
    total_processes: bool = False  # the process count is that of all nodes
    modules: Names = ("-m", "--module")
    short: Mapping[str, str] = field(default_factory=dict)  # -X for a long option
    abbreviates: bool = True  # argparse accepts unique prefixes of options
    choices: Mapping[str, Names] = field(default_factory=dict)  # the values of options that accept no others
    complete: str = ""  # its version whose options are all listed; "" if some may be missing
    source: str = ""

    @cached_property
    def all_options(self) -> frozenset[str]:
        """All option names of the launcher."""
        return self.flags | self.more | {name for names in self.options.values() for name in names}

    def expand_abbreviation(self, name: str) -> str:
        """Return the option with this unique prefix; the name itself if there is none or several."""
        if name in self.all_options:
            return name
        found = [each for each in self.all_options if each.startswith(name)]
        return found[0] if self.abbreviates and len(found) == 1 and len(name) > 2 else name
