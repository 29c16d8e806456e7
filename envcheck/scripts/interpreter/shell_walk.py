"""The walk through one block of shell: the current place, the state of the shell, and the findings so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from envcheck.core.lint.script_model import UNKNOWN, ShellScript, ShellWord, SourceBlock, VariableUse
from envcheck.scripts import shell_grammar
from envcheck.scripts.interpreter.substitutions import read_output
from envcheck.scripts.shell_grammar import DEPTH, measure_nesting, read_text
from envcheck.scripts.shell_state import ShellState, ShellValue
from envcheck.scripts.word_reader import WordReader

if TYPE_CHECKING:
    from tree_sitter import Node

SIZE = 1 << 24  # of what is read; ten thousand times ARGS="$ARGS --option value" would take a gigabyte
WORD = 64  # the size of a word of a command or an array
COMMANDS = 20_000  # commands that are read; one megabyte of `a;` has half a million
CALLS = 1000  # calls of the script's functions that are followed
CALLS_DEEP = 4
SUBSTITUTIONS = 30  # nesting; each level takes a dozen of Python's thousand stack frames


@dataclass(frozen=True)
class WalkPlace:
    """The current place in the script; the fields are those of `ShellCommand`."""

    guarded: bool = False
    lenient: bool = False
    last: bool = True  # number of its pipeline
    pipeline: int = 0
    branch: bool = False
    loop: bool = False
    substituted: int = 0  # depth of command substitutions
    functions: tuple[str, ...] = ()  # functions that were entered, the outermost first


@dataclass
class WalkEffort:
    """What was read so far, of a block and of all texts that its commands pass to a shell."""

    commands: int = 0
    calls: int = 0
    size: int = 0  # characters of assigned values, and WORD for each word

    @property
    def is_spent(self) -> bool:
        """Whether no more is read."""
        return self.commands >= COMMANDS or self.size >= SIZE


class ShellWalk:
    """`state` is that of the previous block if both are parts of one session; `handlers` by node type."""

    def __init__(self, block: SourceBlock, state: ShellState, handlers: Mapping[str, NodeHandler]) -> None:
        self.script, self.state, self.block = ShellScript(block), state, block
        self.handlers, self.nested, self.effort = handlers, 0, WalkEffort()
        self.place = WalkPlace()
        self.depth = -1
        self.bodies: dict[str, Node] = {}
        self.called: set[str] = set()
        self.pipelines = 0

    def open_nested(self, block: SourceBlock, state: ShellState) -> ShellWalk:
        """Return the walk of a text that a command passes to a shell; it shares the effort."""
        inner = ShellWalk(block, state, self.handlers)
        inner.nested, inner.effort = self.nested + 1, self.effort
        return inner

    def walk_block(self) -> ShellScript:
        """Interpret the block, functions that are never called included, and return its script."""
        root = shell_grammar.parse_shell(self.block.raw)
        for letter, option in (("e", "errexit"), ("u", "nounset")):
            if re.match(rf"#!.*sh\s+-\w*{letter}".encode(), self.block.raw.split(b"\n", 1)[0]):
                self.state.shell.add(option)
        self.visit_node(root)
        self.enter_uncalled_functions()
        self.script.cut |= measure_nesting(self.block.raw) > DEPTH or self.effort.calls > CALLS
        self.script.names |= _find_arithmetic_names(self.block.raw) | _find_named_by_shell(self.block.raw)
        if root.has_error:
            self._collect_errors(root, 0)
        return self.script

    def enter_uncalled_functions(self) -> None:
        """Visit the functions that were never called."""
        for name in sorted(set(self.bodies) - self.called):
            self.enter_function(name, None)

    def _collect_errors(self, node: Node, depth: int) -> None:
        if node.type == "ERROR" or node.is_missing:
            self.script.errors.append(self.locate_node(node))
        elif depth < DEPTH:
            for child in node.children:
                if child.has_error or child.is_missing:
                    self._collect_errors(child, depth + 1)

    def visit_node(self, node: Node) -> None:
        """Call the handler of a node's type; without one, visit its children."""
        if self.depth + 1 > DEPTH or self.effort.is_spent:
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
        """Visit the nodes; `place` gives the fields of the place that differ there."""
        with self.change_place(**place):
            for node in found:
                self.visit_node(node)

    @contextmanager
    def change_place(self, **place: Any) -> Iterator[None]:
        """Change fields of the place within the context."""
        kept, self.place = self.place, replace(self.place, **place)
        yield
        self.place = kept

    @contextmanager
    def enter_subshell(self) -> Iterator[None]:
        """Discard changes of the state after the context."""
        kept, self.state = self.state, self.state.copy()
        yield
        self.state = kept

    def make_reader(self, uses: list[VariableUse], tested: bool = False) -> WordReader:
        """Return a reader of words with the current state; it records variable uses in `uses`."""
        return WordReader(self.block, self.state, self._visit_substitution, uses, tested)

    def _visit_substitution(self, node: Node) -> str:
        """The output of a command substitution: a subshell whose exit status is ignored."""
        if self.place.substituted >= SUBSTITUTIONS:
            self.script.cut = True
            return UNKNOWN
        before = len(self.script.commands)
        with self.enter_subshell():
            inner = self.place.substituted + 1
            self.visit_all(node.named_children, guarded=True, last=True, pipeline=0, substituted=inner)
        return read_output(node, self.script.commands[before:])

    def locate_node(self, node: Node) -> tuple[int, int]:
        """Return start and end of a node in the file, in bytes."""
        return self.make_reader([]).locate_node(node)

    def set_variable(self, name: str, value: ShellValue) -> None:
        """Set a variable in the state, and record its name."""
        self.effort.size += len(value.word.text) + WORD * len(value.array or ())
        self.state.assign_value(name, value)
        self.script.names.add(name)

    def enter_function(self, name: str, arguments: tuple[ShellWord, ...] | None) -> None:
        """Visit the body of a function with its arguments; None: it is never called in this block."""
        self.effort.calls += 1
        self.called.add(name)
        if self.effort.calls > CALLS or len(self.place.functions) >= CALLS_DEEP:
            return
        kept, self.state.arguments = self.state.arguments, arguments
        inside, branch = (*self.place.functions, name), self.place.branch or arguments is None
        self.visit_all([self.bodies[name]], functions=inside, branch=branch)
        self.state.arguments = kept


