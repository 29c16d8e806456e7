"""Statements that set, export or unset variables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import ShellWord, VariableAssignment, VariableUse
from envcheck.scripts.interpreter.shell_walk import ShellWalk
from envcheck.scripts.shell_grammar import read_text
from envcheck.scripts.shell_state import ShellValue

if TYPE_CHECKING:
    from tree_sitter import Node

    from envcheck.scripts.word_reader import WordReader


def visit_assignment(walk: ShellWalk, node: Node) -> None:
    """Record an assignment as a statement of its own."""
    record_assignment(walk, node, walk.script.uses, "allexport" in walk.state.shell)


def record_assignment(
    walk: ShellWalk, node: Node, uses: list[VariableUse], exported: bool, prefix: bool = False
) -> VariableAssignment:
    """Record an assignment and update the state; `prefix`: it precedes a command and applies only to that."""
    reader = walk.make_reader(uses)
    target = node.child_by_field_name("name")
    name = read_text(target).partition("[")[0] if target is not None else ""
    value = _read_given_value(walk, node, reader, name)
    if target is not None and target.type == "subscript":
        value = value.unknown
    made = VariableAssignment(
        name, value.word, *reader.locate_node(node), exported or name in walk.state.exported, prefix
    )
    if not prefix:
        walk.set_variable(name, value)
        if exported:
            walk.state.export_name(name)
    walk.script.assigns.append(made)
    return made


def _read_given_value(walk: ShellWalk, node: Node, reader: WordReader, name: str) -> ShellValue:
    """The value after = or +=."""
    given = node.child_by_field_name("value")
    before = walk.state.values.get(name) if any(child.type == "+=" for child in node.children) else None
    if given is None:
        return ShellValue(ShellWord("", *reader.locate_node(node)))
    if given.type == "array":
        words = tuple(word for child in given.named_children for word in _read_items(child, reader))
        old = before.array or () if before else ()
        return ShellValue(ShellWord(words[0].text if words else "", *reader.locate_node(node)), (*old, *words))
    value = ShellValue(reader.read_word(given))
    if before:
        joined, soft = before.word.text + value.word.text, before.word.soft or value.word.soft
        value = ShellValue(replace(value.word, text=joined, raw="", soft=soft))
    return value


def _read_items(node: Node, reader: WordReader) -> list[ShellWord]:
    return [] if node.type == "comment" else reader.read_words(node)


def visit_declaration(walk: ShellWalk, node: Node) -> None:
    """Record export, declare, local, readonly and typeset."""
    word = node.children[0].type
    flags = "".join(read_text(child) for child in node.named_children if child.type == "word")
    exported = word == "export" or (word in ("declare", "typeset") and "x" in flags)
    for child in node.named_children:
        if child.type == "variable_assignment":
            record_assignment(walk, child, walk.script.uses, exported)
        elif child.type == "variable_name":
            walk.script.names.add(read_text(child))
            if exported:
                _export_name(walk, read_text(child), child)
            elif word != "readonly":
                walk.state.declare_name(read_text(child), ShellValue(ShellWord("", *walk.locate_node(child))))
        elif child.type not in ("comment", "word"):
            walk.script.opaque |= child.type == "command_substitution"  # export $(cat .env) may set any name
            walk.make_reader(walk.script.uses).read_value(child)


def _export_name(walk: ShellWalk, name: str, node: Node) -> None:
    walk.state.export_name(name)
    value = walk.state.values.get(name)
    if value is not None:
        walk.script.assigns.append(VariableAssignment(name, value.word, *walk.locate_node(node), True))


def visit_unset(walk: ShellWalk, node: Node) -> None:
    """Record unset, and remove the variables from the state."""
    for child in node.named_children:
        name = read_text(child)
        if not name.startswith("-"):
            walk.script.unset.append(ShellWord(name, *walk.locate_node(child)))
            walk.state.unset_name(name)
