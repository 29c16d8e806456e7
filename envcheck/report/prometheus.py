"""For Prometheus: the text exposition format, 0.0.4, for node_exporter's textfile collector.

Names follow its conventions: a prefix, base units (bytes, celsius, watts, ratios).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from envcheck.core.facts import VendorFacts
from envcheck.core.findings import device_label
from envcheck.core.model import Device, Finding, Status
from envcheck.core.units import MIB
from envcheck.core.version import __version__
from envcheck.report.contents import DoctorReport, HostReport
from envcheck.report.summary import exit_code, safe

Sample = tuple[Mapping[str, str], float]
STATUSES = ", ".join(status.name.lower() for status in Status)

# name -> HELP, value of a device in the base unit
DEVICE_METRICS: dict[str, tuple[str, Callable[[Device], float | None]]] = {
    "envcheck_device_memory_bytes": ("Memory of the device.", lambda d: _scale_value(d.memory_total_mib, MIB)),
    "envcheck_device_memory_used_bytes": (
        "Memory in use on the device, including the driver's share.",
        lambda d: _scale_value(d.memory_used_mib, MIB),
    ),
    "envcheck_device_temperature_celsius": ("Temperature of the device.", lambda d: d.temperature_c),
    "envcheck_device_power_watts": ("Power draw of the device.", lambda d: d.power_w),
    "envcheck_device_utilization_ratio": (
        "Utilization of the device, from 0 to 1.",
        lambda d: _scale_value(d.utilization_percent, 0.01),
    ),
    "envcheck_device_ecc_uncorrected_errors": (
        "Uncorrectable memory errors, as counted by the vendor tool.",
        lambda d: _scale_value(d.ecc_uncorrected, 1),
    ),
}


def render(report: DoctorReport) -> str:
    """Return the report as Prometheus metrics."""
    return "".join(line + "\n" for line in _render_metrics(report))


def _render_metrics(report: DoctorReport) -> Iterator[str]:
    yield from render_metric(
        "envcheck_info", "Version of envcheck that ran the checks.", [({"version": __version__}, 1)]
    )
    if report.made:
        words = "Time of the checks, in seconds since 1970."
        yield from render_metric("envcheck_examined_timestamp_seconds", words, [({}, report.made.timestamp())])
    code = exit_code(report.findings, report.strict)
    yield from render_metric(
        "envcheck_exit_code", "0 ready to train, 1 a check failed, 3 a check could not run.", [({}, code)]
    )
    if not report.local_host:
        words = "1 if the host responded, otherwise 0."
        yield from render_metric(
            "envcheck_host_answered", words, _sample_hosts(report, lambda h: [({}, int(h.answered))])
        )
        words = f"The status of a check among the hosts ({STATUSES}): 1."
        yield from render_metric("envcheck_fleet_status", words, _sample_statuses(report.shared))
    for name, (words, samples) in HOST_METRICS.items():
        yield from render_metric(name, words, _sample_hosts(report, samples))
    for name, (words, figure) in DEVICE_METRICS.items():
        yield from render_metric(name, words, _sample_hosts(report, partial(_sample_figures, figure)))


def _sample_hosts(report: DoctorReport, samples: Callable[[HostReport], Iterable[Sample]]) -> Iterator[Sample]:
    """Samples of all hosts; the label `host` is omitted for the local machine, whose collector adds it."""
    for host in report.hosts:
        for labels, value in samples(host):
            yield ({"host": host.name, **labels} if host.name else labels), value


def render_metric(name: str, words: str, samples: Iterable[Sample]) -> Iterator[str]:
    """HELP, TYPE and the samples; nothing if there are none."""
    lines = [f"{name}{_render_labels(labels)} {value:.15g}" for labels, value in samples]
    if lines:
        yield f"# HELP {name} {words}"
        yield f"# TYPE {name} gauge"
        yield from lines


def _render_labels(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f'{name}="{_escape_value(value)}"' for name, value in labels.items())
    return f"{{{pairs}}}" if pairs else ""


def _escape_value(value: str) -> str:
    return safe(value).replace("\\", "\\\\").replace('"', '\\"')


def _sample_statuses(findings: Iterable[Finding]) -> Iterator[Sample]:
    for f in sorted(findings, key=lambda f: (f.name, f.device)):
        area = f.name.partition(".")[0]
        yield {"check": f.name, "area": area, "device": f.device, "status": f.status.name.lower()}, int(not f.waived)


def _sample_counts(findings: Iterable[Finding]) -> Iterator[Sample]:
    found = list(findings)
    for status in Status:
        yield {"status": status.name.lower()}, sum(f.status is status and not f.waived for f in found)
    yield {"status": "waived"}, sum(bool(f.waived) for f in found)


def _sample_waivers(findings: Iterable[Finding]) -> Iterator[Sample]:
    for f in sorted((f for f in findings if f.waived), key=lambda f: (f.name, f.device)):
        reason, until = (f.accepted.reason, f.accepted.until) if f.accepted else (f.waived, "")
        labels = {"check": f.name, "device": f.device, "status": f.status.name.lower()}
        yield {**labels, "reason": reason, "until": until}, 1


def _sample_device_info(host: HostReport) -> Iterator[Sample]:
    for labels, d in _label_devices(host.facts.vendors):
        more = {"name": d.name, "uuid": d.uuid, "bus_id": d.bus_id, "health": d.health}
        yield {**labels, **{key: value or "" for key, value in more.items()}}, 1


def _sample_figures(figure: Callable[[Device], float | None], host: HostReport) -> Iterator[Sample]:
    """A value that the tool does not report has no sample: 0 would be a measured value."""
    for labels, d in _label_devices(host.facts.vendors):
        value = figure(d)
        if value is not None:
            yield labels, value


def _label_devices(vendors: Iterable[VendorFacts]) -> Iterator[tuple[dict[str, str], Device]]:
    """Each label once: a damaged list may name a device twice, and a series twice is an error for Prometheus."""
    for v in vendors:
        known = {device_label(d): d for d in reversed(v.devices)}
        yield from (({"device": v.name, "index": name}, known[name]) for name in reversed(known))


def _scale_value(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


# name -> HELP, samples of a host
HOST_METRICS: dict[str, tuple[str, Callable[[HostReport], Iterable[Sample]]]] = {
    "envcheck_check_status": (
        f"The status of a check ({STATUSES}): 1, or 0 if it is waived.",
        lambda host: _sample_statuses(host.findings),
    ),
    "envcheck_checks": (
        "Number of checks by status; waived checks are counted separately.",
        lambda host: _sample_counts(host.findings),
    ),
    "envcheck_waived": (
        "A check that envcheck.toml waives, with reason and last day.",
        lambda host: _sample_waivers(host.findings),
    ),
    "envcheck_device_info": ("Name, UUID, bus address and health of the device, as labels.", _sample_device_info),
}
