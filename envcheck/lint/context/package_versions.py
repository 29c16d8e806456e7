"""Which version of a package the script meets: what it installs itself, else what the machine has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envcheck.core.lint.model import Command, Script, Word
from envcheck.scripts.wrappers import unwrapped

if TYPE_CHECKING:
    from envcheck.lint.context.paper import Paper

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


@dataclass(frozen=True)
class Install:
    """One pip install: its packages as (name, extras, specifier, word)."""

    script: Script
    command: Command
    packages: tuple[tuple[str, str, str, Word], ...]
    options: tuple[tuple[str, Word], ...]  # option, its value or itself

    def has(self, *names: str) -> Word | None:
        return next((word for name, word in self.options if name in names), None)


def installs(scripts: Iterable[Script]) -> Iterator[Install]:
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


def _read(script: Script, command: Command, words: tuple[Word, ...]) -> Install:
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
    return Install(script, command, tuple(packages), tuple(options))


def installed(paper: Paper, package: str) -> str | None:
    """A version that the script pins exactly, else that of the machine; None: nobody says."""
    for install in paper.installs:
        for name, _, specifier, _ in install.packages:
            found = re.match(r"==\s*([\w.+!-]+)$", specifier)
            if name == package and found:
                return found[1]
    return paper.machine.packages.get(package)


def wanted(paper: Paper, package: str) -> str | None:
    """What the script asks of a package: "" for any version; None where it installs none."""
    for install in paper.installs:
        for name, _, specifier, _ in install.packages:
            if name == package:
                return specifier
    return None
