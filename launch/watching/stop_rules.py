"""The stop rules, which end a run early.  Pure functions of a RunMoment and the limits of the rule.

Each returns None, or (message, evidence).  A rule without sufficient data returns None.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from envcheck.core.model import Finding, Status, manual
from envcheck.core.units import format_mib
from envcheck.vendors import VENDORS
from launch.logs import eta
from launch.logs.training_step import TrainingStep, format_duration
from launch.watching.run_moment import CardSample, CardSamples, RunMoment

Limits = Mapping[str, float]
Seen = tuple[Message, tuple[str, ...]]


@dataclass(frozen=True)
class StopRule:
    """A stop rule with its default limits; `words` are the next step; `infrastructure`: not the job is to blame."""

    judge: Callable[[RunMoment, Limits], Seen | None]
    title: Message
    limits: Limits
    words: Message
    infrastructure: bool = False


def check_idle_cards(state: RunMoment, limits: Limits) -> Seen | None:
    """All cards are as idle as before the start while the run's processes use the CPU."""
    looks = state.samples[-int(limits["looks"]) :]
    if len(state.steps) < limits["steps"] or len(looks) < limits["looks"] or (state.busy_cores or 0) < limits["cores"]:
        return None
    if looks[0].at < (state.first_step_at or 0.0) or not all(_are_cards_idle(state, look, limits) for look in looks):
        return None
    cards = looks[-1].cards
    idle = ngettext(
        "{steps} steps completed while the card was idle",
        "{steps} steps completed while all {count} cards were idle",
        len(cards),
        steps=len(state.steps),
    )
    return idle, (
        *map(_format_card, cards[:4]),
        _("the run's processes use {busy_cores:.1f} CPU cores", busy_cores=state.busy_cores),
    )


def _are_cards_idle(state: RunMoment, sample: CardSamples, limits: Limits) -> bool:
    """Whether no card is used more than before the start; cards without data may be in use."""
    before = {card.label: card for card in state.before.cards} if state.before else {}
    return bool(sample.cards) and all(_is_unused(card, before.get(card.label), limits) for card in sample.cards)


def _is_unused(card: CardSample, before: CardSample | None, limits: Limits) -> bool:
    if card.percent is not None and card.percent > limits["percent"]:
        return False
    if card.used_mib is None or before is None or before.used_mib is None:
        return False
    return card.used_mib - before.used_mib < limits["mib"]


def check_loss(state: RunMoment, limits: Limits) -> Seen | None:
    """The last losses are NaN or far above the first ones; a single skipped fp16 step does not count."""
    count = int(limits["lines"])
    latest = state.steps[-count:]
    if len(latest) < count:
        return None
    if all(_has_broken_loss(step) for step in latest):
        first = next(
            step for number, step in enumerate(state.steps) if all(map(_has_broken_loss, state.steps[number:]))
        )
        return _("NaN or infinite since {since}", since=_format_step_number(first)), tuple(map(format_step, latest))
    first_ones = [step.loss for step in state.steps[: int(limits["first"])] if math.isfinite(step.loss)]
    if len(state.steps) < limits["first"] + count or not first_ones:
        return None
    usual = statistics.median(first_ones)
    bound = max(
        limits["times"] * usual, usual + limits["rise"]
    )  # `rise` for reinforcement learning, where the first losses are near 0
    if usual <= 0 or not all(step.loss > bound for step in latest):
        return None
    return _("more than {times:g} times its initial value of {usual:.3g}", times=limits["times"], usual=usual), tuple(
        map(format_step, latest)
    )


def _has_broken_loss(step: TrainingStep) -> bool:
    """Whether the loss is NaN; transformers may log 0 instead, with a NaN gradient norm."""
    norm = step.grad_norm
    return not math.isfinite(step.loss) or (step.loss == 0 and norm is not None and not math.isfinite(norm))


