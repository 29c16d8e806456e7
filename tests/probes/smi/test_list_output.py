"""Lists of devices with masks, and prose between their lines: each device once, and no other."""

from __future__ import annotations

import time

import pytest

from probes.kunlunxin import xpu_smi
from probes.smi import nvidia_smi

GPUS = (
    "GPU 0: Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000001)",
    "GPU 1: Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000002)",
)
XPUS = (
    "XPU 0: P800 OAM  GPU-00000000-c4a8-5bb5-9431-14512597fc12",
    "XPU 1: P800 OAM  GPU-11111111-0bc6-5744-bd7c-a0b87dadef02",
)


def list_gpus(*lines: str) -> list[tuple[int, str | None, bool]]:
    devices = nvidia_smi.parse("\n".join(lines) + "\n").devices
    return [(device.index, device.name, device.uuid is not None) for device in devices]


def list_xpus(*lines: str) -> list[tuple[int, str | None, bool]]:
    devices = xpu_smi.parse("\n".join(lines) + "\n").devices
    return [(device.index, device.name, device.uuid is not None) for device in devices]


@pytest.mark.parametrize("prose", [
    "GPU usage (UUID: see above)",
    "GPU 0: usage (UUID: see above)",
    "GPU 0: usage (UUID: ****)",
    "GPU 0: usage (UUID: N/A)",
    "GPU 7: usage (UUID: see above)",
    "GPU usage (UUID: ****)",
    "GPU **** (UUID: ****)",
    "GPU of the job (UUID: GPU-11111111-0000-0000-0000-000000000001)",
    "GPU of another host (UUID: GPU-11111111-0000-0000-0000-000000000007)",
    "GPU ****: the first one (UUID: GPU-11111111-0000-0000-0000-000000000001)",
    "GPU 显存 (UUID: 见上)",
])  # fmt: skip
def test_prose_between_gpus_is_no_device(prose: str) -> None:
    assert list_gpus(GPUS[0], prose, GPUS[1]) == [(0, "Tesla T4", True), (1, "Tesla T4", True)]


@pytest.mark.parametrize("prose", [
    "XPU memory of the host is GPU-based",
    "XPU 5: the driver is GPU-based",
    "XPU 0: memory is full",
    "XPU 7: memory is full",
    "XPU 1: see below  ****",
    "XPU of the job  GPU-00000000-c4a8-5bb5-9431-14512597fc12",
    "XPU UUID      : GPU-22222222-0bc6-5744-bd7c-a0b87dadef02",
])  # fmt: skip
def test_prose_between_xpus_is_no_device(prose: str) -> None:
    assert list_xpus(XPUS[0], prose, XPUS[1]) == [(0, "P800 OAM", True), (1, "P800 OAM", True)]


@pytest.mark.parametrize(("masked", "device"), [
    ("GPU ****: Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000003)", (2, "Tesla T4", True)),
    ("GPU Unknown Error Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000003)", (2, "Tesla T4", True)),
    ("GPU    Tesla T4 (UUID: GPU-11111111-0000-0000-0000-000000000003)", (2, "Tesla T4", True)),
    ("GPU    Tesla T4 (UUID: GPU-????????-0000-0000-0000-000000000003)", (2, "Tesla T4", True)),
    ("GPU ****: Tesla T4 (UUID: ****)", (2, "Tesla T4", False)),
    ("GPU 6: Tesla T4 (UUID: )", (6, "Tesla T4", False)),
    ("GPU 6: Tesla T4 (UUID: ****", (6, "Tesla T4", False)),
    ("GPU 6: **** (UUID: GPU-11111111-0000-0000-0000-000000000003)", (6, None, True)),
])  # fmt: skip
def test_masked_cells_of_a_gpu(masked: str, device: tuple[int, str | None, bool]) -> None:
    """A masked index is one that no other line has."""
    assert list_gpus(GPUS[0], masked, GPUS[1]) == [(0, "Tesla T4", True), device, (1, "Tesla T4", True)]


