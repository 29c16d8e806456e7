"""Checks of the vendor tool and the driver: they respond, and their versions are known, recent enough and equal."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.checks.software import minimum_driver
from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.device_listing import find_listing_cause, reports_no_device
from envcheck.core.derived.driver_install import driver_install_command
from envcheck.core.derived.key_value import driver_version, reported_driver_version
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    LINE_LIMIT,
    fail,
    is_in_container,
    ok,
    pci_commands,
    quote_answer,
    quote_listing,
    quote_values,
    skip,
    skipped_because,
    unknown,
    vendor_commands,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import NOTHING, Message, _, fill, join, mark, ngettext
from envcheck.core.model import Answer, Document, Finding, Outcome, Remedy, Status, ToolError, diagnose, fix, manual
from probes.host import kernel_modules

# Errors of the caller or the query, not of the card (-8005 for an unprivileged user): the result is UNKNOWN.
NOT_THE_CARD = ("permission-denied", "unsupported-query", "bad-query")


def check_tool(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor tool is installed and responds."""
    name, answer, document = v.vendor.tool, v.tool, v.document
    if answer is None or answer.err == "not in the recording":
        yield unknown(_("this recording has no output of {name}", name=name))
    elif answer.outcome is Outcome.ABSENT:
        yield fail(_("{name} not found", name=name), _missing_tool_remedy(facts, v), evidence=quote_answer(answer))
    elif answer.outcome is Outcome.HUNG:
        words = _("Check for processes in state D, then reboot: a hung driver rarely recovers.")
        stuck = ("ps -eo pid,stat,cmd | awk '$2 ~ /D/'", *pci_commands(facts, v)[1])
        shown = (*quote_answer(answer)[:1], *quote_values(name, elapsed_s=f"{answer.elapsed_s:.0f}", status="none"))
        yield fail(
            _("{name} did not respond within {elapsed_s:.0f} s", name=name, elapsed_s=answer.elapsed_s),
            diagnose(words, *stuck),
            evidence=shown,
        )
    elif kernel_modules.is_module_gone(facts, v):
        yield skipped_because("driver.module")
    elif reports_no_device(v):
        yield ok(_("{name} works but lists no devices", name=name))
    elif document and document.error:
        yield _tool_error_finding(facts, v, document)
    elif v.devices and answer.outcome is Outcome.FAILED:
        seen = _(
            "{name} lists {devices_count} devices, but exited with status {status}",
            name=name,
            devices_count=len(v.devices),
            status=answer.status,
        )
        yield warn(
            seen,
            diagnose(_("Check the last lines of its output."), *vendor_commands(v, "list")),
            evidence=(*quote_answer(answer)[:1], *answer.text.rstrip().splitlines()[-1:]),
        )
    elif answer.outcome in (Outcome.FAILED, Outcome.UNSTARTED, Outcome.FLOODED):
        yield fail(
            _describe_failure(name, answer),
            diagnose(_("Read the error message, then check the driver."), *vendor_commands(v, "driver")),
            evidence=quote_answer(answer),
        )
    elif (document is None or document.kind == "unknown") and not answer.text.strip():
        seen = _("{name} exited with status 0 and printed nothing", name=name)
        yield unknown(
            seen,
            diagnose(_("Run the tool, and check that it is the vendor's own program."), *vendor_commands(v, "list")),
        )
    elif document is None or document.kind == "unknown":
        reason = fill(str(document.detail.get("reason") or "")) if document else NOTHING
        words = _("Record the output with `envcheck snapshot` and report it.")
        if reason:
            words = _("Check that {name} in PATH is the vendor's own program.", name=name)
        yield unknown(
            _("{name}: {reason}", name=name, reason=reason)
            if reason
            else _("the output of {name} has an unknown format", name=name),
            diagnose(words, f"command -v {v.vendor.tool}") if reason else manual(words),
            evidence=quote_answer(answer),
        )
    else:
        yield ok(
            _(
                "{name} works{version}",
                name=name,
                version=_(", version {version}", version=document.tool_version) if document.tool_version else "",
            )
        )


def _describe_failure(name: str, answer: Answer) -> Message:
    """Return how the tool ended; if it could not start, or was stopped for what it printed, the reason too."""
    if answer.outcome is Outcome.UNSTARTED:
        why = answer.err.partition("\n")[0].removeprefix(f"{name}: ")
        return _("{name} cannot be started: {reason}", name=name, reason=why[:LINE_LIMIT])
    if answer.outcome is Outcome.FLOODED:
        return _("{name} printed too much, and was stopped", name=name)
    return _("{name} exited with status {status}", name=name, status=answer.status)