def check_progress(state: RunMoment, limits: Limits) -> Seen | None:
    """No step and no log output for much longer than a step takes; log output alone extends the time fivefold."""
    quiet, still = state.now - state.grew_at, state.now - (state.stepped_at or state.began_at)
    if state.stepped_at is None:
        if quiet <= limits["first_seconds"]:
            return None
        return _(
            "no step completed in {still}, no log output for {quiet}",
            still=format_duration(still),
            quiet=format_duration(quiet),
        ), ()
    each = eta.median_step_s(state.marks) or 0.0
    patience = max(limits["seconds"], limits["times"] * each)
    if quiet <= patience and still <= 5 * patience:
        return None
    usual = _("{each:.3g} s per step", each=each) if each else _("only the first step completed")
    return _("no step for {still}; before: {usual}", still=format_duration(still), usual=usual), (
        _("last log output {quiet} ago", quiet=format_duration(quiet)),
    )


def check_launcher(state: RunMoment, limits: Limits) -> Seen | None:
    """The launcher's main thread has failed, another thread keeps it alive, and no worker is left."""
    if not state.launcher_error or state.worked_at is None:
        return None
    still = state.now - max(state.grew_at, state.worked_at)
    if still <= limits["seconds"]:
        return None
    return _(
        "its log ends with an error; no worker and no log output for {still}", still=format_duration(still)
    ), state.launcher_error[-3:]


def check_health(state: RunMoment, limits: Limits) -> Seen | None:
    """A card became unhealthy or disappeared, in consecutive samples because single ones may be wrong."""
    looks = state.samples[-int(limits["looks"]) :]
    if state.before is None or not state.before.cards or len(looks) < limits["looks"]:
        return None
    for old in select_own_cards(state, state.before):
        turned = [_describe_health_change(old, sample) for sample in looks]
        if all(turned):
            return turned[-1], tuple(turned)
    return None


def _describe_health_change(old: CardSample, sample: CardSamples) -> Message:
    new = next((card for card in sample.cards if card.label == old.label), None)
    if new is None:
        return _("card {label} is no longer listed", label=old.label)
    if _is_unhealthy(new) and not _is_unhealthy(old):
        return _(
            "card {label} changed from {before} to {health}",
            label=old.label,
            before=old.health,
            health=new.health,
        )
    if (new.ecc_uncorrected or 0) > (old.ecc_uncorrected or 0):
        return ngettext(
            "card {label} has {count} uncorrected memory error ({before} at the start)",
            "card {label} has {count} uncorrected memory errors ({before} at the start)",
            new.ecc_uncorrected or 0,
            label=old.label,
            before=old.ecc_uncorrected or 0,
        )
    return NOTHING


def _is_unhealthy(card: CardSample) -> bool:
    word = (card.health or "").upper()
    return any(vendor.health_words.get(word) is Status.FAIL for vendor in VENDORS.values())


def check_memory(state: RunMoment, limits: Limits) -> Seen | None:
    """A card (in consecutive samples) or the host is about to run out of memory."""
    if state.host_free is not None and 100 * (1 - state.host_free) >= limits["host_percent"] and state.steps:
        return _("only {host_free:.1f} % of host memory is free", host_free=100 * state.host_free), ()
    looks = state.samples[-int(limits["looks"]) :]
    full = [[card for card in select_own_cards(state, sample) if _is_full(card, limits["percent"])] for sample in looks]
    if len(looks) < limits["looks"] or not all(full):
        return None
    worst = max(full[-1], key=lambda card: card.used_mib or 0)
    return _("card {label} uses {worst:.1f} % of its memory", label=worst.label, worst=_memory_percent(worst)), tuple(
        map(_format_card, full[-1][:4])
    )


def select_own_cards(state: RunMoment, sample: CardSamples) -> tuple[CardSample, ...]:
    """Return the job's cards, or all if unknown."""
    return tuple(card for card in sample.cards if not state.mine or card.label in state.mine)


def _is_full(card: CardSample, percent: float) -> bool:
    return _memory_percent(card) >= percent


def _memory_percent(card: CardSample) -> float:
    return 100 * card.used_mib / card.total_mib if card.used_mib is not None and card.total_mib else 0.0


