"""The limits between OK, WARN and FAIL, with their sources; envcheck.toml can set others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.core.facts import Facts
from envcheck.core.language import translate
from envcheck.core.messages import Message, _
from envcheck.core.units import GIB
from envcheck.core.version import SCHEMA_VERSION


@dataclass(frozen=True)
class Threshold:
    """`value` is in the unit at the end of the name: gib, percent, c (degrees Celsius); otherwise a count."""

    value: float
    source: Message


THRESHOLDS: dict[str, Threshold] = {
    "devices.utilization.warn_percent": Threshold(10, _("an idle device shows 0; a monitoring query adds 1 or 2")),
    "devices.temperature.warn_c": Threshold(80, _("set by envcheck, below the next threshold")),
    "devices.temperature.fail_c": Threshold(
        90, _("NVIDIA throttles at 87 to 95 °C depending on the model; Huawei alarms near that")
    ),
    "host.memory.warn_gib": Threshold(8, _("the smallest published model (0.3B) loads with 4 GiB; doubled")),
    "host.swap.warn_percent": Threshold(25, _("set by envcheck")),
    "host.disk.warn_gib": Threshold(20, _("a 7B model's weights are 15 GB")),
    "host.disk.fail_gib": Threshold(1, _("paddle and its dependencies take 2 GiB unpacked")),
    "host.shm.warn_gib": Threshold(16, _("the smallest value that a published setup gives its container")),
    "host.shm.fail_gib": Threshold(1, _("Docker's default is 64 MiB, PaddleSpeech#790")),
    "host.open_files.warn_count": Threshold(
        4096, _("dataloaders share tensors through file descriptors; the limit is 1024 on many hosts")
    ),
    "host.memlock.warn_gib": Threshold(1, _("RDMA pins its buffers; NCCL and HCCL require unlimited, nccl-tests#206")),
    "host.hugepages.warn_percent": Threshold(50, _("set by envcheck: reserved but unused share of host memory")),
    "host.cores.warn_count": Threshold(2, _("per device: one for the rank, one for its dataloader")),
    "engine.disk.warn_gib": Threshold(
        100, _("images of 37 to 39 GB take 2.5 times as much unpacked, PaddleOCR-VL's Iluvatar page")
    ),
    "engine.disk.fail_gib": Threshold(40, _("an image of 37 to 39 GB, PaddleOCR-VL's Iluvatar page")),
    "deep.matmul.warn_percent": Threshold(
        10, _("cards of the same model differ by 8 % on average, arXiv 2208.11035; set higher")
    ),
    "deep.copy.warn_percent": Threshold(
        30, _("set by envcheck: half the lanes give half the rate; crossing the socket costs less than this")
    ),
    "deep.memory.fill_percent": Threshold(
        50, _("set by envcheck: share of the free memory, which other programs may need meanwhile")
    ),
    "job.size.tolerance_percent": Threshold(5, _("a card sold as 80 GB shows 81559 MiB: vendors round up")),
}


def threshold_value(facts: Facts, name: str) -> float:
    """Return the value in envcheck.toml, else the default."""
    return facts.thresholds.get(name, THRESHOLDS[name].value)


def threshold_bytes(facts: Facts, name: str) -> float:
    """Return a threshold whose name ends with gib in bytes."""
    return threshold_value(facts, name) * GIB


def minimum_size_share(facts: Facts) -> float:
    """Return the fraction of a nominal size that a host must show: vendors round up, drivers reserve some memory."""
    return 1 - threshold_value(facts, "job.size.tolerance_percent") / 100


def format_thresholds(given: Mapping[str, float], file: str) -> str:
    """Return the output of --show-thresholds: each value with its source, and the default if the file sets another."""
    lines = []
    for name, known in THRESHOLDS.items():
        mine = given.get(name)
        value = (
            f"{known.value:g}"
            if mine is None
            else _("{mine:g} ({file}; default {default:g})", mine=mine, file=file, default=known.value)
        )
        lines += [f"{name} = {translate(value)}", f"    {translate(known.source)}"]
    return "\n".join(lines)


def thresholds_json(given: Mapping[str, float], file: str) -> str:
    """Return the thresholds as a JSON document; `unit` is the end of the name."""
    import json

    rows = [
        {
            "name": name,
            "value": given.get(name, known.value),
            "default": known.value,
            "unit": name.rpartition("_")[2],
            "source": known.source,
        }
        for name, known in THRESHOLDS.items()
    ]
    return json.dumps({"schema": SCHEMA_VERSION, "file": file, "thresholds": rows}, indent=2)
