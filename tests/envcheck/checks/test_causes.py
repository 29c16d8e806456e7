"""Each cause is reported once: which check reports an occupied or lost device, and what is a consequence of it."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envcheck import checks, report
from envcheck.checks.custom import apply_waivers
from envcheck.checks.devices import occupancy_causes
from envcheck.collect import facts
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.core.model import Finding, Outcome, Process, Topology
from envcheck.settings.site_config import SiteSettings, Waiver
from envcheck.vendors.nvidia import checks_fabric as fabric
from launch.gates import run_location
from tests.envcheck.checks.check_parts import (
    BLOCKED,
    COREX,
    FAIL,
    NOT_APPLICABLE,
    OK,
    UNKNOWN,
    WARN,
    Change,
    apply_changes,
    change_answer,
    change_collector,
    change_disk,
    change_document,
    change_facts,
    change_first_device,
    change_host,
    change_vendor,
    make_answer,
    make_fields,
    make_healthy_facts,
    make_job_change,
    make_topology,
)
from tests.envcheck.checks.doctor_helpers import simulate_machine
from tests.envcheck.report.report_helpers import render_table
from tests.launch.gates.gate_parts import make_context

AREA = ["devices"]
GHOST, LEFT, ALIVE = 999, 77, 4242  # of these healthy() has the last in /proc


def make_process(pid: int | None, device: int | None = 0, mib: int | None = 20000) -> Process:
    return Process(device, 0, pid, "python3", mib)


def make_holder(pid: int = LEFT, **changes: Any) -> dict[str, Any]:
    one = {"pid": pid, "nodes": ["/dev/davinci0"], "name": "python3", "uid": 0, "parent": 1, "state": "S"}
    return {**one, "age_s": 60, "container": None, **changes}


def occupy_first_card(*processes: Process, used: int = 20060) -> Change:
    """The first card has `used` MiB in use and is at work; pid LEFT is in /proc."""
    there = change_collector("processes", pids=[1, LEFT, ALIVE])
    return apply_changes(
        change_vendor(processes=processes), change_first_device(memory_used_mib=used, utilization_percent=97), there
    )


def run_checks(change: Change, **chosen: Any) -> list[Finding]:
    return checks.run_checks(change(make_healthy_facts("npu")), **(chosen or {"only": AREA}))


def list_problems(found: list[Finding]) -> dict[str, str]:
    return {f.name: f.seen for f in found if f.status >= UNKNOWN}


def list_worst_findings(found: list[Finding]) -> list[Finding]:
    """What the checks saw, the worst of each check first."""
    return [part for f in found for part in (f, *f.details)]


def list_blocked(found: list[Finding]) -> dict[str, str]:
    return {part.name: part.blocked_by for part in list_worst_findings(found) if part.blocked_by}


@pytest.mark.parametrize(
    ("change", "root", "rest"),
    [
        (occupy_first_card(make_process(ALIVE)), "devices.processes", set()),
        (occupy_first_card(make_process(GHOST)), "devices.ghosts", {"devices.processes"}),
        (
            apply_changes(
                occupy_first_card(make_process(LEFT)),
                change_collector("processes", pids=[1, LEFT], holding=[make_holder()]),
            ),
            "devices.leftovers",
            {"devices.processes"},
        ),
        (
            apply_changes(
                occupy_first_card(make_process(LEFT)),
                change_collector("processes", pids=[1, LEFT], holding=[make_holder(state="D", parent=5)]),
            ),
            "devices.leftovers",
            {"devices.processes"},
        ),
    ],
    ids=["alive", "ghost", "orphan", "stuck"],
)
def test_an_occupied_card_has_one_cause(change: Change, root: str, rest: set[str]) -> None:
    """Memory and work of the card follow from the check that knows most of the process, which is the next step, too."""
    found = run_checks(change)

    assert set(list_problems(found)) == {root}
    assert list_blocked(found) == dict.fromkeys({"devices.memory", "devices.utilization", *rest}, root)
    (finding,) = [f for f in found if f.name == root]
    assert finding.remedy and report.next_step(found).partition("\n")[2] == finding.remedy.commands[0]


def test_a_root_lists_what_follows() -> None:
    """The report names behind the root what follows from it, and what was seen there stays in the JSON."""
    known = occupy_first_card(make_process(ALIVE))(make_healthy_facts("npu"))
    found = checks.run_checks(known)
    memory = next(f for f in found if f.name == "devices.memory")

    assert "Not checked until this is fixed: devices.memory, devices.utilization" in render_table(found, known)
    assert (
        memory.seen == "device 0: 20060 MiB in use (idle: up to 4096 MiB): python3 (pid 4242, 20000 MiB); "
        "caused by devices.processes"
    )
    assert memory.evidence and memory.remedy is None


@pytest.mark.parametrize("chosen", [{"only": ["devices.memory"]}, {"only": AREA, "skip": ["devices.processes"]}])
def test_without_its_root_a_check_tells_it_itself(chosen: dict[str, list[str]]) -> None:
    """Run alone, or without its cause, memory in use is a warning itself."""
    (memory,) = [f for f in run_checks(occupy_first_card(make_process(ALIVE)), **chosen) if f.name == "devices.memory"]

    assert (memory.status, memory.blocked_by) == (WARN, "")
    assert memory.remedy and memory.remedy.commands[0].endswith("-p 4242")


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (occupy_first_card(), "device 0: 20060 MiB in use"),
        (occupy_first_card(make_process(ALIVE, device=3)), "device 0: 20060 MiB in use"),
        (occupy_first_card(make_process(ALIVE, device=None)), "device 0: 20060 MiB in use"),
        (
            occupy_first_card(make_process(ALIVE), used=60000),
            "device 0: 60000 MiB in use (idle: up to 4096 MiB): python3 (pid 4242, 20000 MiB)",
        ),
        (
            apply_changes(occupy_first_card(make_process(ALIVE)), change_document(truncated=True)),
            "device 0: 20060 MiB in use (idle: up to 4096 MiB): python3 (pid 4242",
        ),
    ],
    ids=["no process", "on another card", "on no card", "more than it has", "list cut off"],
)
def test_memory_that_no_process_accounts_for_is_its_own(change: Change, seen: str) -> None:
    """Memory in use that listed processes do not account for is reported separately."""
    assert list_problems(run_checks(change))["devices.memory"].startswith(seen)


def test_a_process_of_no_known_size_accounts_for_its_card() -> None:
    """Windows and some tables show no memory per process: the device's memory is attributed to it."""
    assert set(list_problems(run_checks(occupy_first_card(make_process(ALIVE, mib=None), used=60000)))) == {
        "devices.processes"
    }


