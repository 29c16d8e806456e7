"""Checks of the network and the bus beyond their four cases, and the collectors that they read, on real files."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path

import pytest

from envcheck import checks
from envcheck.collect.host import bus, hccl_rank_table, rdma
from envcheck.core.derived.collective_ports import parse_port_list
from envcheck.core.facts import Facts
from envcheck.core.model import Answer, Finding, Outcome, Status
from envcheck.vendors import VENDORS
from probes.host import network_schemas
from tests.envcheck.checks import check_cases_kunlunxin
from tests.envcheck.checks.check_cases_network import MORE, WELL
from tests.envcheck.checks.check_parts import (
    OK,
    Change,
    apply_changes,
    change_devices,
    change_environment,
    make_healthy_facts,
)

BY_NAME = {check.name: check for check in checks.CHECKS}


def run_check(name: str, vendor: str, change: Change) -> Finding:
    (found,) = checks.run_check(BY_NAME[name], change(make_healthy_facts(vendor)))
    return found


@pytest.mark.parametrize(("name", "vendor", "change", "status", "words"), [*MORE, *check_cases_kunlunxin.MORE])
def test_more_that_is_wrong(name: str, vendor: str, change: Change, status: Status, words: str) -> None:
    """Each fault has its own message and remedy."""
    found = run_check(name, vendor, change)

    assert (found.status, words in found.seen) == (status, True), found.seen
    assert found.remedy and found.remedy.words and found.evidence


def test_a_larger_range_of_older_npus() -> None:
    """What Atlas A2 refuses is fine on the series before it."""
    change = apply_changes(change_devices(name="910A"), change_environment(HCCL_RDMA_TIMEOUT="24"))

    assert run_check("network.hccl_values", "npu", change).status is Status.OK


@pytest.mark.parametrize(("name", "vendor", "change"), [*WELL, *check_cases_kunlunxin.WELL])
def test_near_and_well(name: str, vendor: str, change: Change) -> None:
    """What looks like a fault and is none is left alone."""
    facts = change(make_healthy_facts(vendor))
    (found,) = checks.run_check(BY_NAME[name], facts)

    assert found.status is OK, found.seen


@pytest.mark.parametrize("text", ["", "0", "65536", "7-5", "1-5,3", "auto", "1;2", "٣", "99999999999", "1-2-3"])
def test_no_list_of_ports(text: str) -> None:
    """What HCCL would refuse is no list of ports, and nothing strange makes one."""
    assert parse_port_list(text) is None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """As /sys/class/infiniband: a device with two ports, one of them without a cable."""
    for number, state, gid in (("1", "4: ACTIVE", "fe80:0000:0000:0000:0000:0000:0000:0001"), ("2", "1: DOWN", "")):
        port = tmp_path / "sys/mlx5_0/ports" / number
        (port / "gids").mkdir(parents=True)
        (port / "gid_attrs/types").mkdir(parents=True)
        (port / "state").write_text(f"{state}\n")
        (port / "link_layer").write_text("Ethernet\n")
        (port / "gids/0").write_text(f"{gid or '0000:0000'}\n")
        (port / "gids/1").write_text("0000:0000:0000:0000:0000:0000:0000:0000\n")
        (port / "gid_attrs/types/0").write_text("RoCE v2\n")
    (tmp_path / "dev").mkdir()
    for name in ("rdma_cm", "uverbs0"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


def test_rdma_is_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """States, addresses that are set, and the nodes; what is not there is empty."""
    monkeypatch.setattr(rdma, "SYS", tree / "sys")
    monkeypatch.setattr(rdma, "DEV", tree / "dev")
    said = rdma.collect_rdma()
    monkeypatch.setattr(rdma, "SYS", tree / "none")

    assert said["verbs"] == ["uverbs0"]
    first, second = said["devices"]["mlx5_0"]["ports"].values()
    assert (first["state"], first["gids"]) == ("ACTIVE", {"0": "RoCE v2"})
    assert (second["state"], second["gids"]) == ("DOWN", {})
    assert rdma.collect_rdma()["devices"] == {}


def make_config_space(*capabilities: tuple[int, int]) -> bytes:
    """A port's configuration space: (id, control) one after the other."""
    made = bytearray(4096)
    for n, (kind, control) in enumerate(capabilities):
        at, following = 0x100 + 16 * n, 0x100 + 16 * (n + 1) if n + 1 < len(capabilities) else 0
        struct.pack_into("<IHH", made, at, kind | 1 << 16 | following << 20, 0x7F, control)
    return bytes(made)


