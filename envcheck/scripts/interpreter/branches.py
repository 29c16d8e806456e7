"""Statements that may run or not, several times, or in a shell of their own: what is known behind each of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.core.lint.model import UNKNOWN, Word
from envcheck.scripts.interpreter.walk import COMMANDS, Walk
from envcheck.scripts.nodes import text
from envcheck.scripts.state import State, Value

if TYPE_CHECKING:
    from tree_sitter import Node

_LEAVES = re.compile(r"\s*\{?\s*(?:[^}]*[;\n]\s*)?(exit|return|die|exec)\b")


def either(walk: Walk, node: Node) -> None:
    """a && b, a || b."""
    left, right = node.named_children[0], node.named_children[-1]
    operator = next((child.type for child in node.children if child.type in ("&&", "||")), "")
    lenient = walk.place.lenient or (operator == "||" and text(right).strip() in ("true", ":"))
    walk.visit_all([left], guarded=True, lenient=lenient)
    before = walk.state.copy()
    walk.visit_all([right], branch=True)
    leaves = _LEAVES.match(text(right))
    if operator == "||" and not leaves:
        walk.state.merge([walk.state, before])
    elif leaves:
        walk.state = before


def negated(walk: Walk, node: Node) -> None:
    walk.visit_all(node.named_children, guarded=True)


def pipeline(walk: Walk, node: Node) -> None:
    walk.pipelines += 1
    number = walk.pipelines
    parts = [child for child in node.named_children if child.type != "comment"]
    for part in parts:
        with walk.subshell():
            walk.visit_all([part], last=part is parts[-1], pipeline=number)


def subshell(walk: Walk, node: Node) -> None:
    with walk.subshell():
        walk.visit_all(node.named_children)


def condition(walk: Walk, node: Node) -> None:
    """if ... then ... elif ... else ... fi"""
    walk.visit_all(_before(node, "then"), guarded=True)
    ends: list[State] = []
    start = walk.state.copy()
    clauses = _clauses(node)
    for clause in clauses:
        walk.state = start.copy()
        walk.visit_all(clause, branch=True)
        if not (clause and _ends(clause[-1])):
            ends.append(walk.state)
    if not clauses[-1] or clauses[-1][0].type != "else_clause":
        ends.append(start)
    walk.state = ends[0] if ends else start
    if ends:
        walk.state.merge(ends)


def _clauses(node: Node) -> list[list[Node]]:
    """The statements behind `then`, and each elif and else."""
    clauses: list[list[Node]] = [[]]
    for child in _after(node, "then"):
        if child.type in ("elif_clause", "else_clause"):
            clauses.append([child])
        elif not (clauses[-1] and clauses[-1][0].type.endswith("clause")):
            clauses[-1].append(child)
    return clauses


def other_condition(walk: Walk, node: Node) -> None:
    """elif"""
    walk.visit_all(_before(node, "then"), guarded=True)
    walk.visit_all(_after(node, "then"))


def case(walk: Walk, node: Node) -> None:
    reader = walk.reader(walk.script.uses, tested=True)
    start = walk.state.copy()
    ends = [start]
    for child in node.named_children:
        if child.type == "case_item":
            walk.state = start.copy()
            walk.visit_all(child.named_children[1:], branch=True)
            ends.append(walk.state)
        elif child.type != "comment":
            walk.script.tested.add(reader.value(child)[0])
    walk.state = ends[-1]
    walk.state.merge(ends)


def loop(walk: Walk, node: Node) -> None:
    before = walk.state.copy()
    for name in _assigned(node) & set(walk.state.values):  # the second time round it is another
        walk.state.values[name] = walk.state.values[name].unknown
    for child in node.named_children:
        if child.type == "variable_name":
            walk.give(text(child), Value(Word(UNKNOWN, *walk.at(child))))
        elif child.type in ("do_group", "compound_statement"):
            walk.visit_all([child], branch=True, loop=True)
        elif child.type.endswith("command") or child.type in ("list", "pipeline", "redirected_statement"):
            walk.visit_all([child], guarded=True)
        else:
            walk.reader(walk.script.uses).words(child)
    walk.state.merge([walk.state, before])


def test(walk: Walk, node: Node) -> None:
    """[ ... ], [[ ... ]]: what stands in them is looked at."""
    reader = walk.reader(walk.script.uses, tested=True)
    stack = list(node.named_children)
    while stack:
        child = stack.pop()
        if child.type.endswith("_expression"):
            stack += child.named_children
        else:
            walk.script.tested.add(reader.value(child)[0])


def _assigned(node: Node) -> set[str]:
    """The names that are given values somewhere inside."""
    found: set[str] = set()
    stack = [node]
    while stack and len(found) < COMMANDS:
        child = stack.pop()
        if child.type == "variable_assignment":
            name = child.child_by_field_name("name")
            found.add(text(name).partition("[")[0] if name is not None else "")
        stack += child.named_children
    return found


def _before(node: Node, word: str) -> list[Node]:
    return [child for child in node.children[: _cut(node, word)] if child.is_named]


def _after(node: Node, word: str) -> list[Node]:
    return [child for child in node.children[_cut(node, word) :] if child.is_named]


def _cut(node: Node, word: str) -> int:
    return next((i for i, child in enumerate(node.children) if child.type == word), 0)


def _ends(node: Node) -> bool:
    """The last statement of a branch ends the script or the function."""
    return bool(re.search(r"(?:^|[;\n\s])(?:exit|return)\b[^\n;]*[;\s]*(?:fi)?\s*$", text(node)))
