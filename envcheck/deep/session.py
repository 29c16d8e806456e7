"""The tests of one vendor's cards from end to end: who may be touched, what is told beforehand, measured, judged."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from envcheck.core.findings import fail, ok, plural, unknown
from envcheck.core.model import Finding
from envcheck.core.units import mib
from envcheck.deep import baselines, drive, judge
from envcheck.deep.cards import Chosen
from envcheck.deep.drive import Say
from envcheck.deep.interpreter import PythonInterpreter, Said, Sizes
from envcheck.deep.measurements import Bench
from envcheck.deep.table import NAMES
from envcheck.vendors import VENDORS

TESTS = {"matmul": "multiplies", "memory": "fills memory", "copy": "copies from and to the host"}
CPU_ROWS, CPU_MIB, CPU_RANKS = 1024, 16, 2
START_S = 15.0  # of a process with paddle or torch on a cold disk
AGAIN = "envcheck doctor --deep"


@dataclass(frozen=True)
class Wish:
    """`names` of the tests that are asked for; `outlier` by test as a part of one; `links`: what each kind carries."""

    sizes: Sizes = field(default_factory=Sizes)
    names: frozenset[str] = frozenset(NAMES)
    outlier: Mapping[str, float] = field(default_factory=dict)
    links: tuple[baselines.Link, ...] = ()


def beforehand(chosen: Chosen, interpreter: PythonInterpreter, wish: Wish) -> str:
    """What it will disturb, in words for the person who decides."""
    free, sizes, ranks = chosen.free, wish.sizes, _ranks(chosen, wish)
    cpu = chosen.vendor == "cpu"
    where = f" ({Bench(chosen).named([card.index for card in free])})"
    who = "this machine's processor" if cpu else f"{len(free)} × {VENDORS[chosen.vendor].title}{where}"
    deeds = [TESTS[test] for test in _tests(chosen, wish)]
    deeds += [f"copies between {plural(len(chosen.pairs), 'pair')} of cards"] if _pairs(chosen, wish) else []
    deeds += [f"adds up over {ranks} {'processes' if cpu else 'cards'}"] if ranks else []
    most = max((card.memory_mib for card in free), default=0)
    guess = 2 * START_S + sizes.budget_s * (6 * len(free) + 2 * len(chosen.pairs)) + 2 * ranks
    return (
        f"--deep works on {who} with {interpreter.kit} of {interpreter.title}: {', '.join(deeds)}.\n"
        f"About {guess:.0f} seconds, up to {mib(most)} of memory on each; a test that hangs is ended after"
        f" {sizes.patience_s:.0f}.\n"
        + ("" if cpu else "Meanwhile the cards are busy and warm: start no job on them.\n")
    )


def examine(chosen: Chosen, interpreter: PythonInterpreter, wish: Wish, say: Say) -> dict[str, list[Finding]]:
    """Findings by the test's name; where the cards cannot be worked on, deep.cards alone says why."""
    sizes = _fitting(chosen, wish.sizes)
    say(f"starting {interpreter.kit} of {interpreter.title}")
    seen = drive.look(interpreter, sizes)
    found = {"deep.cards": _state(chosen, interpreter, seen, sizes)}
    if seen.error or seen.figures["count"] != len(chosen.cards) or not chosen.free:
        return found
    said = _measured(chosen, interpreter, wish, sizes, say)
    by_hand = partial(_by_hand, chosen, interpreter, sizes)
    bench = Bench(chosen, tuple(said), wish.outlier, wish.links, by_hand, sizes.patience_s)
    return {**found, **judge.judged(bench, wish.names)}


def untold(seen: str, words: str, *commands: str) -> dict[str, list[Finding]]:
    """Nothing could be tested: told once, and the tests follow from it."""
    return {"deep.cards": [unknown(seen, words, *commands)]}


def busy(chosen: Chosen) -> dict[str, list[Finding]]:
    """Cards that nobody may touch, with who works on them."""
    return {"deep.cards": list(_in_use(chosen))}


def _state(chosen: Chosen, interpreter: PythonInterpreter, seen: Said, sizes: Sizes) -> list[Finding]:
    """Who is tested, by what, and who is not."""
    if seen.error:
        how = f"did not answer in {sizes.start_s:.0f} s" if seen.hung else seen.error
        words = f"Start it by hand: it is {interpreter.kit} that fails, before a card is touched."
        command = f"{interpreter.target.python} -c 'import {interpreter.kit}'"
        return [
            fail(
                f"{interpreter.kit} of {interpreter.title} does not start: {how}",
                words,
                command,
                evidence=seen.evidence,
            )
        ]
    count, here = int(seen.figures["count"]), len(chosen.cards)
    version, commands = (
        f"{interpreter.kit} {seen.figures['version']} of {interpreter.title}",
        VENDORS[chosen.vendor].commands,
    )
    if count != here:
        words = "Look at the plugin, at the devices that a container was given, and at variables that hide some."
        told = f"{version} sees {plural(count, 'device')} of type {interpreter.kind}, {here} are here"
        return [fail(told, words, *commands.get("list", ()))]
    return [*_in_use(chosen), *_tested(chosen, version)]


