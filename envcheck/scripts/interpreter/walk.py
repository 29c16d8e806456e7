"""The walk through one block of shell: where it is, what the shell holds there, and what was found so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envcheck.core.lint.model import Block, Script, Use, Word
from envcheck.scripts import nodes
from envcheck.scripts.nodes import DEPTH, text
from envcheck.scripts.state import State, Value
from envcheck.scripts.values import Reader

if TYPE_CHECKING:
    from tree_sitter import Node

COMMANDS = 20_000  # that are followed; one megabyte of `a;` has half a million
CALLS = 200  # of the script's own functions that are entered
CALLS_DEEP = 4
SUBSTITUTIONS = 30  # inside each other; each takes a dozen of Python's frames, of which there are a thousand


@dataclass(frozen=True)
class Place:
    """Where in the script the walk is; the words are those of `Command`."""

    guarded: bool = False
    lenient: bool = False
    last: bool = True  # of its pipeline
    pipeline: int = 0
    branch: bool = False
    loop: bool = False
    substituted: int = 0  # how deep in command substitutions
    functions: tuple[str, ...] = ()  # that were entered, the outermost first


class Walk:
    """`state` is that of the block before where they are parts of one session; `handlers` by kind of node."""

    def __init__(self, block: Block, state: State, handlers: Mapping[str, Handler], nested: int = 0) -> None:
        self.script, self.state, self.block = Script(block), state, block
        self.handlers, self.nested = handlers, nested
        self.place = Place()
        self.depth = -1
        self.bodies: dict[str, Node] = {}
        self.called: set[str] = set()
        self.calls = self.pipelines = 0

    def run(self) -> Script:
        root = nodes.root(self.block.raw)
        for letter, option in (("e", "errexit"), ("u", "nounset")):
            if re.match(rf"#!.*sh\s+-\w*{letter}".encode(), self.block.raw.split(b"\n", 1)[0]):
                self.state.shell.add(option)
        self.visit(root)
        for name in sorted(set(self.bodies) - self.called):
            self.enter(name, None)
        self.script.names |= _counted(self.block.raw) | _named(self.block.raw)
        if root.has_error:
            self._errors(root, 0)
        return self.script

    def _errors(self, node: Node, depth: int) -> None:
        if node.type == "ERROR" or node.is_missing:
            self.script.errors.append(self.at(node))
        elif depth < DEPTH:
            for child in node.children:
                if child.has_error or child.is_missing:
                    self._errors(child, depth + 1)

    def visit(self, node: Node) -> None:
        """What its kind does; of a kind without a handler, what its children do."""
        if self.depth + 1 > DEPTH or len(self.script.commands) >= COMMANDS:
            self.script.cut = True
            return
        self.depth += 1
        handler = self.handlers.get(node.type)
        if handler is not None:
            handler(self, node)
        else:
            self.visit_all(node.named_children)
        self.depth -= 1

    def visit_all(self, found: Iterable[Node], **place: Any) -> None:
        """Each of them, where `place` says what is different there."""
        with self.within(**place):
            for node in found:
                self.visit(node)

    @contextmanager
    def within(self, **place: Any) -> Iterator[None]:
        kept, self.place = self.place, replace(self.place, **place)
        yield
        self.place = kept

    @contextmanager
    def subshell(self) -> Iterator[None]:
        """What is set inside is forgotten behind it."""
        kept, self.state = self.state, self.state.copy()
        yield
        self.state = kept

    def reader(self, uses: list[Use], tested: bool = False) -> Reader:
        return Reader(self.block, self.state, self._substituted, uses, tested)

    def _substituted(self, node: Node) -> None:
        """A command substitution: a subshell whose status nobody looks at."""
        if self.place.substituted >= SUBSTITUTIONS:
            self.script.cut = True
            return
        with self.subshell():
            inner = self.place.substituted + 1
            self.visit_all(node.named_children, guarded=True, last=True, pipeline=0, substituted=inner)

    def at(self, node: Node) -> tuple[int, int]:
        return self.reader([]).at(node)

    def give(self, name: str, value: Value) -> None:
        self.state.values[name] = value
        self.script.names.add(name)

    def enter(self, name: str, arguments: tuple[Word, ...] | None) -> None:
        """The body of a function, with what it is called with; None: nobody calls it here."""
        self.calls += 1
        self.called.add(name)
        if self.calls > CALLS or len(self.place.functions) >= CALLS_DEEP:
            return
        kept, self.state.arguments = self.state.arguments, arguments
        inside, branch = (*self.place.functions, name), self.place.branch or arguments is None
        self.visit_all([self.bodies[name]], functions=inside, branch=branch)
        self.state.arguments = kept


Handler = Callable[[Walk, "Node"], None]


def _named(raw: bytes) -> set[str]:
    """Names that the shell gives a value by itself: exec {fd}> file, coproc NAME, wait -p NAME."""
    found = re.findall(rb"\{([A-Za-z_]\w*)\}[<>]|\bwait\b[^\n;]{0,80}\s-p\s*([A-Za-z_]\w*)", raw)
    coprocs = re.findall(rb"\bcoproc\s+([A-Za-z_]\w*)", raw) or ([b"COPROC"] if b"coproc" in raw else [])
    names = [one or other for one, other in found] + [name + end for name in coprocs for end in (b"", b"_PID")]
    return {name.decode() for name in names}


def _counted(raw: bytes) -> set[str]:
    """Names that sums give a value: ((n = 1)), $((n++)), let n+=1."""
    sums = re.findall(rb"\(\((.{1,400}?)\)\)|(?m:^\s*let\s+(.{1,400})$)", raw)
    pattern = rb"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)([A-Za-z_]\w*)"
    found = (match for sum_ in sums for match in re.findall(pattern, b" ".join(sum_)))
    return {(one or other).decode() for one, other in found}


def comment(walk: Walk, node: Node) -> None:
    walk.script.comments.append((*walk.at(node), text(node)))


def function(walk: Walk, node: Node) -> None:
    """Its body is walked through where it is called."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        walk.script.functions.add(text(name))
        walk.bodies[text(name)] = body
