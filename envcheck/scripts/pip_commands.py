"""Reads pip install: packages with their specifiers, and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.core.lint.model import Command, Script, Word
from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.wrappers import unwrapped

_SPEC = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[\w,.\s-]*\])?\s*((?:[=<>!~]=?=?|@).*)?$")
_VALUED = frozenset(
    [
        "-i",
        "--index-url",
        "--extra-index-url",
        "-f",
        "--find-links",
        "-c",
        "--constraint",
        "-r",
        "--requirement",
        "-e",
        "--editable",
        "-t",
        "--target",
        "--prefix",
        "--root",
        "--trusted-host",
        "--proxy",
        "--timeout",
        "--retries",
        "--cache-dir",
        "--python",
        "--platform",
        "--index",
        "--log",
        "--src",
    ]
)


def installs_of(scripts: Iterable[Script]) -> Iterator[PipInstall]:
    for script in scripts:
        for command in script.commands:
            words = unwrapped(command.words)
            at = _after_install(words)
            if at:
                yield _read(script, command, words[at:])


def _after_install(words: tuple[Word, ...]) -> int:
    """Where the arguments of `pip install` begin; 0: it is none.  Also uv pip, and behind docker exec."""
    texts = [word.text.rpartition("/")[2] for word in words[:40]]
    for number, text in enumerate(texts[:-1]):
        if re.fullmatch(r"pip[\d.]*", text) and texts[number + 1] == "install":
            before = texts[:number]
            if not before or before[-1] in ("-m", "uv") or before[0] in ("docker", "podman", "conda", "inside"):
                return number + 2
    return 0


def _read(script: Script, command: Command, words: tuple[Word, ...]) -> PipInstall:
    packages, options, takes = [], [], ""
    for word in words:
        if takes:
            options.append((takes, word))
            takes = ""
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            if equals:
                options.append((name, Word(value, word.start, word.end)))
            elif name in _VALUED:
                takes = name
            else:
                options.append((name, word))
        elif word.known and (match := _SPEC.match(word.text.strip())) and "/" not in match[1]:
            packages.append((match[1].lower().replace("_", "-"), match[2] or "", match[3] or "", word))
    return PipInstall(script, command, tuple(packages), tuple(options))
