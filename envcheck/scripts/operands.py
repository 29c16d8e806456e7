"""The operands of a shell command whose options are known."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envcheck.core.lint.script_model import ShellCommand

# Options that change nothing for a path without links, or for one line of output; any other may change everything.
_LINK_OPTIONS = re.compile(r"-[emsqPL]+|--canonicalize-(?:existing|missing)|--(?:no-symlinks|quiet|physical|logical)")
_OPTIONS: Mapping[str, re.Pattern[str]] = {
    "cd": re.compile(r"-[LPe@]+"),
    "pwd": re.compile(r"-[LP]+"),
    "realpath": _LINK_OPTIONS,
    # without -e, -f or -m it prints the target of a link, and nothing for any other path
    "readlink": re.compile(r"-[nqsv]*[efm][efmnqsv]*|--canonicalize(?:-existing|-missing)?"),
}


def list_operands(command: ShellCommand) -> list[str] | None:
    """Return the operands of a command; None if it has an option that may change what it does with them."""
    texts = command.list_texts()[1:]
    end = texts.index("--") if "--" in texts else len(texts)
    options = [text for text in texts[:end] if text.startswith("-") and text != "-"]
    harmless = _OPTIONS.get(command.name)
    if options and (harmless is None or not all(map(harmless.fullmatch, options))):
        return None
    return [*(text for text in texts[:end] if text not in options), *texts[end + 1 :]]
