"""From the blocks of a file to their scripts: statements in order, with the state of the shell at each."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.core.lint.script_model import ShellScript, SourceBlock
from envcheck.scripts.interpreter import assignments, branches, commands
from envcheck.scripts.interpreter.shell_walk import NodeHandler, ShellWalk, visit_comment, visit_function
from envcheck.scripts.shell_state import ShellState, ShellSurroundings

# By node type of the grammar; for other nodes, the children are visited.
HANDLERS: dict[str, NodeHandler] = {
    "comment": visit_comment,
    "function_definition": visit_function,
    "list": branches.visit_and_or,
    "negated_command": branches.visit_negation,
    "pipeline": branches.visit_pipeline,
    "subshell": branches.visit_subshell,
    "if_statement": branches.visit_if,
    "elif_clause": branches.visit_elif,
    "case_statement": branches.visit_case,
    "while_statement": branches.visit_loop,
    "for_statement": branches.visit_loop,
    "c_style_for_statement": branches.visit_loop,
    "select_statement": branches.visit_loop,
    "test_command": branches.visit_test,
    "variable_assignment": assignments.visit_assignment,
    "declaration_command": assignments.visit_declaration,
    "unset_command": assignments.visit_unset,
    "redirected_statement": commands.visit_redirected,
    "command": commands.visit_command,
}

_NOTHING_KNOWN = ShellSurroundings()


def walk_blocks(blocks: Iterable[SourceBlock], surroundings: ShellSurroundings = _NOTHING_KNOWN) -> list[ShellScript]:
    """Return the scripts of the blocks; a file of its own starts with a new state, the others share a session."""
    session, found = ShellState(surroundings=surroundings), []
    for block in blocks:
        if block.kind == "bash":
            state = ShellState(surroundings=surroundings) if block.is_script else session
            walked = ShellWalk(block, state, HANDLERS)
            found.append(walked.walk_block())
            if not block.is_script:
                session = walked.state
                session.shell.clear()
    return found