@pytest.mark.parametrize(("masked", "device"), [
    ("XPU ****  P800 OAM  GPU-22222222-0bc6-5744-bd7c-a0b87dadef02", (2, "P800 OAM", True)),
    ("XPU      P800 OAM  GPU-22222222-0bc6-5744-bd7c-a0b87dadef02", (2, "P800 OAM", True)),
    ("XPU 6: P800 OAM  ****", (6, "P800 OAM", False)),
    ("XPU 6: P800 OAM  Unknown Error", (6, "P800 OAM", False)),
    ("XPU 6: P800 OAM (UUID: )", (6, "P800 OAM", False)),
    ("XPU 6: P800 OAM", (6, "P800 OAM", False)),
    ("XPU 6: ****  (UUID: GPU-????????-aaaa-bbbb-cccc-000000000001)", (6, None, True)),
])  # fmt: skip
def test_masked_cells_of_an_xpu(masked: str, device: tuple[int, str | None, bool]) -> None:
    """A masked index is one that no other line has."""
    assert list_xpus(XPUS[0], masked, XPUS[1]) == [(0, "P800 OAM", True), device, (1, "P800 OAM", True)]


def test_links_of_a_repeated_masked_gpu() -> None:
    """A second output whose UUIDs are masked gives its links to no other device."""
    text = "GPU 0: T4 (UUID: ****)\n\t Link 0: 25 GB/s\nGPU 1: T4 (UUID: ****)\n\t Link 0: 25 GB/s\n"

    once, twice = nvidia_smi.parse(text), nvidia_smi.parse(text * 2)

    assert len(once.devices) == 2
    assert (twice.devices, twice.detail) == (once.devices, once.detail)


@pytest.mark.parametrize(("begin", "filling", "length"), [
    ("GPU" + " " * 8 + "(UUID:", " ", 168),
    ("GPU 0: (" + "x" * 60 + "(", "x", 168),
    ("XPU 0: a" + " " * 30 + "b", " ", 84),
])  # fmt: skip
def test_long_lines_take_no_longer_than_short_ones(begin: str, filling: str, length: int) -> None:
    """The same number of characters in lines four times as long: no blank is tried as a part of each repeat."""
    parse = xpu_smi.parse if begin[0] == "X" else nvidia_smi.parse
    line = "XPU 0: P800 OAM  GPU-00000000-c4a8\n" if begin[0] == "X" else f"{GPUS[0]}\n"
    took = []
    for part in (4, 1):
        text = line + f"{begin}{filling * (length // part)}y\n)\n" * 100 * part
        began = time.thread_time()
        parse(text)
        took.append(time.thread_time() - began)

    assert took[1] < 3 * took[0] + 0.1


def make_log(forms: int) -> str:
    """Return rows of readings in so many forms, and as many rows that are damaged."""
    kinds = [" ".join(f"1{'CW%'[number // 3**place % 3]}" for place in range(7)) for number in range(forms)]
    return "".join(f"{kind} 1MiB 2MiB\n" for kind in kinds) + "".join(f"{kind} **** 2MiB\n" for kind in kinds)


def test_a_log_with_many_forms() -> None:
    """A damaged row is compared with the usual forms only: four times the forms take about four times as long."""
    took = []
    for forms in (500, 2000):
        text = make_log(forms)
        took.append(min(measure_parsing(text) for _unused in range(3)))  # other work on the machine only adds time
    assert took[1] < 8 * took[0] + 0.1


def measure_parsing(text: str) -> float:
    """Return the processor time in seconds of reading the log."""
    began = time.thread_time()
    document = nvidia_smi.parse(text)
    took = time.thread_time() - began

    assert document.kind == "log"
    return took


def test_a_masked_reading_has_the_unit_of_most_rows() -> None:
    """The form of a damaged row is the most frequent one that it fits."""
    rows = ["40C 30W 1MiB 2MiB 3%"] * 2 + ["40C 30% 1MiB 2MiB 3%", "40C **** 1MiB 2MiB 3%"]

    document = nvidia_smi.parse("\n".join(rows) + "\n")

    assert [remark.field for remark in document.remarks] == ["power_w"]
