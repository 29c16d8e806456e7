"""Figures that decide between ok, warning and failure, with where they come from; envcheck.toml may set others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envcheck.core.facts import Facts
from envcheck.core.language import say
from envcheck.core.units import GIB
from envcheck.core.version import SCHEMA_VERSION


@dataclass(frozen=True)
class Threshold:
    """`value` is in the unit that the name ends with: gib, percent, c (degrees Celsius); else a count."""

    value: float
    source: str


THRESHOLDS: dict[str, Threshold] = {
    "devices.utilization.warn_percent": Threshold(10, "an idle device shows 0; a monitor's query costs one or two"),
    "devices.temperature.warn_c": Threshold(80, "ours, below the next one"),
    "devices.temperature.fail_c": Threshold(90, "NVIDIA's slow-down lies at 87 to 95 C by model, Huawei's alarm near"),
    "host.memory.warn_gib": Threshold(8, "the smallest published model (0.3B) loads with 4 GiB; doubled"),
    "host.swap.warn_percent": Threshold(25, "ours"),
    "host.disk.warn_gib": Threshold(20, "a 7B model's weights are 15 GB"),
    "host.disk.fail_gib": Threshold(1, "paddle and its dependencies unpack to 2 GiB"),
    "host.shm.warn_gib": Threshold(16, "the least that a published set-up gives its container"),
    "host.shm.fail_gib": Threshold(1, "Docker's default is 64 MiB, PaddleSpeech#790"),
    "host.open_files.warn_count": Threshold(4096, "dataloaders share tensors by descriptors; many hosts have 1024"),
    "host.memlock.warn_gib": Threshold(1, "RDMA pins its buffers; NCCL and HCCL ask for unlimited, nccl-tests#206"),
    "host.hugepages.warn_percent": Threshold(50, "ours: reserved and unused, of the host's memory"),
    "host.cores.warn_count": Threshold(2, "a device: one for the rank, one for its dataloader"),
    "engine.disk.warn_gib": Threshold(100, "images of 37 to 39 GB unpack 2.5-fold, PaddleOCR-VL's Iluvatar page"),
    "engine.disk.fail_gib": Threshold(40, "an image of 37 to 39 GB, PaddleOCR-VL's Iluvatar page"),
    "deep.matmul.warn_percent": Threshold(10, "cards of a kind differ by 8 % in the mean, arXiv 2208.11035; more"),
    "deep.copy.warn_percent": Threshold(30, "ours: half the lanes carry half; the far socket takes less than this"),
    "deep.memory.fill_percent": Threshold(50, "ours: of the free memory, which others may want meanwhile"),
    "job.size.tolerance_percent": Threshold(5, "a card of 80 GB shows 81559 MiB: makers round up"),
}


ADVISED_SHM_GIB = 64  # of /dev/shm, where cards are


def limit(facts: Facts, name: str) -> float:
    """The user's figure where envcheck.toml sets one, else the default."""
    return facts.thresholds.get(name, THRESHOLDS[name].value)


def limit_bytes(facts: Facts, name: str) -> float:
    """As `limit`, of a name that ends with gib."""
    return limit(facts, name) * GIB


def least_share(facts: Facts) -> float:
    """How much of a size that is sold or written down a machine must show: makers round up, drivers keep some back."""
    return 1 - limit(facts, "job.size.tolerance_percent") / 100


def listing(given: Mapping[str, float], file: str) -> str:
    """--show-thresholds: each figure, the default beside it where the file sets another, and its source."""
    lines = []
    for name, known in THRESHOLDS.items():
        mine = given.get(name)
        value = f"{known.value:g}" if mine is None else f"{mine:g} ({file}; default {known.value:g})"
        lines += [f"{name} = {say(value)}", f"    {say(known.source)}"]
    return "\n".join(lines)


def as_json(given: Mapping[str, float], file: str) -> str:
    """As `listing`, for programs; `unit` is what the name ends with."""
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
