"""Rules about the text of lines: line ends, backslashes, typographic quotes, syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, note, replace_span, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import Heredoc, Remark, ShellCommand, ShellScript, ShellWord, TextFix
from envcheck.core.lint.wrappers import program_name
from envcheck.core.messages import _, ngettext, verbatim
from envcheck.lint.context.shell_checkers import check_with_bash
from envcheck.lint.rules.placeholders import ANGLED
from envcheck.scripts.jobs.own_job_reader import SHELLS
from envcheck.scripts.launchers import CARRIERS, LAUNCHERS

_CONTINUED = re.compile(rb"(?<!\\)(?:\\\\)*\\([ \t]+)\r?$", re.MULTILINE)
_ENDS = re.compile(rb"(?<!\\)(?:\\\\)*(\\)[ \t]*\r?\n((?:[ \t]*\r?\n)*)(?=([ \t]*)([^\r\n]*))")
_TYPESET = re.compile("[\u2013\u2014]-?|[\u201c\u201d\u2018\u2019\u00a0\u3000\uff0d\uff1d\u200b\ufeff]")
_PLAIN = {
    **dict.fromkeys("\u201c\u201d", '"'),
    **dict.fromkeys("\u2018\u2019", "'"),
    **dict.fromkeys("\u00a0\u3000", " "),
    **dict.fromkeys("\u200b\ufeff", ""),
    "\uff0d": "-",
    "\uff1d": "=",
}


def make_place(script: ShellScript, start: int, end: int) -> ShellWord:
    return ShellWord("", script.block.map_to_file(start), script.block.map_to_file(max(start, end - 1)) + 1)


def is_inert(script: ShellScript, offset: int) -> bool:
    """Whether the place is in a comment, or in the text of a heredoc."""
    raw, there = script.block.raw, script.block.map_to_file(offset)
    if raw[raw.rfind(b"\n", 0, offset) + 1 : offset].lstrip()[:1] == b"#":
        return True
    return any(start <= there < end for start, end, _unused in script.comments) or any(
        each.start <= there < each.end for command in script.commands for each in command.heredocs
    )


def _is_in_quoted_value(script: ShellScript, offset: int) -> bool:
    """Whether the place is in a quoted value or an array, in which an empty line separates words as a blank does."""
    there = script.block.map_to_file(offset)
    around = (each for each in script.assigns if each.start <= there < each.end)
    return any(each.word.quoted or _is_array(script.block.raw[each.start - there + offset :]) for each in around)


def _is_array(raw: bytes) -> bool:
    return re.match(rb"\w+\+?=\(", raw) is not None


def is_in_text(script: ShellScript, offset: int) -> bool:
    """Whether the place is in a quoted word, which another program reads."""
    there = script.block.map_to_file(offset)
    words = [word for command in script.commands for word in command.words] + [each.word for each in script.assigns]
    return any(word.start <= there < word.end for word in words if word.quoted)


def find_crlf(context: LintContext) -> Iterator[Remark]:
    """One remark, on the first line."""
    for script in context.scripts:
        first = script.block.raw.find(b"\r\n")
        if first < 0 or not script.block.is_script:
            continue
        count = script.block.raw.count(b"\r\n")
        fixes = tuple(
            (script.block.map_to_file(m.start()), script.block.map_to_file(m.start()) + 1, "")
            for m in re.finditer(rb"\r(?=\n)", script.block.raw)
        )
        seen = ngettext(
            "{count} line has a Windows line ending: bash reads the carriage return as part of the last word",
            "{count} lines have Windows line endings: bash reads the carriage return as part of the last word",
            count,
        )
        yield fail(
            make_place(script, first, first + 1),
            seen,
            _("Run dos2unix FILE, or sed -i 's/\\r$//' FILE."),
            TextFix(fixes),
        )


def find_blank_behind_backslash(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        for match in _CONTINUED.finditer(script.block.raw):
            if not is_inert(script, match.start()) and not _is_template_line(script.block.raw, match.start(1)):
                place = make_place(script, match.start(1) - 1, match.end(1))
                seen = _(
                    "a space follows the backslash: the command ends here, and the next line is a separate command"
                )
                yield fail(
                    place, seen, _("Make the backslash the last character of the line."), replace_span(place, "\\")
                )


_PLACEHOLDER = re.compile(ANGLED.encode())  # a value to fill in
_OPEN_PLACEHOLDER = re.compile(rb"=%b[ \t]*(?:\\[ \t]*)?\r?$" % ANGLED.encode(), re.MULTILINE)


def _is_template_line(raw: bytes, at: int) -> bool:
    """Whether the line holds a value to fill in, so that what follows it is no command yet."""
    return _PLACEHOLDER.search(raw, raw.rfind(b"\n", 0, at) + 1, at) is not None


def find_cut_off_command(context: LintContext) -> Iterator[Remark]:
    """Find commands whose continued line is interrupted."""
    for script in context.scripts:
        raw = script.block.raw
        for match in _ENDS.finditer(raw if raw.endswith(b"\n") else raw + b"\n"):
            inert = is_inert(script, match.start(1)) or (match[2] and _is_in_quoted_value(script, match.start(1)))
            remark = None if inert else _judge_joined_export(script, match) or _judge_line_end(script, match)
            if remark:
                yield remark


_WHOLE_EXPORT = re.compile(rb"[ \t]*export[ \t]+\w+=(?:\"[^\"]*\"|'[^']*'|[^\s'\"]*)[ \t]*")


def _judge_joined_export(script: ShellScript, match: re.Match[bytes]) -> Remark | None:
    """export A=b with a backslash at its end: the program on the next line becomes a name to export."""
    raw = script.block.raw
    line, word = raw[raw.rfind(b"\n", 0, match.start()) + 1 : match.start()], match[4].split(maxsplit=1)[:1]
    name = word[0].decode("utf-8", "replace") if word and _WHOLE_EXPORT.fullmatch(line) else ""
    if match[2] or not (name in _PROGRAMS or _PROGRAM.fullmatch(name)):
        return None
    place = make_place(script, match.start(1), match.end(1))
    seen = _("the backslash makes {word} an argument of export: it does not run", word=name)
    return fail(place, seen, _("Remove the backslash."), TextFix(((place.start, place.end, ""),)))


def _judge_line_end(script: ShellScript, match: re.Match[bytes]) -> Remark | None:
    place = make_place(script, match.start(1), match.end(1))
    after = match[4].strip()
    remove = TextFix(((place.start, place.end, ""),))
    if not after and match.end() >= len(script.block.raw):
        seen = _("the last line ends with a backslash: text appended later becomes part of the command")
        return note(place, seen, _("Remove the backslash."), remove)
    following = _find_next_code(script.block.raw[match.end(4) :]) if after.startswith(b"#") else after
    if after.startswith(b"#"):
        cut = following.startswith(b"-")
        if cut:
            seen = _(
                "a comment interrupts the continued lines: the command ends there, and {following} becomes a separate "
                "command",
                following=_read_first_word(following),
            )
        else:
            seen = _("a comment interrupts the continued lines: the command ends there")
        return warn_or_fail(cut, place, seen, _("Move the comment above the command."), None if cut else remove)
    if match[2] and following.startswith(b"-"):
        seen = _(
            "an empty line follows the backslash: {following} becomes a separate command",
            following=_read_first_word(following),
        )
        return fail(place, seen, _("Remove the empty line."), TextFix(((*_find_group_span(script, match, 2), ""),)))
    if match[2]:
        seen = _("the backslash before an empty line has no effect")
        return note(place, seen, _("Remove it."), remove)
    return None


def _find_group_span(script: ShellScript, match: re.Match[bytes], group: int) -> tuple[int, int]:
    place = make_place(script, match.start(group), match.end(group))
    return place.start, place.end


def _find_next_code(raw: bytes) -> bytes:
    lines = (line.strip() for line in raw.split(b"\n")[:50])
    return next((line for line in lines if line and not line.startswith(b"#")), b"")


def _read_first_word(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").split()[0][:60]


def _is_continued(raw: bytes) -> bool:
    """Return whether the last line but comments and empty ones ends with a backslash."""
    end = len(raw)
    while end > 0:
        start = raw.rfind(b"\n", 0, end) + 1
        line = raw[start:end].strip()
        if line and not line.startswith(b"#"):
            return line.endswith(b"\\")
        end = start - 1
    return False


_OPTION = re.compile(r"--[A-Za-z]|[+~]{0,2}[A-Za-z_]\w*(?:\.\w+)+=")


def find_orphan_option(context: LintContext) -> Iterator[Remark]:
    """Find lines that begin with an option, or with an override of Hydra: the shell runs it as a command."""
    for script, command in context.find_commands():
        first = command.words[0]
        if _OPTION.match(first.raw or first.text) and not first.quoted:
            before = script.block.raw[: max(0, first.start - script.block.map_to_file(0))].rstrip()
            alone = (
                not script.block.raw[: max(0, first.start - script.block.map_to_file(0))].rpartition(b"\n")[2].strip()
            )
            if _OPEN_PLACEHOLDER.search(before.rpartition(b"\n")[2]):
                continue  # a template: the > of a value to fill in redirects to the next line
            if before.endswith(b";") and not alone and script.block.is_script and not script.block.console:
                seen = _("{word} starts a command: the ; before it ends the previous one", word=first.text[:60])
                yield fail(first, seen, _("Remove the ;."))
            if _is_continued(before) or script.block.console or not alone:
                continue  # reported on the interrupted line; or a guess of the grammar after a parse error
            if not script.block.is_script and not _follows_program(before):
                continue  # options that a document lists, without their command
            seen = _(
                "{word} starts a command: the backslash at the end of the previous line is missing",
                word=first.text[:60],
            )
            yield fail(first, seen, _("End the previous line with a backslash."))


# Programs with options: launchers and what carries them, and some that start no training of a launcher's.
_OTHERS = ("sbatch", "vllm", "trl", "xtuner")
_PROGRAMS = frozenset((*(names[0] for each in LAUNCHERS for names in each.words), *CARRIERS, *SHELLS, *_OTHERS))
_PROGRAM = re.compile(r"python[\d.]*|[\w-]+-cli|\S+\.(?:sh|py)")


def _follows_program(before: bytes) -> bool:
    """Whether the line above a block's option starts a program."""
    words = before.rpartition(b"\n")[2].decode("utf-8", "replace").split()[:4]
    return any(word in _PROGRAMS or _PROGRAM.fullmatch(word) for word in words)


