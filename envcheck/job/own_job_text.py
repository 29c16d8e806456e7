"""Text about a job of the user's own: what was read, what is assumed, and what is unknown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from envcheck.core.language import translate
from envcheck.core.language.width import display_width
from envcheck.core.lint.own_job import LABELS, JobValue, OwnJob, ValueState
from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text, redact_words
from envcheck.report import safe

LABEL_WIDTH, VALUE_WIDTH = 24, 34


def render_own_job(own: OwnJob) -> Iterator[str]:
    """Yield the translated lines: the command, and a row for each value with its place."""
    yield safe(translate(_("job: {command}", command=shlex.join(redact_words(own.argv)))))
    for value in own.values:
        yield f"  {_pad(translate(LABELS[value.name]), LABEL_WIDTH)}{_render_value(value)}"
    for note in own.notes:
        yield f"  {translate(_('note: '))}{translate(note)}"


def _render_value(value: JobValue) -> str:
    text = redact_text(value.value) if value.value else translate(_("unknown"))
    return f"{_pad(safe(text), VALUE_WIDTH)}{safe(translate(describe_place(value)))}".rstrip()


def describe_place(value: JobValue) -> Message:
    """Return where a value was read; for others why it is assumed, and the option that settles it."""
    if value.state is ValueState.READ:
        return value.where
    what = _("assumed: {reason}", reason=value.where) if value.state is ValueState.ASSUMED else value.where
    if not value.option:
        return what
    settle = _("set {option}", option=value.option)
    return _("{reason}; {remedy}", reason=what, remedy=settle) if what else settle


def _pad(text: str, wide: int) -> str:
    return f"{text}{' ' * max(2, wide - display_width(text))}"
