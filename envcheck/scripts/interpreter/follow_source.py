"""source FILE: the variables that a file of the user's sets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from envcheck.core.lint.script_model import ShellCommand, ShellWord, SourceBlock, SourcedFile
from envcheck.scripts import shell_grammar
from envcheck.scripts.interpreter.shell_walk import ShellWalk
from envcheck.scripts.shell_state import ShellValue

LIMIT = 1 << 18  # bytes of a file
SOURCED = 3  # files in files


def follow_source(walk: ShellWalk, command: ShellCommand) -> bool:
    """Interpret the file that the command names, and return whether all of its variables are known now.

    Its commands are no commands of the script: it is a file of its own, with its own lines.
    """
    words = command.words[1:]
    path = walk.state.surroundings.find_file(words[0].text, walk.state.cwd) if words and walk.nested < SOURCED else None
    raw = _read_file(path) if path is not None else None
    if path is None or raw is None:
        is_needed = not (command.guarded or command.branch or command.elsewhere)
        walk.script.sourced += [SourcedFile(word) for word in words[:1] if is_needed]
        return False
    block = SourceBlock("bash", raw, ((0, words[0].start),))
    inner = walk.open_nested(block, walk.state)
    arguments, before = walk.state.arguments, dict(walk.state.values)
    walk.state.arguments = words[1:] or arguments
    outer = walk.state.surroundings
    walk.state.surroundings = replace(outer, file=str(path.absolute()))
    root = shell_grammar.parse_shell(raw)
    inner.visit_node(root)
    walk.state.arguments = arguments
    walk.state.surroundings = replace(walk.state.surroundings, file=outer.file)
    for name, value in walk.state.values.items():
        if value is not before.get(name):
            walk.state.assign_value(name, _place_value(value, words[0]))
    walk.script.names |= inner.script.names
    walk.script.functions |= inner.script.functions
    walk.script.uses += [
        replace(use, start=words[0].start, end=words[0].end, guarded=True) for use in inner.script.uses
    ]
    # Its functions may set more where the script calls them.
    is_known = not (root.has_error or inner.script.opaque or inner.script.cut or inner.script.functions)
    with inner.enter_subshell():
        inner.enter_uncalled_functions()
    walk.script.sourced.append(SourcedFile(words[0], inner.script))
    walk.script.sourced += (replace(each, word=_move_word(each.word, words[0])) for each in inner.script.sourced)
    return is_known


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= LIMIT else None
    except OSError:
        return None


def _place_value(value: ShellValue, place: ShellWord) -> ShellValue:
    """The value at the place of the file's name: its own offsets are those of another file."""
    array = None if value.array is None else tuple(_move_word(word, place) for word in value.array)
    return ShellValue(_move_word(value.word, place), array)


def _move_word(word: ShellWord, place: ShellWord) -> ShellWord:
    return replace(word, start=place.start, end=place.end, raw="")
