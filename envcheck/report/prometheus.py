"""For Prometheus: the text exposition format, 0.0.4, for node_exporter's textfile collector.

Names follow its conventions: a prefix, base units (bytes, celsius, watts, ratios).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import label
from envcheck.core.model import Device, Finding, Status
from envcheck.core.units import MIB
from envcheck.core.version import __version__
from envcheck.report.contents import HostReport, Report
from envcheck.report.summary import exit_code, safe

Sample = tuple[Mapping[str, str], float]
STATUSES = ", ".join(status.name.lower() for status in Status)

# name -> HELP, and the device's figure in the base unit.
DEVICE: dict[str, tuple[str, Callable[[Device], float | None]]] = {
    "envcheck_device_memory_bytes": ("Memory of the device.", lambda d: _times(d.memory_total_mib, MIB)),
    "envcheck_device_memory_used_bytes": (
        "Memory in use on the device, the driver's own share included.",
        lambda d: _times(d.memory_used_mib, MIB),
    ),
    "envcheck_device_temperature_celsius": ("Temperature of the device.", lambda d: d.temperature_c),
    "envcheck_device_power_watts": ("Power that the device draws.", lambda d: d.power_w),
    "envcheck_device_utilization_ratio": (
        "How busy the device is, from 0 to 1.",
        lambda d: _times(d.utilization_percent, 0.01),
    ),
    "envcheck_device_ecc_uncorrected_errors": (
        "Memory errors that could not be corrected, as the tool counts them.",
        lambda d: _times(d.ecc_uncorrected, 1),
    ),
}


def render(report: Report) -> str:
    return "".join(line + "\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    yield from _metric("envcheck_info", "Which envcheck looked.", [({"version": __version__}, 1)])
    if report.made:
        words = "When the machine was examined, in seconds since 1970."
        yield from _metric("envcheck_examined_timestamp_seconds", words, [({}, report.made.timestamp())])
    code = exit_code(report.findings, report.strict)
    yield from _metric("envcheck_exit_code", "0 fit; 1 a check failed; 3 a check could not run.", [({}, code)])
    if not report.local:
        words = "Whether the host answered, 1 or 0."
        yield from _metric("envcheck_host_answered", words, _each(report, lambda h: [({}, int(h.answered))]))
        words = f"The status of a check among the hosts ({STATUSES}): 1."
        yield from _metric("envcheck_fleet_status", words, _statuses(report.shared))
    for name, (words, samples) in HOST.items():
        yield from _metric(name, words, _each(report, samples))
    for name, (words, figure) in DEVICE.items():
        yield from _metric(name, words, _each(report, partial(_figures, figure)))


def _each(report: Report, samples: Callable[[HostReport], Iterable[Sample]]) -> Iterator[Sample]:
    """Of every host; the label `host` is for a look from elsewhere: a node's own collector knows its host."""
    for host in report.hosts:
        for labels, value in samples(host):
            yield ({"host": host.name, **labels} if host.name else labels), value


def _metric(name: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    """HELP, TYPE and the samples; nothing where there are none."""
    lines = [f"{name}{_labels(labels)} {value:.15g}" for labels, value in samples]
    if lines:
        yield f"# HELP {name} {words}"
        yield f"# TYPE {name} gauge"
        yield from lines


def _labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    return safe(value).replace("\\", "\\\\").replace('"', '\\"')


def _statuses(findings: Iterable[Finding]) -> Iterator[Sample]:
    for f in sorted(findings, key=lambda f: (f.name, f.device)):
        area = f.name.partition(".")[0]
        yield {"check": f.name, "area": area, "device": f.device, "status": f.status.name.lower()}, int(not f.waived)


def _counts(findings: Iterable[Finding]) -> Iterator[Sample]:
    found = list(findings)
    for status in Status:
        yield {"status": status.name.lower()}, sum(f.status is status and not f.waived for f in found)
    yield {"status": "waived"}, sum(bool(f.waived) for f in found)


def _waivers(findings: Iterable[Finding]) -> Iterator[Sample]:
    for f in sorted((f for f in findings if f.waived), key=lambda f: (f.name, f.device)):
        reason, until = (f.accepted.reason, f.accepted.until) if f.accepted else (f.waived, "")
        labels = {"check": f.name, "device": f.device, "status": f.status.name.lower()}
        yield {**labels, "reason": reason, "until": until}, 1


def _named(host: HostReport) -> Iterator[Sample]:
    for labels, d in _devices(host.facts.vendors):
        more = {"name": d.name, "uuid": d.uuid, "bus_id": d.bus_id, "health": d.health}
        yield {**labels, **{key: value or "" for key, value in more.items()}}, 1


def _figures(figure: Callable[[Device], float | None], host: HostReport) -> Iterator[Sample]:
    """A figure that the tool does not tell has no sample: 0 would be an answer."""
    for labels, d in _devices(host.facts.vendors):
        value = figure(d)
        if value is not None:
            yield labels, value


def _devices(vendors: Iterable[VendorFacts]) -> Iterator[tuple[dict[str, str], Device]]:
    """Each label once: a damaged list may name a device twice, and a series twice is an error for Prometheus."""
    for v in vendors:
        known = {label(d): d for d in reversed(v.devices)}
        yield from (({"device": v.name, "index": name}, known[name]) for name in reversed(known))


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


# name -> HELP, and the samples of a host.
HOST: dict[str, tuple[str, Callable[[HostReport], Iterable[Sample]]]] = {
    "envcheck_check_status": (
        f"The status of a check ({STATUSES}): 1, or 0 where a waiver accepts it.",
        lambda host: _statuses(host.findings),
    ),
    "envcheck_checks": ("Checks by status; waived ones apart.", lambda host: _counts(host.findings)),
    "envcheck_waived": (
        "A check that a waiver of envcheck.toml accepts: the reason, and its last day.",
        lambda host: _waivers(host.findings),
    ),
    "envcheck_device_info": ("What the device calls itself.", _named),
}