RULES: dict[str, StopRule] = {
    "cpu": StopRule(
        check_idle_cards,
        _("the training runs on the CPU"),
        {"steps": 3, "looks": 3, "percent": 2, "mib": 512, "cores": 0.5},
        _(
            "The framework did not find the cards: check its plugin (paddle-custom-npu, torch_npu), "
            "source the toolkit's set_env.sh, and check the list of visible devices; `envcheck "
            "doctor` checks all of these."
        ),
    ),
    "loss": StopRule(
        check_loss,
        _("the loss diverged"),
        {"lines": 3, "times": 4, "rise": 2, "first": 10},
        _(
            "Resume from the last checkpoint before it with a lower learning rate, a longer warm-up, "
            "or bf16 instead of fp16; check the samples of these steps."
        ),
    ),
    "stalled": StopRule(
        check_progress,
        _("no progress"),
        {"times": 20, "seconds": 600, "first_seconds": 3600},
        _(
            "log/stack.N shows where the workers wait: in a collective, check the rank that is "
            "elsewhere, its card and its links; in a read, check the disk or the data loader."
        ),
    ),
    "launcher": StopRule(
        check_launcher,
        _("the launcher failed but did not exit"),
        {"seconds": 60},
        _(
            "Fix the problem in the last line of log/launcher.log (`envcheck explain` explains it), "
            "then start again."
        ),
    ),
    "health": StopRule(
        check_health,
        _("a card became unhealthy"),
        {"looks": 2},
        _(
            "Remove the card from the job, or reset or replace it as the vendor documents, then "
            "resume from the last checkpoint."
        ),
        infrastructure=True,
    ),
    "memory": StopRule(
        check_memory,
        _("memory is almost exhausted"),
        {"percent": 98, "looks": 3, "host_percent": 98},
        _(
            "Use a smaller micro batch or sequence, recompute, or more cards; `envcheck plan` shows "
            "what fits."
        ),
    ),
}  # fmt: skip


def judge_moment(state: RunMoment, limits: Mapping[str, Limits]) -> Finding | None:
    """Return the finding of the first rule that applies, else None; `limits` are the active rules."""
    for name, rule in RULES.items():
        if name in limits and (seen := rule.judge(state, limits[name])):
            words = _("{remedy} To continue anyway, use --no-stop {rule}.", remedy=rule.words, rule=name)
            return build_finding(name, rule, limits[name], seen, words, Status.FAIL)
    return None


def build_finding(name: str, rule: StopRule, limits: Limits, seen: Seen, words: Message, status: Status) -> Finding:
    """Return the finding of a rule that applies; its source are the limits."""
    source = ", ".join(f"{key} {value:g}" for key, value in limits.items())
    text = _("{title}: {seen}", title=rule.title, seen=seen[0])
    return Finding(f"watch.{name}", status, text, manual(words), seen[1], source)


def _format_card(card: CardSample) -> Message:
    """'card 3: 3412 MiB of 64 GiB, 0 %'"""
    held: str = "" if card.used_mib is None else format_mib(card.used_mib)
    if held and card.total_mib:
        held = _("{used} of {total}", used=held, total=format_mib(card.total_mib))
    load = "" if card.percent is None else f"{card.percent:g} %"
    known = join(", ", filter(None, (held, load)))
    return _("card {label}: {figures}", label=card.label, figures=known or _("no data"))


def format_step(step: TrainingStep) -> Message:
    norm = NOTHING if step.grad_norm is None else _(", grad norm {grad_norm:g}", grad_norm=step.grad_norm)
    return _("{step}: loss {loss:g}{norm}", step=_format_step_number(step), loss=step.loss, norm=norm)


def _format_step_number(step: TrainingStep) -> Message:
    return _("an unnumbered step") if step.step is None else _("step {step}", step=step.step)


def list_active_rules(
    off: Iterable[str] = (),
    changed: Mapping[str, float] | None = None,
    table: Mapping[str, StopRule] = RULES,
) -> dict[str, dict[str, float]]:
    """Return rule → limits without the rules in `off`; `changed` maps 'rule.limit' to a value."""
    mine = {name: dict(rule.limits) for name, rule in table.items() if name not in set(off)}
    for key, value in (changed or {}).items():
        name, _unused, limit = key.partition(".")
        if name in mine:
            mine[name][limit] = value
    return mine
