"""Rules about shell semantics: blanks, prompts, URLs, redirection, downloaded code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellCommand, ShellScript, ShellWord, TextFix
from envcheck.core.lint.wrappers import program_name, strip_wrappers
from envcheck.core.messages import _
from envcheck.lint.rules.script_text import is_in_text, is_inert, make_place
from envcheck.scripts.known_programs import find_started_program
from envcheck.scripts.source_file import is_shell_command


def find_wrong_redirect_order(context: LintContext) -> Iterator[Remark]:
    """Find `2>&1 > log`, which leaves errors on the terminal, and redirections after &."""
    yield from find_redirects_after_ampersand(context)
    for _unused, command in context.find_commands():
        texts = [re.sub(r"\s", "", each.text) for each in command.redirects]
        for number, text in enumerate(texts):
            if (
                text == "2>&1"
                and any(re.match(r"1?>>?[^&]", later) for later in texts[number + 1 :])
                and not command.pipeline
            ):
                seen = _("errors still go to the previous output, not to the file")
                yield warn(command.redirects[number], seen, _("Write > FILE 2>&1."))


MOST_REDIRECTS = 100  # of a script
_LATE_REDIRECT = re.compile(
    rb"(?<![&|<>\\])&[ \t]+([12]?>{1,2}(?:&[12]|[ \t]*[\w./${}\"'-]+))[ \t]*(?:#.*)?\r?$", re.MULTILINE
)


def find_redirects_after_ampersand(context: LintContext) -> Iterator[Remark]:
    """Find `command & 2>&1`: the redirection is a command of its own, without a program."""
    for script in context.scripts:
        for match in islice(_LATE_REDIRECT.finditer(script.block.raw), MOST_REDIRECTS):
            if not is_inert(script, match.start()) and not is_in_text(script, match.start()):
                place = make_place(script, *match.span(1))
                seen = _("the command ends at &: this redirection is not part of it")
                yield warn(place, seen, _("Put the redirection before &."))


def find_open_permissions(context: LintContext) -> Iterator[Remark]:
    """Find chmod 777."""
    for _unused, command in context.find_commands("chmod"):
        for word in strip_wrappers(command.words)[1:]:
            if re.fullmatch(r"0?777|a\+rwx|ugo\+rwx", word.text):
                yield warn(
                    word,
                    _("every user on the machine can write to it"),
                    _("Use chmod u+rwX,go+rX, or a dedicated group."),
                )


_NETWORK = ("curl", "wget", "fetch")
_SHELLS = ("bash", "sh", "zsh", "python", "python3", "sudo", "dash")


def find_unverified_code(context: LintContext) -> Iterator[Remark]:
    """Find downloaded code that runs without review: through a pipe, or from the file just downloaded."""
    for script in context.scripts:
        fetched: dict[str, ShellCommand] = {}
        checked = any(
            program_name(c) in ("sha256sum", "md5sum", "gpg", "sha512sum", "shasum", "cosign") for c in script.commands
        )
        for command in script.commands:
            name, words = program_name(command), strip_wrappers(command.words)
            if name in _NETWORK:
                for word in words[1:]:
                    if "://" in word.text:
                        fetched[word.text.rpartition("/")[2].partition("?")[0]] = command
                if command.pipeline and not command.last_of_pipe:
                    into = [c for c in script.commands if c.pipeline == command.pipeline and c.order > command.order]
                    if any(program_name(c) in _SHELLS or c.name == "sudo" for c in into):
                        yield warn(
                            command,
                            _("the downloaded code runs unreviewed, and only partly if the transfer is interrupted"),
                            _("Download it to a file, review it, then run it."),
                        )
            target = next(
                (w.text.rpartition("/")[2] for w in words[(name in _SHELLS) :] if not w.text.startswith("-")), ""
            )
            runs = name in _SHELLS or (target and target == name)
            if runs and target in fetched and not checked and name not in _NETWORK:
                yield warn(
                    command,
                    _("{target} runs without a checksum verification", target=target[:80]),
                    _("Verify the publisher's sha256sum first."),
                )


def find_url_as_command(context: LintContext) -> Iterator[Remark]:
    for _unused, command in context.find_commands():
        if re.match(r"(https?|ftp|git)://", command.words[0].text):
            seen = _("a URL starts the command: bash searches for a program with that name")
            yield fail(command.words[0], seen, _("Comment it out, or add the command that uses it."))


_MAKEFILE = re.compile(r"(?i)(?:gnu)?makefile(?:\..*)?|.*\.mk")
_RECIPE = re.compile(rb"(?m)^[\w./%-]+:(?!=)[^\n]*\n\t")  # a target of make, and its first command


def _is_makefile(context: LintContext) -> bool:
    name, raw = Path(context.source.name).name, context.source.raw
    has_recipes = not context.document and not raw.startswith(b"#!") and _RECIPE.search(raw) is not None
    return has_recipes or _MAKEFILE.fullmatch(name) is not None


def find_spaced_assignment(context: LintContext) -> Iterator[Remark]:
    if _is_makefile(context):
        return  # make allows the spaces
    yield from find_spaced_export(context)
    yield from find_spaced_overrides(context)
    for script, command in context.find_commands():
        words = command.words
        if not script.block.is_script and _is_other_language(script.block.raw):
            continue
        if (
            len(words) > 1
            and words[1].raw[:1] == "="
            and words[1].raw[:2] != "=="
            and re.fullmatch(r"[A-Za-z_]\w*", words[0].text)
            and words[0].raw == words[0].text
        ):
            if words[0].text in ("test", "[", "expr"):
                continue
            sure = script.block.is_script or any(
                each is not command and is_shell_command(each.name) for each in script.commands
            )
            yield warn_or_fail(
                sure,
                words[0],
                _("spaces around =: bash runs the command {command}", command=words[0].text),
                _("Write {variable}=... without spaces.", variable=words[0].text),
            )


_OTHER_LANGUAGE = re.compile(
    rb"(?m)^[^\S\n]*(?:import \w|from \S+ import |def \w+\(|class \w|print\(|[}\])]"
    rb"|\w+ = (?:[\[{(\"']|\w[\w.]*[(\[]|True|False|None))"
)


def _is_other_language(raw: bytes) -> bool:
    """Whether a block of a document is Python or a configuration, whatever its label."""
    return _OTHER_LANGUAGE.search(raw) is not None or len(re.findall(rb"(?m)^[^\S\n]*\w+ = ", raw)) > 1


_EXPORTED = re.compile(
    rb"(?m)^[ \t]*(?:export|declare -x)[ \t]+(\w+)(?:=([ \t]+)(?:[\"'$]|[\w./:-]+[ \t]*(?:#.*)?\r?$)|([ \t]+=[ \t]*))"
)


def find_spaced_export(context: LintContext) -> Iterator[Remark]:
    """Find `export A= "b"`: A is empty, and b is read as another name."""
    for script in context.scripts:
        for match in _EXPORTED.finditer(script.block.raw):
            start, end = (script.block.map_to_file(at) for at in match.span(2 if match[3] is None else 3))
            if any(start_ <= start < end_ for start_, end_, _unused in script.comments) or _is_in_heredoc(
                script, start
            ):
                continue
            name = match[1].decode()
            place = ShellWord("", script.block.map_to_file(match.start(1)), end)
            if match[3] is not None:
                seen = _("a space precedes = after export {name}: bash reads = as another name", name=name)
                fix = TextFix(((start, end, "="),))
                yield fail(place, seen, _("Write {name}=... without spaces.", name=name), fix)
                continue
            seen = _(
                "a space follows {name}=: the variable is empty, and the next word is read as another variable's name",
                name=name,
            )
            yield fail(place, seen, _("Write {name}=... without spaces.", name=name), TextFix(((start, end, ""),)))


_OVERRIDE = re.compile(r"[+~]{0,2}[A-Za-z_][\w.@/-]*=")
_BARE_KEY = re.compile(r"[+~]{0,2}[A-Za-z_]\w*(?:\.\w+)+")
_LEAST_OVERRIDES = 3  # of a command of an unknown program, by which it is one that reads KEY=VALUE


def find_spaced_overrides(context: LintContext) -> Iterator[Remark]:
    """Find `key= value` and `key =value` among the overrides of Hydra and OmegaConf, which read two of them."""
    for _unused, command in context.find_commands():
        words = command.words
        if not any(word.text[:1] == "=" or word.text[-1:] == "=" for word in words):
            continue
        pairs = [(one, other) for one, other in pairwise(words) if _is_split_override(one, other)]
        if not pairs:
            continue
        row = find_started_program(words, command.environment)
        reads = row is not None and re.search("Hydra|OmegaConf", row.parser)
        if not reads and sum(_OVERRIDE.match(word.text) is not None for word in words) < _LEAST_OVERRIDES:
            continue
        for one, other in pairs:
            key = one.text.rstrip("=")
            seen = _("a space at the = of {key}: the program receives two words, and exits", key=key[:80])
            place = ShellWord("", one.start, other.end)
            yield warn_or_fail(bool(reads), place, seen, _("Write {name}=... without spaces.", name=key[:80]))


def _is_split_override(one: ShellWord, other: ShellWord) -> bool:
    if one.quoted or other.many or not one.is_known:
        return False
    if _OVERRIDE.fullmatch(one.text):
        return re.match(r"[\w./\[{'\"]", other.text) is not None and not _OVERRIDE.match(other.text)
    return other.text.startswith("=") and not other.quoted and _BARE_KEY.fullmatch(one.text) is not None


def _is_in_heredoc(script: ShellScript, at: int) -> bool:
    return any(each.start <= at < each.end for command in script.commands for each in command.heredocs)


def find_prompts(context: LintContext) -> Iterator[Remark]:
    for script, command in context.find_commands():
        if command.words[0].raw[:2] in ("$", "$ ", "%", ">>") and script.block.whole:
            yield fail(command.words[0], _("the script contains the prompt of an example"), _("Remove it."))
