"""What the figures mean: findings like any other check's, for cards, pairs and all of them together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envcheck.core.findings import fail, follows, ok, plural, skip, unknown, warn
from envcheck.core.model import Finding
from envcheck.core.units import MIB, mib
from envcheck.deep import baselines
from envcheck.deep.cards import Card
from envcheck.deep.interpreter import Said
from envcheck.deep.measurements import Bench
from envcheck.vendors import VENDORS

# A product of bf16 is rounded to 8 bits when it is done: 2^-8 of a value, and once more for each partial sum that a
# library keeps in bf16 (torch allows it by default).  Four of these, of the largest value; their mean square is less.
WORST, SQUARE = 2**-6, 2**-7
SUMS = 64  # values of each rank, program.SUMS
OUTLIER = 0.1
SPEEDS = {"matmul": ("tflops",), "copy": ("up_gbs", "down_gbs")}
WORDS = {"matmul": "the product", "memory": "the memory", "copy": "the copies", "peer": "the copies between cards"}


def judged(bench: Bench, names: Iterable[str]) -> dict[str, list[Finding]]:
    """Findings by the names that are asked for; the table of checks stamps name, source and vendor on them."""
    return {name: list(judge(bench)) for name, judge in JUDGES.items() if name in names}


def slow(bench: Bench) -> dict[str, list[int]]:
    """By test the cards that one of its figures shows as slower than the others."""
    found = {}
    for test, keys in SPEEDS.items():
        good = [s for s in bench.of(test) if not s.error]
        outliers = {n for key in keys for n in _slow(bench, test, {s.cards[0]: float(s.figures[key]) for s in good})}
        if outliers:
            found[test] = sorted(outliers)
    return found


def better(one: Said, other: Said) -> Said:
    """Of two measurements of one card the better speeds, and all that was wrong in either."""
    if one.error or other.error:
        return one if one.error else other
    speeds = {k: max(one.figures[k], other.figures[k]) for k in SPEEDS[one.test]}
    errors = {k: _worse(one.figures[k], other.figures[k]) for k in ("worst", "square", "drift") if k in one.figures}
    same = {"same": one.figures["same"] and other.figures["same"]} if "same" in one.figures else {}
    return replace(one, figures={**one.figures, **speeds, **errors, **same})


def _worse(one: float, other: float) -> float:
    """NaN is worse than any number, and compares with none."""
    return one if one != one or one >= other else other


def matmul(bench: Bench) -> Iterator[Finding]:
    yield from broken(bench, "matmul")
    good = _good(bench, "matmul")
    wrong = [s for s in good if not is_right_product(s.figures)]
    if wrong:
        worst = max(s.figures["worst"] for s in wrong)
        seen = f"{bench.named(_cards(wrong))}: a product is wrong, by up to {100 * worst:.2g} % of the largest value"
        words = "Take the card out of use, and tell its keeper: what it computes cannot be trusted."
        yield fail(seen, words, *bench.health(wrong), evidence=bench.shown("matmul", _errors(wrong), _cards(wrong)))
    right = [s for s in good if is_right_product(s.figures)]
    lacking = [s for s in right if s.figures.get("why")]
    if lacking and bench.on_cards:
        seen = f"{bench.named(_cards(lacking))}: no product in bf16, only in float32: {lacking[0].figures['why']}"
        yield warn(seen, "Train in float16, or look why the plugin has no such kernel.")
    sort = "float32" if lacking else "bf16"
    floor = None if lacking else bench.floor("matmul")
    yield from _figures(bench, "matmul", right, "tflops", f"TFLOP/s in {sort}", floor)


def memory(bench: Bench) -> Iterator[Finding]:
    yield from broken(bench, "memory")
    good = _good(bench, "memory")
    for s in good:
        if s.figures["wrong"]:
            seen = f"{bench.named(s.cards)}: {s.figures['wrong']} of {s.figures['pieces']} pieces read back otherwise"
            words = "Take the card out of use, and tell its keeper: its memory loses what is written."
            yield fail(seen, words, *bench.health([s]), evidence=bench.shown("memory", _sizes([s]), s.cards))
        elif s.figures.get("full"):
            seen = f"{bench.named(s.cards)}: {mib(s.figures['mib'])} of {mib(s.figures['wanted_mib'])} could be had"
            words = "Look who holds the rest of what the tool shows as free."
            shown = bench.shown("memory", [s.figures["full"]])
            yield warn(seen, words, *VENDORS[bench.chosen.vendor].commands.get("list", ()), evidence=shown)
        elif not s.figures["pieces"]:
            yield unknown(f"{bench.named(s.cards)}: no memory was free to be filled", "Look who holds it.")
    right = [s for s in good if s.figures["pieces"] and not s.figures["wrong"] and not s.figures.get("full")]
    if right:
        least = min(s.figures["mib"] for s in right)
        yield replace(
            ok(f"{mib(least)} of {bench.named(_cards(right))} filled and read back"),
            evidence=bench.shown("memory", _sizes(right)),
        )


def copy(bench: Bench) -> Iterator[Finding]:
    if not bench.on_cards:
        yield skip("the processor's memory is the host's")
        return
    yield from broken(bench, "copy")
    good = _good(bench, "copy")
    yield from _changed(bench, "copy", [s for s in good if not s.figures["same"]])
    right = [s for s in good if s.figures["same"]]
    locked = all(s.figures["pinned"] for s in right)
    floor = bench.floor("copy") if locked else None
    how = "page-locked" if locked else "pageable"
    for way, key in (("host to card", "up_gbs"), ("card to host", "down_gbs")):
        unit = f"GB/s {way}, {how} memory"
        yield from _figures(bench, "copy", right, key, unit, floor)


def peer(bench: Bench) -> Iterator[Finding]:
    if len(bench.chosen.cards) < 2:
        yield skip("one card")
        return
    yield from broken(bench, "peer")
    good = _good(bench, "peer")
    yield from _changed(bench, "peer", [s for s in good if not s.figures["same"]])
    link = {(pair.one, pair.other): pair.link for pair in bench.chosen.pairs}
    for s in good:
        if not s.figures["same"]:
            continue
        kind = link.get((s.cards[0], s.cards[1]), "")
        rate, floor = float(s.figures["gbs"]), baselines.of_link(kind, bench.links)
        seen = f"{kind or 'a link that no topology names'}, {bench.named(s.cards)}: {rate:.3g} GB/s"
        shown = bench.shown("peer", [f"{s.figures['mib']} MiB from the first to the second"], s.cards)
        if floor and rate < floor.least:
            words = f"It is made for {floor.rate:g}: look at the link's state, and whether peer access is on."
            yield warn(seen, words, *bench.topology(), evidence=(*shown, floor.published))
        else:
            yield replace(ok(seen), evidence=shown)


def allreduce(bench: Bench) -> Iterator[Finding]:
    busy = [card for card in bench.chosen.cards if card.users]
    if busy:
        yield unknown(f"needs all cards, and {bench.named([c.index for c in busy])} is in use", "Ask again when free.")
        return
    if bench.on_cards and len(bench.chosen.cards) < 2:
        yield skip("one card")
        return
    said = bench.of("allreduce")
    if not said:
        yield _lost(bench)
    bad = [s for s in said if s.error]
    for s in bad:
        way = f"did not end in {bench.patience_s:.0f} s" if s.hung else f"failed: {s.error}"
        silent = f" (no answer of rank {', '.join(map(str, s.cards))})" if s.cards else ""
        words = "Read the last words of the ranks; is the loopback interface up, and no firewall on the cards' ports?"
        yield fail(f"adding up over all cards {way}{silent}", words, *bench.topology(), evidence=s.evidence)
    wrong = {} if bad else wrong_sums(said)
    if wrong:
        numbers = ", ".join(map(str, wrong))
        seen = f"ranks {numbers} hold wrong sums" if len(wrong) > 1 else f"rank {numbers} holds a wrong sum"
        words = "Do not train: gradients would be wrong in silence. Look at the plugin's and the toolkit's versions."
        yield fail(seen, words, evidence=bench.shown("allreduce", tuple(wrong.values())))
    elif said and not bad:
        yield from _bus(bench, said)


def _bus(bench: Bench, said: list[Said]) -> Iterator[Finding]:
    """nccl-tests' figure: of a ring each card sends and receives 2(n-1)/n of the data."""
    n, size, spent = len(said), said[0].figures["mib"], max(float(s.figures["s"]) for s in said)
    rate = size * MIB / spent / 1e9 * 2 * (n - 1) / n
    who = f"{n} cards" if bench.on_cards else f"{n} processes"
    seen = f"{who} add up rightly, {size} MiB at {rate:.3g} GB/s of bus bandwidth"
    shown = bench.shown("allreduce", [f"{size} MiB in {1000 * spent:.3g} ms, times 2({n} - 1)/{n}"])
    floor = bench.floor("allreduce")
    tied = floor is not None and {link.rstrip("0123456789") for link in bench.chosen.links} == {floor.link}
    if floor and tied and rate < floor.least:
        words = f"{floor.least:.0f} are to be had on such cards: look at the links' state, and at NCCL_* variables."
        yield warn(seen, words, *bench.topology(), evidence=(*shown, floor.published))
    else:
        yield replace(ok(seen), evidence=shown)


