"""The vendor's tool and driver: whether they answer, whether their versions are known, new enough, and agree."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.checks.software import minimum_driver
from envcheck.compat import version_findings
from envcheck.core import versions
from envcheck.core.check import Check, of_vendor
from envcheck.core.derived.driver import no_device, unlisted_because
from envcheck.core.facts import Facts, VendorFacts
from envcheck.core.findings import (
    commands,
    fail,
    figures,
    follows,
    graded,
    in_container,
    ok,
    quote,
    telling,
    unknown,
    warn,
)
from envcheck.core.key_value import driver_version
from envcheck.core.model import Document, Finding, Outcome, Status
from probes.host import kernel_modules

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
    elif kernel_modules.is_gone(facts, v):
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
    if no_device(v):
        yield ok("the tool's answer is whole")
    elif v.document is None or v.document.kind in ("unknown", "error"):
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
    elif version_findings.below_all(v):
        floor, source = minimum_driver.driver(facts, v)
        words = f"Install a driver that fits your image; {floor} is the oldest named ({source})."
        said = v.document and v.document.driver_version
        shown = telling(facts, v, found) if said else quote(facts.answers.get(_version_key(v)), found)
        yield fail(f"driver {found} is older than {floor}", words, *commands(v, "driver"), evidence=shown)
    else:
        source = "" if v.document and v.document.driver_version else ", as its file says"
        yield ok(f"driver {found}{source}")


def agree(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Tool, driver library and kernel driver are of one version."""
    tool, running = (v.document.tool_version, v.document.driver_version) if v.document else (None, None)
    on_disk = v.documents.get(_version_key(v))
    loaded = on_disk.driver_version if on_disk else None
    same = {"the driver on disk or in the kernel": _same(loaded, running), "the tool": _same(tool, running)}
    if not any(agreed is not None for agreed in same.values()):
        yield (unknown("only one of tool and driver tells its version") if v.devices else follows(unlisted_because(v)))
    elif False in same.values():
        what, other = (
            ("the tool", tool) if same["the tool"] is False else ("the driver on disk or in the kernel", loaded)
        )
        grade = Status.WARN if what == "the tool" else Status.FAIL  # under WSL tool and driver differ by design
        words = "Reboot after an upgrade of the driver; in a container, mount the host's: both must be of one version."
        seen = f"driver {running}, but {what} says {other}"
        file = facts.answers.get(_version_key(v))
        shown = telling(facts, v, tool, running) if what == "the tool" else quote(file, loaded)
        yield graded(grade, seen, words, *commands(v, "driver"), evidence=shown)
    else:
        agreed = [what for what, agreed in same.items() if agreed]
        yield ok(f"{' and '.join(agreed)} agree{'s' * (len(agreed) == 1)} with driver {running}")


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


def _version_key(v: VendorFacts) -> str:
    """The key of the answer that holds the version of the driver on disk or in the kernel."""
    return f"read {v.vendor.driver_version_file}"


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
)
