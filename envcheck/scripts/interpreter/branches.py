"""Statements that may run, or not, or repeatedly, or in a subshell: the state of the shell after each of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from envcheck.core.lint.script_model import UNKNOWN, ShellWord
from envcheck.scripts.interpreter.shell_walk import COMMANDS, ShellWalk
from envcheck.scripts.shell_grammar import read_text
from envcheck.scripts.shell_state import ShellState, ShellValue

if TYPE_CHECKING:
    from tree_sitter import Node

_LEAVES = re.compile(r"(?:\s*\{)?(?:[^}]*[;\n])?[^\S\n]*(exit|return|die|exec)\b")


def visit_and_or(walk: ShellWalk, node: Node) -> None:
    """Visit a && b, a || b."""
    left, right = node.named_children[0], node.named_children[-1]
    operator = next((child.type for child in node.children if child.type in ("&&", "||")), "")
    lenient = walk.place.lenient or (operator == "||" and read_text(right).strip() in ("true", ":"))
    walk.visit_all([left], guarded=True, lenient=lenient)
    before = walk.state.copy()
    walk.visit_all([right], branch=True)
    leaves = _LEAVES.match(read_text(right))
    if operator == "||" and not leaves:
        walk.state.merge_states([walk.state, before])
    elif leaves:
        walk.state = before


def visit_negation(walk: ShellWalk, node: Node) -> None:
    """Visit ! command, whose exit status does not end the script."""
    walk.visit_all(node.named_children, guarded=True)


def visit_pipeline(walk: ShellWalk, node: Node) -> None:
    """Visit a pipeline: each part runs in a subshell."""
    walk.pipelines += 1
    number = walk.pipelines
    parts = [child for child in node.named_children if child.type != "comment"]
    for part in parts:
        with walk.enter_subshell():
            walk.visit_all([part], last=part is parts[-1], pipeline=number)


def visit_subshell(walk: ShellWalk, node: Node) -> None:
    """Visit ( ... ), whose changes do not affect the shell."""
    with walk.enter_subshell():
        walk.visit_all(node.named_children)


def visit_if(walk: ShellWalk, node: Node) -> None:
    """Visit if ... then ... elif ... else ... fi; the states of all branches are merged."""
    walk.visit_all(_list_children_before(node, "then"), guarded=True)
    ends: list[ShellState] = []
    start = walk.state.copy()
    clauses = _split_clauses(node)
    for clause in clauses:
        walk.state = start.copy()
        walk.visit_all(clause, branch=True)
        if not (clause and _ends_script(clause[-1])):
            ends.append(walk.state)
    if not clauses[-1] or clauses[-1][0].type != "else_clause":
        ends.append(start)
    walk.state = ends[0] if ends else start
    if ends:
        walk.state.merge_states(ends)


def _split_clauses(node: Node) -> list[list[Node]]:
    """The statements after `then`, and each elif and else."""
    clauses: list[list[Node]] = [[]]
    for child in _list_children_from(node, "then"):
        if child.type in ("elif_clause", "else_clause"):
            clauses.append([child])
        elif not (clauses[-1] and clauses[-1][0].type.endswith("clause")):
            clauses[-1].append(child)
    return clauses


def visit_elif(walk: ShellWalk, node: Node) -> None:
    """Visit an elif clause."""
    walk.visit_all(_list_children_before(node, "then"), guarded=True)
    walk.visit_all(_list_children_from(node, "then"))


def visit_case(walk: ShellWalk, node: Node) -> None:
    """Visit case ... esac; the states of all items are merged."""
    reader = walk.make_reader(walk.script.uses, tested=True)
    start = walk.state.copy()
    ends = [start]
    for child in node.named_children:
        if child.type == "case_item":
            walk.state = start.copy()
            walk.visit_all(child.named_children[1:], branch=True)
            ends.append(walk.state)
        elif child.type != "comment":
            walk.script.tested.add(reader.read_value(child)[0])
    walk.state = ends[-1]
    walk.state.merge_states(ends)


def visit_loop(walk: ShellWalk, node: Node) -> None:
    """Visit a loop; variables that change in it are unknown."""
    before = walk.state.copy()
    for name in _find_assigned_names(node) & set(walk.state.values):  # it differs in the second iteration
        walk.state.assign_value(name, walk.state.values[name].unknown)
    for child in node.named_children:
        if child.type == "variable_name":
            walk.set_variable(read_text(child), ShellValue(ShellWord(UNKNOWN, *walk.locate_node(child))))
        elif child.type in ("do_group", "compound_statement"):
            walk.visit_all([child], branch=True, loop=True)
        elif child.type.endswith("command") or child.type in ("list", "pipeline", "redirected_statement"):
            walk.visit_all([child], guarded=True)
        else:
            walk.make_reader(walk.script.uses).read_words(child)
    walk.state.merge_states([walk.state, before])


def visit_test(walk: ShellWalk, node: Node) -> None:
    """Visit [ ... ] and [[ ... ]]: the tested values are recorded."""
    reader = walk.make_reader(walk.script.uses, tested=True)
    stack = list(node.named_children)
    while stack:
        child = stack.pop()
        if child.type.endswith("_expression"):
            stack += child.named_children
        else:
            walk.script.tested.add(reader.read_value(child)[0])


def _find_assigned_names(node: Node) -> set[str]:
    """The names that are assigned anywhere inside."""
    found: set[str] = set()
    stack = [node]
    while stack and len(found) < COMMANDS:
        child = stack.pop()
        if child.type == "variable_assignment":
            name = child.child_by_field_name("name")
            found.add(read_text(name).partition("[")[0] if name is not None else "")
        stack += child.named_children
    return found


def _list_children_before(node: Node, word: str) -> list[Node]:
    return [child for child in node.children[: _find_keyword(node, word)] if child.is_named]


def _list_children_from(node: Node, word: str) -> list[Node]:
    return [child for child in node.children[_find_keyword(node, word) :] if child.is_named]


def _find_keyword(node: Node, word: str) -> int:
    return next((i for i, child in enumerate(node.children) if child.type == word), 0)


def _ends_script(node: Node) -> bool:
    """Whether the last statement of a branch ends the script or the function."""
    return bool(
        re.search(r"(?:^|[;\s])(?:exit|return)\b[^\n;]{0,400}(?:[;\n][;\s]{0,80})?(?:fi)?$", read_text(node).rstrip())
    )
