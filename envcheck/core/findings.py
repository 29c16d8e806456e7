"""Helpers for checks: findings by status, evidence, and device names.  The check table adds the check's name and
source."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.messages import NOTHING, Message, _, fill, join, ngettext
from envcheck.core.model import Answer, Device, Finding, Remedy, Status

Judge = Callable[[Facts], Iterator[Finding]]
CardJudge = Callable[[Facts, VendorFacts], Iterator[Finding]]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
P = ParamSpec("P")

GIB, MIB = 1 << 30, 1 << 20
LINE_LIMIT, NAMED_LIMIT, XML_LINES = 160, 8, 400


def ok(seen: Message) -> Finding:
    """Return an OK finding."""
    return Finding("", Status.OK, seen)


def skip(seen: Message) -> Finding:
    """Return a NOT_APPLICABLE finding: the check makes no sense on this host."""
    return Finding("", Status.NOT_APPLICABLE, seen)


def skipped_because(cause: str, seen: Message = NOTHING) -> Finding:
    """Return a BLOCKED finding: the check could not run because the check `cause` failed."""
    return Finding("", Status.BLOCKED, seen, blocked_by=cause)


def suppressed_by(cause: str, own: Finding) -> Finding:
    """Return `own`, shown only if the check `cause` passed.  Findings that are not a problem, and an empty cause,
    change nothing."""
    return replace(own, blocked_by=cause) if own.status.is_problem else own


def unknown(seen: Message, remedy: Remedy | None = None, evidence: tuple[str, ...] = ()) -> Finding:
    """Return an UNKNOWN finding: the check could not determine the answer."""
    return Finding("", Status.UNKNOWN, seen, remedy, evidence)


def warn(seen: Message, remedy: Remedy, evidence: tuple[str, ...] = ()) -> Finding:
    """Return a WARN finding: training works, at a cost."""
    return Finding("", Status.WARN, seen, remedy, evidence)


def fail(seen: Message, remedy: Remedy, evidence: tuple[str, ...] = ()) -> Finding:
    """Return a FAIL finding: training will not start, or will break."""
    return Finding("", Status.FAIL, seen, remedy, evidence)


def warn_or_fail(status: Status, seen: Message, remedy: Remedy, evidence: tuple[str, ...] = ()) -> Finding:
    """Return a finding with this status, if a limit decides between WARN and FAIL."""
    return Finding("", status, seen, remedy, evidence)


def report_missing_rule(v: VendorFacts, what: str) -> Finding:
    """Return an UNKNOWN finding: the vendor's record has no value for `what`, which the check compares with."""
    return unknown(_("no rule for {title}: its vendor record has no {what}", title=v.vendor.title, what=what))


class FactRequirement(Protocol[T_co]):
    """A decorator that turns a judge of a value read from the facts into a judge of the facts."""

    def __call__(
        self, judge: Callable[Concatenate[T_co, Facts, P], Iterator[Finding]], /
    ) -> Callable[Concatenate[Facts, P], Iterator[Finding]]: ...


def requires_fact(read: Callable[[Facts], T | None], *keys: str) -> FactRequirement[T]:
    """Return a decorator: the judge receives the value that `read` returns.  If that is None, the judge does not run
    and the finding is UNKNOWN, with the outcomes of the questions `keys`."""

    def decorate(
        judge: Callable[Concatenate[T, Facts, P], Iterator[Finding]],
    ) -> Callable[Concatenate[Facts, P], Iterator[Finding]]:
        @wraps(judge)
        def judged(facts: Facts, /, *rest: P.args, **more: P.kwargs) -> Iterator[Finding]:
            seen = read(facts)
            if seen is None:
                yield report_unanswered(facts, *keys)
            else:
                yield from judge(seen, facts, *rest, **more)

        return judged

    return decorate


