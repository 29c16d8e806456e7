"""Every card of a machine as it is now: what is free on it, and whether the job would fit there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from launch.memory import GIB
from launch.planner.card_memory import CardMemory
from launch.planner.verdict import LaunchPlan, judge

ALIKE_GIB = 0.25  # idle cards differ by as much


def judged(plan: LaunchPlan) -> Iterator[tuple[CardMemory, str]]:
    """Each card with the verdict that the job would have if all its cards were as free."""
    decides = plan.job.memory_gib - plan.job.device.idle_gib
    for card in plan.cards:
        usable = plan.usable + (card.free_gib - decides) * GIB
        yield card, judge(plan.job, plan.low, plan.high, usable, plan.deciding)[0]


def judge_idle(plan: LaunchPlan, idle_gib: float) -> Iterator[tuple[CardMemory, str, str]]:
    """Each card with its verdict as in `judged`, and with the one that it would have did nobody else hold more of it
    than a driver keeps of an idle card."""
    decides = plan.job.memory_gib - plan.job.device.idle_gib
    for card, now in judged(plan):
        usable = plan.usable + (card.memory_gib - min(card.used_gib, idle_gib) - decides) * GIB
        yield card, now, judge(plan.job, plan.low, plan.high, usable, plan.deciding)[0]


def fullest(plan: LaunchPlan) -> CardMemory | None:
    """The card that decides, where one of those that the job uses is fuller than the others."""
    used = sorted((card for card in plan.cards if card.taken), key=lambda card: card.free_gib)
    return used[0] if used and used[-1].free_gib - used[0].free_gib > ALIKE_GIB else None


def said(plan: LaunchPlan, words: Mapping[str, str]) -> Iterator[str]:
    """The fullest card, what it costs, and on how many the job would do better; `words` are those of the verdicts."""
    card = fullest(plan)
    if card is None:
        return
    used = [(one, verdict) for one, verdict in judged(plan) if one.taken]
    emptiest, best = max(used, key=lambda pair: pair[0].free_gib)
    text = f"card {card.number}: {card.free_gib:.1f} of {card.memory_gib:.1f} GiB free"
    text += f", {emptiest.free_gib - card.free_gib:.1f} GiB less than card {emptiest.number}"
    if best != plan.verdict:
        count, x = sum(verdict == best for _, verdict in used), plan.job.layout
        option = f": --cards {count} leaves the rest out" if count % (x.tp * x.pp * x.cp * x.ep) == 0 else ""
        text += f"; on {count} of {len(used)} cards it {words[best]}{option}"
    yield f"  fullest   {text}"


def document(plan: LaunchPlan) -> list[dict[str, Any]]:
    """The same of every card for programs."""
    decides = fullest(plan)
    return [
        {
            "card": card.number,
            "memory_gib": round(card.memory_gib, 3),
            "free_gib": round(card.free_gib, 3),
            "used_by_job": card.taken,
            "decides": card is decides,
            "verdict": verdict,
        }
        for card, verdict in judged(plan)
    ]