def _in_use(chosen: Chosen) -> Iterable[Finding]:
    busy = [card for card in chosen.cards if card.users]
    if busy:
        yield unknown(f"not tested, in use: {judge.users(busy)}", "Wait for it, or stop it, and ask again.", AGAIN)


def _tested(chosen: Chosen, version: str) -> Iterable[Finding]:
    if chosen.free:
        who = "the processor" if chosen.vendor == "cpu" else plural(len(chosen.free), "card")
        yield ok(f"{who} tested by {version}")


def _measured(chosen: Chosen, interpreter: PythonInterpreter, wish: Wish, sizes: Sizes, say: Say) -> list[Said]:
    """Card by card, then pair by pair, then all; a card that hung or fell over once is left alone."""
    labels = {card.index: f"device {card.label}" for card in chosen.cards}
    said = _of_cards(chosen, interpreter, wish, sizes, say, labels)
    lost = {n for s in said if s.lost for n in s.cards}
    pairs = [pair for pair in _pairs(chosen, wish) if not lost & set(pair)]
    said += drive.between(interpreter, sizes, pairs, say, labels) if pairs else []
    ranks = _ranks(chosen, wish)
    if ranks and not lost:
        say(f"adding up over {ranks}")
        said += drive.together(interpreter, sizes, ranks, timed=True)
    return said


def _of_cards(
    chosen: Chosen, interpreter: PythonInterpreter, wish: Wish, sizes: Sizes, say: Say, labels: Mapping[int, str]
) -> list[Said]:
    """Who is slower than the others is asked a second time: another program may have had the host in between."""
    fill = {card.index: card.memory_mib for card in chosen.free}
    tests = _tests(chosen, wish)
    said = [_placed(s, tests) for s in drive.on_cards(interpreter, sizes, tests, fill, say, labels)] if tests else []
    for test, slow in judge.slow(Bench(chosen, tuple(said), wish.outlier)).items():
        say(f"{test} once more, {', '.join(labels[n] for n in slow)}")
        some = {n: fill[n] for n in slow}
        again = {(s.test, s.cards): s for s in drive.on_cards(interpreter, sizes, (test,), some, say, labels)}
        said = [judge.better(s, again[s.test, s.cards]) if (s.test, s.cards) in again else s for s in said]
    return said


def _placed(said: Said, tests: tuple[str, ...]) -> Said:
    """A process that was lost before its first test: told with that."""
    return replace(said, test=tests[0]) if said.test == "start" else said


def _tests(chosen: Chosen, wish: Wish) -> tuple[str, ...]:
    """Of each card; the processor's memory is the host's, and nothing is copied."""
    return tuple(t for t in TESTS if f"deep.{t}" in wish.names and (t, chosen.vendor) != ("copy", "cpu"))


def _pairs(chosen: Chosen, wish: Wish) -> list[tuple[int, int]]:
    return [(pair.one, pair.other) for pair in chosen.pairs] if "deep.peer" in wish.names else []


def _ranks(chosen: Chosen, wish: Wish) -> int:
    """How many add up; 0 where that is not asked, or not all cards are free, or there is one alone."""
    count = CPU_RANKS if chosen.vendor == "cpu" else len(chosen.cards)
    free = len(chosen.free) == len(chosen.cards)
    return count if "deep.allreduce" in wish.names and free and count > 1 else 0


def _fitting(chosen: Chosen, sizes: Sizes) -> Sizes:
    """The processor's products are small: it has a hundredth of a card's power, and others need it."""
    if chosen.vendor != "cpu":
        return sizes
    return replace(sizes, rows=(sizes.rows[0], min(sizes.rows[1], CPU_ROWS)), mib=(1, CPU_MIB), piece_mib=16)


def _by_hand(chosen: Chosen, interpreter: PythonInterpreter, sizes: Sizes, test: str, cards: Sequence[int]) -> str:
    """The same once more, on the first of these cards or of all; "" for what a launcher starts."""
    common = {**interpreter.framework, **vars(sizes)}
    if test == "peer":
        unit = list(cards) or [chosen.pairs[0].one, chosen.pairs[0].other]
        asked: dict[str, Any] = {"what": "peer", "units": [unit]}
    elif test in TESTS:
        card = next((card for card in chosen.free if card.index in cards), chosen.free[0])
        fill = {str(card.index): card.memory_mib}
        asked = {"what": "cards", "tests": [test], "units": [[card.index]], "memory_mib": fill}
    else:
        return ""
    return shlex.join(
        [interpreter.target.python, str(drive.PROGRAM), json.dumps({**common, **asked}, separators=(",", ":"))]
    )
