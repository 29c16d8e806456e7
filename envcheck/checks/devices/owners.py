"""Who else has the devices: other containers, and processes that the tool does not list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from envcheck.checks.devices import conflicts
from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.device_processes import SHOWN
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    figures,
    follows,
    in_container,
    not_told,
    ok,
    plural,
    reading,
    skip,
    told_by,
    unknown,
    warn,
)
from envcheck.core.model import Finding, Outcome
from envcheck.settings.thresholds import limit_bytes
from probes.host import schemas
from probes.host.schemas import Container, Holding, Processes


def shared(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No running container was given the devices."""
    found = schemas.containers(facts)
    if found is None:
        yield _no_engine(facts)
        return
    having = [one for one in found if given(v, one)]
    for cause in ("", "engine.shm", "engine.driver_mounts"):
        if some := [one for one in having if _teller(facts, v, one) == cause]:
            yield told_by(cause, _given(v, some))
    if not having:
        yield ok(f"{plural(len(found), 'running container')}, none with these cards")


def _given(v: VendorFacts, some: list[Container]) -> Finding:
    name, got = some[0].name, given(v, some[0])
    more = f" and {len(some) - 1} more" if len(some) > 1 else ""
    words = "Stop it, or choose other cards: two on a card end in want of memory."
    if v.vendor.busy_errors:
        codes = ", ".join(v.vendor.busy_errors)
        words = f"Stop it, or choose other cards: two on a card end in {codes} or want of memory."
    fix = f"docker stop {name}" if re.fullmatch(r"[\w.-]+", name) else "docker ps"
    shown = figures(f"docker inspect {name}", devices=got)
    return warn(f"container {name}{more} was given {got}", words, fix, evidence=shown)


def _teller(facts: Facts, v: VendorFacts, one: Container) -> str:
    """The check that tells what is amiss about a container, and that it has the cards; none where nothing is."""
    return "engine.shm" if little_shm(facts, one) else "engine.driver_mounts" if lacking(v, one) else ""


def little_shm(facts: Facts, one: Container) -> bool:
    return one.shm_bytes is not None and one.ipc != "host" and one.shm_bytes < limit_bytes(facts, "host.shm.fail_gib")


def lacking(v: VendorFacts, one: Container) -> list[str]:
    """Of the driver's folders those of which nothing is mounted, at, above or below, where no runtime mounts them."""
    if one.runtime == v.vendor.runtime:
        return []
    return [
        path
        for path in v.vendor.driver_mounts
        if not any(re.match(rf"{re.escape(a)}(/|$)", b) for m in one.mounts for a, b in ((path, m), (m, path)))
    ]


@reading(schemas.processes, "ask processes")
def open_nodes(seen: Processes, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No process that the tool does not list has a device open."""
    listed, left = {p.pid for p in v.processes or ()}, conflicts.left_over(facts, v)
    hidden = [h for h in conflicts.holders(facts, v) if h.pid not in listed]
    for cause, some in conflicts.by_cause(hidden, lambda h: conflicts.LEFTOVERS if h.pid in left else conflicts.NOBODY):
        yield told_by(cause, _hidden(v, some))
    if not hidden and seen.blind and v.processes is None:
        words = "Ask as root: others' processes cannot be looked into."
        yield unknown(f"{plural(seen.blind, 'process')} may not be looked into", words, "sudo envcheck doctor")
    elif not hidden:
        blind = f"; {plural(seen.blind, 'process')} of others could not be looked into" if seen.blind else ""
        yield ok(f"none beyond those that the tool lists{blind}")


def _hidden(v: VendorFacts, some: list[Holding]) -> Finding:
    words = "Stop it, or choose other devices."
    if v.vendor.busy_errors:
        code = v.vendor.busy_errors[-1]
        words = f"Stop it, or choose other devices; with {code} this is the owner that {v.vendor.tool} does not name."
    pids = ",".join(str(h.pid) for h in some[:SHOWN])
    shown = figures(f"/proc/{some[0].pid}/fd", nodes=" ".join(some[0].nodes[:SHOWN]))
    seen = f"{plural(len(some), 'process')} with a device open: {conflicts.held_by(some)}"
    return warn(seen, words, f"ps -o pid,user,etime,cmd -p {pids}", evidence=shown)


def _no_engine(facts: Facts) -> Finding:
    answer = facts.answers.get("ask containers")
    if in_container(facts) or (facts.engine is None and answer is not None and answer.outcome is not Outcome.ABSENT):
        return skip("no engine here tells what other containers have")
    unreachable = facts.engine is not None and facts.engine.error is not None
    return follows("engine.reachable") if unreachable else not_told(facts, "ask containers")


def given(v: VendorFacts, one: Container) -> str:
    """This vendor's cards that it got: by node, by request, or by the variable that the vendor's runtime reads.

    Without that runtime the variable is only what the image was built with.
    """
    kind, name = v.vendor.cdi_kind, v.vendor.runtime_env
    nodes = [path for path in one.nodes if fnmatch(path, v.vendor.node_pattern)]
    nodes += [request for request in one.requests if kind and request.startswith(f"{kind}=")]
    said = one.visible.get(name, "") if one.runtime == v.vendor.runtime else ""
    return ", ".join(nodes) or ("" if said in ("", "none", "void") else f"{name}={said}")


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "devices.shared",
        shared,
        reads="docker inspect of the running containers",
        source="vllm-ascend#2698, HAMi#1696, cann-container-image#46",
        rule="WARN when a container was given a card: by node, by request, or by the runtime's variable; follows from "
        "engine.shm or engine.driver_mounts where they tell of that container",
        fix="Stop the container, or choose other cards.",
    ),
    of_vendor(
        "devices.open_nodes",
        open_nodes,
        reads="/proc/*/fd",
        source="cann-container-image#46, verl#332",
        rule="WARN when a process has a card's node open that the tool does not list; UNKNOWN when none may be seen; "
        "follows from devices.leftovers where that tells of it",
        fix="Stop the process, or choose other cards.",
    ),
)
