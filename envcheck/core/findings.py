"""What checks share: the five answers, the evidence, and the names of devices.  The table stamps name and source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.model import Answer, Device, Finding, Remedy, Status

Judge = Callable[[Facts], Iterator[Finding]]
CardJudge = Callable[[Facts, VendorFacts], Iterator[Finding]]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

GIB, MIB = 1 << 30, 1 << 20
LINE_LIMIT, NAMED_LIMIT, XML_LINES = 160, 8, 400


def ok(seen: str) -> Finding:
    return Finding("", Status.OK, seen)


def skip(seen: str) -> Finding:
    return Finding("", Status.NOT_APPLICABLE, seen)


def follows(cause: str, seen: str = "") -> Finding:
    """BLOCKED: nothing more than `seen` can be said here, because the check `cause` failed."""
    return Finding("", Status.BLOCKED, seen, blocked_by=cause)


def told_by(cause: str, own: Finding) -> Finding:
    """`own`, which counts only where the check `cause` found nothing as bad; no cause, or nothing amiss: always."""
    return replace(own, blocked_by=cause) if own.status.is_problem else own


def unknown(seen: str, words: str = "", *commands: str, evidence: tuple[str, ...] = ()) -> Finding:
    return Finding("", Status.UNKNOWN, seen, Remedy(words, commands) if words else None, evidence)


def warn(seen: str, words: str, *commands: str, evidence: tuple[str, ...] = ()) -> Finding:
    return Finding("", Status.WARN, seen, Remedy(words, commands), evidence)


def fail(seen: str, words: str, *commands: str, evidence: tuple[str, ...] = ()) -> Finding:
    return Finding("", Status.FAIL, seen, Remedy(words, commands), evidence)


def graded(status: Status, seen: str, words: str, *commands: str, evidence: tuple[str, ...] = ()) -> Finding:
    """WARN or FAIL, where a figure decides which."""
    return Finding("", status, seen, Remedy(words, commands), evidence)


def no_rule(v: VendorFacts, what: str) -> Finding:
    """UNKNOWN, because the vendor's record has not what the check judges by."""
    return unknown(f"no rule for {v.vendor.title}: its record names no {what}")


class Reading(Protocol[T_co]):
    """Makes a judge of the facts of one that wants to know, first, what was read out of them."""

    def __call__(
        self, judge: Callable[Concatenate[T_co, Facts, P], Iterator[Finding]], /
    ) -> Callable[Concatenate[Facts, P], Iterator[Finding]]: ...


def reading(read: Callable[[Facts], T | None], *keys: str) -> Reading[T]:
    """Where nothing was read the judge is not asked: it is not told, and how the questions `keys` ended."""

    def of(
        judge: Callable[Concatenate[T, Facts, P], Iterator[Finding]],
    ) -> Callable[Concatenate[Facts, P], Iterator[Finding]]:
        @wraps(judge)
        def judged(facts: Facts, /, *rest: P.args, **more: P.kwargs) -> Iterator[Finding]:
            seen = read(facts)
            if seen is None:
                yield not_told(facts, *keys)
            else:
                yield from judge(seen, facts, *rest, **more)

        return judged

    return of


def not_told(facts: Facts, *keys: str) -> Finding:
    """UNKNOWN, with how the questions ended."""
    ends = [f"{command(key).removesuffix(':')}: {_end(facts.answers.get(key))}" for key in keys]  # lspci -d 10de:
    return unknown(f"could not be told ({'; '.join(ends)})" if ends else "could not be told")


def commands(v: VendorFacts, purpose: str, *devices: Device) -> tuple[str, ...]:
    """The vendor's commands for a purpose, for these devices or with <id> to fill in."""
    numbers = ",".join(str(device.index if device.npu is None else device.npu) for device in devices) or "<id>"
    return tuple(c.replace("{id}", numbers) for c in v.vendor.commands.get(purpose, ()))


def command(key: str) -> str:
    """An answer's key as a person would type it."""
    verb, _, what = key.partition(" ")
    return {"run": what, "read": f"cat {what}", "list": f"ls -d {what}", "ask": f"envcheck's look at {what}"}.get(
        verb, key
    )


def quote(answer: Answer | None, *words: object) -> tuple[str, ...]:
    """Evidence: the command and the first line of its answer that holds the words in this order."""
    if answer is None:
        return ()
    pattern = re.compile(".*?".join(re.escape(str(w)) for w in words) if words else r"\S")
    line = next((ln.strip() for ln in answer.text.splitlines() if pattern.search(ln)), "")
    return (f"$ {command(answer.key)}", *([line[:LINE_LIMIT]] if line else []))


def label(device: Device) -> str:
    """What the vendor's tool calls it: "3", or "3 chip 1" where dies share an NPU."""
    if device.npu is None:
        return "?" if device.index is None else str(device.index)
    return f"{device.npu}" if not device.chip else f"{device.npu} chip {device.chip}"


