# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of ports, HCCL's variables, tables of ranks, RDMA, the bus and the fabric of NVSwitches."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import JobFit
from envcheck.core.model import Outcome, manual
from tests.envcheck.checks.check_parts import (
    FAIL,
    NO_ENV,
    WARN,
    Case,
    Change,
    N,
    apply_changes,
    change_answer,
    change_devices,
    change_environment,
    change_host,
    change_packages,
    change_vendor,
    garble_collectors,
    make_job_change,
    make_topology,
)

RANGE, RESERVED = (f"read /proc/sys/net/ipv4/ip_local_{name}" for name in ("port_range", "reserved_ports"))
CAPABILITY, LSPCI, TABLE, MANAGER, UNIT = (
    *("run nvidia-smi --query-gpu=compute_cap --format=csv,noheader", "run lspci -nn -d 10de:"),
    *("run nvidia-smi -q -x", "run nv-fabricmanager --version"),
    "run systemctl show nvidia-fabricmanager -p LoadState,ActiveState",
)
UP = {"state": "ACTIVE", "physical": "LinkUp", "layer": "InfiniBand", "gids": {"0": "IB/RoCE v1", "3": "RoCE v2"}}
DOWN = {"state": "DOWN", "physical": "Polling", "layer": "InfiniBand", "gids": {}}
SWITCH = "05:00.0 Bridge [0680]: NVIDIA Corporation GH100 [H100 NVSwitch] [10de:22a3] (rev a1)"
FABRIC = "<fabric>\n<state>{}</state>\n<status>{}</status>\n</fabric>"
ON_BUS = change_vendor(topology=make_topology(lambda a, b: "PHB"))


def set_rdma_devices(*ports: dict[str, Any], verbs: tuple[str, ...] = ("uverbs0",)) -> Change:
    made = {f"mlx5_{n}": {"kind": "MT4129", "ports": {"1": port}} for n, port in enumerate(ports)}
    return change_answer("ask rdma", json.dumps({"devices": made, "verbs": verbs}))


def set_bus_slots(iommu: str | None = "identity", on: bool | None = False, cards: int = N) -> Change:
    one = {"iommu": iommu, "switches": {"0000:aa:01.0": on}}
    return change_answer("ask bus", json.dumps({"cards": {f"0000:{n:02x}:00.0": one for n in range(cards)}}))


def set_rank_table(error: str | None = None, count: int = 1, **card_0: Any) -> Change:
    cards = [{"id": n, "address": f"10.0.0.{n}", "rank": n} for n in range(N)]
    cards[0] |= card_0
    said = {"path": "/t.json", "error": error, "count": count, "servers": [{"id": "10.0.0.9", "devices": cards}]}
    return change_answer("ask rank_table", json.dumps(said))


def set_tls_states(*states: str) -> Change:
    lines = [f"dev_id:{n}, tls switch[{state}](0:disable, 1:enable)" for n, state in enumerate(states)]
    return apply_changes(*(change_answer(f"run hccn_tool -i {n} -tls -g", line) for n, line in enumerate(lines)))


def lose_answers(*keys: str, outcome: Outcome = Outcome.ABSENT) -> Change:
    return apply_changes(*(change_answer(key, outcome=outcome) for key in keys))


PORTS = apply_changes(change_answer(RANGE, "32768\t60999\n"), change_answer(RESERVED, "60000-60031\n"))
JOINED = apply_changes(change_answer(LSPCI, SWITCH), change_answer(TABLE, FABRIC.format("Completed", "Success")))
CUDA = apply_changes(change_packages(nvidia_cuda_runtime_cu12="12.6.77"), change_answer(CAPABILITY, "9.0\n"))
FOUR = set_rdma_devices(UP, UP, UP, UP)
MANAGED = apply_changes(change_answer(LSPCI, SWITCH), change_answer(MANAGER, "Fabric Manager version is : 570.124.06"))
TLS = [f"run hccn_tool -i {n} -tls -g" for n in range(N)]