def test_two_cards_of_two_causes() -> None:
    """A ghost on one card does not hide the living process of another, and each card's memory follows from its own."""
    busy = [replace(d, memory_used_mib=20060) for d in make_healthy_facts("npu").vendors[0].devices[:2]]
    both_held = apply_changes(
        change_vendor(processes=(make_process(GHOST), make_process(ALIVE, device=1))),
        lambda f: change_vendor(devices=(*busy, *f.vendors[0].devices[2:]))(f),
    )
    found = run_checks(both_held)
    memory = [
        (f.seen.partition(":")[0], f.blocked_by) for f in list_worst_findings(found) if f.name == "devices.memory"
    ]

    assert set(list_problems(found)) == {"devices.ghosts", "devices.processes"}
    assert list_problems(found)["devices.processes"] == "1 process uses the devices: python3 (pid 4242, 20000 MiB)"
    assert memory == [("device 0", "devices.ghosts"), ("device 1", "devices.processes")]
    without = [
        f
        for f in list_worst_findings(run_checks(both_held, only=AREA, skip=["devices.ghosts"]))
        if f.name == "devices.memory"
    ]
    assert [(f.status, f.blocked_by) for f in without] == [(WARN, ""), (BLOCKED, "devices.processes")]


@pytest.mark.parametrize("host_pids", [False, None])
def test_another_namespace_names_no_ghost(host_pids: bool | None) -> None:
    """In a container, process IDs are those of the host: neither missing nor equal ones prove anything."""
    change = apply_changes(
        occupy_first_card(make_process(GHOST), make_process(LEFT)),
        change_collector("processes", holding=[make_holder()]),
    )
    found = run_checks(apply_changes(change, change_collector("caller", host_pids=host_pids)))

    assert "2 processes use the devices" in list_problems(found)["devices.processes"]
    assert "devices.ghosts" not in list_problems(found)


