"""One cause, told once: which check tells why a card is occupied or what a lost card took along, and what follows."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks, report
from envcheck.checks.custom import waived
from envcheck.checks.devices import conflicts
from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.model import Finding, Outcome, Process, Topology
from envcheck.settings.site_settings import Settings, Waiver
from envcheck.vendors.nvidia import checks_fabric as fabric
from launch.gates import place
from tests.envcheck.checks.check_parts import (
    BLOCKED,
    COREX,
    FAIL,
    NOT_APPLICABLE,
    OK,
    UNKNOWN,
    WARN,
    Change,
    answer,
    asks,
    both,
    card,
    dev0,
    document,
    fields,
    healthy,
    host,
    job,
    room,
    said,
    square,
    top,
)
from tests.envcheck.checks.doctor_helpers import simulated
from tests.envcheck.report.report_helpers import text_of
from tests.launch.gates.gate_parts import situated

AREA = ["devices"]
GHOST, LEFT, ALIVE = 999, 77, 4242  # of these healthy() has the last in /proc


def held(pid: int | None, device: int | None = 0, mib: int | None = 20000) -> Process:
    return Process(device, 0, pid, "python3", mib)


def in_proc(pid: int = LEFT, **changes: Any) -> dict[str, Any]:
    one = {"pid": pid, "nodes": ["/dev/davinci0"], "name": "python3", "uid": 0, "parent": 1, "state": "S"}
    return {**one, "age_s": 60, "container": None, **changes}


def occupied_by(*processes: Process, used: int = 20060) -> Change:
    """The first card has `used` MiB in use and is at work; pid LEFT is in /proc."""
    there = asks("processes", pids=[1, LEFT, ALIVE])
    return both(card(processes=processes), dev0(memory_used_mib=used, utilization_percent=97), there)


def told(change: Change, **chosen: Any) -> list[Finding]:
    return checks.run_all(change(healthy("npu")), **(chosen or {"only": AREA}))


def wrong(found: list[Finding]) -> dict[str, str]:
    return {f.name: f.seen for f in found if f.status >= UNKNOWN}


def parts(found: list[Finding]) -> list[Finding]:
    """What the checks saw, the worst of each check first."""
    return [part for f in found for part in (f, *f.details)]


def following(found: list[Finding]) -> dict[str, str]:
    return {part.name: part.blocked_by for part in parts(found) if part.blocked_by}


@pytest.mark.parametrize(
    ("change", "root", "rest"),
    [
        (occupied_by(held(ALIVE)), "devices.processes", set()),
        (occupied_by(held(GHOST)), "devices.ghosts", {"devices.processes"}),
        (
            both(occupied_by(held(LEFT)), asks("processes", pids=[1, LEFT], holding=[in_proc()])),
            "devices.leftovers",
            {"devices.processes"},
        ),
        (
            both(occupied_by(held(LEFT)), asks("processes", pids=[1, LEFT], holding=[in_proc(state="D", parent=5)])),
            "devices.leftovers",
            {"devices.processes"},
        ),
    ],
    ids=["alive", "ghost", "orphan", "stuck"],
)
def test_an_occupied_card_has_one_cause(change: Change, root: str, rest: set[str]) -> None:
    """Memory and work of the card follow from the check that knows most of the process, which is the next step, too."""
    found = told(change)

    assert set(wrong(found)) == {root}
    assert following(found) == dict.fromkeys({"devices.memory", "devices.utilization", *rest}, root)
    (finding,) = [f for f in found if f.name == root]
    assert finding.remedy and report.next_step(found).partition("\n")[2] == finding.remedy.commands[0]


def test_a_root_lists_what_follows() -> None:
    """The report names behind the root what follows from it, and what was seen there stays in the JSON."""
    known = occupied_by(held(ALIVE))(healthy("npu"))
    found = checks.run_all(known)
    memory = next(f for f in found if f.name == "devices.memory")

    assert "Not checked until this is fixed: devices.memory, devices.utilization" in text_of(found, known)
    assert memory.seen == "device 0: 20060 MiB in use: python3 (pid 4242, 20000 MiB); explained by devices.processes"
    assert memory.evidence and memory.remedy is None


@pytest.mark.parametrize("chosen", [{"only": ["devices.memory"]}, {"only": AREA, "skip": ["devices.processes"]}])
def test_without_its_root_a_check_tells_it_itself(chosen: dict[str, list[str]]) -> None:
    """Asked for alone, or beside a root that was left out, memory in use is the warning that it would be."""
    (memory,) = [f for f in told(occupied_by(held(ALIVE)), **chosen) if f.name == "devices.memory"]

    assert (memory.status, memory.blocked_by) == (WARN, "")
    assert memory.remedy and memory.remedy.commands[0].endswith("-p 4242")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (occupied_by(), "device 0: 20060 MiB in use"),
        (occupied_by(held(ALIVE, device=3)), "device 0: 20060 MiB in use"),
        (occupied_by(held(ALIVE, device=None)), "device 0: 20060 MiB in use"),
        (occupied_by(held(ALIVE), used=60000), "device 0: 60000 MiB in use: python3 (pid 4242, 20000 MiB)"),
        (both(occupied_by(held(ALIVE)), document(truncated=True)), "device 0: 20060 MiB in use: python3 (pid 4242"),
    ],
    ids=["no process", "on another card", "on no card", "more than it has", "list cut off"],
)
def test_memory_that_no_process_accounts_for_is_its_own(change: Change, seen: str) -> None:
    """A card without a listed process, or with more in use than those hold, is told whatever else is told."""
    assert wrong(told(change))["devices.memory"].startswith(seen)


def test_a_process_of_no_known_size_accounts_for_its_card() -> None:
    """Windows and some tables tell no memory of a process: the card's is then taken for the process's."""
    assert set(wrong(told(occupied_by(held(ALIVE, mib=None), used=60000)))) == {"devices.processes"}


def test_two_cards_of_two_causes() -> None:
    """A ghost on one card does not hide the living process of another, and each card's memory follows from its own."""
    busy = [replace(d, memory_used_mib=20060) for d in healthy("npu").vendors[0].devices[:2]]
    both_held = both(
        card(processes=(held(GHOST), held(ALIVE, device=1))),
        lambda f: card(devices=(*busy, *f.vendors[0].devices[2:]))(f),
    )
    found = told(both_held)
    memory = [(f.seen.partition(":")[0], f.blocked_by) for f in parts(found) if f.name == "devices.memory"]

    assert set(wrong(found)) == {"devices.ghosts", "devices.processes"}
    assert wrong(found)["devices.processes"] == "1 process on the devices: python3 (pid 4242, 20000 MiB)"
    assert memory == [("device 0", "devices.ghosts"), ("device 1", "devices.processes")]
    without = [f for f in parts(told(both_held, only=AREA, skip=["devices.ghosts"])) if f.name == "devices.memory"]
    assert [(f.status, f.blocked_by) for f in without] == [(WARN, ""), (BLOCKED, "devices.processes")]


