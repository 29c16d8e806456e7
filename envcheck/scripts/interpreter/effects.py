"""What a command does to the shell itself: options, folder, variables that it reads into, functions that it calls."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from envcheck.core.lint.model import UNKNOWN, Command, Word
from envcheck.scripts.interpreter.walk import CALLS_DEEP, Walk
from envcheck.scripts.state import Value
from envcheck.scripts.vendor_words import join_patterns, vendor_words

_FOLDERS = join_patterns("intel|conda|miniconda3?|anaconda3?", *(w.setup_folders for w in vendor_words().values()))
_SETUP = re.compile(rf"/({_FOLDERS})\b|set_?env|activate")
_OPTIONS = {"e": "errexit", "u": "nounset", "a": "allexport"}
_NAME = re.compile(r"[A-Za-z_]\w*")


def effects(walk: Walk, command: Command) -> None:
    name = command.name
    if name in walk.bodies and len(walk.place.functions) < CALLS_DEEP:
        walk.enter(name, command.words[1:])
        _look(walk, command)
    elif name in _EFFECTS:
        _EFFECTS[name](walk, command)


def _look(walk: Walk, command: Command) -> None:
    walk.script.tested.update(command.texts()[1:])


def _set(walk: Walk, command: Command) -> None:
    words = command.texts()[1:]
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


def _cd(walk: Walk, command: Command) -> None:
    texts = command.texts()[1:]
    if texts:
        walk.state.cwd = _joined(walk.state.cwd, next((text for text in texts if text != "--"), ""))


def _joined(cwd: str, target: str) -> str:
    if UNKNOWN in target or UNKNOWN in cwd or target in ("", "-") or target.startswith("~"):
        return UNKNOWN
    return str(PurePosixPath(cwd) / target) if cwd or not target.startswith("/") else target


def _read(walk: Walk, command: Command) -> None:
    """read a b: each word is a name."""
    for word in command.words[1:]:
        _unknown(walk, word)


def _printf(walk: Walk, command: Command) -> None:
    """printf -v a: the word behind -v."""
    for before, word in zip(command.words, command.words[1:], strict=False):
        if before.text == "-v":
            _unknown(walk, word)


def _unknown(walk: Walk, word: Word) -> None:
    found = _NAME.match(word.text)
    if found:
        walk.give(found[0], Value(Word(UNKNOWN, word.start, word.end)))


def _shift(walk: Walk, command: Command) -> None:
    given = walk.state.arguments
    if given is not None:
        count = command.texts()[1] if len(command.words) > 1 else "1"
        walk.state.arguments = given[int(count) :] if count.isdigit() and len(count) < 5 else None


def _source(walk: Walk, command: Command) -> None:
    """A vendor's file sets what a vendor's file sets; another may set anything."""
    if not _SETUP.search(" ".join(command.texts()[1:])):
        walk.script.opaque = True


_EFFECTS: dict[str, Callable[[Walk, Command], None]] = {
    **dict.fromkeys(("test", "["), _look),
    **dict.fromkeys(("read", "mapfile", "readarray", "getopts", "let"), _read),
    **dict.fromkeys(("source", "."), _source),
    "set": _set,
    "cd": _cd,
    "printf": _printf,
    "shift": _shift,
}