NodeHandler = Callable[[ShellWalk, "Node"], None]


def _find_named_by_shell(raw: bytes) -> set[str]:
    """Names that the shell itself sets: exec {fd}> file, coproc NAME, wait -p NAME."""
    found = re.findall(rb"\{([A-Za-z_]\w*)\}[<>]|\bwait\b[^\n;]{0,80}\s-p\s*([A-Za-z_]\w*)", raw)
    coprocs = re.findall(rb"\bcoproc\s+([A-Za-z_]\w*)", raw) or ([b"COPROC"] if b"coproc" in raw else [])
    names = [one or other for one, other in found] + [name + end for name in coprocs for end in (b"", b"_PID")]
    return {name.decode() for name in names}


def _find_arithmetic_names(raw: bytes) -> set[str]:
    """Names that arithmetic sets: ((n = 1)), $((n++)), let n+=1."""
    sums = re.findall(rb"\(\((.{1,400}?)\)\)|(?m:^[^\S\n]*let[^\S\n]+(.{1,400})$)", raw)
    pattern = rb"([A-Za-z_]\w*)\s*(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))|(?:\+\+|--)([A-Za-z_]\w*)"
    found = (match for sum_ in sums for match in re.findall(pattern, b" ".join(sum_)))
    return {(one or other).decode() for one, other in found}


def visit_comment(walk: ShellWalk, node: Node) -> None:
    """Record a comment with its place."""
    walk.script.comments.append((*walk.locate_node(node), read_text(node)))


def visit_function(walk: ShellWalk, node: Node) -> None:
    """Record a function; its body is visited when it is called."""
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    if name is not None and body is not None:
        walk.script.functions.add(read_text(name))
        walk.bodies[read_text(name)] = body