def test_a_rank_left_behind_that_the_tool_does_not_list() -> None:
    """devices.leftovers alone reports it; devices.open_nodes reports other processes."""
    left, stranger = make_holder(), make_holder(pid=88, uid=1000)
    alone, beside = (run_checks(change_collector("processes", holding=some)) for some in ([left], [left, stranger]))

    assert set(list_problems(alone)) == {"devices.leftovers"}
    assert list_blocked(alone) == {"devices.open_nodes": "devices.leftovers"}
    assert (
        "pid 88" in list_problems(beside)["devices.open_nodes"]
        and "pid 77" not in list_problems(beside)["devices.open_nodes"]
    )


def test_a_waived_root_takes_what_follows_along() -> None:
    """Who accepts the process on the card accepts that it holds memory there."""
    found = run_checks(occupy_first_card(make_process(ALIVE)))
    until = datetime.date(2030, 1, 1)
    eased = apply_waivers(found, SiteSettings("s", waivers=(Waiver("devices.processes", "mine", until),)), until)

    assert report.exit_code(eased, strict=True) == 0


def test_a_start_names_the_root_alone() -> None:
    """gate.doctor asks for a look at the cause, not at each of its marks."""
    found = run_location.check_doctor(make_context(doctor=tuple(run_checks(occupy_first_card(make_process(GHOST))))))

    assert found.status is WARN
    assert found.seen.endswith("review devices.ghosts")


PIDS = st.sampled_from([None, GHOST, LEFT, ALIVE])
PROCESSES = st.lists(
    st.builds(make_process, PIDS, st.sampled_from([None, 0, 1, 9]), st.sampled_from([None, 0, 20000])), max_size=4
)
NAMESPACES = st.sampled_from([True, False, None])


@given(PROCESSES, st.lists(st.sampled_from([60, 20060, 60000]), min_size=4, max_size=4), NAMESPACES, st.booleans())
def test_nothing_is_lost(processes: list[Process], used: list[int], host_pids: bool | None, orphan: bool) -> None:
    """Each listed process and each full device has a warning, or is a consequence of one."""
    plain = make_healthy_facts("npu")
    cards = tuple(replace(d, memory_used_mib=n) for d, n in zip(plain.vendors[0].devices, used, strict=True))
    holding = [make_holder()] if orphan else []
    there = apply_changes(
        change_collector("processes", pids=[1, LEFT, ALIVE], holding=holding),
        change_collector("caller", host_pids=host_pids),
    )
    found = run_checks(apply_changes(change_vendor(processes=tuple(processes), devices=cards), there))
    said = " ".join(list_problems(found).values()) + " ".join(
        f.seen
        for f in list_worst_findings(found)
        if f.name in ("devices.processes", "devices.ghosts", "devices.leftovers")
    )
    warned = {f.name for f in found if f.status is WARN}
    full = [n for n, mib in enumerate(used) if mib > 4096]
    memory = [f for f in list_worst_findings(found) if f.name == "devices.memory"]

    assert all(f"pid {'?' if p.pid is None else p.pid}" in said for p in processes)
    assert all(f.blocked_by in warned for f in list_worst_findings(found) if f.blocked_by)
    assert not processes or warned & set(occupancy_causes.CAUSES)
    assert bool(full) == any(f.status is WARN or f.blocked_by for f in memory)


