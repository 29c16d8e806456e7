"""The accelerators themselves: there, healthy, idle, cool, and numbered as a launch would number them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator

from envcheck.checks.check import ILUVATAR, NPU, NVIDIA, Check, of_devices, of_vendor
from envcheck.checks.common import (
    commands,
    fail,
    figures,
    follows,
    graded,
    in_container,
    incomplete,
    label,
    named,
    not_told,
    nothing,
    of_device,
    ok,
    plural,
    quote,
    ranges,
    skip,
    telling,
    unknown,
    vendor,
    warn,
)
from envcheck.checks.driver import blocks, no_device
from envcheck.checks.thresholds import limit
from envcheck.facts import die_id
from envcheck.model import Device, Facts, Finding, Severity, VendorFacts

PROCESSES_SHOWN = 4
# npu-smi's words: OK, Warning, Alarm, Critical, UNKNOWN (hicann/driver, npu-smi reference).
HEALTH = {"OK": Severity.OK, "WARNING": Severity.WARN, "ALARM": Severity.FAIL, "CRITICAL": Severity.FAIL}


def present(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The tool lists at least one device."""
    names = Counter(d.name or "unnamed" for d in v.devices)
    if v.devices:
        yield ok(", ".join(f"{count} × {name}" for name, count in names.items()))
    elif v.document and v.document.truncated:
        yield follows("driver.whole_answer")
    elif v.document is not None and (v.document.kind not in ("unknown", "error") or no_device(v)):
        elsewhere = f", lspci {_number(len(v.pci))}" if v.pci else ""
        shown = quote(v.tool) if no_device(v) else quote(facts.answers.get(vendor(v).presence[0].key))
        seen, words = f"{vendor(v).tool} lists no device{elsewhere}", "Look at the bus and the driver."
        yield fail(seen, words, *commands(v, "pci"), evidence=shown)
    elif v.pci or v.nodes:
        yield follows("driver.tool", f"{len(v.pci or v.nodes or ())} on the bus or in /dev; follows from driver.tool")
    elif v.pci is not None and v.nodes is not None:
        seen = f"no {vendor(v).title} device is in this machine"
        shown = nothing(vendor(v).presence[0].key)
        yield fail(seen, "Choose another --device, or look at the bus.", *commands(v, "pci"), evidence=shown)
    else:
        yield follows("driver.tool", "follows from driver.tool; lspci and /dev list none either")


