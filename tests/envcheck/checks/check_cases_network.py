# ruff: noqa: E501  the table of cases is read across, one line a check
"""Cases of the checks of ports, HCCL's variables, tables of ranks, RDMA, the bus and the fabric of NVSwitches."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import Fit
from envcheck.core.model import Outcome, Remedy
from tests.envcheck.checks.check_parts import (
    FAIL,
    NO_ENV,
    WARN,
    Case,
    Change,
    N,
    answer,
    both,
    card,
    dev,
    env,
    garbled,
    host,
    job,
    packs,
    square,
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
ON_BUS = card(topology=square(lambda a, b: "PHB"))


def hcas(*ports: dict[str, Any], verbs: tuple[str, ...] = ("uverbs0",)) -> Change:
    made = {f"mlx5_{n}": {"kind": "MT4129", "ports": {"1": port}} for n, port in enumerate(ports)}
    return answer("ask rdma", json.dumps({"devices": made, "verbs": verbs}))


def slots(iommu: str | None = "identity", on: bool | None = False, cards: int = N) -> Change:
    one = {"iommu": iommu, "switches": {"0000:aa:01.0": on}}
    return answer("ask bus", json.dumps({"cards": {f"0000:{n:02x}:00.0": one for n in range(cards)}}))


def table(error: str | None = None, count: int = 1, **card_0: Any) -> Change:
    cards = [{"id": n, "address": f"10.0.0.{n}", "rank": n} for n in range(N)]
    cards[0] |= card_0
    said = {"path": "/t.json", "error": error, "count": count, "servers": [{"id": "10.0.0.9", "devices": cards}]}
    return answer("ask rank_table", json.dumps(said))


def tls(*states: str) -> Change:
    lines = [f"dev_id:{n}, tls switch[{state}](0:disable, 1:enable)" for n, state in enumerate(states)]
    return both(*(answer(f"run hccn_tool -i {n} -tls -g", line) for n, line in enumerate(lines)))


def lost(*keys: str, outcome: Outcome = Outcome.ABSENT) -> Change:
    return both(*(answer(key, outcome=outcome) for key in keys))


PORTS = both(answer(RANGE, "32768\t60999\n"), answer(RESERVED, "60000-60031\n"))
JOINED = both(answer(LSPCI, SWITCH), answer(TABLE, FABRIC.format("Completed", "Success")))
CUDA = both(packs(nvidia_cuda_runtime_cu12="12.6.77"), answer(CAPABILITY, "9.0\n"))
FOUR = hcas(UP, UP, UP, UP)
MANAGED = both(answer(LSPCI, SWITCH), answer(MANAGER, "Fabric Manager version is : 570.124.06"))
TLS = [f"run hccn_tool -i {n} -tls -g" for n in range(N)]

# What makes a healthy machine one of which the check says OK.
RIGHT: dict[str, Change] = {
    "network.port_base": env(HCCL_IF_BASE_PORT="50000"),
    "network.port_range": PORTS,
    "network.hccl_ports": env(HCCL_HOST_SOCKET_PORT_RANGE="61000,61050-61100", HCCL_NPU_SOCKET_PORT_RANGE="auto"),
    "network.hccl_timeout": env(HCCL_CONNECT_TIMEOUT="600"),
    "network.hccl_values": env(HCCL_RDMA_TIMEOUT="20", HCCL_RDMA_TC="132"),
    "network.hccl_intra": env(HCCL_INTRA_PCIE_ENABLE="0", HCCL_INTRA_ROCE_ENABLE="1"),
    "network.hccn_tls": tls("0", "0", "0", "0"),
    "network.master": env(MASTER_ADDR="10.0.0.7"),
    "network.rank_table": table(),
    "network.rank_addresses": table(),
    "network.rdma": FOUR,
    "network.rdma_state": FOUR,
    "network.rdma_named": both(FOUR, env(NCCL_IB_HCA="mlx5_0:1,mlx5_3")),
    "network.rdma_address": both(FOUR, env(NCCL_IB_GID_INDEX="3")),
    "host.iommu": both(ON_BUS, slots()),
    "host.acs": both(ON_BUS, slots()),
    "driver.fabric": JOINED,
    "python.cuda_build": CUDA,
}
# As in test_checks.py: check -> (vendor, wrong and how bad, absent, unreadable).
CASES: dict[str, Case] = {
    "network.port_base": ("npu", env(HCCL_IF_BASE_PORT="65520"), FAIL, env(HCCL_IF_BASE_PORT=None), dev(npu=None, phy_id=None)),
    "network.port_range": ("npu", answer(RESERVED, "8080,60000-60010"), WARN, lost(RANGE), answer(RESERVED, "all of them")),
    "network.hccl_ports": ("npu", env(HCCL_NPU_SOCKET_PORT_RANGE="100-300,200"), FAIL, env(HCCL_HOST_SOCKET_PORT_RANGE=None, HCCL_NPU_SOCKET_PORT_RANGE=None), NO_ENV),
    "network.hccl_timeout": ("npu", env(HCCL_CONNECT_TIMEOUT="60"), FAIL, env(HCCL_CONNECT_TIMEOUT=None), NO_ENV),
    "network.hccl_values": ("npu", env(HCCL_RDMA_TC="131"), FAIL, env(HCCL_RDMA_TIMEOUT=None, HCCL_RDMA_TC=None), NO_ENV),
    "network.hccl_intra": ("npu", env(HCCL_INTRA_PCIE_ENABLE="1"), FAIL, env(HCCL_INTRA_PCIE_ENABLE=None, HCCL_INTRA_ROCE_ENABLE=None), NO_ENV),
    "network.hccn_tls": ("npu", tls("0", "1", "0", "0"), WARN, lost(*TLS), both(*(answer(key, "??") for key in TLS))),
    "network.master": ("npu", env(MASTER_ADDR="255.255.0.0"), FAIL, env(MASTER_ADDR=None), env(MASTER_ADDR="pod-0.svc")),
    "network.rank_table": ("npu", table(rank=3), FAIL, answer("ask rank_table", '{"path": null, "servers": []}'), garbled("rank_table")),
    "network.rank_addresses": ("npu", table(address="10.0.0.99"), FAIL, answer("ask rank_table", '{"path": null, "servers": []}'), card(per_device={})),
    "network.rdma": ("npu", hcas(UP, UP, verbs=()), WARN, hcas(), garbled("rdma")),
    "network.rdma_state": ("npu", hcas(UP, UP, UP, DOWN), WARN, hcas(), hcas({}, {})),
    "network.rdma_named": ("npu", env(NCCL_IB_HCA="=mlx5"), FAIL, env(NCCL_IB_HCA=None), garbled("rdma")),
    "network.rdma_address": ("npu", env(NCCL_IB_GID_INDEX="5"), FAIL, hcas(DOWN), env(NCCL_IB_GID_INDEX="400")),
    "host.iommu": ("nvidia", slots("DMA-FQ"), WARN, card(topology=square(lambda a, b: "NV18")), garbled("bus")),
    "host.acs": ("nvidia", slots(on=True), WARN, slots(on=None), garbled("bus")),
    "driver.fabric": ("nvidia", answer(TABLE, FABRIC.format("In Progress", "N/A")), FAIL, both(answer(LSPCI, "01:00.0 3D controller [0302]: x"), answer(TABLE, "<gpu/>")), both(answer(TABLE, "??"), lost(UNIT, MANAGER))),
    "python.cuda_build": ("nvidia", packs(nvidia_cuda_runtime_cu12=None, nvidia_cuda_runtime_cu11="11.8.89"), WARN, packs(nvidia_cuda_runtime_cu12=None), packs(nvidia_cuda_runtime_cu12="?")),
    "job.degrees": ("npu", job(degrees=Fit(False, "tensor parallel 8 does not divide 20 heads", Remedy("Take 4."))), FAIL, job(degrees=None), job(degrees=Fit(None, "could not be laid out"))),
}  # fmt: skip

# More that is wrong in a way of its own, and what the finding says then: check -> (vendor, change, how bad, words).
MORE: list[tuple[str, str, Change, Any, str]] = [
    ("network.port_base", "npu", env(HCCL_IF_BASE_PORT="sixty"), FAIL, "no number"),
    ("network.port_base", "npu", env(HCCL_IF_BASE_PORT="80"), FAIL, "outside 1024"),
    ("network.port_base", "npu", both(env(HCCL_IF_BASE_PORT="65500"), dev(phy_id=40)), FAIL, "end at"),
    ("network.port_range", "npu", both(PORTS, env(HCCL_HOST_SOCKET_PORT_RANGE="40000-40003")), WARN, "40000-40003"),
    ("network.hccl_timeout", "npu", env(HCCL_CONNECT_TIMEOUT="2h"), FAIL, "=2h"),
    ("network.hccl_intra", "npu", env(HCCL_INTRA_PCIE_ENABLE="0"), WARN, "half a pair"),
    ("network.hccl_intra", "npu", env(HCCL_INTRA_PCIE_ENABLE="yes"), FAIL, "yes"),
    ("network.master", "npu", env(PADDLE_MASTER="localhost:8000", PADDLE_NNODES="2"), FAIL, "with 2 nodes"),
    ("network.master", "npu", env(MASTER_ADDR="10.0.0.7", NODE_RANK="0"), WARN, "none of this host's"),
    ("network.rank_table", "npu", table(count=2), FAIL, "server_count"),
    ("network.rank_table", "npu", table(address="10.0.0.3"), FAIL, "twice"),
    ("network.rank_table", "npu", table(error="it is no JSON"), FAIL, "no JSON"),
    ("network.rdma_state", "npu", hcas(UP, {**DOWN, "state": "INIT", "physical": "LinkUp"}), WARN, "subnet manager"),
    ("network.rdma_named", "npu", both(hcas(UP, DOWN), env(FLAGCX_IB_HCA="mlx5_1")), FAIL, "not active"),
    ("network.rdma_named", "npu", both(hcas(), env(NCCL_IB_HCA="mlx5_0")), FAIL, "no such device"),
    ("network.rdma_address", "npu", hcas(UP, {**UP, "gids": {}}), WARN, "no address"),
    ("driver.fabric", "nvidia", both(MANAGED, answer(MANAGER, "Fabric Manager version is : 550.54.15")), FAIL, "550"),
    ("driver.fabric", "nvidia", both(MANAGED, answer(UNIT, "LoadState=loaded\nActiveState=failed")), FAIL, "failed"),
    ("driver.fabric", "nvidia", both(MANAGED, answer(UNIT, "LoadState=not-found\nActiveState=inactive")), FAIL, "no service"),
    ("driver.fabric", "nvidia", answer(TABLE, FABRIC.format("Completed", "Unknown error")), FAIL, "Unknown error"),
    ("python.cuda_build", "nvidia", both(CUDA, packs(nvidia_cuda_runtime="13.0.48", nvidia_cuda_runtime_cu12=None)), WARN, "CUDA 13"),
    ("python.cuda_build", "nvidia", both(CUDA, answer(CAPABILITY, "12.0\n")), WARN, "12.0"),
    ("python.cuda_build", "nvidia", both(CUDA, host(in_container=True), answer(CAPABILITY, "12.0\n")), FAIL, "12.0"),
]  # fmt: skip
# What looks near it and is well.
WELL: list[tuple[str, str, Change]] = [
    ("network.port_range", "npu", both(PORTS, answer(RANGE, "20000\t40000"), lost(RESERVED, outcome=Outcome.EMPTY))),
    ("network.port_range", "npu", both(PORTS, env(HCCL_IF_BASE_PORT="10000"))),
    ("network.hccl_intra", "npu", env(HCCL_INTRA_PCIE_ENABLE="1")),
    ("network.hccn_tls", "npu", both(*(answer(key, "no certificate found") for key in TLS[:2]), tls("0", "0", "0", "0"))),
    ("network.master", "npu", env(MASTER_ADDR="127.0.0.1")),
    ("network.master", "npu", env(MASTER_ADDR="10.0.0.9", RANK="0", NNODES="2")),
    ("network.master", "npu", env(PADDLE_MASTER="http://[fe80::1]:80")),
    ("network.rdma_state", "npu", hcas(UP, DOWN)),
    ("network.rdma_named", "npu", both(FOUR, env(NCCL_IB_HCA="^mlx5_1"))),
    ("network.rdma_named", "npu", both(FOUR, env(NCCL_IB_HCA="mlx5"))),
    ("host.iommu", "nvidia", both(ON_BUS, slots("none"))),
    ("host.acs", "nvidia", both(ON_BUS, answer("ask bus", json.dumps({"cards": {"0000:00:00.0": {"iommu": None, "switches": {}}}})))),
    ("driver.fabric", "nvidia", both(MANAGED, answer(UNIT, "LoadState=loaded\nActiveState=active"))),
    ("python.cuda_build", "nvidia", both(packs(torch="2.4.0+cu118", paddlepaddle_gpu=None), answer(CAPABILITY, "9.0"))),
]  # fmt: skip
