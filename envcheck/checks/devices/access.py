"""Checks that the user may open the device nodes."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, vendor_check
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    is_in_container,
    local_severity,
    ok,
    quote_values,
    report_missing_rule,
    report_unanswered,
    skipped_because,
    warn_or_fail,
)
from envcheck.core.messages import _, join, mark, ngettext
from envcheck.core.model import Finding, Status, diagnose, fix
from probes.host import schemas
from probes.host.schemas import Caller, PathState


def check_access(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The user can open the device nodes."""
    me, seen = schemas.read_caller(facts), schemas.read_paths(facts)
    if me is None or seen is None:
        yield report_unanswered(facts, "ask caller", "ask paths")
        return
    nodes = {p: one for p in (*(v.nodes or ()), *v.vendor.control_nodes) if (one := seen.paths.get(p))}
    closed = {path: one for path, one in nodes.items() if not one.usable}
    if not nodes:
        yield skipped_because("driver.tool" if not v.devices else "devices.count")
    elif closed:
        yield _describe_denied_access(facts, v, me, closed)
    else:
        yield ok(
            _(
                "{user} can open {nodes_count}",
                user=me.user or _("uid {uid}", uid=me.uid),
                nodes_count=ngettext("{count} device node", "{count} device nodes", len(nodes)),
            )
        )


def check_control_nodes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The control nodes that every program opens besides the device's own node exist."""
    seen = schemas.read_paths(facts)
    wanted = [p for p in v.vendor.control_nodes if p not in v.vendor.lazy_nodes or is_in_container(facts)]
    if not v.vendor.control_nodes:
        yield report_missing_rule(v, _("control nodes"))
    elif seen is None:
        yield report_unanswered(facts, "ask paths")
    elif not v.nodes:
        yield skipped_because("devices.count")
    elif missing := [path for path in wanted if path not in seen.paths]:
        words = (
            _("Pass each of these device nodes to the container with --device.")
            if is_in_container(facts)
            else _("Reload the driver, or reboot.")
        )
        commands = (
            (" ".join(("docker run", *(f"--device {path}" for path in missing))),)
            if is_in_container(facts)
            else ("sudo reboot",)
        )
        yield fail(
            _("missing: {missing}", missing=join(", ", missing)),
            fix(words, *commands),
            evidence=quote_values("stat", missing=missing[0]),
        )
    else:
        yield ok(join(", ", wanted))


def _describe_denied_access(facts: Facts, v: VendorFacts, me: Caller, closed: dict[str, PathState]) -> Finding:
    """Who lacks access, and the remedy; in a container, the host's groups do not matter."""
    path, one = next(iter(closed.items()))
    dropped = me.uid == 0 and not me.capabilities
    rule = v.vendor.node_rule if one.gid == 0 and not dropped else ""
    who = me.user or _("uid {uid}", uid=me.uid)
    words = (
        _(
            "Add the capability DAC_OVERRIDE or the group that owns the device nodes: root has no "
            "capabilities in this container."
        )
        if dropped
        else _(
            "Run as root, or install the udev rule {rule} of the driver package on the host: without the rule, only "
            "root can open the device nodes.",
            rule=rule,
        )
        if rule
        else _(
            "Run as root, or add a udev rule that assigns the device nodes to a dedicated group: "
            "they belong to group root."
        )
        if one.gid == 0
        else _(
            "Add the user to the group that owns the device nodes and log in again, or run as "
            "root. In a container, use --group-add."
        )
    )
    commands = (
        ("docker run --cap-add DAC_OVERRIDE",)
        if dropped
        else (f"find /etc/udev /lib/udev -name {rule}", "sudo udevadm control --reload", "sudo udevadm trigger")
        if rule
        else (f"sudo usermod -aG {one.gid} {who}" if one.gid else f"ls -l {path}",)
    )
    seen = _(
        "{user} cannot open {path}{others}",
        user=_("user {name}", name=me.user) if me.user else who,
        path=path,
        others=_(" and {more} more", more=len(closed) - 1) if len(closed) > 1 else "",
    )
    shown = quote_values(f"stat {path}", uid=one.uid, gid=one.gid, mode=f"{one.mode:o}")
    return warn_or_fail(
        Status.FAIL if _runs_on_host(facts, v) else local_severity(facts),
        seen,
        fix(words, *commands) if dropped or one.gid else diagnose(words, *commands),
        evidence=shown,
    )


def _runs_on_host(facts: Facts, v: VendorFacts) -> bool:
    """Return whether the requested job opens these nodes as this user, not in a container of root's."""
    return facts.wanted is not None and facts.wanted.image is None and facts.wanted.device == v.vendor.name


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "devices.access",
        check_access,
        reads="owner and mode of the nodes; groups and capabilities of the user",
        source="vllm-ascend#2698, ascend-device-plugin#139, hw-native-sys/simpler#2043",
        rule="FAIL if a node cannot be opened; WARN if a container would open it, as root, and the job may run in one",
        fix="Join the group of the nodes, or give the container the capability.",
    ),
    vendor_check(
        "devices.control_nodes",
        check_control_nodes,
        reads="/dev",
        source=mark("Ascend container guides; vllm-ascend#2698"),
        rule="FAIL if one is missing",
        fix="Pass each with --device, or reload the driver.",
    ),
)