def named(devices: Iterable[Device]) -> str:
    """ "device 3", "devices 0, 3, 5 and 9 more"."""
    labels = [label(d) for d in devices]
    if len(labels) > 2 and all(one.isdigit() for one in labels):
        return f"devices {ranges([int(one) for one in labels])}"
    more = len(labels) - NAMED_LIMIT
    shown = ", ".join(labels[:NAMED_LIMIT]) + (f" and {more} more" if more > 0 else "")
    return f"device{'s' if len(labels) > 1 else ''} {shown}"


def ranges(numbers: Sequence[int]) -> str:
    """ "0-7", "0, 2, 5-7"."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def figures(source: str, **values: object) -> tuple[str, ...]:
    """Evidence where the system itself was asked and no command: the call, and what it gave."""
    return (f"{source}: {', '.join(f'{name} {value}' for name, value in values.items())}"[:LINE_LIMIT],)


def nothing(*keys: str) -> tuple[str, ...]:
    """Evidence: the question, and that nothing came back."""
    return (f"$ {'; '.join(command(key) for key in keys)}", "(nothing)")


def telling(facts: Facts, v: VendorFacts, *words: object) -> tuple[str, ...]:
    """As `quote`, from the first of the vendor's lists that has such a line."""
    shown = [quote(facts.answers.get(q.key), *words) for q in v.vendor.devices]
    return next((lines for lines in shown if len(lines) > 1), quote(v.tool, *words))


_TAGS = {
    "temperature_c": r"<gpu_temp>",
    "utilization_percent": r"<gpu_util>",
    "memory_used_mib": r"<used>",
    "ecc_uncorrected": r"uncorrectable\w*>[1-9]",
    "memory_total_mib": r"<total>",
}


def of_device(v: VendorFacts, device: Device, attribute: str) -> tuple[str, ...]:
    """Evidence: the line of this device, and of no other, that shows the attribute.

    In XML its own <gpu>; in a list the row with its bus id, or of rows with two lines the one that has the figure.
    """
    text = v.tool.out if v.tool else ""
    lines = [line.strip() for line in text.splitlines()]
    at = next((n for n, line in enumerate(lines) if device.bus_id and device.bus_id in line), None)
    figure = rf"(?<![\d.]){_figure(getattr(device, attribute))}(?![\d.])"
    if v.tool is None or at is None:
        return quote(v.tool)[:1]
    if lines[at].startswith("<"):
        tagged = [line for line in lines[at : at + XML_LINES] if re.search(_TAGS[attribute], line)]
        found = [line for line in tagged if re.search(figure, line)] or tagged  # instances of MIG have their own before
    else:
        rows = [lines[n] for n in (at, at + 1, at - 1) if 0 <= n < len(lines)]
        found = [line for line in rows if re.search(figure, line)]
    return (f"$ {command(v.tool.key)}", *(line[:LINE_LIMIT] for line in found[:1]))


def _figure(value: float | None) -> str:
    return "" if value is None else str(int(value)) if value == int(value) else str(value)


def plural(n: int, word: str) -> str:
    """ "1 device", "3 processes"."""
    return f"{n} {word}" if n == 1 else f"{n} {word}{'es' if word.endswith('s') else 's'}"


def incomplete(facts: Facts, v: VendorFacts) -> str:
    """The check that says that devices are missing: none that counts them can judge the rest."""
    if v.document and v.document.truncated:
        return "driver.whole_answer"
    return "devices.count" if missing(facts, v) else ""


def missing(facts: Facts, v: VendorFacts) -> int:
    """How many devices the tool does not list, though the bus shows them; each slot has as many as the others."""
    slots = len({d.bus_id for d in v.devices if d.bus_id}) or len(v.devices)  # two chips of a Duo card share one Bus-Id
    if not v.devices or not v.pci or in_container(facts):
        return 0
    return max(0, len(v.pci) - slots) * (len(v.devices) // slots)


def in_container(facts: Facts) -> bool:
    return bool(facts.host and facts.host.in_container)


def gib(size: float) -> str:
    """A size for people."""
    if size < GIB:
        return f"{size / MIB:.0f} MiB"
    return f"{size / GIB:.1f} GiB" if size < 100 * GIB else f"{size / GIB:.0f} GiB"


def here(facts: Facts) -> Status:
    """How bad it is when this system itself cannot train: FAIL in a container, and where no engine would start one."""
    starts = facts.engine is not None and facts.engine.error is None
    return Status.WARN if starts and not in_container(facts) else Status.FAIL


def nodes_wanted(facts: Facts) -> int:
    return facts.wanted.nodes if facts.wanted else 1


def _end(answer: Answer | None) -> str:
    return (
        "not asked"
        if answer is None
        else answer.err.strip().splitlines()[0][:LINE_LIMIT]
        if answer.err.strip()
        else "not readable"
        if answer.ok
        else answer.outcome.value
    )