def test_acs_is_read_from_the_configuration_space() -> None:
    """On, off, without the capability, cut off for a plain user, and a chain that never ends."""
    loop = bytearray(4096)
    struct.pack_into("<I", loop, 0x100, 0x0001 | 0x100 << 20)
    cases = (
        make_config_space((1, 0), (0xD, 0x1D)),
        make_config_space((0xD, 0x01)),
        make_config_space((1, 0)),
        b"\0" * 64,
        bytes(loop),
    )

    assert [bus.is_redirecting(one) for one in cases] == [True, False, False, None, False]


def test_cards_on_the_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card behind a switch: its group's kind, and the switch's port, without the root port."""
    real = tmp_path / "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:08.0/0000:03:00.0"
    (real / "iommu_group").mkdir(parents=True)
    (real / "iommu_group/type").write_text("DMA-FQ\n")
    (real / "vendor").write_text("0x10de\n")
    (real / "class").write_text("0x030200\n")
    devices = tmp_path / "devices"
    devices.mkdir()
    for path in (real, *real.parents):
        if bus.ADDRESS.fullmatch(path.name):
            (devices / path.name).symlink_to(path)
    (devices / "0000:02:08.0" / "config").write_bytes(make_config_space((0xD, 0x04)))
    monkeypatch.setattr(bus, "DEVICES", devices)
    found = bus.collect_bus(tuple(VENDORS.values()))["cards"]
    (real / "iommu_group/type").unlink()
    (real / "iommu_group").rmdir()
    bare = bus.collect_bus(tuple(VENDORS.values()))["cards"]

    assert found == {"0000:03:00.0": {"iommu": "DMA-FQ", "switches": {"0000:01:00.0": None, "0000:02:08.0": True}}}
    assert bare["0000:03:00.0"]["iommu"] == "none"


def test_rank_table_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the file nothing but servers, cards, addresses and ranks is kept, by whatever type it writes numbers."""
    device = {"device_id": "0", "device_ip": "192.168.100.101", "rank_id": "0", "secret": "x"}
    text = {"version": "1.0", "server_count": "1", "server_list": [{"server_id": "node", "device": [device, 7]}]}
    (tmp_path / "t.json").write_text(json.dumps(text))
    monkeypatch.setenv(hccl_rank_table.VARIABLE, str(tmp_path / "t.json"))
    said = hccl_rank_table.collect_rank_table()

    assert said["servers"] == [{"id": "node", "devices": [{"id": 0, "address": "192.168.100.101", "rank": 0}]}]
    assert (said["count"], said["error"]) == (1, None)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "JSON"),
        ("[1]", "server_list"),
        ('{"server_list": 3}', "server_list"),
        ("[" * 100_000, "JSON"),
        ("x" * (5 << 20), "4 MiB"),
    ],
    ids=["cut", "list", "number", "deep", "large"],
)
def test_rank_table_that_is_none(tmp_path: Path, text: str, error: str) -> None:
    """An invalid table names the reason; reading is bounded."""
    (tmp_path / "t").write_text(text)

    assert error in hccl_rank_table.read_rank_table(str(tmp_path / "t"))["error"]


def test_rank_table_that_cannot_be_read(tmp_path: Path) -> None:
    """A pipe without a writer does not block, and a missing file is reported as missing."""
    os.mkfifo(tmp_path / "pipe")

    assert "not a regular file" in hccl_rank_table.read_rank_table(str(tmp_path / "pipe"))["error"]
    assert "no such file" in hccl_rank_table.read_rank_table(str(tmp_path / "none"))["error"]
    assert hccl_rank_table.read_rank_table("a\0b")["error"]


@pytest.mark.parametrize("name", ["rdma", "bus", "rank_table"])
@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"devices": 7, "cards": [], "servers": {}}',
        '{"devices": {"a": 3}, "cards": {"b": null}, "servers": [null]}',
    ],
)
def test_strange_answers(name: str, text: str) -> None:
    """A recording that holds something else is not believed, and breaks nothing."""
    facts = Facts(answers={f"ask {name}": Answer(f"ask {name}", Outcome.ANSWERED, text)})
    read = {
        "rdma": network_schemas.read_rdma,
        "bus": network_schemas.read_bus,
        "rank_table": network_schemas.read_rank_table,
    }[name]

    assert read(facts) is None or text.startswith('{"devices": {')
