"""The processes on the devices: there, gone, left over, and whether each has a device of its own."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.devices import conflicts
from envcheck.core.check import Check, of_devices, of_vendor
from envcheck.core.derived.device_processes import SHOWN, format_processes, inspect_commands
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import figures, follows, not_told, ok, plural, skip, telling, told_by, unknown, warn
from envcheck.core.model import Finding, Process
from probes.host import schemas


def ghosts(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each process that the tool lists exists."""
    me, seen = schemas.caller(facts), schemas.processes(facts)
    listed = [p.pid for p in v.processes or () if p.pid is not None]
    if me is None or seen is None or v.processes is None or not seen.pids:
        yield not_told(facts, "ask processes", "ask caller")
    elif not listed:
        yield ok("the tool lists no process")
    elif me.host_pids is not True:
        yield skip("process ids of the host mean nothing in this namespace")
    elif lost := conflicts.ghosts(facts, v):
        words = "Stop the container that it ran in, or reset the device: its memory comes back no other way."
        seen_words = f"the tool lists pid {', '.join(map(str, lost[:SHOWN]))}, and there is no such process"
        yield warn(seen_words, words, "docker ps", evidence=telling(facts, v, lost[0]))
    else:
        yield ok(f"{plural(len(listed), 'listed process')}, all there")


def leftovers(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No rank of an ended job is left on the devices, and none is stuck."""
    me, seen = schemas.caller(facts), schemas.processes(facts)
    if me is None or seen is None:
        yield not_told(facts, "ask processes", "ask caller")
        return
    stuck, orphans = conflicts.stuck(facts, v), conflicts.orphans(facts, v)
    if stuck:
        words = "End it with SIGKILL; one in state D ends only with the driver's help: reset the device or reboot."
        why = conflicts.STUCK[stuck[0].state or ""]
        shown = figures(f"/proc/{stuck[0].pid}/stat", state=stuck[0].state)
        yield warn(f"{conflicts.held_by(stuck)}: {why}", words, f"kill -KILL {stuck[0].pid}", evidence=shown)
    if orphans:
        words = "End it if its job is over: the launcher that started it is gone."
        shown = figures(f"/proc/{orphans[0].pid}/stat", parent=1, age_s=orphans[0].age_s)
        left = conflicts.held_by(orphans)
        yield warn(f"left of an ended launcher: {left}", words, f"kill {orphans[0].pid}", evidence=shown)
    if seen.blind and not conflicts.holders(facts, v):
        yield follows("devices.open_nodes", "as far as processes may be looked into")
    elif not stuck and not orphans:
        yield ok("no rank without its launcher")


def processes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No other process works on the devices."""
    if v.document and v.document.truncated:
        yield follows("driver.whole_answer", "no whole list of processes")
    elif v.processes is None:
        yield unknown("no form of the tool's answer lists processes")
    elif not v.processes:
        yield ok("no process is on the devices")
    else:
        for cause, some in conflicts.by_cause(v.processes, conflicts.cause(facts, v)):
            found = _working(facts, v, some)
            yield found if cause == conflicts.PROCESSES else told_by(cause, found)


def _working(facts: Facts, v: VendorFacts, some: list[Process]) -> Finding:
    seen = f"{plural(len(some), 'process')} on the devices: {format_processes(some)}"
    shown = telling(facts, v, some[0].pid) if some[0].pid is not None else ()
    words = "Wait for it, or stop it: a second job on a device fails late, or slows both."
    return warn(seen, words, *inspect_commands(v, some), evidence=shown)


def spread(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each rank works on its own device: ranks that show on every device opened them before they chose."""
    if v.processes is None:
        yield unknown("no form of the tool's answer lists processes")
        return
    places: dict[int, set[tuple[int | None, int | None]]] = {}
    for p in v.processes:
        if p.pid is not None:
            places.setdefault(p.pid, set()).add((p.device, p.chip))
    wide = {pid for pid, on in places.items() if len(on) > 1}
    crossing = [pid for pid in wide if any(places[pid] & places[other] for other in wide - {pid})]
    if crossing:
        words = "Set the visible devices for each rank before the framework is imported; each context costs memory."
        seen = f"{len(crossing)} processes share {len(set().union(*(places[p] for p in crossing)))} devices"
        yield warn(seen, words, f"ps -o pid,user,cmd -p {min(crossing)}", evidence=telling(facts, v, min(crossing)))
    else:
        yield ok(f"{plural(len(places), 'process')}, none across others' devices")


CHECKS: tuple[Check, ...] = (
    of_devices(
        "devices.ghosts",
        ghosts,
        reads="the vendor's tool, /proc",
        source="VisEdit#5",
        rule="WARN when a listed process does not exist",
        fix="Stop its container, or reset the device.",
    ),
    of_vendor(
        "devices.leftovers",
        leftovers,
        reads="/proc/*/fd, /proc/*/stat",
        source="verl#332, FaultDiag AISW_PyTorch_Start_03, LlamaFactory#6646",
        rule="WARN when a process on a device is stuck, or is the caller's own and its launcher is gone",
        fix="End it.",
    ),
    of_devices(
        "devices.processes",
        processes,
        reads="the vendor's tool",
        source="Ascend/pytorch#166, verl#332",
        rule="WARN for any process; follows from devices.ghosts, devices.leftovers or job.memory where they tell of it",
        fix="Wait for it or stop it.",
    ),
    of_devices(
        "devices.spread",
        spread,
        reads="the vendor's tool",
        source="PaddleCustomDevice#767",
        rule="WARN when several processes each hold the same several devices",
        fix="Set the visible devices for each rank before anything is imported.",
    ),
)
