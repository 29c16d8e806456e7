"""Text about a job of the user's own: what was read, what is assumed, and what is unknown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from envcheck.core.language import translate
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.lint.own_job import LABELS, JobValue, OwnJob, ValueState
from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text, redact_words
from envcheck.report import safe, screen

MOST_VALUE, LEAST_PLACE = 36, 28  # columns


def render_own_job(own: OwnJob) -> Iterator[str]:
    """Yield the translated lines: the command, and a row for each value with its place, wrapped to the terminal."""
    width = screen.detect_style().width
    command = safe(translate(_("job: {command}", command=shlex.join(redact_words(own.argv)))))
    yield from wrap_text(command, width, "", "  ")
    rows = [
        (translate(LABELS[value.name]), _render_value(value), safe(translate(describe_place(value))))
        for value in own.values
    ]
    label_width = 4 + max((display_width(label) for label, _value, _place in rows), default=0)
    value_width = 2 + min(MOST_VALUE, max((display_width(value) for _label, value, _place in rows), default=0))
    place_at = label_width + value_width
    for label, value, place in rows:
        head = f"{_pad(f'  {label}', label_width)}{_pad(value, value_width)}"
        fits = max(place_at, display_width(head)) + display_width(place) <= width
        if width - place_at < LEAST_PLACE and not fits:  # a narrow terminal: the place below the value
            yield from wrap_text(value, width, _pad(f"  {label}", label_width), "      ")
            yield from wrap_text(place, width, "      ", "      ")
        else:
            yield from wrap_text(place, width, head, " " * place_at) or [head.rstrip()]
    for note in own.notes:
        yield from wrap_text(f"{translate(_('note: '))}{translate(note)}", width, "  ", "    ")


def _render_value(value: JobValue) -> str:
    return safe(redact_text(value.value) if value.value else translate(_("unknown")))


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
