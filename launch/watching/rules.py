"""What ends a run early: pure functions of State and their own limits, in the order in which they are asked.

Each answers None, or what was seen and the evidence.  A rule that cannot tell says nothing: it never ends a run.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from envcheck.core.model import Finding, Remedy, Status
from envcheck.core.units import mib
from envcheck.vendors import VENDORS
from launch.logs import eta
from launch.logs.step import TrainingStep, duration
from launch.watching.state import CardSample, CardSamples, RunMoment

Limits = Mapping[str, float]
Seen = tuple[str, tuple[str, ...]]


@dataclass(frozen=True)
class StopRule:
    """`limits` may be changed by name; `words` say what to do."""

    judge: Callable[[RunMoment, Limits], Seen | None]
    title: str
    limits: Limits
    words: str


def cpu(state: RunMoment, limits: Limits) -> Seen | None:
    """The cards are as idle as before the start while the run's processes burn the host's processors."""
    looks = state.samples[-int(limits["looks"]) :]
    if len(state.steps) < limits["steps"] or len(looks) < limits["looks"] or (state.busy_cores or 0) < limits["cores"]:
        return None
    if looks[0].at < (state.first_step_at or 0.0) or not all(_idle(state, look, limits) for look in looks):
        return None
    cards = looks[-1].cards
    said = f"{len(state.steps)} steps were made while all {len(cards)} cards stayed idle"
    return said, (*map(_shown, cards[:4]), f"the run's processes kept {state.busy_cores:.1f} cores of the host busy")


def _idle(state: RunMoment, sample: CardSamples, limits: Limits) -> bool:
    """None of the cards was taken since the start; a card that tells neither memory nor load may be at work."""
    before = {card.label: card for card in state.before.cards} if state.before else {}
    return bool(sample.cards) and all(_unused(card, before.get(card.label), limits) for card in sample.cards)


def _unused(card: CardSample, before: CardSample | None, limits: Limits) -> bool:
    if card.percent is not None and card.percent > limits["percent"]:
        return False
    if card.used_mib is None or before is None or before.used_mib is None:
        return False
    return card.used_mib - before.used_mib < limits["mib"]


def loss(state: RunMoment, limits: Limits) -> Seen | None:
    """The last losses are no numbers, or far above the first; a skipped step of fp16 is one, not several in a row."""
    count = int(limits["lines"])
    latest = state.steps[-count:]
    if len(latest) < count:
        return None
    if all(_broken(step) for step in latest):
        first = next(step for number, step in enumerate(state.steps) if all(map(_broken, state.steps[number:])))
        return f"it is no number since {_at(first)}", tuple(map(_told, latest))
    first_ones = [step.loss for step in state.steps[: int(limits["first"])] if math.isfinite(step.loss)]
    if len(state.steps) < limits["first"] + count or not first_ones:
        return None
    usual = statistics.median(first_ones)
    bound = max(limits["times"] * usual, usual + limits["rise"])  # of reinforcement learning the first ones are near 0
    if usual <= 0 or not all(step.loss > bound for step in latest):
        return None
    return f"it has risen to more than {limits['times']:g} times what it began with, {usual:.3g}", tuple(
        map(_told, latest)
    )


def _broken(step: TrainingStep) -> bool:
    """Transformers may write 0 for what is no number; then the norm of the gradients tells."""
    norm = step.grad_norm
    return not math.isfinite(step.loss) or (step.loss == 0 and norm is not None and not math.isfinite(norm))


def stalled(state: RunMoment, limits: Limits) -> Seen | None:
    """Neither a step nor a line for much longer than a step takes; lines alone (a library's warnings) buy some time."""
    quiet, still = state.now - state.grew_at, state.now - (state.stepped_at or state.began_at)
    if state.stepped_at is None:
        if quiet <= limits["first_seconds"]:
            return None
        return f"no step was made in {duration(still)}, and no log has grown for {duration(quiet)}", ()
    each = eta.step_s(state.marks) or 0.0
    patience = max(limits["seconds"], limits["times"] * each)
    if quiet <= patience and still <= 5 * patience:
        return None
    usual = f"a step took {each:.3g} s" if each else "the first step was made"
    return f"no step for {duration(still)}, and {usual} before", (f"the logs last grew {duration(quiet)} ago",)


def launcher(state: RunMoment, limits: Limits) -> Seen | None:
    """The launcher's main thread has failed, another one keeps it alive, and no worker is there to wait for."""
    if not state.fallen or state.worked_at is None:
        return None
    still = state.now - max(state.grew_at, state.worked_at)
    if still <= limits["seconds"]:
        return None
    return f"an error ends its log, and neither a worker nor a line came in {duration(still)}", state.fallen[-3:]


def health(state: RunMoment, limits: Limits) -> Seen | None:
    """A card that was well before the start is not any more, or has gone; twice in a row, since tools err."""
    looks = state.samples[-int(limits["looks"]) :]
    if state.before is None or not state.before.cards or len(looks) < limits["looks"]:
        return None
    for old in _own(state, state.before):
        turned = [_turned(old, sample) for sample in looks]
        if all(turned):
            return turned[-1], tuple(turned)
    return None


def _turned(old: CardSample, sample: CardSamples) -> str:
    new = next((card for card in sample.cards if card.label == old.label), None)
    if new is None:
        return f"card {old.label} is no longer listed"
    if _ill(new) and not _ill(old):
        return f"card {old.label} has turned from {old.health} to {new.health}"
    if (new.ecc_uncorrected or 0) > (old.ecc_uncorrected or 0):
        return (
            f"card {old.label} has {new.ecc_uncorrected} uncorrected memory errors, {old.ecc_uncorrected or 0} before"
        )
    return ""


def _ill(card: CardSample) -> bool:
    word = (card.health or "").upper()
    return any(vendor.health_words.get(word) is Status.FAIL for vendor in VENDORS.values())


def memory(state: RunMoment, limits: Limits) -> Seen | None:
    """A card, or the host, is about to run out, look after look."""
    if state.host_free is not None and 100 * (1 - state.host_free) >= limits["host_percent"] and state.steps:
        return f"only {100 * state.host_free:.1f} % of the host's memory is left", ()
    looks = state.samples[-int(limits["looks"]) :]
    full = [[card for card in _own(state, sample) if _full(card, limits["percent"])] for sample in looks]
    if len(looks) < limits["looks"] or not all(full):
        return None
    worst = max(full[-1], key=lambda card: card.used_mib or 0)
    return f"card {worst.label} holds {_share(worst):.1f} % of its memory", tuple(map(_shown, full[-1][:4]))


def _own(state: RunMoment, sample: CardSamples) -> tuple[CardSample, ...]:
    """The job's: what another job does to its own cards, or they to it, ends nothing here."""
    return tuple(card for card in sample.cards if not state.mine or card.label in state.mine)


def _full(card: CardSample, percent: float) -> bool:
    return _share(card) >= percent


def _share(card: CardSample) -> float:
    return 100 * card.used_mib / card.total_mib if card.used_mib is not None and card.total_mib else 0.0


RULES: dict[str, StopRule] = {
    "cpu": StopRule(
        cpu,
        "the training runs on the CPU",
        {"steps": 3, "looks": 3, "percent": 2, "mib": 512, "cores": 0.5},
        "The framework has not found the cards: check its plugin (paddle-custom-npu, torch_npu), that the toolkit's "
        "set_env.sh is sourced, and the list of visible devices; `envcheck doctor` looks at all of it.",
    ),
    "loss": StopRule(
        loss,
        "the loss is lost",
        {"lines": 3, "times": 4, "rise": 2, "first": 10},
        "Go back to the last checkpoint before it, with a lower learning rate, a longer warm-up or bf16, not fp16; "
        "look at the samples of these steps.",
    ),
    "stalled": StopRule(
        stalled,
        "no progress",
        {"times": 20, "seconds": 600, "first_seconds": 3600},
        "Where the workers wait stands in log/stack.N: in a collective, look at the rank that is elsewhere, its card "
        "and its links; in a read, at the disk or the data loader.",
    ),
    "launcher": StopRule(
        launcher,
        "the launcher has failed and does not end",
        {"seconds": 60},
        "Mend what the last line of log/launcher.log says (`envcheck explain` tells what it means), then start again.",
    ),
    "health": StopRule(
        health,
        "a card has fallen ill",
        {"looks": 2},
        "Take the card out of the job, or reset or replace it as the vendor says, then start again from the last "
        "checkpoint.",
    ),
    "memory": StopRule(
        memory,
        "memory is about to run out",
        {"percent": 98, "looks": 3, "host_percent": 98},
        "Use a smaller micro batch or sequence, recompute, or more cards: `envcheck plan` says what would fit.",
    ),
}  # fmt: skip


def judge(state: RunMoment, limits: Mapping[str, Limits]) -> Finding | None:
    """The first rule that ends the run; `limits` holds those that are in force, each with its limits."""
    for name, mine in limits.items():
        rule = RULES[name]
        if seen := rule.judge(state, mine):
            source = ", ".join(f"{key} {value:g}" for key, value in mine.items())
            words = f"{rule.words} Go on in spite of it: --no-stop {name}."
            return Finding(f"watch.{name}", Status.FAIL, f"{rule.title}: {seen[0]}", Remedy(words), seen[1], source)
    return None


def _shown(card: CardSample) -> str:
    """'card 3: 3412 MiB of 64 GiB, 0 %'"""
    held = (
        "" if card.used_mib is None else f"{mib(card.used_mib)}{f' of {mib(card.total_mib)}' if card.total_mib else ''}"
    )
    load = "" if card.percent is None else f"{card.percent:g} %"
    return f"card {card.label}: {', '.join(filter(None, (held, load))) or 'tells nothing'}"


def _told(step: TrainingStep) -> str:
    norm = "" if step.grad_norm is None else f", grad norm {step.grad_norm:g}"
    return f"{_at(step)}: loss {step.loss:g}{norm}"


def _at(step: TrainingStep) -> str:
    return "the line" if step.step is None else f"step {step.step}"


def in_force(off: Iterable[str] = (), changed: Mapping[str, float] | None = None) -> dict[str, dict[str, float]]:
    """The limits of the rules that are not switched off; `changed` by 'rule.limit'."""
    mine = {name: dict(rule.limits) for name, rule in RULES.items() if name not in set(off)}
    for key, value in (changed or {}).items():
        name, _, limit = key.partition(".")
        if name in mine:
            mine[name][limit] = value
    return mine
