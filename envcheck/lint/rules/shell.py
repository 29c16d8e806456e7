"""What the shell makes of a line: blanks, prompts, addresses, where errors go, code from the network."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.model import Command, Fix, Remark, Script, Word
from envcheck.core.lint.remarks import fail, warn
from envcheck.core.lint.wrappers import bare, unwrapped


def redirect_order(context: LintContext) -> Iterator[Remark]:
    """2>&1 > log leaves the errors on the terminal."""
    for _, command in context.commands():
        texts = [re.sub(r"\s", "", each.text) for each in command.redirects]
        for number, text in enumerate(texts):
            if (
                text == "2>&1"
                and any(re.match(r"1?>>?[^&]", later) for later in texts[number + 1 :])
                and not command.pipeline
            ):
                seen = "errors go where the output went before this line sent it to the file"
                yield warn(command.redirects[number], seen, "Write > FILE 2>&1.")


def destructive(context: LintContext) -> Iterator[Remark]:
    """chmod 777."""
    for _, command in context.commands("chmod"):
        for word in unwrapped(command.words)[1:]:
            if re.fullmatch(r"0?777|a\+rwx|ugo\+rwx", word.text):
                yield warn(
                    word, "everybody on the machine may write there", "chmod u+rwX,go+rX, or a group of your own."
                )


_NETWORK = ("curl", "wget", "fetch")
_SHELLS = ("bash", "sh", "zsh", "python", "python3", "sudo", "dash")


def fetched_code(context: LintContext) -> Iterator[Remark]:
    """Code from the network that is run unread: by a pipe, or as the file that was just fetched."""
    for script in context.scripts:
        fetched: dict[str, Command] = {}
        checked = any(
            bare(c) in ("sha256sum", "md5sum", "gpg", "sha512sum", "shasum", "cosign") for c in script.commands
        )
        for command in script.commands:
            name, words = bare(command), unwrapped(command.words)
            if name in _NETWORK:
                for word in words[1:]:
                    if "://" in word.text:
                        fetched[word.text.rpartition("/")[2].partition("?")[0]] = command
                if command.pipeline and not command.last_of_pipe:
                    into = [c for c in script.commands if c.pipeline == command.pipeline and c.order > command.order]
                    if any(bare(c) in _SHELLS or c.name == "sudo" for c in into):
                        yield warn(
                            command,
                            "what the server sends is run unread, and if it is cut off, half of it",
                            "Fetch it into a file, look, then run it.",
                        )
            target = next(
                (w.text.rpartition("/")[2] for w in words[(name in _SHELLS) :] if not w.text.startswith("-")), ""
            )
            runs = name in _SHELLS or (target and target == name)
            if runs and target in fetched and not checked and name not in _NETWORK:
                yield warn(
                    command,
                    f"{target[:80]} is run as it came, without a look at its checksum",
                    "Compare it with the publisher's sha256sum first.",
                )


def url_command(context: LintContext) -> Iterator[Remark]:
    for _, command in context.commands():
        if re.match(r"(https?|ftp|git)://", command.words[0].text):
            seen = "an address stands where a command begins: bash looks for a program of this name"
            yield fail(command.words[0], seen, "Make it a comment, or say what is to be done with it.")


def spaced_assignment(context: LintContext) -> Iterator[Remark]:
    yield from spaced_export(context)
    for _, command in context.commands():
        words = command.words
        if (
            len(words) > 1
            and words[1].text[:1] == "="
            and words[1].text[:2] != "=="
            and re.fullmatch(r"[A-Za-z_]\w*", words[0].text)
            and words[0].raw == words[0].text
        ):
            if words[0].text in ("test", "[", "expr", "export"):
                continue
            yield fail(
                words[0], f"blanks around =: bash runs a command {words[0].text}", f"{words[0].text}=... without blanks"
            )


_EXPORTED = re.compile(rb"(?m)^[ \t]*(?:export|declare -x)[ \t]+(\w+)=([ \t]+)(?:[\"'$]|[\w./:-]+[ \t]*(?:#.*)?\r?$)")


def spaced_export(context: LintContext) -> Iterator[Remark]:
    """export A= "b": A is empty, and b is taken for another name."""
    for script in context.scripts:
        for match in _EXPORTED.finditer(script.block.raw):
            start, end = script.block.at(match.start(2)), script.block.at(match.end(2))
            if any(start_ <= start < end_ for start_, end_, _ in script.comments) or _in_heredoc(script, start):
                continue
            name = match[1].decode()
            place = Word("", script.block.at(match.start(1)), end)
            seen = f"a blank behind {name}=: it is empty, and what follows is taken for another variable's name"
            yield fail(place, seen, f"{name}=... without blanks", Fix(((start, end, ""),)))


def _in_heredoc(script: Script, at: int) -> bool:
    return any(each.start <= at < each.end for command in script.commands for each in command.heredocs)


def prompts(context: LintContext) -> Iterator[Remark]:
    for script, command in context.commands():
        if command.words[0].raw[:2] in ("$", "$ ", "%", ">>") and script.block.whole:
            yield fail(command.words[0], "the prompt of an example stands in the script", "Take it away.")