def check_whole_answer(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The output of the vendor tool is complete."""
    if reports_no_device(v):
        yield ok(_("the vendor tool's output is complete"))
    elif v.document is None or v.document.kind in ("unknown", "error"):
        yield skipped_because("driver.tool")
    elif v.document.truncated:
        seen = _(
            "the output of {tool} is truncated after {devices_count} devices",
            tool=v.vendor.tool,
            devices_count=len(v.devices),
        )
        words = _("Run the tool and check its complete output: devices after the truncation were not checked.")
        last = v.tool.out.rstrip().splitlines()[-1:] if v.tool else []
        yield unknown(seen, diagnose(words, *vendor_commands(v, "list")), evidence=(*quote_answer(v.tool)[:1], *last))
    else:
        yield ok(_("the vendor tool's output is complete"))


def check_version(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver version is known and not older than every documented set-up requires."""
    found = driver_version(v)
    if found is None:
        silent = v.document is None or v.document.kind in ("unknown", "error")
        yield skipped_because("driver.tool") if silent else _unknown_version(v)
        return
    if versions.sort_key(found) is None:
        yield unknown(_("driver {found}: unknown version format", found=found))
    elif v.vendor.driver_line and not re.fullmatch(v.vendor.driver_line, found):
        words = _("Test the machine with `envcheck doctor --deep` before you rely on it.")
        yield unknown(
            _("driver {found}: no document compares this line of drivers with the tested ones", found=found),
            diagnose(words, "envcheck doctor --deep"),
            evidence=quote_listing(facts, v, found),
        )
    elif version_findings.is_driver_below_all(v):
        floor, source = minimum_driver.find_minimum_driver(facts, v)
        words = _(
            "Install driver {floor} or newer that fits your image. The minimum is documented in {source}.",
            floor=floor,
            source=fill(source),
        )
        reported = reported_driver_version(v)
        file = facts.answers.get(_driver_file_key(v))
        shown = quote_listing(facts, v, found) if reported else quote_answer(file, found)
        yield fail(
            _("driver {found} is older than {floor}", found=found, floor=floor),
            fix(words, driver_install_command(facts, v, is_too_old=True)),
            evidence=shown,
        )
    else:
        source = "" if reported_driver_version(v) else _(", from its version file")
        yield ok(_("driver {found}{source}", found=found, source=source))


def _unknown_version(v: VendorFacts) -> Finding:
    """The tool reports no version of the driver, or only that of an interface that it imitates."""
    imitated = v.document.driver_version if v.document else None
    if not imitated:
        return unknown(_("the vendor tool does not report the driver version"))
    seen = _(
        "{tool} reports {version}, the version of an interface, not the driver's", tool=v.vendor.tool, version=imitated
    )
    words = _("Run the tool on the host, or read the driver's version file.")
    return unknown(seen, diagnose(words, *vendor_commands(v, "driver")), evidence=quote_answer(v.tool, imitated))


def check_agreement(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor tool, the driver library and the kernel driver have the same version."""
    tool, running = v.document.tool_version if v.document else None, reported_driver_version(v)
    on_disk = v.documents.get(_driver_file_key(v))
    loaded = on_disk.driver_version if on_disk else None
    by_driver, by_tool = _is_same_release(loaded, running), _is_same_release(tool, running)
    same = {_("the driver on disk or in the kernel"): by_driver, _("the vendor tool"): by_tool}
    if v.document and v.document.driver_version and running is None:
        yield skip(_("the vendor tool shows the version of an interface, not the driver's"))
    elif not any(agreed is not None for agreed in same.values()):
        yield (
            unknown(_("only one of the vendor tool and the driver reports its version"))
            if v.devices
            else skipped_because(find_listing_cause(v))
        )
    elif False in same.values():
        what, other = (
            (_("the vendor tool"), tool) if by_tool is False else (_("the driver on disk or in the kernel"), loaded)
        )
        grade = Status.WARN if by_tool is False else Status.FAIL  # under WSL tool and driver differ by design
        words = _(
            "Reboot after a driver upgrade. In a container, mount the host's driver: both must have the same version."
        )
        seen = _("driver is {running}, but {what} reports {other}", running=running, what=what, other=other)
        file = facts.answers.get(_driver_file_key(v))
        shown = quote_listing(facts, v, tool, running) if by_tool is False else quote_answer(file, loaded)
        remedy = diagnose(words, *vendor_commands(v, "driver")) if is_in_container(facts) else fix(words, "sudo reboot")
        yield warn_or_fail(grade, seen, remedy, evidence=shown)
    else:
        agreed = [what for what, agreed in same.items() if agreed]
        yield ok(
            ngettext(
                "{sources} reports driver {running}",
                "{sources} report driver {running}",
                len(agreed),
                sources=join(_(" and "), agreed),
                running=running,
            )
        )


def _missing_tool_remedy(facts: Facts, v: VendorFacts) -> Remedy:
    if is_in_container(facts):
        words = _("Mount the host's {tool} and driver into this container.", tool=v.vendor.tool)
        folders = v.vendor.driver_mounts
        if v.vendor.owns_gpus_option:
            return fix(words, "docker run --gpus all IMAGE")
        if not folders:
            return diagnose(words, f"command -v {v.vendor.tool}")
        return fix(words, " ".join(("docker run", *(f"-v {path}:{path}:ro" for path in folders), "IMAGE")))
    n = len(v.pci or ())
    words = (
        ngettext(
            "Install the vendor's driver, or add the tool's folder to PATH: {count} {title} device is on the PCI bus.",
            "Install the vendor's driver, or add the tool's folder to PATH: {count} {title} devices "
            "are on the PCI bus.",
            n,
            title=v.vendor.title,
        )
        if n
        else _("Install the vendor's driver, or add the tool's folder to PATH.")
    )
    return fix(words, driver_install_command(facts, v))


def _tool_error_finding(facts: Facts, v: VendorFacts, document: Document) -> Finding:
    """The tool's complaint with its meaning, and the remedy with commands that do or show what it asks for."""
    error = document.error
    assert error is not None
    lines = v.tool.text.splitlines() if v.tool and error.code is not None else []
    quoted = next((line.strip() for line in lines if str(error.code) in line), error.message or error.category)
    seen = _("{tool}: {quoted}", tool=v.vendor.tool, quoted=quoted)
    if error.meaning:
        meaning = _format_sentence(error.meaning)
        seen = _("{tool}: {quoted}. {meaning}", tool=v.vendor.tool, quoted=quoted.rstrip("."), meaning=meaning)
    words = _format_sentence(error.fix) if error.fix else _("Check the driver.")
    judge = unknown if error.category in NOT_THE_CARD else fail
    return judge(seen, _tool_error_remedy(facts, v, error, words), evidence=quote_answer(v.tool, *quoted.split()[:3]))


def _tool_error_remedy(facts: Facts, v: VendorFacts, error: ToolError, words: Message) -> Remedy:
    """A fix where one command does what the words ask for; otherwise commands that show where to act."""
    listing = vendor_commands(v, "list")[:1]
    as_root = tuple(f"sudo {command}" for command in listing)
    listings, messages = pci_commands(facts, v)
    kernel_log = (*messages, *listings)
    holders = (f"sudo fuser -v {v.vendor.node_pattern}", "docker ps")
    if not is_in_container(facts):
        host_fixes = {
            "driver-library-mismatch": "sudo reboot",
            "driver-not-loaded": driver_install_command(facts, v),
            "incomplete-driver": driver_install_command(facts, v),
            "tool-not-found": driver_install_command(facts, v),
        }
        if error.category in host_fixes:
            return fix(words, host_fixes[error.category])
    shown = {
        "device-busy": holders,
        "mig-pending": holders,
        "dcmi-init-failed": (*as_root, *vendor_commands(v, "driver")),
        "permission-denied": (*as_root, f"ls -l {v.vendor.node_pattern}"),
        "device-lost": kernel_log,
        "device-not-initialised": kernel_log,
        "no-device": kernel_log,
        "library-not-found": (f"ldd $(command -v {v.vendor.tool})",),
        "container-lost-devices": (f"ls -l {v.vendor.node_pattern}",),
        "bad-query": tuple(f"{command} -h" for command in listing),
        "unsupported-query": (),
    }
    commands = vendor_commands(v, error.category) or shown.get(error.category, vendor_commands(v, "driver"))
    return diagnose(words, *commands) if commands else manual(words)


def _format_sentence(words: str) -> Message:
    return fill(f"{words[:1].upper()}{words[1:].rstrip('.')}.")


def _driver_file_key(v: VendorFacts) -> str:
    """The key of the answer that contains the version of the driver on disk or in the kernel."""
    return f"read {v.vendor.driver_version_file}"


def _is_same_release(left: str | None, right: str | None) -> bool | None:
    return versions.is_same_release(left, right) if left and right else None


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "driver.tool",
        check_tool,
        reads="the vendor tool",
        source="vllm-ascend#2698, cann-container-image#46, NVSentinel#1748",
        rule="FAIL if the tool is missing, hangs or reports an error of a card; UNKNOWN if it rejects the query",
        fix="Install or mount the driver, or free the card.",
    ),
    vendor_check(
        "driver.whole_answer",
        check_whole_answer,
        reads="the vendor tool",
        source=mark("truncated outputs in public reports (gpustack, nyaterm#268)"),
        rule="UNKNOWN if the output is truncated",
        fix="Run the tool in a terminal and compare.",
    ),
    vendor_check(
        "driver.version",
        check_version,
        reads="the vendor tool, version files",
        source=mark("version tables of the vendors and toolkits"),
        rule="FAIL if older than the oldest driver of any documented set-up",
        fix="Install a driver that matches the image.",
    ),
    vendor_check(
        "driver.agrees",
        check_agreement,
        reads="the vendor tool, version files, /proc",
        source="nvidia-container-toolkit#394, gpustack#3256",
        rule="FAIL if the driver on disk and in the kernel differ; WARN if only the tool differs",
        fix="Reboot after a driver upgrade. In a container, mount the driver of the host.",
    ),
)