def lose_card(which: int, topology: Topology | None) -> Change:
    """One of the four cards is on the bus alone."""

    def change(facts: Facts) -> Facts:
        kept = tuple(d for n, d in enumerate(facts.vendors[0].devices) if n != which)
        return change_vendor(devices=kept, topology=topology)(facts)

    return change


def drop_device(whole: Topology, name: str) -> Topology:
    names = tuple(n for n in whole.names if n != name)
    return replace(whole, devices=names, matrix={n: whole.matrix[n] for n in names})


LINKED = make_topology(lambda a, b: "HCCS")
PAIRED = make_topology(lambda a, b: "HCCS" if a // 2 == b // 2 else "PIX")


@pytest.mark.parametrize(
    ("topology", "named"),
    [
        (drop_device(LINKED, "D3"), "3 devices, connected by HCCS"),
        (drop_device(PAIRED, "D3"), "3 devices, connected by HCCS, PIX"),
        (LINKED, "3 devices, connected by HCCS"),
    ],
    ids=["alike", "its partner lacks it", "the topology still names it"],
)
def test_links_of_the_cards_that_are_left(topology: Topology, named: str) -> None:
    """They are compared with each other; what the lost card explains follows from devices.count, and no more."""
    found = checks.run_checks(lose_card(3, topology)(make_healthy_facts("npu")), only=["links", "devices.count"])
    links = [f for f in found if f.name.startswith("links.")]

    assert [(f.status, f.blocked_by) for f in links] == [(BLOCKED, "devices.count")] * 3
    assert {f.seen for f in links} == {"without 1 device that is not listed; not checked because of devices.count"}
    assert [[part.status for part in f.details] for f in links] == [[OK]] * 3
    assert links[0].details[0].seen == named
    assert [f.status for f in found if f.name == "devices.count"] == [FAIL]


@pytest.mark.parametrize(
    "change",
    [
        lose_card(3, None),
        apply_changes(lose_card(3, LINKED), lambda f: change_vendor(devices=f.vendors[0].devices[:1])(f)),
    ],
    ids=["no topology", "one card left"],
)
def test_nothing_is_left_to_compare(change: Change) -> None:
    """If the tool shows no links, or one device is left, all link checks are consequences of the loss."""
    found = checks.run_checks(change(make_healthy_facts("npu")), only=["links", "devices.count"])

    assert {f.blocked_by for f in found if f.name.startswith("links.")} == {"devices.count"}


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "atlas-800t-a3", "atlas-200t-a2-box16", "bi-v150x8", "h200x8"])
def test_a_slow_card_beside_a_lost_one(machine: str) -> None:
    """A lost device does not affect the others; a degraded one is reported in any case."""
    seen = {}
    for faults in (("card-lost",), ("card-lost", "topology-degraded=0")):
        with simulate_machine(machine, faults) as at:
            found = checks.run_checks(facts.gather_facts(at))
        seen[faults] = {f.name: f.status for f in found if f.name.startswith("links.") and f.status >= UNKNOWN}

    assert list(seen.values()) == [{}, {"links.uniform": WARN}]


@pytest.mark.parametrize("machine", ["atlas-800t-a2", "atlas-800t-a3", "h200x8"])
def test_the_degraded_card_is_named_and_not_its_partner(machine: str) -> None:
    """Its partner lacks the one link between them, and differs from the others as well."""
    with simulate_machine(machine, ("topology-degraded=3",)) as at:
        found = checks.run_checks(facts.gather_facts(at))
    seen = next(f.seen for f in found if f.name == "links.uniform" and f.status is WARN)

    assert re.match(r"\D*3: ", seen), seen


