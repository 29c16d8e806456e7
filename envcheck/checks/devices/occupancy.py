"""Checks of who else uses the devices: other containers, and processes that the vendor tool does not list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from envcheck.checks.devices import occupancy_causes
from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.device_processes import SHOWN
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    is_in_container,
    ok,
    quote_values,
    report_unanswered,
    requires_fact,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    warn,
)
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, Outcome, diagnose, fix
from envcheck.settings.thresholds import threshold_bytes
from probes.host import schemas
from probes.host.schemas import HostProcesses, NodeHolder, RunningContainer


def check_shared(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No running container has access to the devices."""
    found = schemas.read_containers(facts)
    if found is None:
        yield _no_container_list(facts)
        return
    having = [one for one in found if find_given_devices(v, one)]
    for cause in ("", "engine.shm", "engine.driver_mounts"):
        if some := [one for one in having if _find_container_check(facts, v, one) == cause]:
            yield suppressed_by(cause, _shared_device_finding(v, some))
    if not having:
        yield ok(
            ngettext(
                "{count} running container, none uses these devices",
                "{count} running containers, none uses these devices",
                len(found),
            )
        )


def _shared_device_finding(v: VendorFacts, some: list[RunningContainer]) -> Finding:
    name, got = some[0].name, find_given_devices(v, some[0])
    more = _(" and {some_count} more", some_count=len(some) - 1) if len(some) > 1 else ""
    words = _("Stop the container, or select other devices: two jobs on one device run out of memory.")
    if v.vendor.busy_errors:
        codes = join(", ", v.vendor.busy_errors)
        words = _(
            "Stop the container, or select other devices: two jobs on one device fail with "
            "{codes} or run out of memory.",
            codes=codes,
        )
    stoppable = re.fullmatch(r"[\w.-]+", name)
    remedy = fix(words, f"docker stop {name}") if stoppable else diagnose(words, "docker ps")
    shown = quote_values(f"docker inspect {name}", devices=got)
    return warn(_("container {name}{more} uses {got}", name=name, more=more, got=got), remedy, evidence=shown)


def _find_container_check(facts: Facts, v: VendorFacts, one: RunningContainer) -> str:
    """The check that reports a fault of this container together with its devices; empty if it has no fault."""
    return "engine.shm" if has_little_shm(facts, one) else "engine.driver_mounts" if find_missing_mounts(v, one) else ""


def has_little_shm(facts: Facts, one: RunningContainer) -> bool:
    """Return whether the container has less shared memory than data loaders and collectives need."""
    return (
        one.shm_bytes is not None and one.ipc != "host" and one.shm_bytes < threshold_bytes(facts, "host.shm.fail_gib")
    )


def find_missing_mounts(v: VendorFacts, one: RunningContainer) -> list[str]:
    """Return the driver folders of which nothing is mounted (at, above or below), if no runtime mounts them."""
    if one.runtime == v.vendor.runtime:
        return []
    return [
        path
        for path in v.vendor.driver_mounts
        if not any(re.match(rf"{re.escape(a)}(/|$)", b) for m in one.mounts for a, b in ((path, m), (m, path)))
    ]


@requires_fact(schemas.read_processes, "ask processes")
def check_open_nodes(seen: HostProcesses, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Every process that has a device node open is listed by the vendor tool."""
    listed, left = {p.pid for p in v.processes or ()}, occupancy_causes.find_leftover_pids(facts, v)
    hidden = [h for h in occupancy_causes.find_node_holders(facts, v) if h.pid not in listed]
    for cause, some in occupancy_causes.group_by_cause(
        hidden, lambda h: occupancy_causes.LEFTOVERS if h.pid in left else occupancy_causes.NOBODY
    ):
        yield suppressed_by(cause, _unlisted_holders_finding(v, some))
    if not hidden and seen.blind and v.processes is None:
        words = _("Run as root to inspect the processes of other users.")
        yield unknown(
            _(
                "cannot inspect {blind} (permission denied)",
                blind=ngettext("{count} process", "{count} processes", seen.blind),
            ),
            diagnose(words, "sudo envcheck doctor"),
        )
    elif not hidden:
        blind = (
            _(
                "; cannot inspect {blind} of other users",
                blind=ngettext("{count} process", "{count} processes", seen.blind),
            )
            if seen.blind
            else ""
        )
        yield ok(_("no processes other than those the tool lists{blind}", blind=blind))


def _unlisted_holders_finding(v: VendorFacts, some: list[NodeHolder]) -> Finding:
    words = _("Identify the process, then stop it or select other devices.")
    if v.vendor.busy_errors:
        code = v.vendor.busy_errors[-1]
        words = _(
            "Identify the process, then stop it or select other devices. On error {code}, this is "
            "the owner that {tool} does not list.",
            code=code,
            tool=v.vendor.tool,
        )
    pids = ",".join(str(h.pid) for h in some[:SHOWN])
    shown = quote_values(f"/proc/{some[0].pid}/fd", nodes=" ".join(some[0].nodes[:SHOWN]))
    seen = ngettext(
        "{count} process has a device open: {holders}",
        "{count} processes have a device open: {holders}",
        len(some),
        holders=occupancy_causes.format_holders(some),
    )
    return warn(seen, diagnose(words, f"ps -o pid,user,etime,cmd -p {pids}"), evidence=shown)


def _no_container_list(facts: Facts) -> Finding:
    answer = facts.answers.get("ask containers")
    if is_in_container(facts) or (facts.engine is None and answer is not None and answer.outcome is not Outcome.ABSENT):
        return skip(_("no container engine here reports the devices of other containers"))
    unreachable = facts.engine is not None and facts.engine.error is not None
    return skipped_because("engine.reachable") if unreachable else report_unanswered(facts, "ask containers")


def find_given_devices(v: VendorFacts, one: RunningContainer) -> str:
    """Return this vendor's devices of the container: by node, by request, or by the variable of the vendor's runtime.

    Without that runtime, the variable only comes from the image and gives no device.
    """
    kind, name = v.vendor.cdi_kind, v.vendor.runtime_env
    nodes = [path for path in one.nodes if fnmatch(path, v.vendor.node_pattern)]
    nodes += [request for request in one.requests if kind and request.startswith(f"{kind}=")]
    said = one.visible.get(name, "") if one.runtime == v.vendor.runtime else ""
    return ", ".join(nodes) or ("" if said in ("", "none", "void") else f"{name}={said}")


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "devices.shared",
        check_shared,
        reads="docker inspect of the running containers",
        source="vllm-ascend#2698, HAMi#1696, cann-container-image#46",
        rule=(
            "WARN if a container has a device, by node, by request, or by the variable of the runtime; blocked by "
            "engine.shm or engine.driver_mounts if they report that container"
        ),
        fix="Stop the container, or choose other devices.",
    ),
    vendor_check(
        "devices.open_nodes",
        check_open_nodes,
        reads="/proc/*/fd",
        source="cann-container-image#46, verl#332",
        rule=(
            "WARN if a process that the tool does not list has a node open; UNKNOWN if no process can be inspected; "
            "blocked by devices.leftovers if that reports it"
        ),
        fix="Stop the process, or choose other devices.",
    ),
)
