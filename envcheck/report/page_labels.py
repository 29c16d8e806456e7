"""The labels of the HTML page, by the names that its templates use.

Area titles and the verdict come from `summary`, the results from the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envcheck.core.language import translate
from envcheck.core.messages import Message, _, ngettext
from envcheck.core.model import Status
from envcheck.report.summary import count_status, count_waived

WORDS: Mapping[str, Message] = {
    "title": _("envcheck doctor"),
    "to_findings": _("Skip to findings"),
    "examined": _("checked at"),
    "no_cards": _("no accelerator found; checked as a CPU-only machine"),
    "theme": _("Light or dark theme"),
    "next": _("Next step"),
    "colon": _(": "),
    "comma": _(", "),
    "copy": _("Copy"),
    "copied": _("Copied"),
    "areas": _("Areas"),
    "machine": _("Machine"),
    "findings": _("Findings"),
    "open_all": _("Expand all"),
    "close_all": _("Collapse all"),
    "evidence": _("Evidence"),
    "source": _("Source"),
    "waived": _("waived"),
    "devices_well": _("healthy devices"),
    "check": _("Check"),
    "seen": _("Result"),
    "device": _("Device"),
    "health": _("Health"),
    "not_said": _("not reported"),
    "memory": _("Memory"),
    "temperature": _("Temperature"),
    "limit": _("limit {figure}"),
    "idle_limit": _("idle limit {figure}"),
    "free": _("{figure} free"),
    "needs": _("needs {figure}"),
    "checks": _("Checks"),
    "power": _("Power"),
    "busy": _("Utilization"),
    "errors": _("Memory errors"),
    "held_by": _("Used by"),
    "not_told": _("unknown"),
    "on_bus": _("On the PCI bus, but not listed by the vendor tool"),
    "no_devices": _("The vendor tool lists no devices."),
    "host": _("Host"),
    "host_memory": _("Host memory"),
    "place_home": _("home directory"),
    "place_here": _("current directory"),
    "topology": _("Links between devices"),
    "matrix": _("From the row's device to the column's device"),
    "graph": _("Devices grouped by NUMA node; lines mark links that differ from the usual ones"),
    "near": _("local"),
    "numa": _("NUMA node"),
    "group_untold": _("NUMA node unknown"),
    "within": _("Usual link within a group:"),
    "between": _("Usual link between groups:"),
    "slower": _("fewer fast links than other devices"),
    "legend": _("Link types, fastest first"),
    "state_ok": _("passed"),
    "state_not_applicable": _("not applicable"),
    "state_blocked": _("not checked"),
    "state_unknown": _("unknown"),
    "state_warn": _("warning"),
    "state_fail": _("failed"),
    "link_package": _("two dies of one package"),
    "link_fabric": _("vendor interconnect"),
    "link_switch": _("through PCIe switches only"),
    "link_bridge": _("through PCIe host bridges"),
    "link_sys": _("across CPU sockets"),
    "link_untold": _("unknown"),
    "hosts_column": _("Hosts"),
    "grid": _("Results by host and area"),
    "odd": _("Host comparison"),
    "on_hosts": _("Individual hosts"),
    "nothing_odd": _("No issues found, and no differences between hosts."),
    "between_hosts": _("Tests between hosts"),
    "common": _("Common values"),
    "subject": _("Item"),
    "most": _("Most common value"),
    "all_hosts": _("All hosts"),
    "exit_code": _("exit code"),
    "made_by": _("Created by envcheck"),
    "private": _("This page is self-contained: it loads no external resources and sends no data."),
}
COUNTED: Mapping[str, Callable[[int], Message]] = {
    "waived": count_waived,
    "well": lambda n: ngettext("{count} check passed", "{count} checks passed", n),
    "blocked": lambda n: ngettext(
        "{count} check skipped because another check failed", "{count} checks skipped because another check failed", n
    ),
    "idle": lambda n: ngettext("{count} check does not apply", "{count} checks do not apply", n),
    "devices_well": lambda n: ngettext("{count} healthy device", "{count} healthy devices", n),
    "more_lines": lambda n: _("{count} more lines; run envcheck doctor --json", count=n),
    "more_devices": lambda n: _("{count} more devices not shown", count=n),
    "hosts": lambda n: _("{count} hosts", count=n),
    "without_page": lambda n: _("{count} hosts have no section on this page; --json lists all hosts", count=n),
    "wordings": lambda n: _("{count} variants", count=n),
}
OF_ALL: Mapping[str, Callable[[int, int], Message]] = {
    "hosts_well": lambda n, total: _("{count} of {total} hosts without issues", count=n, total=total),
    "devices_well": lambda n, total: _("{count} of {total} devices healthy", count=n, total=total),
}


def get_labels() -> Mapping[str, str]:
    """Return all labels in the selected language."""
    return {name: translate(text) for name, text in WORDS.items()}


def counted(name: str, number: int) -> str:
    """Return a count with its label, such as "3 checks passed"."""
    return translate(COUNTED[name](number))


def of_all(name: str, number: int, total: int) -> str:
    """Return a share with its label, such as "3 of 4 hosts without issues"."""
    return translate(OF_ALL[name](number, total))


def pill(state: str, number: int) -> str:
    """Return how many checks have a status, as in the summary; `state` is the status name in lower case, or waived."""
    return translate(count_waived(number) if state == "waived" else count_status(Status[state.upper()], number))
