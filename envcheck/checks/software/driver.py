"""The vendor's tool and driver: whether they answer, whether their versions are known, new enough, and agree."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.software import compatibility, minimum_driver
from envcheck.checks.software.driver_parts import gone, is_folder
from envcheck.core import versions
from envcheck.core.check import NPU, Check, of_vendor
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    graded,
    in_container,
    not_told,
    ok,
    quote,
    skip,
    telling,
    unknown,
    warn,
)
from envcheck.core.installed_versions import board_fields, firmware_range, firmware_version
from envcheck.core.key_value import driver_version
from envcheck.core.model import Document, Finding, Outcome, Severity

DRIVER_FILE = "read /usr/local/Ascend/driver/version.info"
FIRMWARE_FILE = "read /usr/local/Ascend/firmware/version.info"
INSTALL_FILE = "read /etc/ascend_install.info"
DRIVER_FILES = (DRIVER_FILE, "read /proc/driver/nvidia/version")
# Complaints that say nothing about the card: the caller, or the question, was wrong (F03: -8005 for a plain user).
NOT_THE_CARD = ("permission-denied", "unsupported-query", "bad-query")


def tool(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The vendor's tool is installed and answers."""
    name, answer, said = v.vendor.tool, v.tool, v.document
    if answer is None or answer.err == "not in the recording":
        yield unknown(f"{name} was not asked in this recording")
    elif answer.outcome is Outcome.ABSENT:
        yield fail(f"{name} is not there", *_missing(facts, v), evidence=quote(answer))
    elif answer.outcome is Outcome.HUNG:
        words = "Look for processes in state D, then reboot: a driver that is stuck seldom comes back."
        stuck = ("ps -eo pid,stat,cmd | awk '$2 ~ /D/'", *commands(v, "pci")[1:])
        shown = (*quote(answer)[:1], *figures(name, elapsed_s=f"{answer.elapsed_s:.0f}", status="none"))
        yield fail(f"{name} did not answer in {answer.elapsed_s:.0f} s", words, *stuck, evidence=shown)
    elif gone(facts, v):
        yield follows("driver.module")
    elif no_device(v):
        yield ok(f"{name} answers, and lists no device")
    elif said and said.error:
        yield _complaint(v, said)
    elif v.devices and answer.outcome is Outcome.FAILED:
        seen = f"{name} lists {len(v.devices)} devices, but ended with status {answer.status}"
        yield warn(
            seen,
            "Read its last lines.",
            *commands(v, "list"),
            evidence=(*quote(answer)[:1], *answer.text.rstrip().splitlines()[-1:]),
        )
    elif answer.outcome is Outcome.FAILED:
        seen = f"{name} ended with status {answer.status}"
        yield fail(seen, "Read what it says, then look at the driver.", *commands(v, "driver"), evidence=quote(answer))
    elif (said is None or said.kind == "unknown") and not answer.text.strip():
        seen = f"{name} ended with status 0 and printed nothing"
        yield unknown(seen, "Run it by hand, and see whether it is the vendor's own.", *commands(v, "list"))
    elif said is None or said.kind == "unknown":
        words = "Send us its output: envcheck snapshot."
        yield unknown(f"{name} answered, but not in a layout that envcheck knows", words, evidence=quote(answer))
    else:
        yield ok(f"{name} answers{f', version {said.tool_version}' if said.tool_version else ''}")


