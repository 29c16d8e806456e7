"""Checks of the firmware, the install record and DCMI, the library that monitors use to query NPUs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, vendor_check
from envcheck.core.derived.driver_install import driver_install_command
from envcheck.core.derived.installed_versions import board_fields, firmware_range, firmware_version
from envcheck.core.derived.libraries import evaluate_libraries
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    is_in_container,
    ok,
    quote_answer,
    quote_values,
    report_unanswered,
    requires_fact,
    skip,
    skipped_because,
    unknown,
    warn,
)
from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, Outcome, fix
from probes.host import schemas
from probes.host.schemas import PathStates

DRIVER_FILE = "read /usr/local/Ascend/driver/version.info"
FIRMWARE_FILE = "read /usr/local/Ascend/firmware/version.info"
INSTALL_FILE = "read /etc/ascend_install.info"
DCMI = "libdcmi.so"
DCMI_CHAIN = ("/usr/local/dcmi/libdcmi.so", "/usr/local/dcmi", "/usr/local", "/usr", "/")
OTHERS_WRITE = 0o022


def check_firmware(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The firmware version is known and within the range that the driver requires."""
    document, found = v.documents.get(FIRMWARE_FILE), firmware_version(v)
    if found is None:
        if v.tool and v.tool.outcome is Outcome.ABSENT:
            yield skipped_because("driver.tool")
        elif document is None and not board_fields(v):
            yield (
                skip(_("no firmware file in this container"))
                if is_in_container(facts)
                else report_unanswered(facts, FIRMWARE_FILE)
            )
        else:
            yield report_unanswered(facts, FIRMWARE_FILE)
        return
    low, high = firmware_range(v)
    if low and high and (versions.is_at_least(found, low) is False or versions.is_at_least(high, found) is False):
        words = _("Upgrade driver and firmware to the same HDK release.")
        shown = quote_answer(facts.answers.get(DRIVER_FILE), "compatible_version_fw")
        yield fail(
            _(
                "firmware {found} is outside the range that the driver supports: {low} to {high}",
                found=found,
                low=low,
                high=high,
            ),
            fix(words, driver_install_command(facts, v)),
            evidence=shown,
        )
    else:
        yield ok(_("firmware {found}", found=found))


def check_compatible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Every board reports that its firmware is compatible with the driver."""
    found = board_fields(v)
    reported = {
        number: value for number, fields in found.items() if isinstance(value := fields.get("Compatibility"), str)
    }
    wrong = {number: value for number, value in reported.items() if value.upper() != "OK"}
    if wrong:
        number, value = next(iter(wrong.items()))
        key = f"run npu-smi info -t board -i {number}"
        seen = _("NPU {numbers}: compatibility {state}", numbers=join(", ", map(str, wrong)), state=value)
        yield fail(
            seen,
            fix(_("Install driver and firmware of the same HDK release."), driver_install_command(facts, v)),
            evidence=quote_answer(facts.answers.get(key), "Compat"),
        )
    elif reported:
        yield ok(
            ngettext(
                "{count} board reports compatible driver and firmware",
                "{count} boards report compatible driver and firmware",
                len(reported),
            )
        )
    else:
        yield (
            unknown(_("no board reports whether firmware and driver are compatible"))
            if found
            else skip(_("no board answered"))
        )


def check_install_record(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """/etc/ascend_install.info exists; tools and containers read the driver's location from it."""
    answer, document = facts.answers.get(INSTALL_FILE), v.documents.get(INSTALL_FILE)
    fields = document.detail.get("fields", {}) if document else {}
    if v.tool and v.tool.outcome is Outcome.ABSENT and not fields:
        yield skipped_because("driver.tool")
    elif answer is None:
        yield report_unanswered(facts, INSTALL_FILE)
    elif answer.outcome is Outcome.ABSENT:
        words = _("Reinstall the driver, which writes this file: containers that mount it get an empty folder instead.")
        yield (
            warn(
                _("/etc/ascend_install.info not found"),
                fix(words, driver_install_command(facts, v)),
                evidence=_quote_error(facts, INSTALL_FILE),
            )
            if not is_in_container(facts)
            else skip(_("not present in containers"))
        )
    elif is_folder(facts, INSTALL_FILE.removeprefix("read ")):
        yield skipped_because("driver.mounts")
    elif not isinstance(fields, dict) or not fields:
        yield report_unanswered(facts, INSTALL_FILE)
    elif fields.get("Driver_Install_Status", "complete") != "complete":
        seen = _(
            "the driver installation status is {status}",
            status=fields["Driver_Install_Status"],
        )
        yield fail(
            seen,
            fix(_("Reinstall the driver."), driver_install_command(facts, v)),
            evidence=quote_answer(answer, "Driver_Install_Status"),
        )
    else:
        yield ok(
            _("driver installed in {folder}", folder=fields.get("Driver_Install_Path_Param", _("an unknown folder")))
        )