def count(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """lspci, /dev and the tool agree on how many there are."""
    listed, nodes = len(v.devices), None if v.nodes is None else len(v.nodes)
    slots = len({d.bus_id for d in v.devices if d.bus_id}) or listed  # two chips of a Duo card share one Bus-Id
    pci = None if v.pci is None or (in_container(facts) and nodes) else len(v.pci)  # lspci shows the host's
    if not pci and not nodes:
        yield unknown("neither lspci nor /dev says how many there should be")
        return
    seen = f"lspci {_number(pci)}, /dev {_number(nodes)}, {vendor(v).tool} {listed}"
    if v.document and v.document.truncated:
        yield unknown(f"{seen}: the tool's answer is cut off")
    elif listed < max(pci or 0, nodes or 0) and slots < max(pci or 0, nodes or 0):
        words = "Look for a bus error of the device that fell off, then reseat it or power-cycle (a reboot may not do)."
        yield fail(seen, words, *commands(v, "pci"), *commands(v, "list"), evidence=_missing(facts, v))
    elif nodes is not None and nodes < listed:
        words = "Give the container its device nodes: the tool lists more than this process may open."
        shown = quote(facts.answers.get(vendor(v).presence[1].key))
        yield warn(seen, words, f"ls -l {vendor(v).node_pattern}", evidence=shown)
    else:
        yield ok(seen)


def health(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Each device calls itself healthy."""
    told = [d for d in v.devices if d.health is not None]
    worst = [d for d in told if HEALTH.get(str(d.health).upper(), Severity.UNKNOWN) is not Severity.OK]
    if not told:
        yield unknown("the tool shows no health")
    elif not worst:
        yield ok(f"{len(told)} devices say {told[0].health}")
    else:
        grade = max(HEALTH.get(str(d.health).upper(), Severity.UNKNOWN) for d in worst)
        first = max(worst, key=lambda d: HEALTH.get(str(d.health).upper(), Severity.UNKNOWN))
        seen = f"{named(worst)}: {', '.join(sorted({str(d.health) for d in worst}))}{_codes(v, worst)}"
        words = "Read the error code; leave the device out until the vendor's list of codes calls it harmless."
        shown = quote(v.tool, label(first).split()[0], first.health)
        yield graded(grade, seen, words, *commands(v, "health", first), evidence=shown)


def ecc(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No device has counted uncorrectable memory errors."""
    told = dict(_ecc_counts(v))
    bad = {number: n for number, n in told.items() if n > 0}
    if bad:
        first = next(iter(bad))
        seen = f"device {', '.join(bad)}: {', '.join(f'{n} uncorrectable' for n in bad.values())} memory errors"
        words = "Reset the device, and have it replaced if the count comes back: its results cannot be trusted."
        device = next((d for d in v.devices if label(d) == first), None)
        yield fail(seen, words, *commands(v, "ecc", device), evidence=_ecc_evidence(facts, v, first))
    elif told:
        yield ok(f"{len(told)} devices count no uncorrectable memory error")
    elif vendor(v).per_device:
        yield unknown("no device tells its memory errors")
    else:
        yield skip("the devices count no memory errors (ECC is off, or not shown)")


def memory(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Nobody holds memory of the devices beyond what the driver itself takes."""
    idle = vendor(v).idle_memory_mib
    told = [d for d in v.devices if d.memory_used_mib is not None]
    held = [d for d in told if (d.memory_used_mib or 0) > idle]
    if held:
        first = max(held, key=lambda d: d.memory_used_mib or 0)
        seen = f"{named(held)}: {'up to ' if len(held) > 1 else ''}{first.memory_used_mib} MiB in use{_owners(v, held)}"
        words = "Find the owner and stop it; ended jobs leave ranks behind."
        yield warn(seen, words, *_look(v), *commands(v, "list"), evidence=of_device(v, first, "memory_used_mib"))
    elif told:
        yield ok(f"at most {max(d.memory_used_mib or 0 for d in told)} MiB in use of each")
    else:
        yield unknown("the tool shows no memory in use")


def processes(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No other process works on the devices."""
    if v.document and v.document.truncated:
        yield unknown("the tool's answer is cut off before its list of processes")
    elif v.processes:
        seen = f"{plural(len(v.processes), 'process')} on the devices{_owners(v, v.devices)}"
        shown = telling(facts, v, v.processes[0].pid) if v.processes[0].pid is not None else ()
        words = "Wait for it, or stop it: a second job on a device fails late, or slows both."
        yield warn(seen, words, *_look(v), evidence=shown)
    elif v.processes is None:
        yield unknown("no form of the tool's answer lists processes")
    else:
        yield ok("no process is on the devices")


def utilization(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are not at work."""
    if v.devices and all(_cut(d) for d in v.devices):
        yield skip("a GPU that is cut into MIG instances shows none")
        return
    words = "Wait for the other job, or stop it."
    if all(d.utilization_percent is None for d in v.devices) and (busy := _usages(v)):
        top = max(busy, key=lambda number: busy[number])
        shown = quote(facts.answers.get(f"run npu-smi info -t usages -i {top}"), "core Usage Rate")
        seen = f"device {top}: {busy[top]:g} % busy"
        yield (
            ok(f"at most {busy[top]:g} % busy")
            if busy[top] < limit(facts, "devices.utilization.warn_percent")
            else warn(seen, words, *commands(v, "list"), evidence=shown)
        )
        return
    yield _level(
        v,
        "utilization_percent",
        lambda n: f"{n:g} % busy",
        (limit(facts, "devices.utilization.warn_percent"), None),
        words,
    )


def temperature(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are cool enough to start."""
    words = "Look at fans and air flow: a device that is hot when idle slows down under load."
    yield _level(
        v,
        "temperature_c",
        lambda n: f"{n:g} C",
        (limit(facts, "devices.temperature.warn_c"), limit(facts, "devices.temperature.fail_c")),
        words,
    )


def uniform(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The devices are of one kind and size: the slowest sets the pace, the smallest the plan."""
    kinds = Counter((d.name, d.memory_total_mib) for d in v.devices)
    if any(total is None or name is None for name, total in kinds):
        yield unknown("the tool does not show name and memory of each device")
    elif len(kinds) > 1:
        seen = ", ".join(f"{n} × {name} with {total} MiB" for (name, total), n in kinds.most_common())
        words = f"Choose devices of one kind: {vendor(v).visible_env}=0,1,..."
        odd = next(d for d in v.devices if (d.name, d.memory_total_mib) == kinds.most_common()[-1][0])
        yield warn(seen, words, *commands(v, "list"), evidence=of_device(v, odd, "memory_total_mib"))
    else:
        (name, total), n = next(iter(kinds.items()))
        yield ok(f"{n} × {name}, {total} MiB each")


def chips(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """Chips come in whole cards: a BI-V150 carries two, and counts and memory are per chip."""
    each, n = vendor(v).chips_per_card, len(v.devices)
    if not any("V150" in (d.name or "") for d in v.devices):
        known = all(d.name for d in v.devices)
        yield skip("not a card with several chips") if known else unknown("the devices are not named")
    elif cause := incomplete(facts, v):
        yield follows(cause)
    elif n % each:
        seen = f"{n} chips cannot be whole cards of {each}"
        yield fail(seen, "A chip is missing: look at the bus.", *commands(v, "pci"), evidence=quote(v.tool, "V150"))
    else:
        size = v.devices[0].memory_total_mib
        yield ok(f"{n} chips{f' of {size} MiB' if size else ''} on {n // each} cards; plan with chips")


def mig(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """No GPU is cut into MIG instances: the launcher counts whole GPUs."""
    told = [d for d in v.devices if d.mig_mode is not None]
    cut = [d for d in told if _cut(d)]
    if cut:
        seen = f"{named(cut)}: MIG is on"
        words = "Turn MIG off (a reset follows) to train over several GPUs, or name one instance by its UUID."
        yield warn(
            seen,
            words,
            f"nvidia-smi -i {label(cut[0])} -mig 0",
            "nvidia-smi -L",
            evidence=telling(facts, v, "current_mig", "Enabled"),
        )
    elif told:
        yield ok("MIG is off")
    elif all(d.name for d in v.devices):
        yield skip("these devices have no MIG")
    else:
        yield unknown("the tool does not show the MIG mode")


def numbering(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The tool's numbers are those of the device nodes: /dev/davinci16 is not NPU 16 everywhere."""
    ids = sorted({n for d in v.devices if (n := die_id(d)) is not None})
    nodes = sorted(int(found[1]) for path in v.nodes or () if (found := re.search(r"(\d+)$", path)))
    if not ids or v.nodes is None:
        yield unknown("numbers or device nodes could not be told")
    elif not nodes:
        yield skip("no device node to compare with")
    elif set(ids) <= set(nodes):
        yield ok("the tool's numbers are those of the device nodes")
    else:
        seen = f"the tool counts {ranges(ids)}, the nodes are {ranges(nodes)}"
        words = "Name devices for containers by their node, not by the NPU id."
        shown = quote(facts.answers.get(vendor(v).presence[1].key))
        yield warn(seen, words, "npu-smi info -m", evidence=shown)


def visible(facts: Facts, v: VendorFacts) -> Iterator[Finding]:
    """The list of visible devices is clean: a blank or a number that is not there cuts it silently."""
    name = vendor(v).visible_env
    if facts.environment is None:
        yield not_told(facts, "ask environment")
        return
    value = facts.environment.get(name)
    if value is None:
        yield skip(f"{name} is not set: all devices are seen")
    elif wrong := _wrong_list(value, len(v.devices)):
        words = "Write ascending numbers with commas alone, each once."
        right = f"export {name}={','.join(map(str, range(len(v.devices))))}"
        yield fail(f"{name}={value}: {wrong}", words, right, evidence=figures("environment", **{name: value}))
    else:
        yield ok(f"{name}={value}")


def _level(
    v: VendorFacts,
    attribute: str,
    shown: Callable[[float], str],
    limits: tuple[float, float | None],
    words: str,
) -> Finding:
    told = [(value, d) for d in v.devices if (value := getattr(d, attribute)) is not None]
    high = [(value, d) for value, d in told if value >= limits[0]]
    if not told:
        return unknown(f"the tool shows no {attribute.split('_')[0]}")
    top = max(value for value, _ in told)
    if not high:
        return ok(f"at most {shown(top)}")
    grade = Severity.FAIL if limits[1] is not None and top >= limits[1] else Severity.WARN
    seen = f"{named(d for _, d in high)}: {'up to ' if len(high) > 1 else ''}{shown(top)}"
    first = next(d for value, d in high if value == top)
    return graded(grade, seen, words, *commands(v, "list"), evidence=of_device(v, first, attribute))


def _cut(device: Device) -> bool:
    return str(device.mig_mode).lower().startswith(("enabled", "on"))


def _usages(v: VendorFacts) -> dict[int, float]:
    """Per cent at work by NPU, from -t usages: some tables of npu-smi (310, A3) leave the column empty."""
    told = {
        number: [
            float(value)
            for block in blocks(kinds["usages"])
            for key, value in block.items()
            if key.lower().startswith(("aicore usage", "npu utilization")) and isinstance(value, int | float)
        ]
        for number, kinds in v.per_device.items()
        if "usages" in kinds
    }
    return {number: max(values) for number, values in told.items() if values}


def _codes(v: VendorFacts, devices: list[Device]) -> str:
    """The error codes of -t health, where the chip tells them."""
    said = []
    for device in devices:
        document = v.per_device.get(device.npu if device.npu is not None else -1, {}).get("health")
        told = [block.get("Error Code") for block in blocks(document)] if document else []
        said += [str(code) for code in told if code is not None]
    return f", error code {', '.join(dict.fromkeys(said))}" if said else ""


def _ecc_counts(v: VendorFacts) -> Iterator[tuple[str, int]]:
    """Uncorrectable errors by device: the table's own column, or the double-bit counters of -t ecc."""
    for d in v.devices:
        if d.ecc_uncorrected is not None:
            yield label(d), d.ecc_uncorrected
    for number, kinds in v.per_device.items():
        pairs = [pair for block in (blocks(kinds["ecc"]) if "ecc" in kinds else []) for pair in block.items()]
        doubles = [n for key, n in pairs if "Double Bit" in key and "Err" in key and type(n) is int]
        if doubles:
            yield str(number), max(doubles)


def _ecc_evidence(facts: Facts, v: VendorFacts, number: str) -> tuple[str, ...]:
    answer = facts.answers.get(f"run npu-smi info -t ecc -i {number}")
    if answer is None:
        device = next((d for d in v.devices if label(d) == number), None)
        return of_device(v, device, "ecc_uncorrected") if device else quote(v.tool, "ncorr")
    line = next((ln.strip() for ln in answer.out.splitlines() if re.search(r"Double Bit.*:\s*[1-9]", ln)), "")
    return (f"$ npu-smi info -t ecc -i {number}", line)


def _owners(v: VendorFacts, devices: tuple[Device, ...] | list[Device]) -> str:
    ids = {d.npu if d.npu is not None else d.index for d in devices}
    on = [p for p in v.processes or () if p.device in ids]
    named_ones = [f"{p.name or 'a process'} (pid {p.pid})" for p in on[:PROCESSES_SHOWN]]
    more = f" and {len(on) - PROCESSES_SHOWN} more" if len(on) > PROCESSES_SHOWN else ""
    return f": {', '.join(named_ones)}{more}" if named_ones else ""


def _look(v: VendorFacts) -> tuple[str, ...]:
    pids = ",".join(str(p.pid) for p in (v.processes or ())[:PROCESSES_SHOWN] if p.pid is not None)
    return (f"ps -o pid,user,etime,cmd -p {pids}",) if pids else (f"fuser -v {vendor(v).node_pattern}",)


def _missing(facts: Facts, v: VendorFacts) -> tuple[str, ...]:
    """The bus line that the tool does not list."""
    listed = [str(d.bus_id).lower() for d in v.devices if d.bus_id]
    lost = next((bus for bus in v.pci or () if not any(known.endswith(bus.lower()) for known in listed)), None)
    return quote(facts.answers.get(vendor(v).presence[0].key), lost) if lost and listed else ()


def _wrong_list(value: str, devices: int) -> str:
    if re.search(r"GPU-|MIG-", value):
        return ""  # UUIDs name what they mean
    if not re.fullmatch(r"\d{1,4}(,\d{1,4})*", value):
        return "holds something else than numbers and commas"
    numbers = [int(n) for n in value.split(",")]
    if numbers != sorted(set(numbers)):
        return "is not ascending, or names one twice"
    return f"there are {devices} devices" if devices and numbers[-1] >= devices else ""


def _number(value: int | None) -> str:
    return "not told" if value is None else str(value)


CHECKS: tuple[Check, ...] = (
    of_vendor(
        "devices.present",
        present,
        reads="the vendor's tool, lspci, /dev",
        source="leptonai/gpud#944",
        rule="FAIL when there is none",
        fix="Look at the bus and the driver.",
    ),
    of_devices(
        "devices.count",
        count,
        reads="the vendor's tool, lspci, /dev",
        source="leptonai/gpud#944, vllm-ascend#12980",
        rule="FAIL when the tool lists fewer than bus or /dev; WARN when nodes are missing",
        fix="Power-cycle; give the container its nodes.",
    ),
    of_devices(
        "devices.health",
        health,
        reads="npu-smi info, -t health",
        source="npu-smi reference: words of Health",
        vendors=NPU,
        rule="FAIL for Alarm and Critical, WARN for Warning, UNKNOWN for other words",
        fix="Read the error code, leave the device out.",
    ),
    of_devices(
        "devices.ecc",
        ecc,
        reads="the vendor's tool, -t ecc",
        source="npu-smi reference, nvidia-smi manual",
        rule="FAIL for one uncorrectable error or more",
        fix="Reset the device; have it replaced when they come back.",
    ),
    of_devices(
        "devices.memory",
        memory,
        reads="the vendor's tool",
        source="vllm-ascend#1767, verl#332",
        rule="WARN above what the driver holds of an idle device",
        fix="Stop the owner.",
    ),
    of_devices(
        "devices.processes",
        processes,
        reads="the vendor's tool",
        source="Ascend/pytorch#166, verl#332",
        rule="WARN for any process",
        fix="Wait for it or stop it.",
    ),
    of_devices(
        "devices.utilization",
        utilization,
        reads="the vendor's tool",
        source="Paddle#11375",
        rule="WARN from devices.utilization.warn_percent on",
        fix="Wait for the other job or stop it.",
    ),
    of_devices(
        "devices.temperature",
        temperature,
        reads="the vendor's tool",
        source="our margin below the vendors' slow-down",
        rule="WARN from devices.temperature.warn_c, FAIL from devices.temperature.fail_c on",
        fix="Look at fans and air flow.",
    ),
    of_devices(
        "devices.uniform",
        uniform,
        reads="the vendor's tool",
        source="the slowest device sets the pace",
        rule="WARN when names or memory differ",
        fix="Choose devices of one kind.",
    ),
    of_devices(
        "devices.chips",
        chips,
        reads="ixsmi",
        source="ERNIE's Iluvatar page; ix-device-plugin splitboard",
        vendors=ILUVATAR,
        rule="FAIL when chips do not make whole cards",
        fix="Look at the bus.",
    ),
    of_devices(
        "devices.mig",
        mig,
        reads="nvidia-smi",
        source="NVIDIA's MIG user guide",
        vendors=NVIDIA,
        rule="WARN when a GPU is cut",
        fix="Turn MIG off, or name an instance by UUID.",
    ),
    of_devices(
        "devices.numbering",
        numbering,
        reads="npu-smi info, /dev",
        source="vllm-ascend#8519",
        vendors=NPU,
        rule="WARN when the tool's numbers are not those of the nodes",
        fix="Name devices for containers by their node.",
    ),
    of_devices(
        "devices.visible",
        visible,
        reads="the environment",
        source="CANN's environment variable reference; ms-swift NPU page, Q7",
        rule="FAIL for blanks, doubles, and numbers that are not there",
        fix="Ascending numbers with commas alone.",
    ),
)