def broken(bench: Bench, test: str) -> Iterator[Finding]:
    """Hangs, crashes and errors, each card's own; where nothing else was said, why not."""
    said = bench.of(test)
    for s in said:
        if not s.error:
            continue
        how = f"did not answer in {bench.patience_s:.0f} s" if s.hung else s.error
        words = (
            "Reset the card, or ask the machine's keeper: what hangs here hangs a training."
            if s.hung
            else "Read the last words of the process; the vendor's log has more."
        )
        seen = f"{bench.named(s.cards)}, {WORDS[test]}: {how}"
        yield fail(seen, words, *bench.health([s]), evidence=bench.shown(test, s.evidence, s.cards))
    if not said:
        yield _lost(bench)


def _lost(bench: Bench) -> Finding:
    """Nothing was said: a test before has taken the process along."""
    test = next((s.test for s in bench.said if s.lost), "")
    return follows(f"deep.{test}" if test in WORDS else "deep.cards")


def _good(bench: Bench, test: str) -> list[Said]:
    return [s for s in bench.of(test) if not s.error]


def is_right_product(f: Mapping[str, Any]) -> bool:
    """Within what rounding explains; `drift` where large products were timed.  NaN compares with nothing."""
    return bool(f["worst"] <= WORST and f["square"] <= SQUARE and f.get("drift", 0.0) <= WORST)


