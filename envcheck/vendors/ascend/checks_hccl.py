"""HCCL's variables: its patience, its numbers for RDMA, its way between the cards; and TLS on the cards' ports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from envcheck.core import versions
from envcheck.core.check import Check, of_devices
from envcheck.core.derived.ports import decimal
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import fail, figures, graded, nodes_wanted, not_told, ok, quote, ranges, skip
from envcheck.core.installed_versions import toolkit_version
from envcheck.core.model import Finding, Status
from envcheck.vendors.ascend.checks_hccn import unread
from probes.ascend.hccn import read_tls

# CANN's environment reference, 7.0 to 9.0: lowest, highest, a multiple of.
TIMEOUT = {"HCCL_CONNECT_TIMEOUT": (120, 7200, 1)}
VALUES = {
    "HCCL_RDMA_TIMEOUT": (5, 24, 1),
    "HCCL_RDMA_RETRY_CNT": (1, 7, 1),
    "HCCL_RDMA_SL": (0, 7, 1),
    "HCCL_RDMA_TC": (0, 255, 4),
}
PCIE, ROCE = "HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE"
PAIRS_SINCE = "9.0"  # from which on the reference calls half a pair that says 0 unsupported
_ASKED = re.compile(r"run hccn_tool -i \d+ -tls -g")
REFERENCE = "CANN environment variable reference, 7.0 to 9.0"


def hccl_timeout(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_CONNECT_TIMEOUT is within HCCL's range: ranks that load for longer than it allows end the others."""
    yield _numbers(facts, TIMEOUT)


def hccl_values(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL's numbers for RDMA are within their ranges: it refuses to start with others."""
    yield _numbers(facts, VALUES)


def _numbers(facts: Facts, table: Mapping[str, tuple[int, int, int]]) -> Finding:
    if facts.environment is None:
        return not_told(facts, "ask environment")
    said = {name: facts.environment[name] for name in table if facts.environment.get(name)}
    wrong = [name for name, text in said.items() if not _fits(text, *table[name])]
    if not said:
        few = len(table) < 3
        return skip(f"{' and '.join(table)}: not set, the default counts" if few else "none is set: the defaults count")
    if not wrong:
        return ok(", ".join(f"{name}={text}" for name, text in said.items()))
    name = wrong[0]
    low, high, step = table[name]
    words = f"Set a whole number from {low} to {high}{f' that {step} divides' if step > 1 else ''}, or unset it."
    return fail(f"{name}={said[name][:40]}", words, f"unset {name}", evidence=_shown(facts, wrong))


def hccl_intra(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE choose one way between the cards."""
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    pair = tuple(facts.environment.get(name) or None for name in (PCIE, ROCE))
    shown = _shown(facts, [PCIE, ROCE])
    words = f"Set {PCIE}=1 and {ROCE}=0 for PCIe, 0 and 1 for RoCE, or unset both."
    fix = f"unset {PCIE} {ROCE}"
    if pair == (None, None):
        yield skip("neither is set: PCIe counts where cards have it")
    elif pair == ("1", "1") or not set(pair) <= {None, "0", "1"}:
        yield fail(f"{PCIE} is {_set(pair[0])}, {ROCE} {_set(pair[1])}", words, fix, evidence=shown)
    elif pair in ((None, "0"), ("0", None)):
        refused = versions.at_least(toolkit_version(facts, v) or "", PAIRS_SINCE) is True
        grade = Status.FAIL if refused else Status.WARN
        yield graded(
            grade, f"{PCIE} is {_set(pair[0])}, {ROCE} {_set(pair[1])}: half a pair", words, fix, evidence=shown
        )
    else:
        yield ok(f"{'RoCE' if pair[1] == '1' else 'PCIe'} between the cards of this host")


def hccn_tls(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """TLS is on or off alike on all ports of the NPUs: which of the two does not matter on one host."""
    asked = {key: a for key, a in facts.answers.items() if key.startswith("run hccn_tool ") and _ASKED.fullmatch(key)}
    told = {int(key.split()[3]): state for key, a in asked.items() if (state := read_tls(a.text)) is not None}
    if len(set(told.values())) > 1:
        rare = min((0, 1), key=list(told.values()).count)
        odd = [n for n, state in sorted(told.items()) if state == rare]
        words = "Make them alike on all cards of all nodes: ranks refuse each other, with tlsStatus in the log."
        key = f"run hccn_tool -i {odd[0]} -tls -g"
        grade = Status.FAIL if nodes_wanted(facts) > 1 else Status.WARN
        seen = f"TLS is {'on' if rare else 'off'} at the port of NPU {ranges(odd)}, and not at the others"
        fix = f"hccn_tool -i {odd[0]} -tls -s enable {1 - rare}"
        yield graded(grade, seen, words, fix, evidence=quote(facts.answers.get(key), "tls"))
    elif told:
        yield ok(f"{'on' if set(told.values()) == {1} else 'off'} at {len(told)} ports; other nodes must be alike")
    else:
        first = next(iter(asked.values()), None)
        yield unread(first) if first else not_told(facts, "run hccn_tool -i 0 -tls -g")


def _fits(text: str, low: int, high: int, step: int) -> bool:
    number = decimal(text)
    return number is not None and low <= number <= high and number % step == 0


def _set(value: str | None) -> str:
    return "not set" if value is None else value[:20]


def _shown(facts: Facts, names: Iterable[str]) -> tuple[str, ...]:
    environment = facts.environment or {}
    return figures("environment", **{name: environment[name][:80] for name in names if name in environment})


CHECKS: tuple[Check, ...] = (
    of_devices(
        "network.hccl_timeout",
        hccl_timeout,
        before="network.master",
        reads="HCCL_CONNECT_TIMEOUT",
        source=REFERENCE,
        rule="FAIL when it is no whole number from 120 to 7200",
        fix="A number in that range, or unset.",
    ),
    of_devices(
        "network.hccl_values",
        hccl_values,
        before="network.master",
        reads="HCCL_RDMA_TIMEOUT, _RETRY_CNT, _SL, _TC",
        source=REFERENCE,
        rule="FAIL when one is outside its documented range",
        fix="A number in the range, or unset.",
    ),
    of_devices(
        "network.hccl_intra",
        hccl_intra,
        before="network.master",
        reads="HCCL_INTRA_PCIE_ENABLE, HCCL_INTRA_ROCE_ENABLE, CANN's version",
        source=REFERENCE,
        rule="FAIL when both are 1, or one is neither 0 nor 1; for half a pair that says 0 WARN, FAIL from CANN 9.0 on",
        fix="A pair that the reference lists.",
    ),
    of_devices(
        "network.hccn_tls",
        hccn_tls,
        before="network.master",
        reads="hccn_tool -tls of each die",
        source="FaultDiag AISW_CANN_HCCL_034",
        rule="WARN when the ports of this host differ; FAIL when a job of several nodes is named",
        fix="hccn_tool -tls -s enable, alike everywhere.",
    ),
)