def test_a_small_shm_is_told_once() -> None:
    """Of a job that names a size job.shm alone speaks, with the job's own size; without one host.shm does."""
    small = {
        gib: apply_changes(change_disk("/dev/shm", 64 << 20), make_job_change(image="", shm_gib=gib))
        for gib in (16, 100, None)
    }
    found = {gib: run_checks(change, only=["host.shm", "job.shm"]) for gib, change in small.items()}
    commands = [f.remedy.commands[0] for gib in (16, 100) for f in found[gib] if f.remedy]

    assert [set(list_problems(some)) for some in found.values()] == [{"job.shm"}, {"job.shm"}, {"host.shm"}]
    assert commands == [f"sudo mount -o remount,size={gib}G /dev/shm" for gib in (16, 100)]
    assert list_blocked(found[None]) == {"job.shm": "host.shm"}


def test_a_container_brings_its_own_shm() -> None:
    """The host's /dev/shm makes no job unfit that trains in a container."""
    found = run_checks(
        apply_changes(change_disk("/dev/shm", 64 << 20), make_job_change(image="i", shm_gib=64)),
        only=["host.shm", "job.shm"],
    )

    assert list_problems(found) == {}


@pytest.mark.parametrize("shm", [8 << 30, 32 << 30], ids=["host.shm only warns", "host.shm is well"])
def test_a_job_that_wants_more_shm_than_is_usual(shm: int) -> None:
    """If host.shm passes, the job's own requirement is reported."""
    found = run_checks(
        apply_changes(change_disk("/dev/shm", shm), make_job_change(image="", shm_gib=40)), only=["host.shm", "job.shm"]
    )

    assert [f.name for f in found if f.status is FAIL] == ["job.shm"]


def test_a_bare_machine_is_told_by_its_tool() -> None:
    """Without tool and lspci, only the missing tool is reported; run alone, the second check reports itself."""
    absent = make_answer("run nvidia-smi -q -x", outcome=Outcome.ABSENT)
    bare = apply_changes(
        change_vendor(document=None, devices=(), tool=absent),
        change_answer(fabric.LSPCI, outcome=Outcome.ABSENT),
    )
    found = checks.run_checks(bare(make_healthy_facts("nvidia")), only=["driver.tool", "driver.fabric"])
    alone = checks.run_checks(bare(make_healthy_facts("nvidia")), only=["driver.fabric"])

    assert set(list_problems(found)) == {"driver.tool"}
    assert list_blocked(found) == {"driver.fabric": "driver.tool"}
    assert list_problems(alone) == {"driver.fabric": "cannot determine (lspci -nn -d 10de: absent)"}


def test_a_judge_of_no_vendor_is_unmoved() -> None:
    """Without cards there is nothing to follow from: NOT_APPLICABLE, as before."""
    found = checks.run_checks(change_facts(vendors=())(make_healthy_facts("npu")), only=["devices.memory"])

    assert [(f.status, f.blocked_by) for f in found] == [(NOT_APPLICABLE, "")]


def change_port(n: int, kind: str, **says: str) -> Change:
    """One NPU's answer to hccn_tool."""

    def change(known: Facts) -> Facts:
        per_device = known.vendors[0].per_device
        return change_vendor(per_device={**per_device, n: {**per_device[n], kind: make_fields(**says)}})(known)

    return change


def test_a_port_that_is_down_reaches_nothing() -> None:
    """Of the unreachable ports, only those that are up are reported."""
    deaf = apply_changes(
        change_port(0, "net_health", net_health_status="Fault"), change_port(2, "net_health", net_health_status="Fault")
    )
    found = run_checks(apply_changes(change_port(0, "link", link_status="DOWN"), deaf), only=["network"])

    assert list_problems(found)["network.hccn_health"] == "port of NPU 2: net health Fault"
    assert list_blocked(found) == {"network.hccn_health": "network.hccn_link"}


