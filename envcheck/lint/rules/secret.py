"""Rules about secrets in a script."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import warn
from envcheck.core.lint.script_model import Remark, ShellCommand, ShellWord
from envcheck.core.lint.wrappers import program_name, strip_wrappers
from envcheck.core.messages import _

_SECRET_NAME = re.compile(r"(?i)(^|_)(token|secret|passw(or)?d|api_?key|access_?key(_id)?|private_?key|credentials?)$")
_SECRET_SHAPE = re.compile(
    r"\b(gh[pousr]_[A-Za-z0-9]{20,}|hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|glpat-[\w-]{20,})\b"
)


_OPTION = re.compile(r"--?([\w-]+)")
_PLACEHOLDER = re.compile(
    r"(?i)^$|your|xxx|\.\.\.|<[^<]*>|^\*+$|example|changeme|placeholder|token$|^none$|^null$|^(true|false|\d{1,3})$"
)


_SECRET_VALUE = re.compile(r"(?=.*\d).{6}|.{16}")  # not a word: tokenizers have options that end with token, too

# Programs that take a secret as an argument, or after a short option: (program, words before it, the option).
_HANDED = (
    (("wandb", "login"), ""),
    (("swanlab", "login"), "-k"),
    (("docker", "login"), "-p"),
    (("podman", "login"), "-p"),
    (("sshpass",), "-p"),
)


def _find_secret_argument(command: ShellCommand) -> ShellWord | None:
    """The word that is a secret by its position; None if there is none, or it is unknown."""
    program = program_name(command)
    for names, option in (row for row in _HANDED if row[0][0] == program):
        words = strip_wrappers(command.words)
        if tuple(word.text for word in words[1 : len(names)]) != names[1:]:
            continue
        rest = words[len(names) :]
        for n, word in enumerate(rest):
            before = rest[n - 1].text if n else ""
            placed = before == option if option else not word.text.startswith("-") and before != "--host"
            if placed and word.is_known and not word.soft and len(word.text) > 2 and not _PLACEHOLDER.search(word.text):
                return word
    return None


_CREDENTIALS = re.compile(r"://[^/\s:@]+:[^/\s:@]{3,}@")
_HEADER = re.compile(r"(?i)authorization: *(bearer|basic|token) +[\w.~+/=-]{8,}$")
_SHORTEST = 10  # characters of a secret of any shape


def _has_secret_shape(text: str) -> bool:
    return len(text) >= _SHORTEST and bool(
        _SECRET_SHAPE.search(text) or ("://" in text and _CREDENTIALS.search(text)) or _HEADER.match(text)
    )


def _is_named_secret(before: str, word: ShellWord) -> bool:
    """Whether the word is the value of an option whose name says that it is a secret."""
    if not before.startswith("-") or word.text.startswith("-") or not word.is_known:
        return False
    option = _OPTION.fullmatch(before)
    named = option is not None and _SECRET_NAME.search(option[1].replace("-", "_"))
    is_name = _PLACEHOLDER.search(word.text) or _SECRET_NAME.search(word.text)  # --secret VARIABLE=name_of_its_token
    return bool(named and _SECRET_VALUE.search(word.text) and not is_name)


def find_secrets(context: LintContext) -> Iterator[Remark]:
    """Find secrets; the message never contains the value."""
    do = _("Read it from a file that only you can read. Launchers write their environment to logs.")
    for script in context.scripts:
        spots: dict[int, ShellWord] = {}
        for assign in script.assigns:
            text = assign.word.text
            if (
                _SECRET_NAME.search(assign.name)
                and assign.word.is_known
                and not assign.word.soft
                and not _PLACEHOLDER.search(text)
            ):
                spots[assign.start] = ShellWord(assign.name, assign.start, assign.end)
        for command in script.commands:
            before = ""
            for word in command.words:
                if _is_named_secret(before, word) or _has_secret_shape(word.text):
                    spots[word.start] = ShellWord("", word.start, word.end)
                before = word.text
            if (handed := _find_secret_argument(command)) is not None:
                spots[handed.start] = ShellWord("", handed.start, handed.end)
        for at in sorted(spots):
            yield warn(spots[at], _("the script contains a secret that every reader of the file can see"), do)
