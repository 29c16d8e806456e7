"""Simple commands: their words, redirects and here-documents, and the state of the shell when they start."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import (
    Heredoc,
    ShellCommand,
    ShellRedirect,
    ShellWord,
    VariableAssignment,
    VariableUse,
)
from envcheck.core.lint.wrappers import WRAPPERS
from envcheck.scripts.interpreter.assignments import record_assignment
from envcheck.scripts.interpreter.nested_shells import walk_eval, walk_nested_shell
from envcheck.scripts.interpreter.shell_builtins import apply_builtin
from envcheck.scripts.interpreter.shell_walk import WORD, ShellWalk
from envcheck.scripts.layered_environment import LayeredEnvironment
from envcheck.scripts.shell_grammar import read_text
from envcheck.scripts.shell_state import MOST
from envcheck.scripts.word_reader import is_cut_name

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment")


def visit_redirected(walk: ShellWalk, node: Node) -> None:
    """Visit a statement with redirects or here-documents."""
    redirects, heredocs, later = _read_redirects(walk, node)
    body = node.child_by_field_name("body")
    if body is not None and body.type == "command":
        record_command(walk, body, redirects, heredocs)
    elif body is not None:
        walk.visit_node(body)
    walk.visit_all(later)


def _read_redirects(walk: ShellWalk, node: Node) -> tuple[list[ShellRedirect], list[Heredoc], list[Node]]:
    """Also what the grammar attaches to a here-document but the shell runs after it: cat <<E | grep x."""
    found, heredocs, later = [], [], []
    for child in node.named_children:
        if child.type == "file_redirect":
            found.append(_read_redirect(walk, child))
        elif child.type == "heredoc_redirect":
            inner = [part for part in child.named_children if part.type == "file_redirect"]
            later += [part for part in child.named_children if part.type in ("pipeline", "list", "command")]
            found += [_read_redirect(walk, part) for part in inner]
            heredocs.append(child)
    out = next((each.target for each in found if ">" in each.text and each.target), None)
    return found, [each for child in heredocs for each in _read_heredoc(walk, child, out)], later


def _read_redirect(walk: ShellWalk, node: Node) -> ShellRedirect:
    reader = walk.make_reader(walk.script.uses)
    target = node.child_by_field_name("destination")
    return ShellRedirect(
        read_text(node), *reader.locate_node(node), reader.read_word(target) if target is not None else None
    )


def _read_heredoc(walk: ShellWalk, node: Node, file: ShellWord | None) -> list[Heredoc]:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    literal = start is not None and read_text(start)[:1] in "'\"\\"
    found = []
    for child in node.named_children:
        if child.type == "heredoc_body":
            line = walk.block.raw.rfind(b"\n", 0, child.start_byte) + 1
            indent = walk.block.raw[line : child.start_byte].decode()  # not part of the node
            own = (line, child.end_byte)
            text = read_text(child) if literal else walk.make_reader(walk.script.uses).read_value(child)[0]
            text = indent + text
            places = walk.block.map_to_file(own[0]), walk.block.map_to_file(own[1])
            found.append(Heredoc(*places, own, file, literal, text))
    return found


def visit_command(walk: ShellWalk, node: Node) -> None:
    """Visit a simple command."""
    record_command(walk, node)


def record_command(
    walk: ShellWalk, node: Node, redirects: Iterable[ShellRedirect] = (), heredocs: Iterable[Heredoc] = ()
) -> None:
    """Record a command with its environment, and apply its effects on the shell."""
    uses: list[VariableUse] = []
    own, more, _ = _read_redirects(walk, node)
    prefixes, words = _read_words(walk, node, uses)
    start, end = walk.locate_node(node)
    made = ShellCommand(
        words=tuple(words[:MOST]),
        start=start,
        end=end,
        environment=_make_environment(walk, prefixes, words),
        uses=tuple(uses),
        redirects=(*redirects, *own),
        heredocs=(*heredocs, *more),
        pipeline=walk.place.pipeline,
        last_of_pipe=walk.place.last or not walk.place.pipeline,
        shell=frozenset(walk.state.shell),
        guarded=walk.place.guarded,
        lenient=walk.place.lenient,
        background=_is_background(node),
        function=walk.place.functions[-1] if walk.place.functions else "",
        branch=walk.place.branch,
        loop=walk.place.loop,
        cwd=walk.state.cwd,
        order=len(walk.script.commands),
    )
    walk.script.uses += uses
    if words:
        walk.effort.commands += 1
        walk.effort.size += WORD * len(words)
        walk.script.commands.append(made)
        apply_builtin(walk, made)
        walk_nested_shell(walk, made)
        if made.name == "eval":
            walk_eval(walk, made)


def _make_environment(
    walk: ShellWalk, prefixes: Iterable[VariableAssignment], words: list[ShellWord]
) -> LayeredEnvironment:
    """What the shell exports, and what precedes the command: FOO=1 command, env FOO=1 command."""
    exported = walk.state.list_exported()
    own = {**{each.name: each.word for each in prefixes}, **_read_env_assignments(words)}
    return LayeredEnvironment(own, exported) if own else exported


def _read_env_assignments(words: list[ShellWord]) -> dict[str, ShellWord]:
    """The variables that env sets for its program, also after nohup, sudo and similar."""
    at = next((i for i, word in enumerate(words[:4]) if word.text.rpartition("/")[2] == "env"), None)
    if at is None or not all(word.text in WRAPPERS for word in words[:at]):
        return {}
    found = {}
    for word in itertools.takewhile(lambda each: each.text[:1] == "-" or "=" in each.text, words[at + 1 :]):
        name, equals, value = word.text.partition("=")
        if equals and name.isidentifier():
            found[name] = replace(word, text=value)
    return found


def _read_words(
    walk: ShellWalk, node: Node, uses: list[VariableUse]
) -> tuple[list[VariableAssignment], list[ShellWord]]:
    """The assignments before the command, and its words."""
    reader = walk.make_reader(uses)
    prefixes: list[VariableAssignment] = []
    words: list[ShellWord] = []
    children = node.named_children
    for before, child in zip([None, *children], children, strict=False):
        if child.type == "variable_assignment":
            prefixes.append(record_assignment(walk, child, uses, True, prefix=True))
        elif child.type == "command_name":
            words += reader.read_words(child.named_children[0] if child.named_child_count == 1 else child)
        elif words and is_cut_name(before, child):
            words[-1] = reader.read_cut_word(words[-1], child)
        elif child.type not in _REDIRECTS:
            words += reader.read_words(child)
        elif child.type == "herestring_redirect":
            reader.read_value(child)
    return prefixes, words


def _is_background(node: Node) -> bool:
    if node.next_sibling is not None and node.next_sibling.type == "&":
        return True
    parent = node.parent
    behind = parent.next_sibling if parent is not None and parent.type == "redirected_statement" else None
    return behind is not None and behind.type == "&"