def report_unanswered(facts: Facts, *keys: str) -> Finding:
    """Return an UNKNOWN finding with the outcomes of these questions."""
    ends = [
        _("{asked}: {end}", asked=_bare(format_question(key)), end=_describe_outcome(facts.answers.get(key)))
        for key in keys
    ]
    return unknown(_("cannot determine ({ends})", ends=join("; ", ends)) if ends else _("unknown"))


def _bare(asked: str) -> str:
    return asked[:-1] if asked.endswith(":") else asked  # lspci -d 10de:


def vendor_commands(v: VendorFacts, purpose: str, *devices: Device) -> tuple[str, ...]:
    """Return the vendor's commands for a purpose, for these devices, or with the placeholder <id>."""
    numbers = ",".join(str(device.index if device.npu is None else device.npu) for device in devices) or "<id>"
    return tuple(c.replace("{id}", numbers) for c in v.vendor.commands.get(purpose, ()))


def pci_commands(facts: Facts, v: VendorFacts) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the vendor's commands that list the cards on the PCI bus, and those that show the kernel log.

    Of several PCI vendor ids, only those that cards of the host have are listed.
    """
    commands = vendor_commands(v, "pci")
    answers = {format_question(q.key): facts.answers.get(q.key) for q in v.vendor.pci_questions}
    silent = {query for query, answer in answers.items() if not (answer and answer.out.strip())}
    left_out = silent if len(silent) < len(answers) else set()
    listings = tuple(command for command in commands if command.startswith("lspci"))
    messages = tuple(command for command in commands if command not in listings)
    return tuple(command for command in listings if command not in left_out), messages


def format_question(key: str) -> str:
    """Return an answer's key as the equivalent shell command."""
    verb, _unused, what = key.partition(" ")
    return {
        "run": what,
        "read": f"cat {what}",
        "list": f"ls -d {what}",
        "ask": _("collector `{what}`", what=what),
    }.get(verb, key)


def quote_answer(answer: Answer | None, *words: object) -> tuple[str, ...]:
    """Return evidence: the command, and the first line of its output that contains the words in this order."""
    if answer is None:
        return ()
    pattern = re.compile(".*?".join(re.escape(str(w)) for w in words) if words else r"\S")
    line = next((ln.strip() for ln in answer.text.splitlines() if pattern.search(ln)), "")
    return (f"$ {format_question(answer.key)}", *([line[:LINE_LIMIT]] if line else []))


def device_label(device: Device) -> str:
    """Return the vendor tool's name for the device: "3", or "3 chip 1" if several dies share an NPU."""
    if device.npu is None:
        return "?" if device.index is None else str(device.index)
    return f"{device.npu}" if not device.chip else f"{device.npu} chip {device.chip}"


def name_devices(devices: Iterable[Device]) -> Message:
    """Return the devices by name: "device 3", "devices 0, 3, 5 and 9 more"."""
    labels = [device_label(d) for d in devices]
    if len(labels) > 2 and all(label.isdigit() for label in labels):
        return _("devices {labels}", labels=format_ranges([int(label) for label in labels]))
    more = len(labels) - NAMED_LIMIT
    shown = join(", ", labels[:NAMED_LIMIT])
    if more > 0:
        shown = _("{shown} and {more} more", shown=shown, more=more)
    return ngettext("device {shown}", "devices {shown}", len(labels) or 1, shown=shown)


def format_ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: "0-7", "0, 2, 5-7"."""
    runs: list[list[int]] = []
    for n in sorted(set(numbers)):
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return join(", ", (str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs))


def quote_values(source: str, **values: object) -> tuple[str, ...]:
    """Return evidence for values read from a system call instead of a command: the call and its results."""
    return (f"{source}: {', '.join(f'{name} {value}' for name, value in values.items())}"[:LINE_LIMIT],)


def quote_nothing(*keys: str) -> tuple[str, ...]:
    """Return evidence: the commands, and that they printed nothing."""
    return (f"$ {'; '.join(format_question(key) for key in keys)}", "(nothing)")


def quote_listing(facts: Facts, v: VendorFacts, *words: object) -> tuple[str, ...]:
    """Return evidence like `quote_answer`, from the first of the vendor's device lists that has a matching line."""
    shown = [quote_answer(facts.answers.get(q.key), *words) for q in v.vendor.devices]
    return next((lines for lines in shown if len(lines) > 1), quote_answer(v.tool, *words))


