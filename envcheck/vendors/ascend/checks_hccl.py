"""Checks of HCCL's variables (timeouts, RDMA, links between cards), and of TLS on the NPU ports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envcheck.core import versions
from envcheck.core.check import Check, device_check
from envcheck.core.derived.collective_ports import parse_decimal
from envcheck.core.derived.installed_versions import toolkit_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    count_requested_nodes,
    fail,
    format_ranges,
    ok,
    quote_answer,
    quote_values,
    report_unanswered,
    skip,
    warn_or_fail,
)
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.model import Finding, Status, fix
from envcheck.vendors.ascend.checks_hccn import unread_answer_finding
from probes.ascend.hccn import read_tls

# CANN's environment reference, 7.0 to 9.0: minimum, maximum, multiple of.
TIMEOUT = {"HCCL_CONNECT_TIMEOUT": (120, 7200, 1)}
VALUES = {
    "HCCL_RDMA_TIMEOUT": (5, 24, 1),
    "HCCL_RDMA_RETRY_CNT": (1, 7, 1),
    "HCCL_RDMA_SL": (0, 7, 1),
    "HCCL_RDMA_TC": (0, 255, 4),
}
PCIE, ROCE = "HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE"
PAIRS_SINCE = "9.0"  # since then, the reference does not support one variable set to 0 alone
_ASKED = re.compile(r"run hccn_tool -i \d+ -tls -g")
REFERENCE = "CANN environment variable reference, 7.0 to 9.0"


def check_hccl_timeout(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_CONNECT_TIMEOUT is within its range; a rank that loads for longer ends the others."""
    yield _check_numeric_variables(facts, TIMEOUT)