def wrong_sums(said: Sequence[Said]) -> dict[int, str]:
    """By rank what is wrong with its answer: the sums of a seed and a ramp over so many ranks are known beforehand."""
    found = {rank: _wrong_answer(s.figures, rank, len(said)) for rank, s in enumerate(said)}
    return {rank: words for rank, words in found.items() if words}


def _wrong_answer(figures: Mapping[str, Any], rank: int, world: int) -> str:
    sums = [float(sum(range(1, world + 1)) * (figures["seed"] + n % 7 + 1)) for n in range(SUMS)]
    for key, right in {"rank": rank, "world": world, "half": 1.5, "sums": sums, "wrong": 0}.items():
        if figures.get(key) != right:
            return f"process {rank} says {key} {str(figures.get(key))[:80]}, right is {str(right)[:80]}"
    return ""


def _figures(
    bench: Bench, test: str, right: list[Said], key: str, unit: str, floor: baselines.Floor | None
) -> Iterator[Finding]:
    """Who is slower than the others, who is below the floor, and else what all of them do."""
    if not right:
        return
    values = {s.cards[0]: float(s.figures[key]) for s in right}
    usual, part, slow = _usual(values), bench.outlier.get(test, OUTLIER), _slow(bench, test, values)
    below = [n for n, value in values.items() if floor and value < floor.least]
    lines = [f"{bench.named([n])}: {value:.3g} {unit}" for n, value in values.items()]
    shown = bench.shown(test, lines)
    if slow:
        parts = ", ".join(f"{bench.named([n])} {values[n]:.3g}" for n in slow)
        far = f"by more than {100 * part:.0f} %"
        seen = f"slower than the others, {far}: {parts}, where {usual:.3g} {unit} is usual"
        words = "Look at its temperature, its power limit, its clocks and its slot: all cards wait for the slowest."
        yield warn(seen, words, *bench.health([s for s in right if s.cards[0] in slow]), evidence=shown)
    if below and floor:
        seen = f"{bench.named(below)}: {min(values[n] for n in below):.3g} {unit}, {floor.least:.3g} are to be had"
        words = f"{100 * floor.share:.0f} % of the published {floor.rate:g}: look at power limit, clocks and slot."
        yield warn(seen, words, *bench.health(right[:1]), evidence=(*shown, floor.published))
    if not slow and not below:
        spread = "" if len(values) == 1 else f" ({min(values.values()):.3g} to {max(values.values()):.3g})"
        who = f"{plural(len(values), 'card')} at " if bench.on_cards else ""
        yield replace(ok(f"{who}{usual:.3g} {unit}{spread}"), evidence=shown)


def _usual(values: Mapping[int, float]) -> float:
    """The median, of two the larger."""
    return sorted(values.values())[len(values) // 2]


def _slow(bench: Bench, test: str, values: Mapping[int, float]) -> list[int]:
    least = _usual(values) * (1 - bench.outlier.get(test, OUTLIER)) if values and bench.on_cards else 0.0
    return [n for n, value in values.items() if value < least]


def _changed(bench: Bench, test: str, wrong: list[Said]) -> Iterator[Finding]:
    for s in wrong:
        words = "Take the card out of use, and tell its keeper: its bus or link changes what it carries."
        seen = f"{bench.named(s.cards)}, {WORDS[test]}: what arrived is not what was sent"
        yield fail(seen, words, *bench.health([s]), evidence=bench.shown(test, _sizes([s]), s.cards))


def _cards(said: Sequence[Said]) -> list[int]:
    return [n for s in said for n in s.cards]


def _errors(said: Sequence[Said]) -> list[str]:
    keys = ("worst", "square", "drift")
    return [f"card {s.cards[0]}: {', '.join(f'{key} {s.figures[key]:.2g}' for key in keys)}" for s in said]


def _sizes(said: Sequence[Said]) -> list[str]:
    return [f"card {s.cards[0]}: {s.figures['mib']} MiB" for s in said]


def users(cards: Sequence[Card]) -> str:
    return "; ".join(f"device {card.label}: {', '.join(card.users)}" for card in cards)


JUDGES: Mapping[str, Callable[[Bench], Iterator[Finding]]] = {
    "deep.matmul": matmul,
    "deep.memory": memory,
    "deep.copy": copy,
    "deep.peer": peer,
    "deep.allreduce": allreduce,
}
