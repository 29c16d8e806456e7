"""The warnings about a training that runs but does not train well, or not fast.  Pure functions of a RunMoment.

As the stop rules, each returns None, or (message, evidence); without sufficient data None.  A warning ends the run only
if the user asked for it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence

from envcheck.core.messages import Message, _
from envcheck.core.model import Finding, Status
from launch.logs.training_step import TrainingStep
from launch.watching.run_moment import RunMoment
from launch.watching.stop_rules import Limits, Seen, StopRule, build_finding, format_step, select_own_cards


def check_flat_loss(state: RunMoment, limits: Limits) -> Seen | None:
    """The loss has not changed for many steps, and is not near zero, where a small model may simply be done."""
    latest = _take_last(state, int(limits["lines"]))
    losses = [step.loss for step in latest]
    if not losses or not all(map(math.isfinite, losses)) or min(losses) < limits["least"] or _is_frozen(latest):
        return None
    if max(losses) - min(losses) > limits["spread"] * max(losses):
        return None
    return _("{loss:g} in {count} lines of the log", loss=losses[-1], count=len(losses)), _show_ends(latest)


def check_uniform_loss(state: RunMoment, limits: Limits) -> Seen | None:
    """The loss is that of guessing every token with the same probability: ln of the vocabulary's size."""
    latest = _take_last(state, int(limits["lines"]))
    if not latest or not state.vocabulary or _is_frozen(latest):
        return None
    guess = math.log(state.vocabulary)
    if not all(abs(step.loss - guess) <= limits["distance"] * guess for step in latest):
        return None
    return _(
        "{loss:.3f} is ln {vocabulary}, the loss of a uniform guess", loss=latest[-1].loss, vocabulary=state.vocabulary
    ), _show_ends(latest)


def check_gradients(state: RunMoment, limits: Limits) -> Seen | None:
    """The gradient norms of the last steps are far above the earlier ones, not finite, or practically zero."""
    known = [step for step in state.steps if step.grad_norm is not None]
    count = int(limits["lines"])
    latest, before = known[-count:], known[:-count]
    if len(before) < limits["first"]:
        return None
    norms = [step.grad_norm or 0.0 for step in latest]
    usual = statistics.median([norm for step in before if math.isfinite(norm := step.grad_norm or 0.0)] or [0.0])
    if not any(map(math.isfinite, norms)):
        return _("gradient norms are not finite"), _show_ends(latest)
    if usual > 0 and all(norm > limits["times"] * usual for norm in norms):
        return _("more than {times:g} times the usual {usual:.3g}", times=limits["times"], usual=usual), _show_ends(
            latest
        )
    vanished = all(norm < limits["share"] * usual or norm == 0 for norm in norms)
    if vanished and min(step.loss for step in latest) > limits["least"]:
        return _("practically zero; usual: {usual:.3g}", usual=usual), _show_ends(latest)
    return None


def check_slow_rank(state: RunMoment, limits: Limits) -> Seen | None:
    """One rank of this node takes much longer for a step than the others."""
    times = dict(state.rank_step_s)
    if len(times) < limits["ranks"]:
        return None
    slowest = max(times, key=lambda rank: times[rank])
    usual = statistics.median(seconds for rank, seconds in times.items() if rank != slowest)
    if times[slowest] <= limits["times"] * usual or times[slowest] - usual < limits["seconds"]:
        return None
    return _(
        "{worker}: {slow:.3g} s per step; the others: {usual:.3g} s",
        worker=_name_worker(state, slowest),
        slow=times[slowest],
        usual=usual,
    ), tuple(
        _("{worker}: {seconds:.3g} s per step", worker=_name_worker(state, rank), seconds=seconds)
        for rank, seconds in sorted(times.items(), key=lambda item: -item[1])[:8]
    )


def _name_worker(state: RunMoment, rank: int) -> Message:
    number = state.first_rank + rank
    if rank < len(state.cards):
        return _("rank {rank} (device {card} of {host})", rank=number, card=state.cards[rank], host=state.host)
    return _("rank {rank} ({host})", rank=number, host=state.host)


def check_throughput(state: RunMoment, limits: Limits) -> Seen | None:
    """The training has become much slower than it was at the beginning, after the first steps, which compile."""
    steps = state.steps
    first = [speed for step in steps[2 : int(limits["first"])] if (speed := _measure_speed(step))]
    latest = [speed for step in steps[-int(limits["lines"]) :] if (speed := _measure_speed(step))]
    if len(first) < limits["first"] - 2 or len(latest) < limits["lines"] or len(steps) < limits["first"] + len(latest):
        return None
    usual, now = statistics.median(first), statistics.median(latest)
    if usual <= limits["times"] * now:
        return None
    share = 100 * now / usual
    return _("{share:.0f} % of the speed of the first steps", share=share), _show_ends(steps[-2:])


