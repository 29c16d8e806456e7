"""Outputs that people shortened, that a form put on one line, or that another program printed in the same form."""

from __future__ import annotations

import pytest

from probes.smi import nvidia_smi
from tests.probes.paste.test_paste_parser import DATA, TOOLS, parse_paste

EDITED = """\
nvidia-smi
| NVIDIA-SMI 580.65.06    CUDA Version: 13.0      |
|   0  NVIDIA L20     12MiB / 46068MiB    3%      |
|   1  NVIDIA L20     0MiB / 46068MiB             |
"""
SIMULATED = """\
+------------------------------------------------------------------------------+
| NVIDIA-SMI 470.82.01    Driver Version: 470.82.01    CUDA Version: 11.4      |
+--------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
+--------------------------------+----------------------+----------------------+
|   0  Tesla-T4              Off | 00000001:00:00.0 Off |                  Off |
| N/A   33C    P8    11W /  70W  |  15360MiB / 15360MiB |      18%     Default |
+--------------------------------+----------------------+----------------------+

+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory  |
|        ID   ID                                                   Usage       |
+------------------------------------------------------------------------------+
|    0   N/A  N/A       31       G   sleep 60                         15360MiB |
+------------------------------------------------------------------------------+
"""
UUIDS = [f"GPU-0a1b2c3d-0000-1111-2222-33334444555{at}" for at in range(4)]
LISTED = " ".join(f"GPU {at}: NVIDIA GeForce RTX 3090 (UUID: {uuid})" for at, uuid in enumerate(UUIDS))


def test_rows_without_inner_bars_are_devices_and_no_processes() -> None:
    found = parse_paste(EDITED, TOOLS)

    assert [(each.index, each.name, each.memory_used_mib, each.memory_total_mib) for each in found.devices] == [
        (0, "NVIDIA L20", 12, 46068),
        (1, "NVIDIA L20", 0, 46068),
    ]
    assert (found.devices[0].utilization_percent, found.processes) == (3, ())


def test_a_border_of_dashes_ends_the_head_of_the_processes() -> None:
    """A simulator prints no other borders."""
    found = nvidia_smi.parse(SIMULATED)

    assert [(each.device, each.pid, each.name, each.memory_mib) for each in found.processes] == [
        (0, 31, "sleep 60", 15360)
    ]


def test_a_list_on_one_line_has_all_its_devices() -> None:
    found = parse_paste(f"### Hardware: GPU\n\n{LISTED}\n\n### Description\n\nGPU 1: falls off.\n", TOOLS)

    assert [each.uuid for each in found.devices] == UUIDS


@pytest.mark.parametrize(("uuid", "count"), [(UUIDS[0], 1), (UUIDS[0][:-3], 0)], ids=["whole", "cut"])
def test_the_last_bracket_of_a_list_may_be_lost(uuid: str, count: int) -> None:
    """A whole UUID tells that only the bracket is missing."""
    found = nvidia_smi.parse(f"$ nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 3090 (UUID: {uuid}\n")

    assert len(found.devices) == count


@pytest.mark.parametrize("last", ["MIG Mode", "PCI"])
def test_a_full_query_that_ends_early_is_truncated(last: str) -> None:
    """Wherever it ends: the processes are the last section."""
    whole = (DATA / "nvidia_smi/query_text/a100_mig_525.txt").read_text(encoding="utf-8")
    above, title, below = whole.partition(f"    {last}\n")

    assert title
    assert nvidia_smi.parse(above + title + "\n".join(below.split("\n")[:2]) + "\n").truncated


PROCESSES = SIMULATED.partition("\n\n")[2]
INSTANCES = """\
+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  0    7   0   0  |      6MiB /  4864MiB | 14      0 |  1   0    0    0    0 |
|                  |      0MiB /  8191MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
"""


@pytest.mark.parametrize(("table", "processes"), [(PROCESSES, 1), (INSTANCES, 0)], ids=["processes", "instances"])
def test_a_lower_table_alone_has_no_devices(table: str, processes: int) -> None:
    """The table of the devices above it was left out."""
    found = parse_paste(table, TOOLS)

    assert (found.tool, found.kind, found.truncated, found.devices) == ("nvidia-smi", "table", True, ())
    assert len(found.processes) == processes


def test_whole_numbers_of_a_cut_cell_count() -> None:
    """The last one may be cut, and a pair is whole together."""
    text = (DATA / "npu_smi/info/910b_sparse_ids.txt").read_text(encoding="utf-8")
    lines = text.split("\n")
    at = max(at for at, line in enumerate(lines) if "0000:" in line)
    whole = parse_paste(text, TOOLS).devices[-1]

    found = parse_paste("\n".join([*lines[:at], lines[at][:72]]), TOOLS).devices[-1]

    assert found.utilization_percent == whole.utilization_percent is not None
    assert (found.bus_id, found.memory_used_mib, found.ddr_used_mib) == (whole.bus_id, None, None)


MATRIX = """\
$ mx-smi topo -m
Device link type matrix
        GPU0    GPU1    GPU2    GPU3    Node Affinity  CPU Affinity
GPU0    X       MX      NODE    NODE    0              0-31,64-95
GPU1    MX      X       NODE    NODE    0              0-31,64-95
GPU2    NODE    NODE    X       MX      0              0-31,64-95
GPU3    NODE    NODE    MX      X       0              0-31,64-95
"""


def test_a_matrix_with_relations_of_another_vendor_is_not_ours() -> None:
    assert parse_paste(MATRIX, TOOLS).kind == "unknown"
    assert parse_paste(MATRIX.replace("MX", "PIX"), TOOLS).kind == "topo"


def test_relations_that_a_wrap_glued_are_split() -> None:
    """Only in a row that has too few of them."""
    head = "        GPU0    GPU1    mlx5_0  mlx5_1  mlx5_2  CPU Affinity    NUMA Affinity\n"
    rows = (
        "GPU0     X      NV12    NODE    NODENODE 0-31,64-95      0\n",
        "GPU1    NV12     X      PXB     PXB     SYS 0-31,64-95      0\n",
    )

    found = nvidia_smi.parse(head + "".join(rows)).topology

    assert found is not None
    assert found.matrix["GPU0"] == {"GPU0": "X", "GPU1": "NV12", "mlx5_0": "NODE", "mlx5_1": "NODE", "mlx5_2": "NODE"}
    assert found.cpu_affinity == {"GPU0": "0-31,64-95", "GPU1": "0-31,64-95"}
