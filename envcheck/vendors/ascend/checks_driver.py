"""Firmware, the install record and DCMI, the library by which monitors ask the NPUs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.libraries import judge_libraries
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    fail,
    figures,
    follows,
    in_container,
    not_told,
    ok,
    quote,
    reading,
    skip,
    unknown,
    warn,
)
from envcheck.core.installed_versions import board_fields, firmware_range, firmware_version
from envcheck.core.model import Finding, Outcome
from probes.host import schemas
from probes.host.schemas import Paths

DRIVER_FILE = "read /usr/local/Ascend/driver/version.info"
FIRMWARE_FILE = "read /usr/local/Ascend/firmware/version.info"
INSTALL_FILE = "read /etc/ascend_install.info"
DCMI = "libdcmi.so"
DCMI_CHAIN = ("/usr/local/dcmi/libdcmi.so", "/usr/local/dcmi", "/usr/local", "/usr", "/")
OTHERS_WRITE = 0o022


def firmware(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The firmware's version is known, and within the range that the driver names."""
    document, found = v.documents.get(FIRMWARE_FILE), firmware_version(v)
    if found is None:
        if v.tool and v.tool.outcome is Outcome.ABSENT:
            yield follows("driver.tool")
        elif document is None and not board_fields(v):
            yield (
                skip("no firmware file here (a container has none)")
                if in_container(facts)
                else not_told(facts, FIRMWARE_FILE)
            )
        else:
            yield not_told(facts, FIRMWARE_FILE)
        return
    low, high = firmware_range(v)
    if low and high and (versions.at_least(found, low) is False or versions.at_least(high, found) is False):
        words = "Upgrade driver and firmware from one HDK release."
        shown = quote(facts.answers.get(DRIVER_FILE), "compatible_version_fw")
        yield fail(f"firmware {found} is outside {low} to {high}, which the driver names", words, evidence=shown)
    else:
        yield ok(f"firmware {found}")


def compatible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each board says that its firmware fits the driver."""
    found = board_fields(v)
    said = {number: value for number, fields in found.items() if isinstance(value := fields.get("Compatibility"), str)}
    wrong = {number: value for number, value in said.items() if value.upper() != "OK"}
    if wrong:
        number, value = next(iter(wrong.items()))
        key = f"run npu-smi info -t board -i {number}"
        seen = f"NPU {', '.join(map(str, wrong))}: compatibility {value}"
        yield fail(
            seen, "Install driver and firmware of one HDK release.", evidence=quote(facts.answers.get(key), "Compat")
        )
    elif said:
        yield ok(f"{len(said)} boards say that driver and firmware fit")
    else:
        yield unknown("no board says whether firmware and driver fit") if found else skip("no board answered")


def install_record(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """/etc/ascend_install.info stands: tools and containers read from it where the driver is."""
    answer, document = facts.answers.get(INSTALL_FILE), v.documents.get(INSTALL_FILE)
    fields = document.detail.get("fields", {}) if document else {}
    if v.tool and v.tool.outcome is Outcome.ABSENT and not fields:
        yield follows("driver.tool")
    elif answer is None:
        yield not_told(facts, INSTALL_FILE)
    elif answer.outcome is Outcome.ABSENT:
        words = "Reinstall the driver, which writes it: containers that mount it get an empty folder instead."
        yield (
            warn(
                "/etc/ascend_install.info is not there",
                words,
                f"ls -l {INSTALL_FILE[5:]}",
                evidence=_read(facts, INSTALL_FILE),
            )
            if not in_container(facts)
            else skip("none in a container")
        )
    elif is_folder(facts, INSTALL_FILE.removeprefix("read ")):
        yield follows("driver.mounts")
    elif not isinstance(fields, dict) or not fields:
        yield not_told(facts, INSTALL_FILE)
    elif fields.get("Driver_Install_Status", "complete") != "complete":
        seen = f"the driver's installation is {fields['Driver_Install_Status']}"
        yield fail(seen, "Install the driver again.", evidence=quote(answer, "Driver_Install_Status"))
    else:
        yield ok(f"driver installed in {fields.get('Driver_Install_Path_Param', 'a place not said')}")


def _read(facts: Facts, key: str) -> tuple[str, ...]:
    answer = facts.answers.get(key)
    return (*quote(answer)[:1], answer.err) if answer else ()


def dcmi(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so can be loaded: npu-smi, monitors and schedulers ask the cards through it."""
    yield judge_libraries(facts, v, schemas.libraries(facts), (DCMI,))


@reading(schemas.paths, "ask paths")
def dcmi_owner(seen: Paths, facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """libdcmi.so and the folders above belong to root and to nobody else's pen: monitors refuse it otherwise."""
    if DCMI_CHAIN[0] not in seen.paths:
        yield follows("driver.dcmi", "no libdcmi.so in /usr/local/dcmi")
    elif loose := [p for p in DCMI_CHAIN if p in seen.paths and seen.paths[p].mode & OTHERS_WRITE]:
        words = "Take the right to write from group and others: exporters call the library invalid."
        fix = (f"sudo chmod go-w {' '.join(loose)}",)
        shown = figures(f"stat {loose[0]}", mode=f"{seen.paths[loose[0]].mode:o}", uid=seen.paths[loose[0]].uid)
        yield warn(f"others may write {', '.join(loose)}", words, *fix, evidence=shown)
    else:
        yield ok(f"{DCMI_CHAIN[0]} may be written by its owner alone")


def is_folder(facts: Facts, path: str) -> bool:
    seen = schemas.paths(facts)
    return seen is not None and path in seen.paths and seen.paths[path].kind == "folder"


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "driver.firmware",
        firmware,
        before="driver.module",
        reads="firmware and driver version.info, board",
        source="compatible_version_fw of version.info",
        rule="FAIL outside the range that the driver names",
        fix="Upgrade driver and firmware from one HDK release.",
    ),
    of_vendor(
        "driver.compatible",
        compatible,
        before="driver.module",
        reads="npu-smi info -t board",
        source="npu-smi reference, board: Compatibility",
        rule="FAIL when a board says that its firmware does not fit",
        fix="Install driver and firmware of one HDK release.",
    ),
    of_vendor(
        "driver.install_record",
        install_record,
        before="driver.module",
        reads="/etc/ascend_install.info",
        source="Ascend container guides",
        rule="FAIL when it says that the installation is not complete; WARN when it is missing",
        fix="Install the driver again.",
    ),
    of_vendor(
        "driver.dcmi",
        dcmi,
        before="driver.mounts",
        reads="dlopen in a child",
        source="gpustack#3284",
        rule="FAIL when it cannot be loaded; WARN where containers can be started",
        fix="Mount /usr/local/dcmi into the container.",
    ),
    of_vendor(
        "driver.dcmi_owner",
        dcmi_owner,
        before="driver.mounts",
        reads="owner and mode of libdcmi.so and its folders",
        source="FaultDiag AISW_MindX_Npu_Exporter_01",
        rule="WARN when group or others may write one of them",
        fix="chmod go-w.",
    ),
)
