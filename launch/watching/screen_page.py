"""Render the full screen of a run as lines of text.  Pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.language import translate
from envcheck.core.language.width import display_width, wrap_text
from envcheck.core.messages import _, ngettext
from envcheck.core.units import format_mib
from launch.logs import eta
from launch.logs.training_step import TrainingStep, describe_step, format_duration
from launch.run import loss_plot
from launch.watching.run_moment import CardSample, RunMoment

LEAST_LINES, LEAST_CURVE, MOST_CURVE = 4, 6, 14
UNICODE, ASCII = "█░", "#."


@dataclass(frozen=True)
class WatchPage:
    """The contents of the screen: `state` with all steps, `of` the planned steps, `lines` the newest of the log."""

    title: str
    state: RunMoment
    of: int | None = None
    lines: Sequence[str] = ()
    ending: str = ""


def render_page(shown: WatchPage, width: int, height: int, unicode: bool = True) -> list[str]:
    """Return at most `height` lines of at most `width` characters: head, cards, loss curve, end of the log.

    If space is short, cards beyond a third of the height are cut first, then the curve, then the log.
    """
    width, height = max(width, 20), max(height, 5)
    signs = UNICODE if unicode else ASCII
    head = _head_lines(shown, width, signs)
    cards = _card_lines(shown.state, width, max(2, height // 3), signs)
    room = height - len(head) - len(cards)
    plot = _draw_loss_curve(shown.state.steps, width, room - LEAST_LINES)
    tail = [line for line in shown.lines if line.strip()][-max(0, room - len(plot)) :] if room > len(plot) else []
    return [line[:width] for line in (*head, *cards, *plot, *map(_replace_unprintable, tail))][:height]


def _head_lines(shown: WatchPage, width: int, signs: str) -> list[str]:
    state = shown.state
    lines = [f"{shown.title}  {translate(format_duration(state.now - state.began_at))}"]
    if not state.steps:
        lines.append(translate(_("no step completed yet")))
    else:
        step = state.steps[-1]
        of = step.of or shown.of
        said = describe_step(step, of, None if of == step.step else eta.remaining_s(state.marks, of))
        lines += wrap_text(said, width)[:3]
        if of and step.step is not None:
            share = min(1.0, step.step / of)
            lines.append(f"{draw_bar(share, min(60, width - 7), signs)} {share:4.0%}")
    return [*lines, *([shown.ending] if shown.ending else []), ""]


def _card_lines(state: RunMoment, width: int, most: int, signs: str) -> list[str]:
    cards = state.samples[-1].cards if state.samples else ()
    if not cards:
        return []
    age = state.now - state.samples[-1].at
    rows = [_format_card(card, width, signs) for card in cards[:most]]
    left = len(cards) - most
    more = [translate(ngettext("{count} more card", "{count} more cards", left))] if left > 0 else []
    old = [translate(_("updated {duration} ago", duration=format_duration(age)))] if age > 30 else []
    return [*rows, *([translate(_(", ")).join((*more, *old))] if more or old else []), ""]


def _format_card(card: CardSample, width: int, signs: str) -> str:
    """'card 0  ████░░░░ 52.1 GiB of 64 GiB  ███░░░░░  35 %  310 W  62 C  OK'"""
    each = max(4, min(20, (width - 50) // 2))
    named = translate(_("card {card}", card=card.label))
    parts = [named + " " * (8 - display_width(named))]
    if card.used_mib is not None and card.total_mib:
        held = translate(_("{used} of {total}", used=format_mib(card.used_mib), total=format_mib(card.total_mib)))
        blank = " " * (20 - display_width(held))
        parts.append(f"{draw_bar(card.used_mib / card.total_mib, each, signs)} {held}{blank}")
    if card.percent is not None:
        parts.append(f"{draw_bar(card.percent / 100, each, signs)} {card.percent:3.0f} %")
    parts += [f"{card.power_w:.0f} W"] if card.power_w is not None else []
    parts += [f"{card.temperature_c:.0f} C"] if card.temperature_c is not None else []
    parts += [card.health] if card.health else []
    return "  ".join(parts)


def _draw_loss_curve(steps: Sequence[TrainingStep], width: int, room: int) -> list[str]:
    """Return the curve within `room` lines, [] if there is too little space."""
    height = min(MOST_CURVE, room - 4)
    if height < LEAST_CURVE or width < 40:
        return []
    drawn = loss_plot.render_text(steps, width=min(width - 12, 100), height=height)
    return [*drawn.splitlines(), ""] if drawn else []


def draw_bar(share: float, width: int, signs: str) -> str:
    """Return a bar of `width` characters; `signs` are those for the full and the empty part."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return signs[0] * full + signs[1] * (width - full)


def _replace_unprintable(line: str) -> str:
    """Return the line without control characters."""
    return "".join(sign if sign.isprintable() else " " for sign in line)
