"""Checks of the processes on the devices: existing, left over, and one device for each rank."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.devices import occupancy_causes
from envcheck.core.check import Check, device_check, vendor_check
from envcheck.core.derived.device_processes import SHOWN, format_processes, process_inspect_commands
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    ok,
    quote_listing,
    quote_values,
    report_unanswered,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    warn,
)
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, Process, diagnose, fix
from probes.host import schemas


def check_ghosts(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Every process that the vendor tool lists exists."""
    me, seen = schemas.read_caller(facts), schemas.read_processes(facts)
    listed = [p.pid for p in v.processes or () if p.pid is not None]
    if me is None or seen is None or v.processes is None or not seen.pids:
        yield report_unanswered(facts, "ask processes", "ask caller")
    elif not listed:
        yield ok(_("the vendor tool lists no processes"))
    elif me.host_pids is not True:
        yield skip(_("process IDs of the host are not valid in this PID namespace"))
    elif lost := occupancy_causes.find_ghost_pids(facts, v):
        words = _("Stop the container in which the process ran. If the memory is still in use, reset the device.")
        seen_words = _(
            "the vendor tool lists pid {lost}, but no such process exists", lost=join(", ", map(str, lost[:SHOWN]))
        )
        yield warn(seen_words, diagnose(words, "docker ps"), evidence=quote_listing(facts, v, lost[0]))
    else:
        yield ok(ngettext("{count} listed process, running", "{count} listed processes, all running", len(listed)))


def check_leftovers(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No rank of an ended job is left on the devices, and no process is stuck."""
    me, seen = schemas.read_caller(facts), schemas.read_processes(facts)
    if me is None or seen is None:
        yield report_unanswered(facts, "ask processes", "ask caller")
        return
    stuck, orphans = occupancy_causes.find_stuck_holders(facts, v), occupancy_causes.find_orphaned_holders(facts, v)
    if stuck:
        words = _("Kill the process with SIGKILL. A process in state D requires a device reset or a reboot.")
        why = occupancy_causes.STUCK[stuck[0].state or ""]
        shown = quote_values(f"/proc/{stuck[0].pid}/stat", state=stuck[0].state)
        yield warn(
            _("{processes}: {why}", processes=occupancy_causes.format_holders(stuck), why=why),
            fix(words, f"kill -KILL {stuck[0].pid}"),
            evidence=shown,
        )
    runs = {h.run: [other for other in orphans if other.run == h.run] for h in orphans if h.run}
    for run, members in runs.items():
        words = _("Stop the run, or supervise it again with `envcheck runs adopt {run}`.", run=run)
        left = occupancy_causes.format_holders(members)
        yield warn(
            _("run {run} is orphaned (its supervisor was killed): {left}", run=run, left=left),
            fix(words, f"envcheck runs stop {run}"),
            evidence=quote_values(f"/proc/{members[0].pid}/environ", ENVCHECK_RUN=run),
        )
    if orphans := [h for h in orphans if not h.run]:
        words = _("End the process if its job has finished: its launcher has exited.")
        shown = quote_values(f"/proc/{orphans[0].pid}/stat", parent=1, age_s=orphans[0].age_s)
        left = occupancy_causes.format_holders(orphans)
        yield warn(
            _("left behind by a launcher that has exited: {left}", left=left),
            fix(words, "envcheck doctor --fix", f"kill {orphans[0].pid}"),
            evidence=shown,
        )
    if seen.blind and not occupancy_causes.find_node_holders(facts, v):
        yield skipped_because("devices.open_nodes", _("only the processes that can be inspected were checked"))
    elif not stuck and not orphans and not runs:
        yield ok(_("no rank runs without its launcher"))


def check_processes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No other process uses the devices."""
    if v.document and v.document.truncated:
        yield skipped_because("driver.whole_answer", _("the process list is incomplete"))
    elif v.processes is None:
        yield unknown(_("the vendor tool's output does not list processes"))
    elif not v.processes:
        yield ok(_("no processes on the devices"))
    else:
        for cause, some in occupancy_causes.group_by_cause(
            v.processes, occupancy_causes.make_process_explainer(facts, v)
        ):
            found = _active_processes_finding(facts, v, some)
            yield found if cause == occupancy_causes.PROCESSES else suppressed_by(cause, found)


def _active_processes_finding(facts: Facts, v: VendorFacts, some: list[Process]) -> Finding:
    seen = ngettext(
        "{count} process uses the devices: {processes}",
        "{count} processes use the devices: {processes}",
        len(some),
        processes=format_processes(some),
    )
    shown = quote_listing(facts, v, some[0].pid) if some[0].pid is not None else ()
    words = _("Wait for the process to end, or stop it: a second job on a device fails or slows down both.")
    return warn(seen, diagnose(words, *process_inspect_commands(v, some)), evidence=shown)


def check_spread(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each rank uses its own device; ranks listed on every device opened them before they selected one."""
    if v.processes is None:
        yield unknown(_("the vendor tool's output does not list processes"))
        return
    places: dict[int, set[tuple[int | None, int | None]]] = {}
    for p in v.processes:
        if p.pid is not None:
            places.setdefault(p.pid, set()).add((p.device, p.chip))
    wide = {pid for pid, on in places.items() if len(on) > 1}
    crossing = [pid for pid in wide if any(places[pid] & places[other] for other in wide - {pid})]
    if crossing:
        words = _(
            "Set the visible devices of each rank before it imports the framework: each "
            "additional context uses device memory."
        )
        seen = _(
            "{processes} processes share {devices} devices",
            processes=len(crossing),
            devices=len(set().union(*(places[p] for p in crossing))),
        )
        yield warn(
            seen,
            diagnose(words, f"ps -o pid,user,cmd -p {min(crossing)}"),
            evidence=quote_listing(facts, v, min(crossing)),
        )
    else:
        yield ok(
            ngettext("{count} process, on its own device", "{count} processes, each on its own device", len(places))
        )


CHECKS: tuple[Check, ...] = (
    device_check(
        "devices.ghosts",
        check_ghosts,
        reads="the vendor tool, /proc",
        source="VisEdit#5",
        rule="WARN if a listed process does not exist",
        fix="Stop its container, or reset the device.",
    ),
    vendor_check(
        "devices.leftovers",
        check_leftovers,
        reads="/proc/*/fd, /proc/*/stat",
        source="verl#332, FaultDiag AISW_PyTorch_Start_03, LlamaFactory#6646",
        rule="WARN if a process on a device is stuck, or belongs to the user and its launcher has ended",
        fix="Stop the process.",
    ),
    device_check(
        "devices.processes",
        check_processes,
        reads="the vendor tool",
        source="Ascend/pytorch#166, verl#332",
        rule="WARN for any process; blocked by devices.ghosts, devices.leftovers or job.memory if they report it",
        fix="Wait for it to end, or stop it.",
    ),
    device_check(
        "devices.spread",
        check_spread,
        reads="the vendor tool",
        source="PaddleCustomDevice#767",
        rule="WARN if several processes each hold the same several devices",
        fix="Set the visible devices of each rank before the first import.",
    ),
)