def find_byte_order_mark(context: LintContext) -> Iterator[Remark]:
    if context.source.raw.startswith(b"\xef\xbb\xbf#!"):
        seen = _("the file begins with a byte order mark: the system does not recognise its first line")
        place = ShellWord("", 0, 3)
        yield fail(place, seen, _("Save the file as UTF-8 without a byte order mark."), replace_span(place, ""))


def find_typeset_characters(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        text = script.block.raw.decode("utf-8", "replace")
        if text.isascii():
            continue
        for match in list(_TYPESET.finditer(text))[:20]:
            offset = len(text[: match.start()].encode())
            behind = text[match.end() : match.end() + 1]
            dash = match[0][0] in "\u2013\u2014"
            heredoc = _find_heredoc(script, offset)
            read = heredoc is not None and _is_read_by_program(*heredoc) and not _is_comment_line(text, match.start())
            if (
                (is_inert(script, offset) and not read)
                or (dash and not behind.isalpha())
                or (dash and text[match.start() - 1 : match.start()] not in " \t\n")
            ):
                continue
            place = make_place(script, offset, offset + len(match[0].encode()))
            plain = "--" if dash else _PLAIN[match[0]]
            named = {"": _("no character"), " ": _("a space")}.get(plain, plain)
            seen = _(
                "U+{match:04X} comes from a word processor or web page; the shell needs {named}",
                match=ord(match[0][0]),
                named=named,
            )
            quoted = _is_within_quotes(text, match.start())
            if not quoted:
                sure = dash or script.block.is_script  # a document's block may be no shell
                yield warn_or_fail(sure, place, seen, _("Write {named}.", named=named), replace_span(place, plain))


def _find_heredoc(script: ShellScript, offset: int) -> tuple[ShellCommand, Heredoc] | None:
    """The here-document around the place, with the command that reads it."""
    there = script.block.map_to_file(offset)
    pairs = ((command, each) for command in script.commands for each in command.heredocs)
    return next(((command, each) for command, each in pairs if each.start <= there < each.end), None)


def _is_read_by_program(command: ShellCommand, heredoc: Heredoc) -> bool:
    """Whether a program reads the text: a shell gets it, or a file that is no document."""
    if program_name(command) in _READERS:
        return True
    targets = [word.text for word in command.words[1:]] if program_name(command) == "tee" else []
    targets += [heredoc.file.text] if heredoc.file is not None else []
    return any(_PROGRAM_FILE.search(target) for target in targets)


_READERS = ("bash", "sh", "ssh", "sbatch", "srun", "python", "python3", "kubectl")
_PROGRAM_FILE = re.compile(r"\.(?:sh|bash|slurm|sbatch|ya?ml|json|toml|cfg|conf|env|py)$|(?:^|/)(?:\.env|hostfile)$")


def _is_comment_line(text: str, at: int) -> bool:
    return text[text.rfind("\n", 0, at) + 1 : at].lstrip().startswith("#")


def _is_within_quotes(text: str, at: int) -> bool:
    """Whether the place is between plain quotes on its line: then it is part of a text."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count('"') % 2 == 1 or line.count("'") % 2 == 1


# [ without a blank after it, at the start of a command.
_GLUED_TEST = re.compile(rb"(?m)^[ \t]*(?:if|elif|while|until)[ \t]+(?:![ \t]+)?(\[{1,2}[$\"'-][^\s;]*)[ \t]")


def _find_glued_tests(script: ShellScript) -> Iterator[Remark]:
    for match in _GLUED_TEST.finditer(script.block.raw):
        if not is_inert(script, match.start(1)) and not is_in_text(script, match.start(1)):
            place = make_place(script, *match.span(1))
            seen = _("no blank follows [: bash runs a command {name}", name=match[1].decode("utf-8", "replace")[:40])
            yield fail(place, seen, _("Put a blank after [, and one before ]."))


def find_syntax_errors(context: LintContext) -> Iterator[Remark]:
    """Report syntax errors: bash -n decides; the grammar alone only gives UNKNOWN."""
    for script in context.scripts:
        yield from _find_glued_tests(script)
        if script.cut:
            yield unknown(
                make_place(script, 0, 1),
                _("the script is too long or nested too deeply: only part of it was checked"),
                _("Lint its parts separately."),
            )
        if not script.block.is_script or b"\r\n" in script.block.raw:
            continue
        said = check_with_bash(script.block.raw)
        if said:
            for line, words in said[:3]:
                starts = [0, *(i + 1 for i, byte in enumerate(script.block.raw) if byte == 10)]
                at = starts[min(line, len(starts)) - 1]
                end = script.block.raw.find(b"\n", at)
                place = make_place(script, at, end if end > at else at + 1)
                above = script.block.raw.rfind(b"\n", 0, max(0, at - 1)) + 1
                blank = _PLACEHOLDER.search(script.block.raw[above : end if end > at else None])
                if blank:  # a template to fill in
                    do = _("Replace {value} with your own value.", value=blank[0].decode())
                    yield warn(place, _("bash syntax error: {error}", error=words), do)
                    continue
                yield fail(place, _("bash syntax error: {error}", error=words), _("Fix the syntax error."))
        elif script.errors:
            place = ShellWord("", *script.errors[0])
            if said is None:
                yield unknown(
                    place, _("cannot parse this line, and bash is not available to check it"), verbatim("bash -n FILE")
                )
            else:
                do = _("Simplify the code, or review it yourself.")
                yield unknown(place, _("bash accepts this code, but envcheck cannot parse it: it was not checked"), do)