@pytest.mark.parametrize("host_pids", [False, None])
def test_another_namespace_names_no_ghost(host_pids: bool | None) -> None:
    """In a container the tool's numbers are the host's: neither a missing nor an equal one here says anything."""
    change = both(occupied_by(held(GHOST), held(LEFT)), asks("processes", holding=[in_proc()]))
    found = told(both(change, asks("caller", host_pids=host_pids)))

    assert "2 processes on the devices" in wrong(found)["devices.processes"]
    assert "devices.ghosts" not in wrong(found)


def test_a_rank_left_behind_that_the_tool_does_not_list() -> None:
    """It is told by devices.leftovers alone, a stranger beside it by devices.open_nodes."""
    left, stranger = in_proc(), in_proc(pid=88, uid=1000)
    alone, beside = (told(asks("processes", holding=some)) for some in ([left], [left, stranger]))

    assert set(wrong(alone)) == {"devices.leftovers"}
    assert following(alone) == {"devices.open_nodes": "devices.leftovers"}
    assert "pid 88" in wrong(beside)["devices.open_nodes"] and "pid 77" not in wrong(beside)["devices.open_nodes"]


def test_a_waived_root_takes_what_follows_along() -> None:
    """Who accepts the process on the card accepts that it holds memory there."""
    found = told(occupied_by(held(ALIVE)))
    until = datetime.date(2030, 1, 1)
    eased = waived(found, Settings("s", waivers=(Waiver("devices.processes", "mine", until),)), until)

    assert report.exit_code(eased, strict=True) == 0