_TAGS = {
    "temperature_c": r"<[gx]pu_temp>",
    "utilization_percent": r"<[gx]pu_util>",
    "memory_used_mib": r"<used>",
    "ecc_uncorrected": r"uncorrectable\w*>[1-9]",
    "memory_total_mib": r"<total>",
}


def quote_device(v: VendorFacts, device: Device, attribute: str) -> tuple[str, ...]:
    """Return evidence: the line of the device listing that shows this attribute of this device only.

    In XML the line is inside the device's <gpu> element; in a table it is the row with the bus id, or the row next to
    it.
    """
    text = v.tool.out if v.tool else ""
    lines = [line.strip() for line in text.splitlines()]
    at = next((n for n, line in enumerate(lines) if device.bus_id and device.bus_id in line), None)
    figure = rf"(?<![\d.]){_format_figure(getattr(device, attribute))}(?![\d.])"
    if v.tool is None or at is None:
        return quote_answer(v.tool)[:1]
    if lines[at].startswith("<"):
        tagged = [line for line in lines[at : at + XML_LINES] if re.search(_TAGS[attribute], line)]
        found = [
            line for line in tagged if re.search(figure, line)
        ] or tagged  # MIG instances have their own values first
    else:
        rows = [lines[n] for n in (at, at + 1, at - 1) if 0 <= n < len(lines)]
        found = [line for line in rows if re.search(figure, line)]
    return (f"$ {format_question(v.tool.key)}", *(line[:LINE_LIMIT] for line in found[:1]))


def _format_figure(value: float | None) -> str:
    return "" if value is None else str(int(value)) if value == int(value) else str(value)


def find_incomplete_cause(facts: Facts, v: VendorFacts) -> str:
    """Return the name of the check that reports missing devices, or "" if all devices are listed."""
    if v.document and v.document.truncated:
        return "driver.whole_answer"
    return "devices.count" if count_missing_devices(facts, v) else ""


def count_missing_devices(facts: Facts, v: VendorFacts) -> int:
    """Return how many devices the bus shows but the tool does not list, assuming the same number of devices per
    slot."""
    slots = len({d.bus_id for d in v.devices if d.bus_id}) or len(v.devices)  # two chips of a Duo card share one Bus-Id
    if not v.devices or not v.pci or is_in_container(facts):
        return 0
    return max(0, len(v.pci) - slots) * (len(v.devices) // slots)


def is_in_container(facts: Facts) -> bool:
    """Return whether the facts were collected inside a container."""
    return bool(facts.host and facts.host.in_container)


def format_bytes(size: float) -> str:
    """Return a size for people: "512 MiB", "15.6 GiB", "128 GiB"."""
    if size < GIB:
        return f"{size / MIB:.0f} MiB"
    return f"{size / GIB:.1f} GiB" if size < 100 * GIB else f"{size / GIB:.0f} GiB"


def local_severity(facts: Facts) -> Status:
    """Return the severity of a problem of this system that a training image would not have.

    WARN if a container engine is available on the host; FAIL inside a container and without an engine.
    """
    starts = facts.engine is not None and facts.engine.error is None
    return Status.WARN if starts and not is_in_container(facts) else Status.FAIL


def count_requested_nodes(facts: Facts) -> int:
    """Return the number of nodes of the requested job, 1 without a job."""
    return facts.wanted.nodes if facts.wanted else 1


def _describe_outcome(answer: Answer | None) -> Message:
    if answer is None:
        return _("skipped")
    if answer.err.strip():
        return fill(answer.err.strip().splitlines()[0][:LINE_LIMIT])
    return _("unreadable") if answer.ok else fill(answer.outcome.value)
