"""The effect of a command on the shell itself: options, folder, variables that it reads, functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from envcheck.core.lint.script_model import UNKNOWN, ShellCommand, ShellWord
from envcheck.scripts.interpreter.follow_source import follow_source
from envcheck.scripts.interpreter.shell_walk import CALLS_DEEP, ShellWalk
from envcheck.scripts.operands import list_operands
from envcheck.scripts.shell_state import ShellValue
from envcheck.scripts.vendor_words import join_patterns, load_vendor_words

_FOLDERS = join_patterns("intel|conda|miniconda3?|anaconda3?", *(w.setup_folders for w in load_vendor_words().values()))
_INSTALLED = re.compile(rf"/({_FOLDERS})\b|activate")  # of a toolkit or a Python environment
_SETUP = re.compile(rf"{_INSTALLED.pattern}|set_?env")
_OPTIONS = {"e": "errexit", "u": "nounset", "a": "allexport"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def apply_builtin(walk: ShellWalk, command: ShellCommand) -> None:
    """Apply the effect of a builtin, or enter the function that is called."""
    name = command.name
    if name in walk.bodies and len(walk.place.functions) < CALLS_DEEP:
        walk.enter_function(name, command.words[1:])
        _record_tested(walk, command)
    elif name in _EFFECTS:
        _EFFECTS[name](walk, command)


def _record_tested(walk: ShellWalk, command: ShellCommand) -> None:
    walk.script.tested.update(command.list_texts()[1:])


def _apply_set(walk: ShellWalk, command: ShellCommand) -> None:
    words = command.list_texts()[1:]
    if "--" in words:
        walk.state.arguments = command.words[words.index("--") + 2 :]
        words = words[: words.index("--")]
    for number, word in enumerate(words):
        change = walk.state.shell.add if word[:1] == "-" else walk.state.shell.discard
        if word[:1] not in "+-" or word == "--":
            continue
        for letter, option in _OPTIONS.items():
            if letter in word[1:]:
                change(option)
        if word[1:].endswith("o") and number + 1 < len(words):
            change(words[number + 1])


def _apply_cd(walk: ShellWalk, command: ShellCommand) -> None:
    operands = list_operands(command) or []
    walk.state.cwd = _join_folder(walk.state.cwd, operands[0] if len(operands) == 1 else UNKNOWN)
    folder = walk.state.cwd if walk.state.cwd.startswith("/") else UNKNOWN
    walk.state.assign_value("PWD", ShellValue(ShellWord(folder, command.start, command.end)))


def _join_folder(cwd: str, target: str) -> str:
    if UNKNOWN in target or UNKNOWN in cwd or target in ("", "-") or target.startswith("~"):
        return UNKNOWN
    return str(PurePosixPath(cwd) / target) if cwd or not target.startswith("/") else target


def _apply_read(walk: ShellWalk, command: ShellCommand) -> None:
    """read a b: each word is a name.  read -d '' a <<EOF: it gets the whole text."""
    texts, given = command.list_texts(), command.heredocs
    whole = len(given) == 1 and not given[0].literal and walk.block.whole and texts[-3:-1] == ["-d", ""]
    if whole and _NAME.fullmatch(texts[-1]):
        text, raw = given[0].text.replace("\\\n", ""), walk.block.raw[slice(*given[0].own)].decode("utf-8", "replace")
        walk.set_variable(texts[-1], ShellValue(ShellWord(text.strip(), given[0].start, given[0].end, raw=raw)))
        return
    for word in command.words[1:]:
        _set_unknown(walk, word)


def _apply_printf(walk: ShellWalk, command: ShellCommand) -> None:
    """printf -v a: the word after -v."""
    for before, word in zip(command.words, command.words[1:], strict=False):
        if before.text == "-v":
            _set_unknown(walk, word)


def _set_unknown(walk: ShellWalk, word: ShellWord) -> None:
    found = _NAME.match(word.text)
    if found:
        walk.set_variable(found[0], ShellValue(ShellWord(UNKNOWN, word.start, word.end)))


def _apply_shift(walk: ShellWalk, command: ShellCommand) -> None:
    given = walk.state.arguments
    if given is not None:
        count = command.list_texts()[1] if len(command.words) > 1 else "1"
        walk.state.arguments = given[int(count) :] if count.isdigit() and len(count) < 5 else None


def _apply_source(walk: ShellWalk, command: ShellCommand) -> None:
    """A vendor's setup file sets known variables; any other file that cannot be read may set any."""
    text = " ".join(command.list_texts()[1:])
    if not _INSTALLED.search(text) and follow_source(walk, command):
        return
    if not _SETUP.search(text):
        walk.script.opaque = True


_EFFECTS: dict[str, Callable[[ShellWalk, ShellCommand], None]] = {
    **dict.fromkeys(("test", "["), _record_tested),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let"), _apply_read),
    **dict.fromkeys(("source", "."), _apply_source),
    "set": _apply_set,
    "cd": _apply_cd,
    "printf": _apply_printf,
    "shift": _apply_shift,
}
