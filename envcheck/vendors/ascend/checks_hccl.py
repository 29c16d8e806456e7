"""Checks of HCCL's variables (timeouts, RDMA, links between cards), and of TLS on the NPU ports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

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
    warn,
    warn_or_fail,
)
from envcheck.core.lint.vendor_vocabulary import VariableRange
from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.core.model import Finding, Status, fix
from envcheck.vendors.ascend.checks_hccn import unread_answer_finding
from envcheck.vendors.ascend.hccl_variables import RANGES, REFERENCE
from probes.ascend.hccn import read_tls

TIMEOUT = ("HCCL_CONNECT_TIMEOUT",)
VALUES = ("HCCL_RDMA_TIMEOUT", "HCCL_RDMA_RETRY_CNT", "HCCL_RDMA_SL", "HCCL_RDMA_TC")
PCIE, ROCE = "HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE"
PAIRS_SINCE = "9.0"  # since then, the reference does not support one variable set to 0 alone
_ASKED = re.compile(r"run hccn_tool -i \d+ -tls -g")


def check_hccl_timeout(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_CONNECT_TIMEOUT is within its range; a rank that loads for longer ends the others."""
    yield _check_numeric_variables(facts, v, TIMEOUT)


def check_hccl_values(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The RDMA settings of HCCL are within their ranges; otherwise HCCL does not start."""
    yield _check_numeric_variables(facts, v, VALUES)


def _check_numeric_variables(facts: Facts, v: VendorFacts, names: Sequence[str]) -> Finding:
    if facts.environment is None:
        return report_unanswered(facts, "ask environment")
    given = {name: facts.environment[name] for name in names if facts.environment.get(name)}
    models = [device.name or "" for device in v.devices]
    verdicts = {name: _is_in_range(text, RANGES[name], models) for name, text in given.items()}
    wrong = [name for name in given if verdicts[name] is False]
    unsure = [name for name in given if verdicts[name] is None]
    if not given:
        few = len(names) < 3
        return skip(
            _("{table}: not set; defaults apply", table=join(_(" and "), names))
            if few
            else _("not set; defaults apply")
        )
    if wrong:
        name = wrong[0]
        limits = RANGES[name]
        words = _describe_range(limits, limits.find_high(models) or limits.high)
        remedy = fix(words, f"unset {name}")
        return fail(verbatim(f"{name}={given[name][:40]}"), remedy, evidence=_quote_variables(facts, wrong))
    if unsure:
        name, limit = unsure[0], RANGES[unsure[0]].lowest_limit
        seen = _(
            "{name}={value} is out of range on {models}: {low} to {high}",
            name=name, value=given[name], models=limit.label, low=RANGES[name].low, high=limit.high,
        )  # fmt: skip
        remedy = fix(_describe_range(RANGES[name], limit.high), f"unset {name}")
        return warn(seen, remedy, evidence=_quote_variables(facts, unsure))
    return ok(join(", ", (f"{name}={text}" for name, text in given.items())))


def _describe_range(limits: VariableRange, high: int) -> Message:
    if limits.step > 1:
        return _(
            "Set an integer from {low} to {high} that is a multiple of {step}, or unset it.",
            low=limits.low, high=high, step=limits.step,
        )  # fmt: skip
    return _("Set an integer from {low} to {high}, or unset it.", low=limits.low, high=high)


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


def _is_in_range(text: str, limits: VariableRange, models: Sequence[str]) -> bool | None:
    number = parse_decimal(text)
    return number is not None and limits.accepts(number, models)


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
        rule="FAIL if one is outside its documented range; WARN if only some NPUs accept it",
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
