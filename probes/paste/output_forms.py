"""How the outputs of one vendor's tools begin: the table that the splitter of pasted text asks, one for each parser."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from probes.paste.output_restarts import Restart

FOREIGN = "foreign"  # the form of outputs of programs that are no tool of ours
_SHELL = r"[ \t]{0,80}(?:[\w/.-]{1,40}: (?:line )?(?:\d{1,6}: )?)?(?:/[\w./-]{1,80}/)?"  # before a program's name
_NOT_RECOGNIZED = (
    r"(?:is not recogni[sz]ed|n\S{1,3}o \S{1,3} reconhecido|no se reconoce|n'est pas reconnu|ist entweder)"
)


def shell_errors(programs: str) -> str:
    """Return the pattern of messages of shells, and of container engines, about these programs."""
    return (
        rf"{_SHELL}(?:{programs})(?: \w{{2,12}})?[:：] ?[A-Za-z\u4e00-\u9fff]"
        rf"|[ \t]{{0,80}}zsh: [a-z ]{{4,60}}: (?:/[\w./-]{{1,80}}/)?(?:{programs})\b"
        rf"|[ \t]{{0,80}}['\"](?:{programs})['\"] {_NOT_RECOGNIZED}"
        rf"|.{{0,400}}?\bexec: \\?\"(?:{programs})\\?\": "
    )


def xml_head(root: str) -> str:
    """Return the pattern of a line with this first element, also behind the head of an XML document."""
    return rf"\s*(?:<\?xml[^>]{{0,80}}>\s{{0,8}})?(?:<!DOCTYPE {root}[^>\[]{{0,120}}>\s{{0,8}})?<{root}>"


@dataclass(frozen=True)
class FirstLine:
    """A pattern of lines with which outputs of a form begin.

    Each match contains one of `words`, and `also` with it, or begins with one of `begins` behind blanks, bars, quotes
    and number signs, so that only such lines are tried; without any, all lines are tried.
    `repeats`: such lines may also follow within an output of the form; `extends`: within any output of the tool.  A
    line that repeats begins another output nevertheless where the rule `restart` finds so.
    """

    form: str
    pattern: str
    words: tuple[str, ...] = ()
    repeats: bool = False
    extends: bool = False
    restart: Restart | None = None
    begins: tuple[str, ...] = ()
    also: str = ""


@dataclass(frozen=True)
class OutputForms:
    """The lines with which the outputs of one vendor's tools begin.

    `programs` matches the names of the programs in a command line, and each match contains one of `program_words`.
    `own` are first lines that only these tools print, `shared` those that similar tools print as well.  `hints` are
    patterns of words that tell this tool's output from a similar tool's; one that begins with a letter is found ten
    times as fast.  `follows` is the tool whose formats this one has: without any hint, the text is of that tool.
    """

    programs: str
    own: tuple[FirstLine, ...]
    shared: tuple[FirstLine, ...] = ()
    hints: tuple[str, ...] = ()
    follows: str = ""
    program_words: tuple[str, ...] = ()

    @cached_property
    def _hint_patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(re.compile, self.hints))

    def has_hint(self, text: str) -> bool:
        """Return whether one of the hints is in the text."""
        return any(pattern.search(text) for pattern in self._hint_patterns)
