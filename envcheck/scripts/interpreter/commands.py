"""Simple commands: their words, redirects and here-documents, and the state of the shell when they start."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.lint.model import Assign, Command, Heredoc, Redirect, Use, Word
from envcheck.core.lint.wrappers import WRAPPERS
from envcheck.scripts.interpreter.effects import effects
from envcheck.scripts.interpreter.inner import evaluated, shell
from envcheck.scripts.interpreter.variables import assign
from envcheck.scripts.interpreter.walk import Walk
from envcheck.scripts.nodes import text
from envcheck.scripts.state import MOST

if TYPE_CHECKING:
    from tree_sitter import Node

_REDIRECTS = ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment")


def redirected(walk: Walk, node: Node) -> None:
    redirects, heredocs, later = _redirects(walk, node)
    body = node.child_by_field_name("body")
    if body is not None and body.type == "command":
        command(walk, body, redirects, heredocs)
    elif body is not None:
        walk.visit(body)
    walk.visit_all(later)


def _redirects(walk: Walk, node: Node) -> tuple[list[Redirect], list[Heredoc], list[Node]]:
    """With what the grammar hangs below a here-document and the shell runs behind it: cat <<E | grep x."""
    found, heredocs, later = [], [], []
    for child in node.named_children:
        if child.type == "file_redirect":
            found.append(_redirect(walk, child))
        elif child.type == "heredoc_redirect":
            inner = [part for part in child.named_children if part.type == "file_redirect"]
            later += [part for part in child.named_children if part.type in ("pipeline", "list", "command")]
            found += [_redirect(walk, part) for part in inner]
            heredocs.append(child)
    out = next((each.target for each in found if ">" in each.text and each.target), None)
    return found, [each for child in heredocs for each in _heredoc(walk, child, out)], later


def _redirect(walk: Walk, node: Node) -> Redirect:
    reader = walk.reader(walk.script.uses)
    target = node.child_by_field_name("destination")
    return Redirect(text(node), *reader.at(node), reader.word(target) if target is not None else None)


def _heredoc(walk: Walk, node: Node, file: Word | None) -> list[Heredoc]:
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    literal = start is not None and text(start)[:1] in "'\"\\"
    found = []
    for child in node.named_children:
        if child.type == "heredoc_body":
            own = (child.start_byte, child.end_byte)
            if not literal:
                walk.reader(walk.script.uses).value(child)
            found.append(Heredoc(walk.block.at(own[0]), walk.block.at(own[1]), own, file, literal))
    return found


def simple(walk: Walk, node: Node) -> None:
    command(walk, node)


def command(walk: Walk, node: Node, redirects: Iterable[Redirect] = (), heredocs: Iterable[Heredoc] = ()) -> None:
    uses: list[Use] = []
    own, more, _ = _redirects(walk, node)
    prefixes, words = _words(walk, node, uses)
    start, end = walk.at(node)
    made = Command(
        words=tuple(words[:MOST]),
        start=start,
        end=end,
        environment={**walk.state.environment(), **{each.name: each.word for each in prefixes}, **_by_env(words)},
        uses=tuple(uses),
        redirects=(*redirects, *own),
        heredocs=(*heredocs, *more),
        pipeline=walk.place.pipeline,
        last_of_pipe=walk.place.last or not walk.place.pipeline,
        shell=frozenset(walk.state.shell),
        guarded=walk.place.guarded,
        lenient=walk.place.lenient,
        background=_background(node),
        function=walk.place.functions[-1] if walk.place.functions else "",
        branch=walk.place.branch,
        cwd=walk.state.cwd,
        order=len(walk.script.commands),
    )
    walk.script.uses += uses
    if words:
        walk.script.commands.append(made)
        effects(walk, made)
        shell(walk, made)
        if made.name == "eval":
            evaluated(walk, made)


def _by_env(words: list[Word]) -> dict[str, Word]:
    """What env sets for the program behind it, also behind nohup, sudo and the like."""
    at = next((i for i, word in enumerate(words[:4]) if word.text.rpartition("/")[2] == "env"), None)
    if at is None or not all(word.text in WRAPPERS for word in words[:at]):
        return {}
    found = {}
    for word in itertools.takewhile(lambda each: each.text[:1] == "-" or "=" in each.text, words[at + 1 :]):
        name, equals, value = word.text.partition("=")
        if equals and name.isidentifier():
            found[name] = replace(word, text=value)
    return found


def _words(walk: Walk, node: Node, uses: list[Use]) -> tuple[list[Assign], list[Word]]:
    """The assignments before the command, and its words."""
    reader = walk.reader(uses)
    prefixes: list[Assign] = []
    words: list[Word] = []
    for child in node.named_children:
        if child.type == "variable_assignment":
            prefixes.append(assign(walk, child, uses, True, prefix=True))
        elif child.type == "command_name":
            words += reader.words(child.named_children[0] if child.named_child_count == 1 else child)
        elif child.type not in _REDIRECTS:
            words += reader.words(child)
        elif child.type == "herestring_redirect":
            reader.value(child)
    return prefixes, words


def _background(node: Node) -> bool:
    if node.next_sibling is not None and node.next_sibling.type == "&":
        return True
    parent = node.parent
    behind = parent.next_sibling if parent is not None and parent.type == "redirected_statement" else None
    return behind is not None and behind.type == "&"