def whole(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The tool's answer is whole: nothing is cut off."""
    if v.document is None or v.document.kind in ("unknown", "error"):
        yield follows("driver.tool")
    elif v.document.truncated:
        seen = f"the answer of {v.vendor.tool} is cut off after {len(v.devices)} devices"
        words = "Run the tool by hand; what stands after the cut could not be judged."
        last = v.tool.out.rstrip().splitlines()[-1:] if v.tool else []
        yield unknown(seen, words, *commands(v, "list"), evidence=(*quote(v.tool)[:1], *last))
    else:
        yield ok("the tool's answer is whole")


def version(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The driver's version is known, and not older than any set-up that is documented."""
    found = driver_version(v)
    if found is None:
        silent = v.document is None or v.document.kind in ("unknown", "error")
        yield follows("driver.tool") if silent else unknown("the tool does not tell the driver's version")
        return
    if versions.key(found) is None:
        yield unknown(f"driver {found}: not a version that envcheck can order")
    elif compatibility.below_all(v):
        floor, source = minimum_driver.driver(facts, v)
        words = f"Install a driver that fits your image; {floor} is the oldest named ({source})."
        said = v.document and v.document.driver_version
        file = next((key for key in DRIVER_FILES if key in v.documents), "")
        shown = telling(facts, v, found) if said else quote(facts.answers.get(file), found)
        yield fail(f"driver {found} is older than {floor}", words, *commands(v, "driver"), evidence=shown)
    else:
        source = "" if v.document and v.document.driver_version else ", as its file says"
        yield ok(f"driver {found}{source}")


def agree(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Tool, driver library and kernel driver are of one version."""
    tool, running = (v.document.tool_version, v.document.driver_version) if v.document else (None, None)
    loaded = next(
        (d.driver_version for key, d in v.documents.items() if d.driver_version and key in DRIVER_FILES), None
    )
    same = {"the driver on disk or in the kernel": _same(loaded, running), "the tool": _same(tool, running)}
    if not any(agreed is not None for agreed in same.values()):
        yield (unknown("only one of tool and driver tells its version") if v.devices else follows("driver.tool"))
    elif False in same.values():
        what, other = (
            ("the tool", tool) if same["the tool"] is False else ("the driver on disk or in the kernel", loaded)
        )
        grade = Severity.WARN if what == "the tool" else Severity.FAIL  # under WSL tool and driver differ by design
        words = "Reboot after an upgrade of the driver; in a container, mount the host's: both must be of one version."
        seen = f"driver {running}, but {what} says {other}"
        on_disk = next((key for key in DRIVER_FILES if key in v.documents), "")
        shown = telling(facts, v, tool, running) if what == "the tool" else quote(facts.answers.get(on_disk), loaded)
        yield graded(grade, seen, words, *commands(v, "driver"), evidence=shown)
    else:
        agreed = [what for what, agreed in same.items() if agreed]
        yield ok(f"{' and '.join(agreed)} agree{'s' * (len(agreed) == 1)} with driver {running}")


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
    boards = board_fields(v)
    said = {number: value for number, fields in boards.items() if isinstance(value := fields.get("Compatibility"), str)}
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
        yield unknown("no board says whether firmware and driver fit") if boards else skip("no board answered")


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


def no_device(v: VendorFacts) -> bool:
    """The tool works, and says that there is none."""
    return bool(v.document and v.document.error and v.document.error.category == "no-device")


def _missing(facts: Facts, v: VendorFacts) -> tuple[str, ...]:
    if in_container(facts):
        return (f"Mount the host's {v.vendor.tool} and driver into this container.", f"command -v {v.vendor.tool}")
    n = len(v.pci or ())
    seen = f": {n} {v.vendor.title} {'device is' if n == 1 else 'devices are'} on the bus" if n else ""
    return (f"Install the vendor's driver, or put the tool's folder on PATH{seen}.", *commands(v, "pci"))


def _complaint(v: VendorFacts, said: Document) -> Finding:
    error = said.error
    assert error is not None
    lines = v.tool.text.splitlines() if v.tool and error.code is not None else []
    telling = next((line.strip() for line in lines if str(error.code) in line), error.message or error.category)
    seen = f"{v.vendor.tool}: {telling}"
    words = " ".join(_sentence(w) for w in (error.fix, error.meaning) if w) or "Look at the driver."
    judge = unknown if error.category in NOT_THE_CARD else fail
    return judge(seen, words, *commands(v, "driver"), evidence=quote(v.tool, *telling.split()[:3]))


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].rstrip('.')}."


def _read(facts: Facts, key: str) -> tuple[str, ...]:
    answer = facts.answers.get(key)
    return (*quote(answer)[:1], answer.err) if answer else ()


def _same(left: str | None, right: str | None) -> bool | None:
    return versions.same_release(left, right) if left and right else None


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "driver.tool",
        tool,
        reads="the vendor's tool",
        source="vllm-ascend#2698, cann-container-image#46, NVSentinel#1748",
        rule="FAIL when it is missing, hangs or complains of the card; UNKNOWN when of the question or the caller",
        fix="Install or mount the driver; free the card that others use.",
    ),
    of_vendor(
        "driver.whole_answer",
        whole,
        reads="the vendor's tool",
        source="outputs cut off in public reports (gpustack, nyaterm#268)",
        rule="UNKNOWN when the answer stops in the middle",
        fix="Run the tool by hand.",
    ),
    of_vendor(
        "driver.version",
        version,
        reads="the vendor's tool, version files",
        source="the vendors' and toolkits' version tables",
        rule="FAIL below the oldest driver of any documented set-up; names the newest that anything here wants",
        fix="Install a driver that fits the image.",
    ),
    of_vendor(
        "driver.agrees",
        agree,
        reads="the vendor's tool, version files, /proc",
        source="nvidia-container-toolkit#394, gpustack#3256",
        rule="FAIL when the driver on disk or in the kernel is of another version; WARN when only the tool is",
        fix="Reboot after an upgrade; in a container mount the host's.",
    ),
    of_vendor(
        "driver.firmware",
        firmware,
        reads="firmware and driver version.info, board",
        source="compatible_version_fw of version.info",
        vendors=NPU,
        rule="FAIL outside the range that the driver names",
        fix="Upgrade driver and firmware from one HDK release.",
    ),
    of_vendor(
        "driver.compatible",
        compatible,
        reads="npu-smi info -t board",
        source="npu-smi reference, board: Compatibility",
        vendors=NPU,
        rule="FAIL when a board says that its firmware does not fit",
        fix="Install driver and firmware of one HDK release.",
    ),
    of_vendor(
        "driver.install_record",
        install_record,
        reads="/etc/ascend_install.info",
        source="Ascend container guides",
        vendors=NPU,
        rule="FAIL when it says that the installation is not complete; WARN when it is missing",
        fix="Install the driver again.",
    ),
)
