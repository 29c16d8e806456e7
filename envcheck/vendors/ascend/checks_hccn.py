"""Checks of the NPUs' network ports: link, address, reachability, and /etc/hccn.conf."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.check import Check, device_check
from envcheck.core.derived.device_details import iterate_device_values
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    count_requested_nodes,
    fail,
    ok,
    quote_answer,
    report_unanswered,
    skip,
    skipped_because,
    suppressed_by,
    unknown,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Answer, Document, Finding, Outcome, Status, diagnose, fix, manual

CONF = "read /etc/hccn.conf"


def check_hccn_link(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU is up."""
    states = {n: str(state) for n, state in iterate_device_values(v, "link", "link status")}
    if down := _find_down_ports(v):
        seen = _(
            "port of NPU {down}: link {values}",
            down=_format_ids(down),
            values=join(", ", sorted(set(down.values()))),
        )
        words = _(
            "Check the cable, the transceiver and the switch port: collective communication "
            "between hosts needs every port."
        )
        first = next(iter(down))
        shown = quote_answer(facts.answers.get(f"run hccn_tool -i {first} -link -g"))
        yield fail(
            seen,
            diagnose(words, *(f"hccn_tool -i {first} -{kind} -g" for kind in ("link", "optical", "link_stat"))),
            evidence=shown,
        )
    else:
        yield (
            ok(ngettext("{count} port is up", "{count} ports are up", len(states)))
            if states
            else _missing_hccn_finding(facts, "link")
        )