def _measure_speed(step: TrainingStep) -> float | None:
    """Return a number that grows with the speed: tokens or samples per second, else steps per second."""
    per_s = step.tokens_per_s or step.tokens_per_s_card or step.samples_per_s
    return per_s or (1 / step.seconds if step.seconds else None)


def check_data_loader(state: RunMoment, limits: Limits) -> Seen | None:
    """The cards wait: most of a step's time is that of the data loader, or the cards are idle most of the time."""
    latest = _take_last(state, int(limits["lines"]))
    shares = [step.data_seconds / step.seconds for step in latest if step.data_seconds is not None and step.seconds]
    if len(shares) == limits["lines"] and (share := 100 * statistics.median(shares)) > limits["data_percent"]:
        return _("the data loader takes {share:.0f} % of a step", share=share), ()
    looks = [look for look in state.samples if look.at >= (state.first_step_at or math.inf)]
    loads = [card.percent for look in looks for card in select_own_cards(state, look) if card.percent is not None]
    if len(looks) < limits["looks"] or len(loads) < len(looks) or len(state.steps) < limits["lines"]:
        return None
    if (mean := statistics.fmean(loads)) >= limits["card_percent"]:
        return None
    return _("the cards are busy {mean:.0f} % of the time", mean=mean), ()


def _take_last(state: RunMoment, count: int) -> Sequence[TrainingStep]:
    """Return the last `count` steps, () if the training has just begun: the first steps are in the window as well."""
    return state.steps[-count:] if len(state.steps) >= count + 5 else ()


def _is_frozen(steps: Sequence[TrainingStep]) -> bool:
    """Whether nothing can change: the learning rate is 0, as in a warm-up's first steps and at the end of a decay."""
    return any(step.learning_rate == 0 for step in steps)


def _show_ends(steps: Sequence[TrainingStep]) -> tuple[Message, ...]:
    return tuple(format_step(step) for step in (steps[0], steps[-1]))


WARNINGS: dict[str, StopRule] = {
    "flat": StopRule(
        check_flat_loss,
        _("the loss does not change"),
        {"lines": 30, "spread": 1e-4, "least": 0.01},
        _(
            "Check that parameters are trainable and that the optimizer gets them, the learning rate, and whether the "
            "labels are masked completely."
        ),
    ),
    "uniform": StopRule(
        check_uniform_loss,
        _("the model guesses uniformly"),
        {"lines": 40, "distance": 0.005},
        _(
            "Check that the weights were loaded, the tokenizer of the model is used, and the learning "
            "rate is not too high."
        ),
    ),
    "gradients": StopRule(
        check_gradients,
        _("the gradient norms are out of range"),
        {"lines": 5, "first": 10, "times": 20, "share": 1e-4, "least": 0.01},
        _(
            "Lower the learning rate, clip gradients, use bf16 instead of fp16, and check the samples of "
            "these steps."
        ),
    ),
    "slow_rank": StopRule(
        check_slow_rank,
        _("one rank is slow"),
        {"ranks": 2, "times": 1.3, "seconds": 0.05},
        _(
            "Check the card's clock, temperature and links with `envcheck doctor --deep`, and other "
            "processes on its CPU cores."
        ),
    ),
    "throughput": StopRule(
        check_throughput,
        _("the training has become slower"),
        {"first": 10, "lines": 40, "times": 1.7},
        _(
            "Check temperatures and clocks of the cards, other jobs on this host, the storage, and the "
            "length of the samples."
        ),
    ),
    "data": StopRule(
        check_data_loader,
        _("the cards wait for data"),
        {"lines": 20, "data_percent": 50, "looks": 12, "card_percent": 30},
        _(
            "Use more data loader workers, tokenise in advance, move the data to a local disk, or use a "
            "larger micro batch."
        ),
    ),
}  # fmt: skip


def list_warnings(state: RunMoment, limits: Mapping[str, Limits], known: Collection[str] = ()) -> Iterator[Finding]:
    """Yield a finding for each warning that applies and is not yet `known`; `limits` are the active rules."""
    for name, rule in WARNINGS.items():
        if name in limits and name not in known and (seen := rule.judge(state, limits[name])):
            words = _("{remedy} To end the run on this, use --stop {rule}.", remedy=rule.words, rule=name)
            yield build_finding(name, rule, limits[name], seen, words, Status.WARN)
