"""What stands in the lines themselves: line ends, backslashes, quotes of a word processor, syntax."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Fix, Remark, Script, Word
from envcheck.core.lint.remarks import fail, graded, swap, unknown, warn
from envcheck.lint.context.shells import bash_says

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


def _place(script: Script, start: int, end: int) -> Word:
    return Word("", script.block.at(start), script.block.at(max(start, end - 1)) + 1)


def _inert(script: Script, offset: int) -> bool:
    """In a comment, or in a text that a heredoc holds."""
    there = script.block.at(offset)
    return any(start <= there < end for start, end, _ in script.comments) or any(
        each.start <= there < each.end for command in script.commands for each in command.heredocs
    )


def crlf(context: LintContext) -> Iterator[Remark]:
    """One remark, for the first line."""
    for script in context.scripts:
        first = script.block.raw.find(b"\r\n")
        if first < 0 or not script.block.script:
            continue
        count = script.block.raw.count(b"\r\n")
        fixes = tuple(
            (script.block.at(m.start()), script.block.at(m.start()) + 1, "")
            for m in re.finditer(rb"\r(?=\n)", script.block.raw)
        )
        seen = f"{count} lines end as on Windows: bash takes the carriage return for a part of the last word"
        yield fail(_place(script, first, first + 1), seen, "dos2unix FILE, or sed -i 's/\\r$//' FILE", Fix(fixes))


def blank_behind_backslash(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        for match in _CONTINUED.finditer(script.block.raw):
            if not _inert(script, match.start()):
                place = _place(script, match.start(1) - 1, match.end(1))
                seen = "a blank stands behind the backslash: the command ends here, and the next line is one of its own"
                yield fail(place, seen, "Let the backslash be the line's last character.", swap(place, "\\"))


def cut_off(context: LintContext) -> Iterator[Remark]:
    """A command that goes on behind a backslash, and then does not."""
    for script in context.scripts:
        raw = script.block.raw
        for match in _ENDS.finditer(raw if raw.endswith(b"\n") else raw + b"\n"):
            remark = None if _inert(script, match.start(1)) else _ending(script, match)
            if remark:
                yield remark


def _ending(script: Script, match: re.Match[bytes]) -> Remark | None:
    place = _place(script, match.start(1), match.end(1))
    after = match[4].strip()
    remove = Fix(((place.start, place.end, ""),))
    if not after and match.end() >= len(script.block.raw):
        seen = "the last line ends in a backslash: whatever is pasted or written behind it becomes part of the command"
        return warn(place, seen, "Take the backslash away.", remove)
    following = _next_code(script.block.raw[match.end(4) :]) if after.startswith(b"#") else after
    if after.startswith(b"#"):
        cut = following.startswith(b"-")
        seen = "a comment stands between the continued lines: the command ends there" + (
            f", and {_shown(following)} is a command of its own" if cut else ""
        )
        return graded(cut, place, seen, "Put the comment above the command.", None if cut else remove)
    if match[2] and following.startswith(b"-"):
        seen = f"an empty line follows the backslash: {_shown(following)} is a command of its own"
        return fail(place, seen, "Take the empty line away.", Fix(((*_span(script, match, 2), ""),)))
    if match[2]:
        return warn(place, "a backslash before an empty line: it continues nothing", "Take it away.", remove)
    return None


def _span(script: Script, match: re.Match[bytes], group: int) -> tuple[int, int]:
    place = _place(script, match.start(group), match.end(group))
    return place.start, place.end


def _next_code(raw: bytes) -> bytes:
    lines = (line.strip() for line in raw.split(b"\n")[:50])
    return next((line for line in lines if line and not line.startswith(b"#")), b"")


def _shown(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").split()[0][:60]


def orphan(context: LintContext) -> Iterator[Remark]:
    """A line that begins with an option is a command of that name."""
    for script, command in context.commands():
        first = command.words[0]
        if re.match(r"--[A-Za-z]", first.text) and not first.quoted:
            before = script.block.raw[: max(0, command.start - script.block.at(0))].rstrip()
            alone = not script.block.raw[: max(0, first.start - script.block.at(0))].rpartition(b"\n")[2].strip()
            if before.endswith(b"\\") or script.block.console or not alone:
                continue  # told by the line that was cut off; or the grammar's guess behind what it could not read
            seen = f"{first.text[:60]} stands where a command begins: the line above lacks its backslash"
            yield fail(first, seen, "End the line above in a backslash.")


def typeset(context: LintContext) -> Iterator[Remark]:
    for script in context.scripts:
        text = script.block.raw.decode("utf-8", "replace")
        if text.isascii():
            continue
        for match in list(_TYPESET.finditer(text))[:20]:
            offset = len(text[: match.start()].encode())
            behind = text[match.end() : match.end() + 1]
            dash = match[0][0] in "\u2013\u2014"
            if (
                _inert(script, offset)
                or (dash and not behind.isalpha())
                or (dash and text[match.start() - 1 : match.start()] not in " \t\n")
            ):
                continue
            place = _place(script, offset, offset + len(match[0].encode()))
            plain = "--" if dash else _PLAIN[match[0]]
            named = {"": "nothing", " ": "a blank"}.get(plain, plain)
            seen = (
                f"the character U+{ord(match[0][0]):04X} of a word processor or web page, where a shell wants {named}"
            )
            quoted = _within_quotes(text, match.start())
            if not quoted:
                yield fail(place, seen, f"Write {named}.", swap(place, plain))


def _within_quotes(text: str, at: int) -> bool:
    """Between plain quotes on its line: then it is part of a text."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line.count('"') % 2 == 1 or line.count("'") % 2 == 1


def syntax(context: LintContext) -> Iterator[Remark]:
    """bash -n decides; the grammar is another reader, and alone it only doubts."""
    for script in context.scripts:
        if script.cut:
            yield unknown(_place(script, 0, 1), "the script is longer or deeper than is followed", "Lint its parts.")
        if not script.block.script or b"\r\n" in script.block.raw:
            continue
        said = bash_says(script.block.raw)
        if said:
            for line, words in said[:3]:
                starts = [0, *(i + 1 for i, byte in enumerate(script.block.raw) if byte == 10)]
                at = starts[min(line, len(starts)) - 1]
                end = script.block.raw.find(b"\n", at)
                place = _place(script, at, end if end > at else at + 1)
                blank = re.search(rb"<[A-Za-z][\w .-]*>", script.block.raw[at : end if end > at else None])
                do = f"Put your own value in place of {blank[0].decode()}." if blank else "Mend it."
                yield fail(place, f"bash cannot read it: {words}", do)
        elif script.errors:
            place = Word("", *script.errors[0])
            if said is None:
                yield unknown(place, "this could not be read, and there is no bash to ask", "bash -n FILE")
            else:
                do = "Write it more plainly, or look yourself."
                yield unknown(place, "bash can read this and envcheck cannot: what stands here is not judged", do)