def test_a_start_names_the_root_alone() -> None:
    """gate.doctor asks for a look at the cause, not at each of its marks."""
    found = place.doctor(situated(doctor=tuple(told(occupied_by(held(GHOST))))))

    assert found.status is WARN
    assert found.seen.endswith("a look is due at devices.ghosts")


PIDS = st.sampled_from([None, GHOST, LEFT, ALIVE])
PROCESSES = st.lists(
    st.builds(held, PIDS, st.sampled_from([None, 0, 1, 9]), st.sampled_from([None, 0, 20000])), max_size=4
)
NAMESPACES = st.sampled_from([True, False, None])


@given(PROCESSES, st.lists(st.sampled_from([60, 20060, 60000]), min_size=4, max_size=4), NAMESPACES, st.booleans())
def test_nothing_is_lost(processes: list[Process], used: list[int], host_pids: bool | None, orphan: bool) -> None:
    """Whatever runs where: each listed process and each full card is told by a warning, or follows from one."""
    plain = healthy("npu")
    cards = tuple(replace(d, memory_used_mib=n) for d, n in zip(plain.vendors[0].devices, used, strict=True))
    holding = [in_proc()] if orphan else []
    there = both(asks("processes", pids=[1, LEFT, ALIVE], holding=holding), asks("caller", host_pids=host_pids))
    found = told(both(card(processes=tuple(processes), devices=cards), there))
    said = " ".join(wrong(found).values()) + " ".join(
        f.seen for f in parts(found) if f.name in ("devices.processes", "devices.ghosts", "devices.leftovers")
    )
    warned = {f.name for f in found if f.status is WARN}
    full = [n for n, mib in enumerate(used) if mib > 4096]
    memory = [f for f in parts(found) if f.name == "devices.memory"]

    assert all(f"pid {'?' if p.pid is None else p.pid}" in said for p in processes)
    assert all(f.blocked_by in warned for f in parts(found) if f.blocked_by)
    assert not processes or warned & set(conflicts.CAUSES)
    assert bool(full) == any(f.status is WARN or f.blocked_by for f in memory)


def lost(which: int, topology: Topology | None) -> Change:
    """One of the four cards is on the bus alone."""

    def change(facts: Facts) -> Facts:
        kept = tuple(d for n, d in enumerate(facts.vendors[0].devices) if n != which)
        return card(devices=kept, topology=topology)(facts)

    return change


def without(whole: Topology, name: str) -> Topology:
    names = tuple(n for n in whole.names if n != name)
    return replace(whole, devices=names, matrix={n: whole.matrix[n] for n in names})


LINKED = square(lambda a, b: "HCCS")
PAIRED = square(lambda a, b: "HCCS" if a // 2 == b // 2 else "PIX")


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        (without(LINKED, "D3"), "3 devices, tied by HCCS"),
        (without(PAIRED, "D3"), "3 devices, tied by HCCS, PIX"),
        (LINKED, "3 devices, tied by HCCS"),
    ],
    ids=["alike", "its partner lacks it", "the topology still names it"],
)
def test_links_of_the_cards_that_are_left(topology: Topology, named: str) -> None:
    """They are compared with each other; what the lost card explains follows from devices.count, and no more."""
    found = checks.run_all(lost(3, topology)(healthy("npu")), only=["links", "devices.count"])
    links = [f for f in found if f.name.startswith("links.")]

    assert [(f.status, f.blocked_by) for f in links] == [(BLOCKED, "devices.count")] * 3
    assert {f.seen for f in links} == {"less 1 device not listed; not checked because devices.count failed"}
    assert [[part.status for part in f.details] for f in links] == [[OK]] * 3
    assert links[0].details[0].seen == named
    assert [f.status for f in found if f.name == "devices.count"] == [FAIL]