def _quote_error(facts: Facts, key: str) -> tuple[str, ...]:
    answer = facts.answers.get(key)
    return (*quote_answer(answer)[:1], answer.err) if answer else ()


def check_dcmi(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so can be loaded; npu-smi, monitors and schedulers need it."""
    yield evaluate_libraries(facts, v, schemas.read_libraries(facts), (DCMI,))


@requires_fact(schemas.read_paths, "ask paths")
def check_dcmi_owner(seen: PathStates, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so and its directories belong to root and only root can write them; monitors reject it otherwise."""
    if DCMI_CHAIN[0] not in seen.paths:
        yield skipped_because("driver.dcmi", _("no libdcmi.so in /usr/local/dcmi"))
    elif loose := [p for p in DCMI_CHAIN if p in seen.paths and seen.paths[p].mode & OTHERS_WRITE]:
        words = _("Remove write permission for group and others: exporters reject the library otherwise.")
        commands = (f"sudo chmod go-w {' '.join(loose)}",)
        shown = quote_values(f"stat {loose[0]}", mode=f"{seen.paths[loose[0]].mode:o}", uid=seen.paths[loose[0]].uid)
        yield warn(
            _("group or others can write {loose}", loose=join(", ", loose)), fix(words, *commands), evidence=shown
        )
    else:
        yield ok(_("only the owner can write {path}", path=DCMI_CHAIN[0]))


def is_folder(facts: Facts, path: str) -> bool:
    """Return whether the path is a folder on this host; False if it was not collected."""
    seen = schemas.read_paths(facts)
    return seen is not None and path in seen.paths and seen.paths[path].kind == "folder"


CHECKS: tuple[Check, ...] = (
    vendor_check(
        "driver.firmware",
        check_firmware,
        before="driver.module",
        reads="firmware and driver version.info, board",
        source="compatible_version_fw of version.info",
        rule="FAIL if outside the range in compatible_version_fw",
        fix="Install driver and firmware of the same HDK release.",
    ),
    vendor_check(
        "driver.compatible",
        check_compatible,
        before="driver.module",
        reads="npu-smi info -t board",
        source="npu-smi reference, board: Compatibility",
        rule="FAIL if a board reports an incompatible firmware",
        fix="Install driver and firmware of the same HDK release.",
    ),
    vendor_check(
        "driver.install_record",
        check_install_record,
        before="driver.module",
        reads="/etc/ascend_install.info",
        source="Ascend container guides",
        rule="FAIL if it records an incomplete installation; WARN if it is missing",
        fix="Reinstall the driver.",
    ),
    vendor_check(
        "driver.dcmi",
        check_dcmi,
        before="driver.mounts",
        reads="dlopen in a child process",
        source="gpustack#3284",
        rule="FAIL if it fails to load; WARN on hosts that run jobs in containers",
        fix="Mount /usr/local/dcmi into the container.",
    ),
    vendor_check(
        "driver.dcmi_owner",
        check_dcmi_owner,
        before="driver.mounts",
        reads="owner and mode of libdcmi.so and its directories",
        source="FaultDiag AISW_MindX_Npu_Exporter_01",
        rule="WARN if group or others can write one of them",
        fix="Run chmod go-w.",
    ),
)
