"""Checks of HCCL's ports on the host: valid, and reserved."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.derived.collective_ports import (
    EPHEMERAL,
    HIGHEST_PORT,
    RESERVED,
    RESERVING,
    extend_reserved_ports,
    find_port_span,
    list_used_ports,
    parse_port_list,
    read_ephemeral_range,
    read_reserved_ports,
)
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    format_ranges,
    is_in_container,
    ok,
    quote_answer,
    report_unanswered,
    skip,
    unknown,
    warn,
)
from envcheck.core.messages import _, join
from envcheck.core.model import Finding, fix
from envcheck.core.vendor import find_die_id

HOST_PORTS = "HCCL_HOST_SOCKET_PORT_RANGE"  # overrides HCCL_IF_BASE_PORT, CANN's environment reference
PORT_LISTS = (HOST_PORTS, "HCCL_NPU_SOCKET_PORT_RANGE")
BASE_MOST = 65520  # the same reference, HCCL_IF_BASE_PORT


def check_port_base(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The communication ports, counted from HCCL_IF_BASE_PORT, end below 65536."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    found, name = find_port_span(facts, v), v.vendor.port_env
    if not found.setting:
        yield skip(_("{name} is not set: {first} applies", name=name, first=found.first))
    elif HOST_PORTS in facts.environment:
        yield skip(_("{host_ports} overrides {name}", host_ports=HOST_PORTS, name=name))
    elif any(find_die_id(d) is None for d in v.devices):
        yield unknown(_("the ports depend on the physical device IDs, which are unknown"))
    else:
        last = found.last + max(find_die_id(d) or 0 for d in v.devices)
        high = found.why or (
            ""
            if 1024 <= found.first <= BASE_MOST
            else _("{first} is outside 1024 to {base_most}", first=found.first, base_most=BASE_MOST)
        )
        wrong = high or (
            _("with the device numbers added, the ports end at {last}", last=last) if last > HIGHEST_PORT else ""
        )
        words = _(
            "Set {name} lower, the same on each node, or unset it: {port_base} is the default.",
            name=name,
            port_base=v.vendor.port_base,
        )
        if wrong:
            yield fail(
                _("{setting}: {problem}", setting=found.setting, problem=wrong),
                fix(words, f"unset {name}"),
                evidence=(f"environment: {found.setting}",),
            )
        else:
            yield ok(_("{setting}: ports up to {last}", setting=found.setting, last=last))


def check_port_range(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The communication ports are reserved, or outside of the ephemeral port range."""
    if len(v.devices) < 2:
        yield skip(_("a single device opens no ports"))
        return
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    if (wanted := list_used_ports(facts, v)) is None:
        yield skip(
            _(
                "cannot determine the ports of collective communication: no readable variable "
                "sets them, or the system chooses them"
            )
        )
        return
    given, reserved = read_ephemeral_range(facts), read_reserved_ports(facts)
    if given is None or reserved is None:
        yield report_unanswered(facts, EPHEMERAL if given is None else RESERVED)
    elif bare := [n for n in sorted(wanted) if n in given and n not in reserved]:
        words = _("Reserve these ports: otherwise any outgoing connection may use one, and HCCL cannot bind it.")
        shown = (*quote_answer(facts.answers.get(RESERVED)), *quote_answer(facts.answers.get(EPHEMERAL)))
        seen = _(
            "HCCL ports {ports} are in the ephemeral port range {first}-{last} and are not reserved",
            ports=format_ranges(bare),
            first=given[0],
            last=given[-1],
        )
        reserved_ports = extend_reserved_ports(facts, v)
        commands = (
            (f"docker run --sysctl {RESERVING}={reserved_ports}",)
            if is_in_container(facts)
            else ("envcheck doctor --fix", f"sudo sysctl -w {RESERVING}='{reserved_ports}'")
        )
        yield warn(seen, fix(words, *commands), evidence=shown)
    else:
        yield ok(_("ports {wanted} are available to HCCL", wanted=format_ranges(sorted(wanted))))


def check_hccl_ports(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_HOST_SOCKET_PORT_RANGE and HCCL_NPU_SOCKET_PORT_RANGE are auto, or lists of ports that do not overlap."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    given_lists = {name: facts.environment[name] for name in PORT_LISTS if facts.environment.get(name)}
    wrong = [(name, text) for name, text in given_lists.items() if text != "auto" and parse_port_list(text) is None]
    if wrong:
        name, text = wrong[0]
        words = _("Set auto, or a comma-separated list of ports and ranges from 1 to 65535 without duplicates.")
        yield fail(
            _("{variable}={value} is not a port list", variable=name, value=text[:80]),
            fix(words, f"unset {name}"),
            evidence=(f"environment: {name}={text[:80]}",),
        )
    elif given_lists:
        yield ok(join(", ", (f"{name}={text[:80]}" for name, text in given_lists.items())))
    else:
        yield skip(_("neither is set: HCCL uses port 16666 on the device, which only one process can open"))


CHECKS: tuple[Check, ...] = (
    device_check(
        "network.port_base",
        check_port_base,
        before="network.master",
        reads="HCCL_IF_BASE_PORT, physical IDs of the devices",
        source="vllm-ascend#12318; CANN environment variable reference",
        rule="FAIL if it is not a number from 1024 to 65520, or the last port is above 65535",
        fix="Set a lower base port, or unset it.",
    ),
    device_check(
        "network.port_range",
        check_port_range,
        before="network.master",
        reads="ip_local_port_range, ip_local_reserved_ports, HCCL variables, CANN version",
        source="vllm-ascend#405; CANN environment variable reference",
        rule="WARN if there are several devices and the system may assign a port of HCCL to another program",
        fix="Set net.ipv4.ip_local_reserved_ports, for example with doctor --fix.",
    ),
    device_check(
        "network.hccl_ports",
        check_hccl_ports,
        before="network.master",
        reads="HCCL_HOST_SOCKET_PORT_RANGE, HCCL_NPU_SOCKET_PORT_RANGE",
        source="vllm-ascend#4725; CANN environment variable reference",
        rule="FAIL if one is neither auto nor a list of ports and ranges, or ranges overlap",
        fix="Set auto, or a list of ports.",
    ),
)