@pytest.mark.parametrize(
    ("tree", "inside", "told_itself"), [("4.4", False, False), ("4.4", True, True), ("4.2", False, True)]
)
def test_what_is_worse_than_its_cause_is_told(tree: str, inside: bool, told_itself: bool) -> None:
    """A tool ahead of its driver explains the tree that it came with; not another, nor a failure in a container."""
    change = apply_changes(
        change_document(tool_version="4.4.0"),
        change_answer(COREX, f"/usr/local/corex-{tree}"),
        change_host(in_container=inside),
    )
    found = checks.run_checks(change(make_healthy_facts("iluvatar")), only=["driver.agrees", "toolkit.corex"])

    assert ("toolkit.corex" in list_problems(found)) is told_itself
    assert list_problems(found)["driver.agrees"]


def test_a_list_that_is_cut_off_is_told_once() -> None:
    """How many there are and what runs on them follows from the answer that is not whole."""
    found = run_checks(change_document(truncated=True), only=["driver.whole_answer", "devices"])

    assert set(list_problems(found)) == {"driver.whole_answer"}
    assert list_blocked(found).keys() == {"devices.count", "devices.processes"}


def test_a_container_is_told_once() -> None:
    """A fault of a container includes that it has devices; another container is reported for having them."""
    one = {"image": "i", "nodes": ["/dev/davinci0"], "runtime": "ascend", "ipc": "private", "shm_bytes": 1 << 40}
    small, bare = {**one, "name": "small", "shm_bytes": 64 << 20}, {**one, "name": "bare", "runtime": "runc"}
    found = run_checks(
        change_collector("containers", containers=[small, bare, {**one, "name": "plain"}]),
        only=["devices.shared", "engine"],
    )
    owners = [
        (f.seen.partition(" uses")[0], f.blocked_by) for f in list_worst_findings(found) if f.name == "devices.shared"
    ]

    assert (
        list_problems(found)["engine.shm"]
        == "container small with /dev/davinci0 has 64 MiB of shared memory (minimum 1.0 GiB)"
    )
    assert owners == [
        ("container plain", ""),
        ("container small", "engine.shm"),
        ("container bare", "engine.driver_mounts"),
    ]
    assert (
        len(
            list_problems(run_checks(change_collector("containers", containers=[small, bare]), only=["devices.shared"]))
        )
        == 1
    )


def test_a_job_of_another_vendor_follows_from_no_card() -> None:
    """An old driver of one vendor does not explain what a job for another vendor lacks."""
    old = apply_changes(
        change_document(driver_version="22.0.4"),
        lambda f: replace(f, vendors=(*f.vendors, *make_healthy_facts("iluvatar").vendors)),
    )
    wants = make_job_change(image="", device="iluvatar", driver_minimum="99.0")
    found = run_checks(apply_changes(old, wants), only=["driver.version", "job.driver"])

    assert {"driver.version", "job.driver"} <= list_problems(found).keys()


def test_an_orphaned_run_is_named() -> None:
    """A process of a run without supervisor: the command stops the run, not only the process."""
    run = "20261121-091500-light-77aa"
    found = run_checks(change_collector("processes", holding=[make_holder(parent=5, run=run)]))
    (left,) = [f for f in found if f.name == "devices.leftovers"]

    assert left.remedy and left.remedy.commands == (f"envcheck runs stop {run}",)
    assert run in left.seen


def test_memory_of_an_orphaned_run_is_named() -> None:
    """For a job that lacks memory, the remedy names the run to stop."""
    run = "20261121-091500-light-77aa"
    occupied = apply_changes(
        occupy_first_card(make_process(LEFT), used=60000),
        change_collector("processes", pids=[1, LEFT], holding=[make_holder(parent=5, run=run)]),
    )
    wanted = MachineRequirements("r", "lora", "npu", memory_gib=60, cards=8)
    facts = replace(occupied(make_healthy_facts("npu")), wanted=wanted)
    (found,) = [f for f in checks.run_checks(facts, only=("job.memory",)) if f.name == "job.memory"]

    assert found.remedy and found.remedy.commands[0] == f"envcheck runs stop {run}", found