# Changes by which a healthy machine passes the check.
RIGHT: dict[str, Change] = {
    "network.port_base": change_environment(HCCL_IF_BASE_PORT="50000"),
    "network.port_range": PORTS,
    "network.hccl_ports": change_environment(
        HCCL_HOST_SOCKET_PORT_RANGE="61000,61050-61100", HCCL_NPU_SOCKET_PORT_RANGE="auto"
    ),
    "network.hccl_timeout": change_environment(HCCL_CONNECT_TIMEOUT="600"),
    "network.hccl_values": change_environment(HCCL_RDMA_TIMEOUT="20", HCCL_RDMA_TC="132"),
    "network.hccl_intra": change_environment(HCCL_INTRA_PCIE_ENABLE="0", HCCL_INTRA_ROCE_ENABLE="1"),
    "network.hccn_tls": set_tls_states("0", "0", "0", "0"),
    "network.master": change_environment(MASTER_ADDR="10.0.0.7"),
    "network.rank_table": set_rank_table(),
    "network.rank_addresses": set_rank_table(),
    "network.rdma": FOUR,
    "network.rdma_state": FOUR,
    "network.rdma_named": apply_changes(FOUR, change_environment(NCCL_IB_HCA="mlx5_0:1,mlx5_3")),
    "network.rdma_address": apply_changes(FOUR, change_environment(NCCL_IB_GID_INDEX="3")),
    "host.iommu": apply_changes(ON_BUS, set_bus_slots()),
    "host.acs": apply_changes(ON_BUS, set_bus_slots()),
    "driver.fabric": JOINED,
    "python.cuda_build": CUDA,
}
# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "network.port_base": ("npu", change_environment(HCCL_IF_BASE_PORT="65520"), FAIL, change_environment(HCCL_IF_BASE_PORT=None), change_devices(npu=None, phy_id=None)),
    "network.port_range": ("npu", change_answer(RESERVED, "8080,60000-60010"), WARN, lose_answers(RANGE), change_answer(RESERVED, "all of them")),
    "network.hccl_ports": ("npu", change_environment(HCCL_NPU_SOCKET_PORT_RANGE="100-300,200"), FAIL, change_environment(HCCL_HOST_SOCKET_PORT_RANGE=None, HCCL_NPU_SOCKET_PORT_RANGE=None), NO_ENV),
    "network.hccl_timeout": ("npu", change_environment(HCCL_CONNECT_TIMEOUT="60"), FAIL, change_environment(HCCL_CONNECT_TIMEOUT=None), NO_ENV),
    "network.hccl_values": ("npu", change_environment(HCCL_RDMA_TC="131"), FAIL, change_environment(HCCL_RDMA_TIMEOUT=None, HCCL_RDMA_TC=None), NO_ENV),
    "network.hccl_intra": ("npu", change_environment(HCCL_INTRA_PCIE_ENABLE="1"), FAIL, change_environment(HCCL_INTRA_PCIE_ENABLE=None, HCCL_INTRA_ROCE_ENABLE=None), NO_ENV),
    "network.hccn_tls": ("npu", set_tls_states("0", "1", "0", "0"), WARN, lose_answers(*TLS), apply_changes(*(change_answer(key, "??") for key in TLS))),
    "network.master": ("npu", change_environment(MASTER_ADDR="255.255.0.0"), FAIL, change_environment(MASTER_ADDR=None), change_environment(MASTER_ADDR="pod-0.svc")),
    "network.rank_table": ("npu", set_rank_table(rank=3), FAIL, change_answer("ask rank_table", '{"path": null, "servers": []}'), garble_collectors("rank_table")),
    "network.rank_addresses": ("npu", set_rank_table(address="10.0.0.99"), FAIL, change_answer("ask rank_table", '{"path": null, "servers": []}'), change_vendor(per_device={})),
    "network.rdma": ("npu", set_rdma_devices(UP, UP, verbs=()), WARN, set_rdma_devices(), garble_collectors("rdma")),
    "network.rdma_state": ("npu", set_rdma_devices(UP, UP, UP, DOWN), WARN, set_rdma_devices(), set_rdma_devices({}, {})),
    "network.rdma_named": ("npu", change_environment(NCCL_IB_HCA="=mlx5"), FAIL, change_environment(NCCL_IB_HCA=None), garble_collectors("rdma")),
    "network.rdma_address": ("npu", change_environment(NCCL_IB_GID_INDEX="5"), FAIL, set_rdma_devices(DOWN), change_environment(NCCL_IB_GID_INDEX="400")),
    "host.iommu": ("nvidia", set_bus_slots("DMA-FQ"), WARN, change_vendor(topology=make_topology(lambda a, b: "NV18")), garble_collectors("bus")),
    "host.acs": ("nvidia", set_bus_slots(on=True), WARN, set_bus_slots(on=None), garble_collectors("bus")),
    "driver.fabric": ("nvidia", change_answer(TABLE, FABRIC.format("In Progress", "N/A")), FAIL, apply_changes(change_answer(LSPCI, "01:00.0 3D controller [0302]: x"), change_answer(TABLE, "<gpu/>")), apply_changes(change_answer(TABLE, "??"), lose_answers(UNIT, MANAGER))),
    "python.cuda_build": ("nvidia", change_packages(nvidia_cuda_runtime_cu12=None, nvidia_cuda_runtime_cu11="11.8.89"), WARN, change_packages(nvidia_cuda_runtime_cu12=None), change_packages(nvidia_cuda_runtime_cu12="?")),
    "job.degrees": ("npu", make_job_change(degrees=JobFit(False, "tensor parallel 8 does not divide 20 heads", manual("Take 4."))), FAIL, make_job_change(degrees=None), make_job_change(degrees=JobFit(None, "could not be laid out"))),
}  # fmt: skip

