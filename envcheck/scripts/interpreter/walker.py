"""From the blocks of a file to their scripts: statements in their order, with what the shell holds at each."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.core.lint.model import Block, Script
from envcheck.scripts.interpreter import branches, commands, variables
from envcheck.scripts.interpreter.walk import Handler, Walk, comment, function
from envcheck.scripts.state import State

# By the grammar's names; of a node of another kind the children are walked through.
HANDLERS: dict[str, Handler] = {
    "comment": comment,
    "function_definition": function,
    "list": branches.either,
    "negated_command": branches.negated,
    "pipeline": branches.pipeline,
    "subshell": branches.subshell,
    "if_statement": branches.condition,
    "elif_clause": branches.other_condition,
    "case_statement": branches.case,
    "while_statement": branches.loop,
    "for_statement": branches.loop,
    "c_style_for_statement": branches.loop,
    "select_statement": branches.loop,
    "test_command": branches.test,
    "variable_assignment": variables.assignment,
    "declaration_command": variables.declaration,
    "unset_command": variables.unset,
    "redirected_statement": commands.redirected,
    "command": commands.simple,
}


def walk(blocks: Iterable[Block]) -> list[Script]:
    """The scripts of the blocks; one that is a file of its own begins anew, the others share a session."""
    session, found = State(), []
    for block in blocks:
        if block.kind == "bash":
            walked = Walk(block, State() if block.script else session, HANDLERS)
            found.append(walked.run())
            if not block.script:
                session = walked.state
                session.shell.clear()
    return found