def check_hccl_values(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The RDMA settings of HCCL are within their ranges; otherwise HCCL does not start."""
    yield _check_numeric_variables(facts, VALUES)


def _check_numeric_variables(facts: Facts, table: Mapping[str, tuple[int, int, int]]) -> Finding:
    if facts.environment is None:
        return report_unanswered(facts, "ask environment")
    given = {name: facts.environment[name] for name in table if facts.environment.get(name)}
    wrong = [name for name, text in given.items() if not _is_in_range(text, *table[name])]
    if not given:
        few = len(table) < 3
        return skip(
            _("{table}: not set; defaults apply", table=join(_(" and "), table))
            if few
            else _("not set; defaults apply")
        )
    if not wrong:
        return ok(join(", ", (f"{name}={text}" for name, text in given.items())))
    name = wrong[0]
    low, high, step = table[name]
    words = (
        _(
            "Set an integer from {low} to {high} that is a multiple of {step}, or unset it.",
            low=low,
            high=high,
            step=step,
        )
        if step > 1
        else _("Set an integer from {low} to {high}, or unset it.", low=low, high=high)
    )
    return fail(
        verbatim(f"{name}={given[name][:40]}"), fix(words, f"unset {name}"), evidence=_quote_variables(facts, wrong)
    )


def check_hccl_intra(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE select one path between the devices."""
    if facts.environment is None:
        yield report_unanswered(facts, "ask environment")
        return
    pair = tuple(facts.environment.get(name) or None for name in (PCIE, ROCE))
    shown = _quote_variables(facts, [PCIE, ROCE])
    words = _("Set {pcie}=1 and {roce}=0 for PCIe, 0 and 1 for RoCE, or unset both.", pcie=PCIE, roce=ROCE)
    commands = f"unset {PCIE} {ROCE}"
    if pair == (None, None):
        yield skip(_("neither is set: PCIe is used where available"))
    elif pair == ("1", "1") or not set(pair) <= {None, "0", "1"}:
        yield fail(
            _(
                "{pcie_name} is {pcie}, {roce_name} is {roce}",
                pcie_name=PCIE,
                pcie=_format_variable(pair[0]),
                roce_name=ROCE,
                roce=_format_variable(pair[1]),
            ),
            fix(words, commands),
            evidence=shown,
        )
    elif pair in ((None, "0"), ("0", None)):
        refused = versions.is_at_least(toolkit_version(facts, v) or "", PAIRS_SINCE) is True
        grade = Status.FAIL if refused else Status.WARN
        yield warn_or_fail(
            grade,
            _(
                "{pcie_name} is {pcie}, {roce_name} is {roce}: set both or neither",
                pcie_name=PCIE,
                pcie=_format_variable(pair[0]),
                roce_name=ROCE,
                roce=_format_variable(pair[1]),
            ),
            fix(words, commands),
            evidence=shown,
        )
    else:
        yield ok(_("{link} connects the cards of this host", link="RoCE" if pair[1] == "1" else "PCIe"))


def check_hccn_tls(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """TLS has the same setting on all NPU ports."""
    asked = {key: a for key, a in facts.answers.items() if key.startswith("run hccn_tool ") and _ASKED.fullmatch(key)}
    states = {int(key.split()[3]): state for key, a in asked.items() if (state := read_tls(a.text)) is not None}
    if len(set(states.values())) > 1:
        rare = min((0, 1), key=list(states.values()).count)
        odd = [n for n, state in sorted(states.items()) if state == rare]
        words = _(
            "Use the same TLS setting on all devices of all nodes: ranks reject each other "
            "otherwise, with tlsStatus in the log."
        )
        key = f"run hccn_tool -i {odd[0]} -tls -g"
        grade = Status.FAIL if count_requested_nodes(facts) > 1 else Status.WARN
        numbers = format_ranges(odd)
        seen = (
            _("TLS is on at the port of NPU {numbers}, but off at the others", numbers=numbers)
            if rare
            else _("TLS is off at the port of NPU {numbers}, but on at the others", numbers=numbers)
        )
        commands = f"hccn_tool -i {odd[0]} -tls -s enable {1 - rare}"
        yield warn_or_fail(grade, seen, fix(words, commands), evidence=quote_answer(facts.answers.get(key), "tls"))
    elif states:
        yield ok(
            ngettext(
                "TLS is on at {count} port; the other nodes must match",
                "TLS is on at {count} ports; the other nodes must match",
                len(states),
            )
            if set(states.values()) == {1}
            else ngettext(
                "TLS is off at {count} port; the other nodes must match",
                "TLS is off at {count} ports; the other nodes must match",
                len(states),
            )
        )
    else:
        first = next(iter(asked.values()), None)
        yield unread_answer_finding(first) if first else report_unanswered(facts, "run hccn_tool -i 0 -tls -g")


def _is_in_range(text: str, low: int, high: int, step: int) -> bool:
    number = parse_decimal(text)
    return number is not None and low <= number <= high and number % step == 0


def _format_variable(value: str | None) -> Message:
    return _("not set") if value is None else verbatim(value[:20])


def _quote_variables(facts: Facts, names: Iterable[str]) -> tuple[str, ...]:
    environment = facts.environment or {}
    return quote_values("environment", **{name: environment[name][:80] for name in names if name in environment})


CHECKS: tuple[Check, ...] = (
    device_check(
        "network.hccl_timeout",
        check_hccl_timeout,
        before="network.master",
        reads="HCCL_CONNECT_TIMEOUT",
        source=REFERENCE,
        rule="FAIL if it is not a whole number from 120 to 7200 (seconds)",
        fix="Set a number in that range, or unset it.",
    ),
    device_check(
        "network.hccl_values",
        check_hccl_values,
        before="network.master",
        reads="HCCL_RDMA_TIMEOUT, _RETRY_CNT, _SL, _TC",
        source=REFERENCE,
        rule="FAIL if one is outside its documented range",
        fix="Set a number in the range, or unset it.",
    ),
    device_check(
        "network.hccl_intra",
        check_hccl_intra,
        before="network.master",
        reads="HCCL_INTRA_PCIE_ENABLE, HCCL_INTRA_ROCE_ENABLE, CANN version",
        source=REFERENCE,
        rule="FAIL if both are 1, or one is neither 0 nor 1; if only one is set, to 0: WARN, FAIL from CANN 9.0",
        fix="Set a pair that the reference lists.",
    ),
    device_check(
        "network.hccn_tls",
        check_hccn_tls,
        before="network.master",
        reads="hccn_tool -tls of each die",
        source="FaultDiag AISW_CANN_HCCL_034",
        rule="WARN if the ports of this host differ; FAIL for a job on several nodes",
        fix="Run hccn_tool -tls -s enable, with the same setting on every port.",
    ),
)
