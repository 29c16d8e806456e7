"""Statements that give variables values, hand them on, or take them away."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.lint.model import Assign, Use, Word
from envcheck.scripts.interpreter.walk import Walk
from envcheck.scripts.nodes import text
from envcheck.scripts.state import Value

if TYPE_CHECKING:
    from tree_sitter import Node

    from envcheck.scripts.values import Reader


def assignment(walk: Walk, node: Node) -> None:
    assign(walk, node, walk.script.uses, "allexport" in walk.state.shell)


def assign(walk: Walk, node: Node, uses: list[Use], exported: bool, prefix: bool = False) -> Assign:
    """`prefix`: it stands before a command, which alone gets it."""
    reader = walk.reader(uses)
    target = node.child_by_field_name("name")
    name = text(target).partition("[")[0] if target is not None else ""
    value = _given(walk, node, reader, name)
    if target is not None and target.type == "subscript":
        value = value.unknown
    made = Assign(name, value.word, *reader.at(node), exported or name in walk.state.exported, prefix)
    if not prefix:
        walk.give(name, value)
        if exported:
            walk.state.exported.add(name)
    walk.script.assigns.append(made)
    return made


def _given(walk: Walk, node: Node, reader: Reader, name: str) -> Value:
    """The value behind = or +=."""
    given = node.child_by_field_name("value")
    before = walk.state.values.get(name) if any(child.type == "+=" for child in node.children) else None
    if given is None:
        return Value(Word("", *reader.at(node)))
    if given.type == "array":
        words = tuple(word for child in given.named_children for word in _items(child, reader))
        old = before.array or () if before else ()
        return Value(Word(words[0].text if words else "", *reader.at(node)), (*old, *words))
    value = Value(reader.word(given))
    if before:
        joined, soft = before.word.text + value.word.text, before.word.soft or value.word.soft
        value = Value(replace(value.word, text=joined, raw="", soft=soft))
    return value


def _items(node: Node, reader: Reader) -> list[Word]:
    return [] if node.type == "comment" else reader.words(node)


def declaration(walk: Walk, node: Node) -> None:
    """export, declare, local, readonly, typeset."""
    word = node.children[0].type
    flags = "".join(text(child) for child in node.named_children if child.type == "word")
    exported = word == "export" or (word in ("declare", "typeset") and "x" in flags)
    for child in node.named_children:
        if child.type == "variable_assignment":
            assign(walk, child, walk.script.uses, exported)
        elif child.type == "variable_name":
            walk.script.names.add(text(child))
            if exported:
                _export(walk, text(child), child)
            elif word != "readonly":
                walk.state.values.setdefault(text(child), Value(Word("", *walk.at(child))))
        elif child.type not in ("comment", "word"):
            walk.script.opaque |= child.type == "command_substitution"  # export $(cat .env): any name
            walk.reader(walk.script.uses).value(child)


def _export(walk: Walk, name: str, node: Node) -> None:
    walk.state.exported.add(name)
    value = walk.state.values.get(name)
    if value is not None:
        walk.script.assigns.append(Assign(name, value.word, *walk.at(node), True))


def unset(walk: Walk, node: Node) -> None:
    for child in node.named_children:
        name = text(child)
        if not name.startswith("-"):
            walk.script.unset.append(Word(name, *walk.at(child)))
            walk.state.values.pop(name, None)
            walk.state.exported.discard(name)
