"""The hardware tests of one vendor's cards: the preview for the user, the measurements, and the findings."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from envcheck.core.findings import fail, ok, unknown
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.core.model import Finding, Remedy, diagnose
from envcheck.core.units import format_mib
from envcheck.deep import baselines, judge, subprocesses
from envcheck.deep.card_selection import CardSelection
from envcheck.deep.check_table import NAMES
from envcheck.deep.interpreter import DeepResult, PythonInterpreter, Sizes
from envcheck.deep.measurements import DeepMeasurements
from envcheck.deep.subprocesses import Say
from envcheck.vendors import VENDORS

TESTS = {"matmul": _("matrix products"), "memory": _("memory fill"), "copy": _("host-device copies")}
CPU_ROWS, CPU_MIB, CPU_RANKS = 1024, 16, 2
START_S = 15.0  # start of a process with paddle or torch from a cold disk
DEEP_COMMAND = "envcheck doctor --deep"


@dataclass(frozen=True)
class DeepRequest:
    """The tests to run: `names` of checks, `outlier` the tolerated deviation by test as a fraction, `links` the
    published rates of link types."""

    sizes: Sizes = field(default_factory=Sizes)
    names: frozenset[str] = frozenset(NAMES)
    outlier: Mapping[str, float] = field(default_factory=dict)
    links: tuple[baselines.PublishedLink, ...] = ()


def describe_effects(chosen: CardSelection, interpreter: PythonInterpreter, wish: DeepRequest) -> Iterator[Message]:
    """Yield what the tests will do and how long they take, for the user who must agree."""
    free, sizes, ranks = chosen.free_cards, wish.sizes, _count_ranks(chosen, wish)
    cpu = chosen.vendor == "cpu"
    who = _("the CPU of this host")
    if not cpu:
        title, cards = VENDORS[chosen.vendor].title, DeepMeasurements(chosen).name_cards([card.index for card in free])
        who = _("{count} × {title} ({cards})", count=len(free), title=title, cards=cards)
    tests = [TESTS[test] for test in _list_tests(chosen, wish)]
    if _list_pairs(chosen, wish):
        count = len(chosen.pairs)
        tests.append(ngettext("copies between {count} pair of cards", "copies between {count} pairs of cards", count))
    if ranks:
        tests.append(
            _("all-reduce across {ranks} processes", ranks=ranks)
            if cpu
            else _("all-reduce across {ranks} cards", ranks=ranks)
        )
    most = max((card.memory_mib for card in free), default=0)
    guess = 2 * START_S + sizes.budget_s * (6 * len(free) + 2 * len(chosen.pairs)) + 2 * ranks
    yield _(
        "--deep tests {who} with {kit} from {title}: {tests}.",
        who=who,
        kit=interpreter.kit,
        title=interpreter.title,
        tests=join(", ", tests),
    )
    duration = {"seconds": guess, "memory": format_mib(most), "patience_s": sizes.patience_s}
    if cpu:
        yield _(
            "This takes about {seconds:.0f} s and up to {memory} of memory; a hanging test is stopped after "
            "{patience_s:.0f} s.",
            **duration,
        )
    else:
        yield _(
            "This takes about {seconds:.0f} s and up to {memory} of memory on each card; a hanging test is "
            "stopped after {patience_s:.0f} s.",
            **duration,
        )
        yield _("The cards are under full load during the test: do not start jobs on them.")


def examine_cards(
    chosen: CardSelection, interpreter: PythonInterpreter, wish: DeepRequest, say: Say
) -> dict[str, list[Finding]]:
    """Return the findings by check name; if the cards cannot be tested, only deep.cards, with the reason."""
    sizes = _fit_sizes(chosen, wish.sizes)
    say(_("starting {kit} from {title}", kit=interpreter.kit, title=interpreter.title))
    seen = subprocesses.query_framework(interpreter, sizes)
    found = {"deep.cards": _judge_framework(chosen, interpreter, seen, sizes)}
    if seen.error or seen.figures["count"] != len(chosen.cards) or not chosen.free_cards:
        return found
    results = _measure_all(chosen, interpreter, wish, sizes, say)
    command = partial(_format_command, chosen, interpreter, sizes)
    bench = DeepMeasurements(chosen, tuple(results), wish.outlier, wish.links, command, sizes.patience_s)
    return {**found, **judge.judge_tests(bench, wish.names)}


def report_untested(seen: Message, remedy: Remedy) -> dict[str, list[Finding]]:
    """Return one UNKNOWN finding for deep.cards; the tests are blocked by it."""
    return {"deep.cards": [unknown(seen, remedy)]}


def report_busy_cards(chosen: CardSelection) -> dict[str, list[Finding]]:
    """Return a finding for deep.cards with the cards that are in use and by which processes."""
    return {"deep.cards": list(_list_busy_cards(chosen))}


def _judge_framework(
    chosen: CardSelection, interpreter: PythonInterpreter, seen: DeepResult, sizes: Sizes
) -> list[Finding]:
    """Return the findings of deep.cards: what is tested with which framework, and what is not tested."""
    if seen.error:
        how = _("no response within {start_s:.0f} s", start_s=sizes.start_s) if seen.hung else seen.error
        words = _("Start {kit} manually: it fails before it uses a card.", kit=interpreter.kit)
        command = f"{interpreter.target.python} -c 'import {interpreter.kit}'"
        return [
            fail(
                _("{kit} from {title} does not start: {how}", kit=interpreter.kit, title=interpreter.title, how=how),
                diagnose(words, command),
                evidence=seen.evidence,
            )
        ]
    count, here = int(seen.figures["count"]), len(chosen.cards)
    version, commands = (
        _(
            "{kit} {version} from {title}",
            kit=interpreter.kit,
            version=seen.figures["version"],
            title=interpreter.title,
        ),
        VENDORS[chosen.vendor].commands,
    )
    if count != here:
        words = _("Check the plugin, the devices passed to the container, and the variables that hide devices.")
        seen_count = ngettext(
            "{version} finds {count} device of type {kind}; this host has {here}",
            "{version} finds {count} devices of type {kind}; this host has {here}",
            count,
            version=version,
            kind=interpreter.kind,
            here=here,
        )
        return [fail(seen_count, diagnose(words, *commands.get("list", ())))]
    return [*_list_busy_cards(chosen), *_list_tested_cards(chosen, version)]


def _list_busy_cards(chosen: CardSelection) -> Iterable[Finding]:
    busy = [card for card in chosen.cards if card.users]
    if busy:
        yield unknown(
            _("not tested because in use: {busy}", busy=judge.format_users(busy)),
            diagnose(_("Wait for the process to end, or stop it. Then run the test again."), DEEP_COMMAND),
        )


def _list_tested_cards(chosen: CardSelection, version: str) -> Iterable[Finding]:
    if chosen.free_cards:
        who = (
            _("the CPU")
            if chosen.vendor == "cpu"
            else ngettext("{count} card", "{count} cards", len(chosen.free_cards))
        )
        yield ok(_("{who} tested with {version}", who=who, version=version))


def _measure_all(
    chosen: CardSelection, interpreter: PythonInterpreter, wish: DeepRequest, sizes: Sizes, say: Say
) -> list[DeepResult]:
    """Return the results of all tests: each card, then each pair, then all cards.  A card that hung or crashed is not
    tested again."""
    labels = {card.index: _("device {label}", label=card.label) for card in chosen.cards}
    results = _measure_cards(chosen, interpreter, wish, sizes, say, labels)
    lost = {n for s in results if s.lost for n in s.cards}
    pairs = [pair for pair in _list_pairs(chosen, wish) if not lost & set(pair)]
    results += subprocesses.run_peer_tests(interpreter, sizes, pairs, say, labels) if pairs else []
    ranks = _count_ranks(chosen, wish)
    if ranks and not lost:
        say(_("all-reduce across {ranks} processes", ranks=ranks))
        results += subprocesses.run_allreduce(interpreter, sizes, ranks, timed=True)
    return results


def _measure_cards(
    chosen: CardSelection,
    interpreter: PythonInterpreter,
    wish: DeepRequest,
    sizes: Sizes,
    say: Say,
    labels: Mapping[int, str],
) -> list[DeepResult]:
    """Return the results of the single-card tests.  Outliers are measured again: another program may have used the
    host."""
    fill = {card.index: card.memory_mib for card in chosen.free_cards}
    tests = _list_tests(chosen, wish)
    results = (
        [_assign_lost_test(s, tests) for s in subprocesses.run_card_tests(interpreter, sizes, tests, fill, say, labels)]
        if tests
        else []
    )
    for test, slow in judge.find_slow_cards(DeepMeasurements(chosen, tuple(results), wish.outlier)).items():
        say(_("repeating {test} on {slow}", test=test, slow=join(", ", (labels[n] for n in slow))))
        some = {n: fill[n] for n in slow}
        again = {
            (s.test, s.cards): s for s in subprocesses.run_card_tests(interpreter, sizes, (test,), some, say, labels)
        }
        results = [judge.merge_results(s, again[s.test, s.cards]) if (s.test, s.cards) in again else s for s in results]
    return results


def _assign_lost_test(result: DeepResult, tests: tuple[str, ...]) -> DeepResult:
    """Assign a process that was lost before its first test to that test."""
    return replace(result, test=tests[0]) if result.test == "start" else result


def _list_tests(chosen: CardSelection, wish: DeepRequest) -> tuple[str, ...]:
    """Return the tests of each card; on the CPU, memory is host memory and there is nothing to copy."""
    return tuple(t for t in TESTS if f"deep.{t}" in wish.names and (t, chosen.vendor) != ("copy", "cpu"))


def _list_pairs(chosen: CardSelection, wish: DeepRequest) -> list[tuple[int, int]]:
    return [(pair.one, pair.other) for pair in chosen.pairs] if "deep.peer" in wish.names else []


def _count_ranks(chosen: CardSelection, wish: DeepRequest) -> int:
    """Return the number of all-reduce ranks; 0 if the test is not requested, not all cards are free, or there is
    only one."""
    count = CPU_RANKS if chosen.vendor == "cpu" else len(chosen.cards)
    free = len(chosen.free_cards) == len(chosen.cards)
    return count if "deep.allreduce" in wish.names and free and count > 1 else 0


def _fit_sizes(chosen: CardSelection, sizes: Sizes) -> Sizes:
    """Limit the sizes on a CPU: it has a hundredth of a card's performance, and other programs need it."""
    if chosen.vendor != "cpu":
        return sizes
    return replace(sizes, rows=(sizes.rows[0], min(sizes.rows[1], CPU_ROWS)), mib=(1, CPU_MIB), piece_mib=16)


def _format_command(
    chosen: CardSelection, interpreter: PythonInterpreter, sizes: Sizes, test: str, cards: Sequence[int]
) -> str:
    """Return a command that repeats the test on the first of these cards, or of all; "" for tests that a launcher
    starts."""
    common = {**interpreter.framework, **vars(sizes)}
    if test == "peer":
        unit = list(cards) or [chosen.pairs[0].one, chosen.pairs[0].other]
        asked: dict[str, Any] = {"what": "peer", "units": [unit]}
    elif test in TESTS:
        card = next((card for card in chosen.free_cards if card.index in cards), chosen.free_cards[0])
        fill = {str(card.index): card.memory_mib}
        asked = {"what": "cards", "tests": [test], "units": [[card.index]], "memory_mib": fill}
    else:
        return ""
    return shlex.join(
        [interpreter.target.python, str(subprocesses.PROGRAM), json.dumps({**common, **asked}, separators=(",", ":"))]
    )
