"""The current free memory of each card of a machine, and whether the job fits there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from envcheck.core.messages import Message, _, fill, mark
from launch.memory import GIB
from launch.planner.card_memory import CardMemory
from launch.planner.verdict import FITS, NOT, UNTOLD, LaunchPlan, judge_need

TOLERANCE_GIB = 0.25  # idle cards differ by as much
# The verdict on the emptiest cards, where it differs from that of the plan.
ON_SOME_CARDS = {
    FITS: mark("{card}; the job fits on {count} of {total} cards"),
    UNTOLD: mark("{card}; the job may fit on {count} of {total} cards"),
    NOT: mark("{card}; the job does not fit on {count} of {total} cards"),
}


def judge_cards(plan: LaunchPlan) -> Iterator[tuple[CardMemory, str]]:
    """Yield each card with the verdict for a job whose cards all have as much free memory."""
    decides = plan.job.memory_gib - plan.job.device.idle_gib
    for card in plan.cards:
        usable = plan.usable + (card.free_gib - decides) * GIB
        yield card, judge_need(plan.job, plan.low, plan.high, usable, plan.spreads)


def judge_idle_cards(plan: LaunchPlan, idle_gib: float) -> Iterator[tuple[CardMemory, str, str]]:
    """Yield each card with its verdict as in `judge_cards`, and its verdict if no other process held memory on it.

    `idle_gib` is what the driver uses of an idle card.
    """
    decides = plan.job.memory_gib - plan.job.device.idle_gib
    for card, now in judge_cards(plan):
        usable = plan.usable + (card.memory_gib - min(card.used_gib, idle_gib) - decides) * GIB
        yield card, now, judge_need(plan.job, plan.low, plan.high, usable, plan.spreads)


def find_fullest_card(plan: LaunchPlan) -> CardMemory | None:
    """Return the fullest card that the job uses; None if they are all equally full."""
    used = sorted((card for card in plan.cards if card.taken), key=lambda card: card.free_gib)
    return used[0] if used and used[-1].free_gib - used[0].free_gib > TOLERANCE_GIB else None


def describe_fullest_card(plan: LaunchPlan) -> Message | None:
    """Return the fullest card and the number of cards with a better verdict; None if they are equally full."""
    card = find_fullest_card(plan)
    if card is None:
        return None
    used = [(other, verdict) for other, verdict in judge_cards(plan) if other.taken]
    emptiest, best = max(used, key=lambda pair: pair[0].free_gib)
    text = _(
        "card {number}: {free_gib:.1f} of {memory_gib:.1f} GiB free, {less_gib:.1f} GiB less than card {emptiest}",
        number=card.number,
        free_gib=card.free_gib,
        memory_gib=card.memory_gib,
        less_gib=emptiest.free_gib - card.free_gib,
        emptiest=emptiest.number,
    )
    if best != plan.verdict:
        count, x = sum(verdict == best for _unused, verdict in used), plan.job.layout
        text = fill(ON_SOME_CARDS[best], card=text, count=count, total=len(used))
        if best != NOT and count % (x.tp * x.pp * x.cp * x.ep) == 0:
            text = _("{cards}; use --cards {count} to exclude the others", cards=text, count=count)
    return text


def list_card_values(plan: LaunchPlan) -> list[dict[str, Any]]:
    """Return memory and verdict of every card for JSON."""
    decides = find_fullest_card(plan)
    return [
        {
            "card": card.number,
            "memory_gib": round(card.memory_gib, 3),
            "free_gib": round(card.free_gib, 3),
            "used_by_job": card.taken,
            "limiting": card is decides,
            "verdict": verdict,
        }
        for card, verdict in judge_cards(plan)
    ]