# Further faults and their findings: check -> (vendor, change, status, message).
MORE: list[tuple[str, str, Change, Any, str]] = [
    ("network.port_base", "npu", change_environment(HCCL_IF_BASE_PORT="sixty"), FAIL, "not a number"),
    ("network.port_base", "npu", change_environment(HCCL_IF_BASE_PORT="80"), FAIL, "outside 1024"),
    ("network.port_base", "npu", apply_changes(change_environment(HCCL_IF_BASE_PORT="65500"), change_devices(phy_id=40)), FAIL, "end at"),
    ("network.port_range", "npu", apply_changes(PORTS, change_environment(HCCL_HOST_SOCKET_PORT_RANGE="40000-40003")), WARN, "40000-40003"),
    ("network.hccl_timeout", "npu", change_environment(HCCL_CONNECT_TIMEOUT="2h"), FAIL, "=2h"),
    ("network.hccl_values", "npu", apply_changes(change_devices(name="910B3"), change_environment(HCCL_RDMA_TIMEOUT="21")), FAIL, "HCCL_RDMA_TIMEOUT=21"),
    ("network.hccl_values", "npu", apply_changes(change_devices(name="Ascend910"), change_environment(HCCL_RDMA_TIMEOUT="24")), FAIL, "HCCL_RDMA_TIMEOUT=24"),
    ("network.hccl_values", "npu", apply_changes(change_devices(name="910B"), change_environment(HCCL_RDMA_TIMEOUT="24")), WARN, "5 to 20"),
    ("network.hccl_values", "npu", apply_changes(change_devices(name="910A"), change_environment(HCCL_RDMA_TIMEOUT="25")), FAIL, "HCCL_RDMA_TIMEOUT=25"),
    ("network.hccl_intra", "npu", change_environment(HCCL_INTRA_PCIE_ENABLE="0"), WARN, "set both or neither"),
    ("network.hccl_intra", "npu", change_environment(HCCL_INTRA_PCIE_ENABLE="yes"), FAIL, "yes"),
    ("network.master", "npu", change_environment(PADDLE_MASTER="localhost:8000", PADDLE_NNODES="2"), FAIL, "the job has 2 nodes"),
    ("network.master", "npu", change_environment(MASTER_ADDR="10.0.0.7", NODE_RANK="0"), WARN, "not an address of this host"),
    ("network.rank_table", "npu", set_rank_table(count=2), FAIL, "server_count"),
    ("network.rank_table", "npu", set_rank_table(address="10.0.0.3"), FAIL, "duplicate"),
    ("network.rank_table", "npu", set_rank_table(error="not valid JSON"), FAIL, "not valid JSON"),
    ("network.rdma_state", "npu", set_rdma_devices(UP, {**DOWN, "state": "INIT", "physical": "LinkUp"}), WARN, "subnet manager"),
    ("network.rdma_named", "npu", apply_changes(set_rdma_devices(UP, DOWN), change_environment(FLAGCX_IB_HCA="mlx5_1")), FAIL, "not active"),
    ("network.rdma_named", "npu", apply_changes(set_rdma_devices(), change_environment(NCCL_IB_HCA="mlx5_0")), FAIL, "no such RDMA device"),
    ("network.rdma_address", "npu", set_rdma_devices(UP, {**UP, "gids": {}}), WARN, "no address"),
    ("driver.fabric", "nvidia", apply_changes(MANAGED, change_answer(MANAGER, "Fabric Manager version is : 550.54.15")), FAIL, "550"),
    ("driver.fabric", "nvidia", apply_changes(MANAGED, change_answer(UNIT, "LoadState=loaded\nActiveState=failed")), FAIL, "failed"),
    ("driver.fabric", "nvidia", apply_changes(MANAGED, change_answer(UNIT, "LoadState=not-found\nActiveState=inactive")), FAIL, "no service"),
    ("driver.fabric", "nvidia", change_answer(TABLE, FABRIC.format("Completed", "Unknown error")), FAIL, "Unknown error"),
    ("python.cuda_build", "nvidia", apply_changes(CUDA, change_packages(nvidia_cuda_runtime="13.0.48", nvidia_cuda_runtime_cu12=None)), WARN, "CUDA 13"),
    ("python.cuda_build", "nvidia", apply_changes(CUDA, change_answer(CAPABILITY, "12.0\n")), WARN, "12.0"),
    ("python.cuda_build", "nvidia", apply_changes(CUDA, change_host(in_container=True), change_answer(CAPABILITY, "12.0\n")), FAIL, "12.0"),
]  # fmt: skip
# What looks near it and is well.
WELL: list[tuple[str, str, Change]] = [
    ("network.port_range", "npu", apply_changes(PORTS, change_answer(RANGE, "20000\t40000"), lose_answers(RESERVED, outcome=Outcome.EMPTY))),
    ("network.port_range", "npu", apply_changes(PORTS, change_environment(HCCL_IF_BASE_PORT="10000"))),
    ("network.hccl_intra", "npu", change_environment(HCCL_INTRA_PCIE_ENABLE="1")),
    ("network.hccn_tls", "npu", apply_changes(*(change_answer(key, "no certificate found") for key in TLS[:2]), set_tls_states("0", "0", "0", "0"))),
    ("network.master", "npu", change_environment(MASTER_ADDR="127.0.0.1")),
    ("network.master", "npu", change_environment(MASTER_ADDR="10.0.0.9", RANK="0", NNODES="2")),
    ("network.master", "npu", change_environment(PADDLE_MASTER="http://[fe80::1]:80")),
    ("network.rdma_state", "npu", set_rdma_devices(UP, DOWN)),
    ("network.rdma_named", "npu", apply_changes(FOUR, change_environment(NCCL_IB_HCA="^mlx5_1"))),
    ("network.rdma_named", "npu", apply_changes(FOUR, change_environment(NCCL_IB_HCA="mlx5"))),
    ("host.iommu", "nvidia", apply_changes(ON_BUS, set_bus_slots("none"))),
    ("host.acs", "nvidia", apply_changes(ON_BUS, change_answer("ask bus", json.dumps({"cards": {"0000:00:00.0": {"iommu": None, "switches": {}}}})))),
    ("driver.fabric", "nvidia", apply_changes(MANAGED, change_answer(UNIT, "LoadState=loaded\nActiveState=active"))),
    ("python.cuda_build", "nvidia", apply_changes(change_packages(torch="2.4.0+cu118", paddlepaddle_gpu=None), change_answer(CAPABILITY, "9.0"))),
]  # fmt: skip
