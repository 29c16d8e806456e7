"""Whether the caller may open the devices."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    figures,
    follows,
    graded,
    here,
    in_container,
    no_rule,
    not_told,
    ok,
    plural,
)
from envcheck.core.model import Finding
from probes.host import schemas
from probes.host.schemas import Caller, Path


def access(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The caller may open the device nodes."""
    me, seen = schemas.caller(facts), schemas.paths(facts)
    if me is None or seen is None:
        yield not_told(facts, "ask caller", "ask paths")
        return
    nodes = {p: one for p in (*(v.nodes or ()), *v.vendor.control_nodes) if (one := seen.paths.get(p))}
    closed = {path: one for path, one in nodes.items() if not one.usable}
    if not nodes:
        yield follows("driver.tool" if not v.devices else "devices.count")
    elif closed:
        yield _closed(facts, me, closed)
    else:
        yield ok(f"{me.user or f'uid {me.uid}'} may open {plural(len(nodes), 'node')}")


def control_nodes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The nodes that every program opens beside a card's own are there."""
    seen = schemas.paths(facts)
    wanted = [p for p in v.vendor.control_nodes if p not in v.vendor.lazy_nodes or in_container(facts)]
    if not v.vendor.control_nodes:
        yield no_rule(v, "control nodes")
    elif seen is None:
        yield not_told(facts, "ask paths")
    elif not v.nodes:
        yield follows("devices.count")
    elif missing := [path for path in wanted if path not in seen.paths]:
        words = "Give them to the container, too: --device for each." if in_container(facts) else "Reload the driver."
        fix = tuple(f"ls -l {path}" for path in missing)
        yield fail(f"not there: {', '.join(missing)}", words, *fix, evidence=figures("stat", missing=missing[0]))
    else:
        yield ok(", ".join(wanted))


def _closed(facts: Facts, me: Caller, closed: dict[str, Path]) -> Finding:
    """A user who may start containers trains in them as root, whatever the host's nodes say."""
    path, one = next(iter(closed.items()))
    dropped = me.uid == 0 and not me.capabilities
    who = me.user or f"uid {me.uid}"
    words = (
        "Add CAP_DAC_OVERRIDE, or the group that owns the nodes: this root has no capabilities."
        if dropped
        else "Run as root, or have a udev rule give the nodes a group of their own: root's is not for users."
        if one.gid == 0
        else "Join the group that owns the nodes (log in anew), or run as root; in a container: --group-add."
    )
    fix = (
        ("grep CapEff /proc/self/status",)
        if dropped
        else (f"sudo usermod -aG {one.gid} {who}" if one.gid else f"ls -l {path}",)
    )
    seen = f"{who} may not open {path}{f' and {len(closed) - 1} more' if len(closed) > 1 else ''}"
    shown = figures(f"stat {path}", uid=one.uid, gid=one.gid, mode=f"{one.mode:o}")
    return graded(here(facts), seen, words, *fix, evidence=shown)


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "devices.access",
        access,
        reads="owner and mode of the nodes, the caller's groups and capabilities",
        source="vllm-ascend#2698, ascend-device-plugin#139, hw-native-sys/simpler#2043",
        rule="FAIL when a node may not be opened; WARN where the caller starts containers, which run as root",
        fix="Join the nodes' group, or give the container the capability.",
    ),
    of_vendor(
        "devices.control_nodes",
        control_nodes,
        reads="/dev",
        source="Ascend's container guides; vllm-ascend#2698",
        rule="FAIL when one is missing",
        fix="--device for each, or reload the driver.",
    ),
)