@pytest.mark.parametrize(
    "change",
    [lost(3, None), both(lost(3, LINKED), lambda f: card(devices=f.vendors[0].devices[:1])(f))],
    ids=["no topology", "one card left"],
)
def test_nothing_is_left_to_compare(change: Change) -> None:
    """Where the tool tells no links any more, or one card is left, all follows from the loss."""
    found = checks.run_all(change(healthy("npu")), only=["links", "devices.count"])

    assert {f.blocked_by for f in found if f.name.startswith("links.")} == {"devices.count"}


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "atlas-800t-a3", "atlas-200t-a2-box16", "bi-v150x8", "h200x8"])
def test_a_slow_card_beside_a_lost_one(machine: str) -> None:
    """On whole machines: a lost card alone changes nothing among the others, a degraded one is told all the same."""
    seen = {}
    for faults in (("card-lost",), ("card-lost", "topology-degraded=0")):
        with simulated(machine, faults) as at:
            found = checks.run_all(facts.gather(at))
        seen[faults] = {f.name: f.status for f in found if f.name.startswith("links.") and f.status >= UNKNOWN}

    assert list(seen.values()) == [{}, {"links.uniform": WARN}]


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "atlas-800t-a3", "h200x8"])
def test_the_degraded_card_is_named_and_not_its_partner(machine: str) -> None:
    """Its partner lacks the one link between them, and differs from the others as well."""
    with simulated(machine, ("topology-degraded=3",)) as at:
        found = checks.run_all(facts.gather(at))
    seen = next(f.seen for f in found if f.name == "links.uniform" and f.status is WARN)

    assert re.match(r"\D*3: ", seen), seen


def test_a_small_shm_is_told_once() -> None:
    """Of a job that names a size job.shm alone speaks, with the job's own size; without one host.shm does."""
    small = {gib: both(room("/dev/shm", 64 << 20), job(image="", shm_gib=gib)) for gib in (16, 100, None)}
    found = {gib: told(change, only=["host.shm", "job.shm"]) for gib, change in small.items()}
    commands = [f.remedy.commands[0] for gib in (16, 100) for f in found[gib] if f.remedy]

    assert [set(wrong(some)) for some in found.values()] == [{"job.shm"}, {"job.shm"}, {"host.shm"}]
    assert commands == [f"sudo mount -o remount,size={gib}G /dev/shm" for gib in (16, 100)]
    assert following(found[None]) == {"job.shm": "host.shm"}


def test_a_container_brings_its_own_shm() -> None:
    """The host's /dev/shm makes no job unfit that trains in a container."""
    found = told(both(room("/dev/shm", 64 << 20), job(image="i", shm_gib=64)), only=["host.shm", "job.shm"])

    assert wrong(found) == {}


@pytest.mark.parametrize("shm", [8 << 30, 32 << 30], ids=["host.shm only warns", "host.shm is well"])
def test_a_job_that_wants_more_shm_than_is_usual(shm: int) -> None:
    """Where host.shm fails nothing the job's own want is told."""
    found = told(both(room("/dev/shm", shm), job(image="", shm_gib=40)), only=["host.shm", "job.shm"])

    assert [f.name for f in found if f.status is FAIL] == ["job.shm"]


def test_a_bare_machine_is_told_by_its_tool() -> None:
    """Without the vendor's tool and without lspci the first is told alone; alone asked, the second is told as it is."""
    absent = said("run nvidia-smi -q -x", outcome=Outcome.ABSENT)
    bare = both(
        card(document=None, devices=(), tool=absent),
        answer(fabric.LSPCI, outcome=Outcome.ABSENT),
    )
    found = checks.run_all(bare(healthy("nvidia")), only=["driver.tool", "driver.fabric"])
    alone = checks.run_all(bare(healthy("nvidia")), only=["driver.fabric"])

    assert set(wrong(found)) == {"driver.tool"}
    assert following(found) == {"driver.fabric": "driver.tool"}
    assert wrong(alone) == {"driver.fabric": "could not be told (lspci -nn -d 10de: absent)"}


