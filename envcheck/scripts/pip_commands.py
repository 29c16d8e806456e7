"""Parse pip install: packages with their specifiers, and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from envcheck.core.lint.pip_install import PipInstall
from envcheck.core.lint.script_model import ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.wrappers import strip_wrappers

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


def find_pip_installs(scripts: Iterable[ShellScript]) -> Iterator[PipInstall]:
    """Yield the pip install commands of the scripts, also behind uv, conda run and docker exec."""
    for script in scripts:
        for command in script.commands:
            words = strip_wrappers(command.words)
            at = _find_arguments(words)
            if at:
                yield _read_install(script, command, words[at:])


def _find_arguments(words: tuple[ShellWord, ...]) -> int:
    """The index of the first argument of `pip install`; 0 for other commands.  Also uv pip, and after docker exec."""
    texts = [word.text.rpartition("/")[2] for word in words[:40]]
    for number, text in enumerate(texts[:-1]):
        if re.fullmatch(r"pip[\d.]*", text) and texts[number + 1] == "install":
            before = texts[:number]
            if not before or before[-1] in ("-m", "uv") or before[0] in ("docker", "podman", "conda", "inside"):
                return number + 2
    return 0


def _read_install(script: ShellScript, command: ShellCommand, words: tuple[ShellWord, ...]) -> PipInstall:
    packages, options, takes = [], [], ""
    for word in words:
        if takes:
            options.append((takes, word))
            takes = ""
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            if equals:
                options.append((name, ShellWord(value, word.start, word.end)))
            elif name in _VALUED:
                takes = name
            else:
                options.append((name, word))
        elif word.is_known and (match := _SPEC.match(word.text.strip())) and "/" not in match[1]:
            packages.append((match[1].lower().replace("_", "-"), match[2] or "", match[3] or "", word))
    return PipInstall(script, command, tuple(packages), tuple(options))
