"""Evaluates the measurements: findings for cards, for pairs and for all cards together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envcheck.core.findings import fail, ok, skip, skipped_because, unknown, warn
from envcheck.core.messages import NOTHING, Message, _, join, ngettext
from envcheck.core.model import Finding, diagnose, manual
from envcheck.core.units import MIB, format_mib
from envcheck.deep import baselines
from envcheck.deep.card_selection import CandidateCard
from envcheck.deep.interpreter import DeepResult
from envcheck.deep.measurements import DeepMeasurements
from envcheck.vendors import VENDORS

# A bf16 product is rounded to 8 bits at the end, an error of 2^-8 of the value, and once more for each partial sum that
# a library keeps in bf16 (torch allows that by default).  The limit is four such errors of the largest value; the root
# mean square is smaller.
WORST, SQUARE = 2**-6, 2**-7
SUMS = 64  # values of each rank that are compared, as program.SUMS
OUTLIER = 0.1
SPEEDS = {"matmul": ("tflops",), "copy": ("up_gbs", "down_gbs")}
WORDS = {
    "matmul": _("matrix product"),
    "memory": _("memory"),
    "copy": _("host-device copies"),
    "peer": _("copies between cards"),
}


def judge_tests(bench: DeepMeasurements, names: Iterable[str]) -> dict[str, list[Finding]]:
    """Return the findings of the requested checks by name; the check table adds name, source and vendor."""
    return {name: list(judge(bench)) for name, judge in JUDGES.items() if name in names}


def find_slow_cards(bench: DeepMeasurements) -> dict[str, list[int]]:
    """Return by test the cards that are slower than the others in one of its figures."""
    found = {}
    for test, keys in SPEEDS.items():
        good = [s for s in bench.list_results(test) if not s.error]
        outliers = {
            n for key in keys for n in _find_outliers(bench, test, {s.cards[0]: float(s.figures[key]) for s in good})
        }
        if outliers:
            found[test] = sorted(outliers)
    return found


def merge_results(one: DeepResult, other: DeepResult) -> DeepResult:
    """Return two measurements of one card as one: the better speeds and the larger errors."""
    if one.error or other.error:
        return one if one.error else other
    speeds = {k: max(one.figures[k], other.figures[k]) for k in SPEEDS[one.test]}
    errors = {
        k: _choose_worse(one.figures[k], other.figures[k]) for k in ("worst", "square", "drift") if k in one.figures
    }
    same = {"same": one.figures["same"] and other.figures["same"]} if "same" in one.figures else {}
    return replace(one, figures={**one.figures, **speeds, **errors, **same})


def _choose_worse(one: float, other: float) -> float:
    """Return the larger error; NaN is worse than any number."""
    return one if one != one or one >= other else other


def judge_matmul(bench: DeepMeasurements) -> Iterator[Finding]:
    """Yield findings on matrix products: correct within bf16 rounding, and as fast as the other cards."""
    yield from judge_errors(bench, "matmul")
    good = _list_completed(bench, "matmul")
    wrong = [s for s in good if not is_right_product(s.figures)]
    if wrong:
        worst = max(s.figures["worst"] for s in wrong)
        seen = _(
            "{wrong}: wrong matrix product; error up to {worst:.2g} % of the largest value",
            wrong=bench.name_cards(_list_cards(wrong)),
            worst=100 * worst,
        )
        words = _("Take the card out of service and inform the administrator: its results cannot be trusted.")
        yield fail(
            seen,
            diagnose(words, *bench.list_health_commands(wrong)),
            evidence=bench.format_evidence("matmul", _format_errors(wrong), _list_cards(wrong)),
        )
    right = [s for s in good if is_right_product(s.figures)]
    lacking = [s for s in right if s.figures.get("why")]
    if lacking and bench.is_on_cards:
        seen = _(
            "{lacking}: matrix products work in float32, but not in bf16: {why}",
            lacking=bench.name_cards(_list_cards(lacking)),
            why=lacking[0].figures["why"],
        )
        yield warn(seen, manual(_("Train in float16, or install a plugin version with bf16 kernels.")))
    dtype = "float32" if lacking else "bf16"
    floor = None if lacking else bench.find_baseline("matmul")
    yield from _judge_figures(bench, "matmul", right, "tflops", _("TFLOP/s in {dtype}", dtype=dtype), floor)


def judge_memory(bench: DeepMeasurements) -> Iterator[Finding]:
    """Yield findings on memory: the patterns read back unchanged, and the free memory can be allocated."""
    yield from judge_errors(bench, "memory")
    good = _list_completed(bench, "memory")
    for s in good:
        if s.figures["wrong"]:
            seen = _(
                "{cards}: {wrong} of {pieces} blocks differ when read back",
                cards=bench.name_cards(s.cards),
                wrong=s.figures["wrong"],
                pieces=s.figures["pieces"],
            )
            words = _("Take the card out of service and inform the administrator: its memory corrupts data.")
            yield fail(
                seen,
                diagnose(words, *bench.list_health_commands([s])),
                evidence=bench.format_evidence("memory", _format_sizes([s]), s.cards),
            )
        elif s.figures.get("full"):
            seen = _(
                "{cards}: only {mib} of {wanted_mib} could be allocated",
                cards=bench.name_cards(s.cards),
                mib=format_mib(s.figures["mib"]),
                wanted_mib=format_mib(s.figures["wanted_mib"]),
            )
            words = _("Find the process that uses the remaining memory, which the vendor tool shows as free.")
            shown = bench.format_evidence("memory", [s.figures["full"]])
            yield warn(seen, diagnose(words, *VENDORS[bench.chosen.vendor].commands.get("list", ())), evidence=shown)
        elif not s.figures["pieces"]:
            yield unknown(
                _("{cards}: no free memory for the test", cards=bench.name_cards(s.cards)),
                manual(_("Find the process that uses the memory.")),
            )
    right = [s for s in good if s.figures["pieces"] and not s.figures["wrong"] and not s.figures.get("full")]
    if right:
        least = min(s.figures["mib"] for s in right)
        yield replace(
            ok(
                _(
                    "{least} of {right} filled and read back",
                    least=format_mib(least),
                    right=bench.name_cards(_list_cards(right)),
                )
            ),
            evidence=bench.format_evidence("memory", _format_sizes(right)),
        )


def judge_copy(bench: DeepMeasurements) -> Iterator[Finding]:
    """Yield findings on copies between host and card, in both directions."""
    if not bench.is_on_cards:
        yield skip(_("the CPU uses host memory"))
        return
    yield from judge_errors(bench, "copy")
    good = _list_completed(bench, "copy")
    yield from _judge_changed_data(bench, "copy", [s for s in good if not s.figures["same"]])
    right = [s for s in good if s.figures["same"]]
    locked = all(s.figures["pinned"] for s in right)
    floor = bench.find_baseline("copy") if locked else None
    how = _("page-locked") if locked else _("pageable")
    for way, key in ((_("host to card"), "up_gbs"), (_("card to host"), "down_gbs")):
        unit = _("GB/s {way}, {how} memory", way=way, how=how)
        yield from _judge_figures(bench, "copy", right, key, unit, floor)


def judge_peer(bench: DeepMeasurements) -> Iterator[Finding]:
    """Yield findings on copies between cards, one pair for each link type."""
    if len(bench.chosen.cards) < 2:
        yield skip(_("one card"))
        return
    yield from judge_errors(bench, "peer")
    good = _list_completed(bench, "peer")
    yield from _judge_changed_data(bench, "peer", [s for s in good if not s.figures["same"]])
    link = {(pair.one, pair.other): pair.link for pair in bench.chosen.pairs}
    for s in good:
        if not s.figures["same"]:
            continue
        kind = link.get((s.cards[0], s.cards[1]), "")
        rate, floor = float(s.figures["gbs"]), baselines.find_link_baseline(kind, bench.links)
        seen = _(
            "{kind}, {cards}: {rate:.3g} GB/s",
            kind=kind or _("unknown link type"),
            cards=bench.name_cards(s.cards),
            rate=rate,
        )
        shown = bench.format_evidence("peer", [f"{s.figures['mib']} MiB from the first to the second"], s.cards)
        if floor and rate < floor.least_rate:
            words = _(
                "The link is designed for {rate:g} GB/s: check its state, and whether peer access is enabled.",
                rate=floor.rate,
            )
            yield warn(seen, diagnose(words, *bench.list_topology_commands()), evidence=(*shown, floor.published))
        else:
            yield replace(ok(seen), evidence=shown)


def judge_allreduce(bench: DeepMeasurements) -> Iterator[Finding]:
    """Yield findings on the all-reduce across all cards: completed, with correct sums and sufficient bandwidth."""
    busy = [card for card in bench.chosen.cards if card.users]
    if busy:
        yield unknown(
            ngettext(
                "requires all cards, but {busy} is in use",
                "requires all cards, but {busy} are in use",
                len(busy),
                busy=bench.name_cards([c.index for c in busy]),
            ),
            manual(_("Run the test again when all cards are free.")),
        )
        return
    if bench.is_on_cards and len(bench.chosen.cards) < 2:
        yield skip(_("one card"))
        return
    results = bench.list_results("allreduce")
    if not results:
        yield _blame_lost_test(bench)
    bad = [s for s in results if s.error]
    for s in bad:
        seen = (
            _("all-reduce across all cards: not finished within {patience_s:.0f} s", patience_s=bench.patience_s)
            if s.hung
            else _("all-reduce across all cards failed: {error}", error=s.error)
        )
        if s.cards:
            ranks = join(", ", map(str, s.cards))
            seen = _("{problem} (no response from rank {ranks})", problem=seen, ranks=ranks)
        words = _(
            "Read the last output of the ranks. Check that the loopback interface is up and no "
            "firewall blocks the cards' ports."
        )
        yield fail(
            seen,
            diagnose(words, *bench.list_topology_commands()),
            evidence=s.evidence,
        )
    wrong = {} if bad else find_wrong_sums(results)
    if wrong:
        numbers = join(", ", map(str, wrong))
        seen = ngettext(
            "rank {numbers} has a wrong all-reduce sum",
            "ranks {numbers} have wrong all-reduce sums",
            len(wrong),
            numbers=numbers,
        )
        words = _("Do not train: gradients would be silently wrong. Check the versions of the plugin and the toolkit.")
        yield fail(seen, manual(words), evidence=bench.format_evidence("allreduce", tuple(wrong.values())))
    elif results and not bad:
        yield from _judge_bus_bandwidth(bench, results)


def _judge_bus_bandwidth(bench: DeepMeasurements, results: list[DeepResult]) -> Iterator[Finding]:
    """Yield the finding on the bus bandwidth as nccl-tests defines it: in a ring each card sends 2(n-1)/n of the
    data."""
    n, size, spent = len(results), results[0].figures["mib"], max(float(s.figures["s"]) for s in results)
    rate = size * MIB / spent / 1e9 * 2 * (n - 1) / n
    who = (
        ngettext("{count} card", "{count} cards", n)
        if bench.is_on_cards
        else ngettext("{count} process", "{count} processes", n)
    )
    seen = _("{who}: all-reduce of {size} MiB is correct, {rate:.3g} GB/s bus bandwidth", who=who, size=size, rate=rate)
    shown = bench.format_evidence("allreduce", [f"{size} MiB in {1000 * spent:.3g} ms, times 2({n} - 1)/{n}"])
    floor = bench.find_baseline("allreduce")
    tied = floor is not None and {link.rstrip("0123456789") for link in bench.chosen.link_kinds} == {floor.link}
    if floor and tied and rate < floor.least_rate:
        words = _(
            "Expected at least {least:.0f} GB/s on these cards: check the state of the links and the NCCL_* variables.",
            least=floor.least_rate,
        )
        yield warn(seen, diagnose(words, *bench.list_topology_commands()), evidence=(*shown, floor.published))
    else:
        yield replace(ok(seen), evidence=shown)


def judge_errors(bench: DeepMeasurements, test: str) -> Iterator[Finding]:
    """Yield hangs, crashes and errors of each card; if there is no result at all, the reason."""
    results = bench.list_results(test)
    for s in results:
        if not s.error:
            continue
        how = _("no response within {patience_s:.0f} s", patience_s=bench.patience_s) if s.hung else s.error
        words = (
            _("Reset the card, or contact the administrator: a card that hangs here also hangs training.")
            if s.hung
            else _("Read the last output of the process and the vendor's log.")
        )
        seen = _("{cards}, {test}: {how}", cards=bench.name_cards(s.cards), test=WORDS[test], how=how)
        yield fail(
            seen,
            diagnose(words, *bench.list_health_commands([s])),
            evidence=bench.format_evidence(test, s.evidence, s.cards),
        )
    if not results:
        yield _blame_lost_test(bench)


def _blame_lost_test(bench: DeepMeasurements) -> Finding:
    """Return the BLOCKED finding for a test without results, because an earlier test lost the process."""
    test = next((s.test for s in bench.results if s.lost), "")
    return skipped_because(f"deep.{test}" if test in WORDS else "deep.cards")


def _list_completed(bench: DeepMeasurements, test: str) -> list[DeepResult]:
    return [s for s in bench.list_results(test) if not s.error]


def is_right_product(f: Mapping[str, Any]) -> bool:
    """Return whether the errors are within bf16 rounding; `drift` exists if large products were timed. NaN is wrong."""
    return bool(f["worst"] <= WORST and f["square"] <= SQUARE and f.get("drift", 0.0) <= WORST)


def find_wrong_sums(results: Sequence[DeepResult]) -> dict[int, str]:
    """Return the error of each rank with a wrong answer; the correct sums follow from the seed and the number of
    ranks."""
    found = {rank: _find_wrong_value(s.figures, rank, len(results)) for rank, s in enumerate(results)}
    return {rank: words for rank, words in found.items() if words}


def _find_wrong_value(figures: Mapping[str, Any], rank: int, world: int) -> Message:
    sums = [float(sum(range(1, world + 1)) * (figures["seed"] + n % 7 + 1)) for n in range(SUMS)]
    for key, right in {"rank": rank, "world": world, "half": 1.5, "sums": sums, "wrong": 0}.items():
        if figures.get(key) != right:
            return _(
                "process {rank}: {key}: expected {right}, got {value}",
                rank=rank,
                key=key,
                value=str(figures.get(key))[:80],
                right=str(right)[:80],
            )
    return NOTHING


def _judge_figures(
    bench: DeepMeasurements,
    test: str,
    right: list[DeepResult],
    key: str,
    unit: Message,
    floor: baselines.Baseline | None,
) -> Iterator[Finding]:
    """Yield findings on cards slower than the others, on cards below the published rate, or else one OK finding."""
    if not right:
        return
    values = {s.cards[0]: float(s.figures[key]) for s in right}
    usual, part, slow = _find_median(values), bench.outlier.get(test, OUTLIER), _find_outliers(bench, test, values)
    below = [n for n, value in values.items() if floor and value < floor.least_rate]
    lines = [f"{bench.name_cards([n])}: {value:.3g} {unit}" for n, value in values.items()]
    shown = bench.format_evidence(test, lines)
    if slow:
        parts = join(", ", (_("{card} at {rate:.3g}", card=bench.name_cards([n]), rate=values[n]) for n in slow))
        seen = _(
            "{parts}: more than {part:.0f} % slower than the median of {usual:.3g} {unit}",
            parts=parts,
            part=100 * part,
            usual=usual,
            unit=unit,
        )
        words = _(
            "Check the card's temperature, power limit, clocks and PCIe slot: all cards wait for the slowest one."
        )
        yield warn(
            seen, diagnose(words, *bench.list_health_commands([s for s in right if s.cards[0] in slow])), evidence=shown
        )
    if below and floor:
        seen = _(
            "{cards}: {rate:.3g} {unit}; expected at least {least:.3g} {unit}",
            cards=bench.name_cards(below),
            rate=min(values[n] for n in below),
            unit=unit,
            least=floor.least_rate,
        )
        words = _(
            "The limit is {share:.0f} % of the published {rate:g}: check the power limit, clocks and PCIe slot.",
            share=100 * floor.share,
            rate=floor.rate,
        )
        yield warn(seen, diagnose(words, *bench.list_health_commands(right[:1])), evidence=(*shown, floor.published))
    if not slow and not below:
        yield replace(ok(_describe_rates(bench, list(values.values()), usual, unit)), evidence=shown)


def _describe_rates(bench: DeepMeasurements, values: list[float], usual: float, unit: Message) -> Message:
    """Return the median, with the range if there are several values, and the number of cards."""
    rate = _("{usual:.3g} {unit}", usual=usual, unit=unit)
    if len(values) > 1:
        low, high = min(values), max(values)
        rate = _("{usual:.3g} {unit} ({low:.3g} to {high:.3g})", usual=usual, unit=unit, low=low, high=high)
    return (
        ngettext("{count} card: {rate}", "{count} cards: {rate}", len(values), rate=rate) if bench.is_on_cards else rate
    )


def _find_median(values: Mapping[int, float]) -> float:
    """Return the median; of two values the larger."""
    return sorted(values.values())[len(values) // 2]


def _find_outliers(bench: DeepMeasurements, test: str, values: Mapping[int, float]) -> list[int]:
    least = _find_median(values) * (1 - bench.outlier.get(test, OUTLIER)) if values and bench.is_on_cards else 0.0
    return [n for n, value in values.items() if value < least]


def _judge_changed_data(bench: DeepMeasurements, test: str, wrong: list[DeepResult]) -> Iterator[Finding]:
    for s in wrong:
        words = _("Take the card out of service and inform the administrator: its bus or link corrupts data.")
        seen = _(
            "{cards}, {test}: received data differs from the data sent",
            cards=bench.name_cards(s.cards),
            test=WORDS[test],
        )
        yield fail(
            seen,
            diagnose(words, *bench.list_health_commands([s])),
            evidence=bench.format_evidence(test, _format_sizes([s]), s.cards),
        )


def _list_cards(results: Sequence[DeepResult]) -> list[int]:
    return [n for s in results for n in s.cards]


def _format_errors(results: Sequence[DeepResult]) -> list[str]:
    keys = ("worst", "square", "drift")
    return [f"card {s.cards[0]}: {', '.join(f'{key} {s.figures[key]:.2g}' for key in keys)}" for s in results]


def _format_sizes(results: Sequence[DeepResult]) -> list[str]:
    return [f"card {s.cards[0]}: {s.figures['mib']} MiB" for s in results]


def format_users(cards: Sequence[CandidateCard]) -> Message:
    """Return the cards and the processes that use them."""
    return join("; ", (_("device {label}: {users}", label=card.label, users=join(", ", card.users)) for card in cards))


JUDGES: Mapping[str, Callable[[DeepMeasurements], Iterator[Finding]]] = {
    "deep.matmul": judge_matmul,
    "deep.memory": judge_memory,
    "deep.copy": judge_copy,
    "deep.peer": judge_peer,
    "deep.allreduce": judge_allreduce,
}
