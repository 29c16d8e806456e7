"""A program that starts the processes of a training: how it is called, and what tells it of nodes, ranks and cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Names = tuple[str, ...]


@dataclass(frozen=True)
class Launcher:
    """`words`: how a command of it begins.  `options` and `variables` by what they tell: nodes (or world, the processes
    of all nodes), processes, rank, master, port, devices; `flags` take no value.  `program`: the first word that is no
    option is the program; else the options are the training's own.  `rank_default`: what a node is that hears nothing.
    """

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
    total_processes: bool = False  # the count is that of all nodes
    modules: Names = ("-m", "--module")
    short: Mapping[str, str] = field(default_factory=dict)  # -X for an option that counts here
    abbreviates: bool = True  # argparse takes the beginning of an option for it
    source: str = ""

    @property
    def all_options(self) -> frozenset[str]:
        return self.flags | self.more | {name for names in self.options.values() for name in names}

    def whole(self, name: str) -> str:
        """The option that a beginning of one means; the name itself where it means none, or several."""
        found = [each for each in self.all_options if each.startswith(name)]
        return found[0] if self.abbreviates and len(found) == 1 and len(name) > 2 else name