def check_hccn_address(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU has its own IP address."""
    states = {n: str(state) for n, state in iterate_device_values(v, "ip", "ipaddr")}
    bare = [n for n, kinds in v.per_device.items() if "ip" in kinds and _is_unconfigured(kinds["ip"])]
    if bare:
        grade = Status.FAIL if count_requested_nodes(facts) > 1 else Status.WARN
        first = bare[0]
        words = _(
            "Set an address with hccn_tool for collective communication between hosts; "
            "single-host jobs do not need one."
        )
        commands = (f"hccn_tool -i {first} -ip -s address ADDRESS netmask NETMASK", "cat /etc/hccn.conf")
        shown = quote_answer(facts.answers.get(f"run hccn_tool -i {first} -ip -g"))
        yield warn_or_fail(
            grade,
            _("port of NPU {bare}: no address", bare=_format_ids(bare)),
            fix(words, *commands),
            evidence=shown,
        )
    elif len(set(states.values())) < len(states):
        twice = next(address for address in states.values() if list(states.values()).count(address) > 1)
        both = [n for n, address in states.items() if address == twice]
        shown = quote_answer(facts.answers.get(f"run hccn_tool -i {both[-1]} -ip -g"), twice)
        seen = _("ports of NPU {both} have the same address {twice}", both=_format_ids(both), twice=twice)
        yield fail(
            seen,
            fix(
                _("Give each port its own address."), f"hccn_tool -i {both[-1]} -ip -s address ADDRESS netmask NETMASK"
            ),
            evidence=shown,
        )
    else:
        yield (
            ok(ngettext("{count} port has an address", "{count} ports have addresses", len(states)))
            if states
            else _missing_hccn_finding(facts, "ip")
        )


def check_hccn_health(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The network port of each NPU reaches its detection address."""
    states = {n: str(state) for n, state in iterate_device_values(v, "net_health", "net health status")}
    bad = {n: state for n, state in states.items() if state.lower() not in ("success", "init")}
    down = _find_down_ports(v)
    for cause in ("", "network.hccn_link"):
        if some := {n: state for n, state in bad.items() if (n in down) == bool(cause)}:
            yield suppressed_by(cause, _unreached_finding(facts, some))
    if not bad:
        yield (
            ok(
                ngettext(
                    "{count} port reaches its netdetect address",
                    "{count} ports reach their netdetect address",
                    len(states),
                )
            )
            if states
            else _missing_hccn_finding(facts, "net_health")
        )


def _unreached_finding(facts: Facts, bad: dict[int, str]) -> Finding:
    grade = Status.FAIL if count_requested_nodes(facts) > 1 else Status.WARN
    first = next(iter(bad))
    words = _("Check the gateway, the VLAN and the switch: the netdetect address does not answer.")
    shown = quote_answer(facts.answers.get(f"run hccn_tool -i {first} -net_health -g"))
    seen = _(
        "port of NPU {bad}: net health {values}",
        bad=_format_ids(bad),
        values=join(", ", sorted(set(bad.values()))),
    )
    return warn_or_fail(
        grade, seen, diagnose(words, f"hccn_tool -i {first} -netdetect -g", "cat /etc/hccn.conf"), evidence=shown
    )


def _find_down_ports(v: VendorFacts) -> dict[int, str]:
    """Return the ports that report a link status other than UP."""
    return {n: str(state) for n, state in iterate_device_values(v, "link", "link status") if str(state).upper() != "UP"}


def check_hccn_conf(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """/etc/hccn.conf has the addresses of the ports; they are set from it after a reboot."""
    answer = facts.answers.get(CONF)
    live = {n: str(address) for n, address in iterate_device_values(v, "ip", "ipaddr")}
    if answer is None or answer.outcome not in (Outcome.ANSWERED, Outcome.EMPTY):
        absent = answer is not None and answer.outcome is Outcome.ABSENT
        yield skip(_("/etc/hccn.conf not found")) if absent else report_unanswered(facts, CONF)
        return
    kept = {
        int(m[1]): m[2]
        for m in re.finditer(r"^[^\S\n]*address_(\d{1,4})[^\S\n]*=[^\S\n]*(\S+)", answer.out, re.MULTILINE)
    }
    other = [n for n, address in live.items() if n in kept and kept[n] != address]
    if other:
        seen = _(
            "NPU {other}: the port has {live}, but /etc/hccn.conf has {kept}",
            other=_format_ids(other),
            live=live[other[0]],
            kept=kept[other[0]],
        )
        yield warn(
            seen,
            diagnose(_("Make both match: the file is applied at the next boot."), "cat /etc/hccn.conf"),
            evidence=quote_answer(answer, f"address_{other[0]}"),
        )
    elif live and kept:
        yield ok(_("/etc/hccn.conf and the ports agree"))
    else:
        yield unknown(_("nothing to compare: the file or the ports have no address"))


def _is_unconfigured(document: Document) -> bool:
    return bool(document.error and document.error.category == "network-not-configured")


def _missing_hccn_finding(facts: Facts, kind: str) -> Finding:
    asked = [a for key, a in facts.answers.items() if key.startswith("run hccn_tool ") and f"-{kind} " in key]
    if not asked:
        return skipped_because("driver.tool")
    return unread_answer_finding(asked[0])


def unread_answer_finding(answer: Answer) -> Finding:
    """Return the UNKNOWN finding for output of hccn_tool that cannot be read."""
    if answer.outcome is Outcome.ABSENT:
        return unknown(
            _("hccn_tool not found"),
            diagnose(
                _("Add /usr/local/Ascend/driver/tools to PATH: the driver installs hccn_tool there."),
                "command -v hccn_tool",
            ),
        )
    return unknown(
        _("cannot read the output of hccn_tool: {outcome}", outcome=answer.outcome.value),
        manual(_("Run the command and check its output.")),
        evidence=quote_answer(answer),
    )


def _format_ids(numbers: object) -> str:
    return ", ".join(map(str, list(numbers)[:8])) if isinstance(numbers, dict | list) else ""


CHECKS: tuple[Check, ...] = (
    device_check(
        "network.hccn_link",
        check_hccn_link,
        before="network.own_name",
        reads="hccn_tool -link",
        source="FaultDiag Comp_Network_Custom",
        rule="FAIL if a port is not UP",
        fix="Check the cable, the transceiver and the switch port.",
    ),
    device_check(
        "network.hccn_address",
        check_hccn_address,
        before="network.own_name",
        reads="hccn_tool -ip",
        source="FaultDiag Comp_Network_Custom",
        rule="FAIL if two ports share an address; a port without one: WARN, FAIL if the job needs several nodes",
        fix="Set the address with hccn_tool -ip -s.",
    ),
    device_check(
        "network.hccn_health",
        check_hccn_health,
        before="network.own_name",
        reads="hccn_tool -net_health",
        source="FaultDiag Comp_Network_Custom",
        rule="WARN if a port does not reach its address; FAIL if the job needs several nodes",
        fix="Check the gateway, the VLAN and the switch.",
    ),
    device_check(
        "network.hccn_conf",
        check_hccn_conf,
        before="network.own_name",
        reads="/etc/hccn.conf, hccn_tool -ip",
        source="vllm-ascend#16847",
        rule="WARN if the file and the port differ",
        fix="Set the file and the port to the same address.",
    ),
)
