"""The full screen of a run as lines of text, fitted to a width and a height; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.core.language import label, say
from envcheck.core.language.width import columns, wrap
from envcheck.core.units import mib
from launch.logs import eta
from launch.logs.step import TrainingStep, duration, words
from launch.run import loss_plot
from launch.watching.state import CardSample, RunMoment

LEAST_LINES, LEAST_CURVE, MOST_CURVE = 4, 6, 14
UNICODE, ASCII = "█░", "#."


@dataclass(frozen=True)
class WatchPage:
    """What is shown: `state` with all of its steps, `lines` the newest of the log."""

    title: str
    state: RunMoment
    of: int | None = None
    lines: Sequence[str] = ()
    ending: str = ""


def page(shown: WatchPage, width: int, height: int, unicode: bool = True) -> list[str]:
    """At most `height` lines of at most `width` characters: head, cards, curve, the log's end.  What is least is cut
    first: cards beyond a third of the height, then the curve, then lines of the log."""
    width, height = max(width, 20), max(height, 5)
    signs = UNICODE if unicode else ASCII
    head = _head(shown, width, signs)
    cards = _cards(shown.state, width, max(2, height // 3), signs)
    room = height - len(head) - len(cards)
    plot = _curve(shown.state.steps, width, room - LEAST_LINES)
    tail = [line for line in shown.lines if line.strip()][-max(0, room - len(plot)) :] if room > len(plot) else []
    return [line[:width] for line in (*head, *cards, *plot, *map(_plain, tail))][:height]


def _head(shown: WatchPage, width: int, signs: str) -> list[str]:
    state = shown.state
    lines = [f"{shown.title}  {duration(state.now - state.began_at)}"]
    if not state.steps:
        lines.append(say("no step yet"))
    else:
        step = state.steps[-1]
        of = step.of or shown.of
        said = words(step, of, None if of == step.step else eta.left_s(state.marks, of))
        lines += wrap(said, width)[:3]
        if of and step.step is not None:
            share = min(1.0, step.step / of)
            lines.append(f"{bar(share, min(60, width - 7), signs)} {share:4.0%}")
    return [*lines, *([shown.ending] if shown.ending else []), ""]


def _cards(state: RunMoment, width: int, most: int, signs: str) -> list[str]:
    cards = state.samples[-1].cards if state.samples else ()
    if not cards:
        return []
    age = state.now - state.samples[-1].at
    rows = [_card(card, width, signs) for card in cards[:most]]
    left = len(cards) - most
    more = [say(f"and {left} more")] if left > 0 else []
    old = [say("as of {} ago").format(duration(age))] if age > 30 else []
    return [*rows, *([say(", ").join((*more, *old))] if more or old else []), ""]


def _card(card: CardSample, width: int, signs: str) -> str:
    """'card 0  ████░░░░ 52.1 GiB of 64 GiB  ███░░░░░  35 %  310 W  62 C  OK'; a narrow one without bars' luxury."""
    each = max(4, min(20, (width - 50) // 2))
    named = say("card {}").format(card.label)
    parts = [named + " " * (8 - columns(named))]
    if card.used_mib is not None and card.total_mib:
        held = f"{mib(card.used_mib)} {label('of')} {mib(card.total_mib)}"
        blank = " " * (20 - columns(held))
        parts.append(f"{bar(card.used_mib / card.total_mib, each, signs)} {held}{blank}")
    if card.percent is not None:
        parts.append(f"{bar(card.percent / 100, each, signs)} {card.percent:3.0f} %")
    parts += [f"{card.power_w:.0f} W"] if card.power_w is not None else []
    parts += [f"{card.temperature_c:.0f} C"] if card.temperature_c is not None else []
    parts += [card.health] if card.health else []
    return "  ".join(parts)


def _curve(steps: Sequence[TrainingStep], width: int, room: int) -> list[str]:
    """Three lines more than its height: title, axis, numbers; and an empty one."""
    height = min(MOST_CURVE, room - 4)
    if height < LEAST_CURVE or width < 40:
        return []
    drawn = loss_plot.text(steps, width=min(width - 12, 100), height=height)
    return [*drawn.splitlines(), ""] if drawn else []


def bar(share: float, width: int, signs: str) -> str:
    full = round(min(max(share, 0.0), 1.0) * width)
    return signs[0] * full + signs[1] * (width - full)


def _plain(line: str) -> str:
    """Nothing that could move the cursor."""
    return "".join(sign if sign.isprintable() else " " for sign in line)