def test_a_judge_of_no_vendor_is_unmoved() -> None:
    """Without cards there is nothing to follow from: NOT_APPLICABLE, as before."""
    found = checks.run_all(top(vendors=())(healthy("npu")), only=["devices.memory"])

    assert [(f.status, f.blocked_by) for f in found] == [(NOT_APPLICABLE, "")]


def port(n: int, kind: str, **says: str) -> Change:
    """One NPU's answer to hccn_tool."""

    def change(known: Facts) -> Facts:
        per_device = known.vendors[0].per_device
        return card(per_device={**per_device, n: {**per_device[n], kind: fields(**says)}})(known)

    return change


def test_a_port_that_is_down_reaches_nothing() -> None:
    """Of the ports that reach nothing only those are told that are up."""
    deaf = both(port(0, "net_health", net_health_status="Fault"), port(2, "net_health", net_health_status="Fault"))
    found = told(both(port(0, "link", link_status="DOWN"), deaf), only=["network"])

    assert wrong(found)["network.hccn_health"] == "port of NPU 2: Fault"
    assert following(found) == {"network.hccn_health": "network.hccn_link"}


@pytest.mark.parametrize(
    ("tree", "inside", "told_itself"), [("4.4", False, False), ("4.4", True, True), ("4.2", False, True)]
)
def test_what_is_worse_than_its_cause_is_told(tree: str, inside: bool, told_itself: bool) -> None:
    """A tool ahead of its driver explains the tree that it came with; not another, nor a failure in a container."""
    change = both(document(tool_version="4.4.0"), answer(COREX, f"/usr/local/corex-{tree}"), host(in_container=inside))
    found = checks.run_all(change(healthy("iluvatar")), only=["driver.agrees", "toolkit.corex"])

    assert ("toolkit.corex" in wrong(found)) is told_itself
    assert wrong(found)["driver.agrees"]


def test_a_list_that_is_cut_off_is_told_once() -> None:
    """How many there are and what runs on them follows from the answer that is not whole."""
    found = told(document(truncated=True), only=["driver.whole_answer", "devices"])

    assert set(wrong(found)) == {"driver.whole_answer"}
    assert following(found).keys() == {"devices.count", "devices.processes"}


def test_a_container_is_told_once() -> None:
    """What is amiss about a container tells that it has the cards, too; another beside it is told for having them."""
    one = {"image": "i", "nodes": ["/dev/davinci0"], "runtime": "ascend", "ipc": "private", "shm_bytes": 1 << 40}
    small, bare = {**one, "name": "small", "shm_bytes": 64 << 20}, {**one, "name": "bare", "runtime": "runc"}
    found = told(
        asks("containers", containers=[small, bare, {**one, "name": "plain"}]), only=["devices.shared", "engine"]
    )
    owners = [(f.seen.partition(" was")[0], f.blocked_by) for f in parts(found) if f.name == "devices.shared"]

    assert wrong(found)["engine.shm"] == "container small with /dev/davinci0 shares 64 MiB"
    assert owners == [
        ("container plain", ""),
        ("container small", "engine.shm"),
        ("container bare", "engine.driver_mounts"),
    ]
    assert len(wrong(told(asks("containers", containers=[small, bare]), only=["devices.shared"]))) == 1


def test_a_job_of_another_vendor_follows_from_no_card() -> None:
    """An old driver of one vendor's cards explains nothing that a job for others wants."""
    old = both(
        document(driver_version="22.0.4"), lambda f: replace(f, vendors=(*f.vendors, *healthy("iluvatar").vendors))
    )
    wants = job(image="", device="iluvatar", driver_minimum="99.0")
    found = told(both(old, wants), only=["driver.version", "job.driver"])

    assert {"driver.version", "job.driver"} <= wrong(found).keys()
