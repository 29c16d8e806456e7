# ruff: noqa: E501  the table of cases is read across, one line a check
"""Every check in four cases: right, wrong, absent, unreadable.  Facts are built, not parsed: checks read facts alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from envcheck import checks
from envcheck.checks.__main__ import page
from envcheck.errors import UsageError
from envcheck.model import (
    Answer,
    Device,
    Disk,
    Document,
    Engine,
    Facts,
    Finding,
    Host,
    Interface,
    Limits,
    Network,
    Outcome,
    Packages,
    Process,
    Severity,
    ToolError,
    Topology,
    VendorFacts,
    Wanted,
)
from envcheck.vendors import VENDORS

GIB = 1 << 30
OK, SKIP, UNKNOWN, WARN, FAIL = Severity
N = 4
VERSION_FILE = "read /usr/local/Ascend/driver/version.info"
FIRMWARE_FILE = "read /usr/local/Ascend/firmware/version.info"
INSTALL_FILE = "read /etc/ascend_install.info"
CONFIG = "read /usr/local/Ascend/ascend-toolkit/latest/version.cfg"
TREES = "list /usr/local/Ascend/ascend-toolkit/[0-9]*"
ATB = "list /usr/local/Ascend/nnal/atb/set_env.sh"
COREX, PRELOADS = "list /usr/local/corex*", "list /usr/local/corex*/lib64/libcuda.so.1"
DOCKER = "run docker info --format {{json .}}"
LIBCUDA = "/usr/local/corex-4.3.0/lib64/libcuda.so.1"
CANN = "/usr/local/Ascend/ascend-toolkit/8.0.RC1"
Change = Callable[[Facts], Facts]


def said(key: str, out: str = "x", outcome: Outcome = Outcome.ANSWERED, **more: Any) -> Answer:
    return Answer(key, outcome, out if outcome is Outcome.ANSWERED else "", **more)


def fields(**pairs: object) -> Document:
    return Document("npu-smi", "x", detail={"fields": {k.replace("_", " "): v for k, v in pairs.items()}})


def device(n: int, vendor: str) -> Device:
    numbers: dict[str, Any] = {"npu": n, "chip": 0, "health": "OK"} if vendor == "npu" else {"index": n}
    name = {"npu": "910B3", "iluvatar": "Iluvatar BI-V150", "nvidia": "NVIDIA H200"}[vendor]
    more = {"ecc_uncorrected": 0, "mig_mode": "Disabled"} if vendor == "nvidia" else {}
    return Device(
        name=name,
        bus_id=f"0000:{n:02X}:00.0",
        temperature_c=40,
        utilization_percent=0,
        memory_used_mib=60,
        memory_total_mib=65536,
        **numbers,
        **more,
    )


def square(relation: Callable[[int, int], str | None]) -> Topology:
    names = [f"D{n}" for n in range(N)]
    matrix = {a: {b: "X" if a == b else relation(i, j) for j, b in enumerate(names)} for i, a in enumerate(names)}
    near = {name: str(n // 2) for n, name in enumerate(names)}
    return Topology(tuple(names), (), matrix, near, near)


def per_device() -> dict[int, dict[str, Document]]:
    zero = {"HBM_Double_Bit_Error_Count": 0, "HBM_Double_Bit_Aggregate_Total_Err_Cnt": 0}
    return {
        n: {
            "board": fields(Compatibility="OK", Firmware_Version="7.1.0.6.220"),
            "ecc": fields(**zero),
            "link": fields(link_status="UP"),
            "ip": fields(ipaddr=f"10.0.0.{n}"),
            "net_health": fields(net_health_status="Success"),
        }
        for n in range(N)
    }


def healthy(vendor: str) -> Facts:
    """A machine with four devices of the vendor on which every check that applies is content."""
    tool, nodes = VENDORS[vendor].tool, VENDORS[vendor].node_pattern.partition("[")[0]
    driver = {"npu": "24.1.rc1", "iluvatar": "4.3.0", "nvidia": "570.124.06"}[vendor]
    devices = tuple(device(n, vendor) for n in range(N))
    v = VendorFacts(
        vendor,
        tool=said(f"run {tool}", "a table"),
        document=Document(tool, "table", driver, driver, devices=devices),
        devices=devices,
        processes=(),
        topology=square(lambda a, b: "HCCS"),
        pci=tuple(f"{n:02x}:00.0" for n in range(N)),
        nodes=tuple(f"{nodes}{n}" for n in range(N)),
        documents={
            VERSION_FILE: replace(
                fields(compatible_version_fw="[7.0.0,8.9.9]"),
                driver_version=driver,
                detail={"fields": {"compatible_version_fw": "[7.0.0,8.9.9]"}},
            ),
            FIRMWARE_FILE: Document(tool, "firmware-version", detail={"firmware_version": "7.1.0.6.220"}),
            INSTALL_FILE: Document(
                tool, "install-info", detail={"fields": {"Driver_Install_Path_Param": "/usr/local/Ascend"}}
            ),
            CONFIG: Document(tool, "version-cfg", detail={"cann_version": "8.0.RC1"}),
        }
        if vendor == "npu"
        else {},
        per_device=per_device() if vendor == "npu" else {},
    )
    answers = [
        said(INSTALL_FILE),
        said(TREES, CANN),
        said("list /usr/local/Ascend/cann-[0-9]*", outcome=Outcome.EMPTY),
        said(ATB, "/usr/local/Ascend/nnal/atb/set_env.sh"),
        said(COREX, "/usr/local/corex-4.3.0"),
        said(PRELOADS, LIBCUDA),
        said("read /etc/hccn.conf", "".join(f"address_{n}=10.0.0.{n}\n" for n in range(N))),
        said(DOCKER),
        *(said(f"run hccn_tool -i {n} -{kind} -g") for n in range(N) for kind in ("link", "ip", "net_health")),
    ]
    return Facts(
        device=vendor,
        vendors=(v,),
        host=Host(
            "h", "5.10.0-60", "x86_64", "Linux", 64, 512 * GIB, 500 * GIB, 8 * GIB, 0, 8, 8, 2 << 20, 2, 0, False
        ),
        disks={p: Disk(900 * GIB, 800 * GIB) for p in ("/", ".", "home", "/dev/shm", "/var/lib/docker")},
        limits=Limits(65536, 65536, -1, -1),
        environment={
            VENDORS[vendor].visible_env: "0,1,2,3",
            "ASCEND_HOME_PATH": CANN,
            "LD_LIBRARY_PATH": f"{CANN}/lib64" if vendor == "npu" else "/usr/local/corex-4.3.0/lib64",
            "LD_PRELOAD": LIBCUDA,
            "NCCL_SOCKET_IFNAME": "eth",
        },
        network=Network(
            ("10.0.0.9",), {"lo": Interface(("127.0.0.1",), 65536, True), "eth0": Interface(("10.0.0.9",), 1500, True)}
        ),
        clock_synchronised=True,
        packages=Packages("3.10.14", "/usr/bin/python3", packages(vendor)),
        engine=Engine("26.1.3", ("runc", "ascend", "iluvatar", "nvidia"), "/var/lib/docker"),
        answers={a.key: a for a in answers},
    )


def packages(vendor: str) -> dict[str, str]:
    frameworks = {"paddlepaddle": "3.1.0", "paddle-custom-npu": "3.1.0", "paddle-iluvatar-gpu": "3.1.0"}
    built = {"paddlepaddle-gpu": "3.1.0"} if vendor == "nvidia" else frameworks
    bridge = {"triton": "3.3", "paddleformers": "0.3.1", "use-triton-in-paddle": "0.1"}
    return {**built, **bridge, "numpy": "1.26.4", "torch": "2.7.1", "torch-npu": "2.7.1.post2"}


def top(**changes: Any) -> Change:
    return lambda facts: replace(facts, **changes)


def card(**changes: Any) -> Change:
    return lambda facts: replace(facts, vendors=(replace(facts.vendors[0], **changes),))


def dev(**changes: Any) -> Change:
    """All devices changed."""
    return lambda facts: card(devices=tuple(replace(d, **changes) for d in facts.vendors[0].devices))(facts)


def dev0(**changes: Any) -> Change:
    """The first device changed."""
    return lambda facts: card(devices=(replace(facts.vendors[0].devices[0], **changes), *facts.vendors[0].devices[1:]))(
        facts
    )


def document(**changes: Any) -> Change:
    return lambda facts: card(document=replace(facts.vendors[0].document or Document("", ""), **changes))(facts)


def told(kind: str, what: Document | None) -> Change:
    """One kind of follow-up changed on each device; None takes it away."""

    def change(facts: Facts) -> Facts:
        before = facts.vendors[0].per_device
        return card(
            per_device={n: {k: v for k, v in ({**kinds, kind: what}).items() if v} for n, kinds in before.items()}
        )(facts)

    return change


def answer(key: str, out: str = "x", outcome: Outcome = Outcome.ANSWERED) -> Change:
    return lambda facts: replace(facts, answers={**facts.answers, key: said(key, out, outcome)})


def file(key: str, what: Document | None) -> Change:
    def change(facts: Facts) -> Facts:
        documents = {**facts.vendors[0].documents, key: what}
        return card(documents={k: v for k, v in documents.items() if v})(facts)

    return change


def env(**values: str | None) -> Change:
    return lambda facts: replace(
        facts, environment={k: v for k, v in {**(facts.environment or {}), **values}.items() if v is not None}
    )


def host(**changes: Any) -> Change:
    return lambda facts: replace(facts, host=replace(facts.host or Host(), **changes))


def packs(**versions: str | None) -> Change:
    """Packages changed, `_` for `-`; None takes one away."""
    new = {k.replace("_", "-"): v for k, v in versions.items()}
    return lambda facts: replace(
        facts, packages=Packages("3.10.14", "", {k: v for k, v in {**packages_of(facts), **new}.items() if v})
    )


def packages_of(facts: Facts) -> Mapping[str, str]:
    return facts.packages.packages if facts.packages else {}


def room(path: str, size: int | None) -> Change:
    return lambda facts: replace(facts, disks={**(facts.disks or {}), path: Disk(size, size)})


def both(*changes: Change) -> Change:
    def change(facts: Facts) -> Facts:
        for one in changes:
            facts = one(facts)
        return facts

    return change


def job(**changes: Any) -> Change:
    wanted = Wanted(
        "r",
        "lora",
        "npu",
        cards=4,
        memory_gib=64,
        architectures=("x86_64",),
        driver_minimum="23.0.3",
        toolkit_minimum="8.0.RC1",
        firmware_minimum="7.1.0",
        host_memory_gib=100,
        shm_gib=16,
        disk_gib=100,
        packages=(("paddlepaddle", ">=3.1"),),
    )
    return lambda facts: replace(facts, wanted=replace(wanted, **changes))


NO_TOOL = card(document=None, devices=(), tool=said("run npu-smi info", outcome=Outcome.ABSENT))
JUNK = card(document=Document("npu-smi", "unknown"), devices=(), tool=said("run npu-smi info", "??"))
DEAD = both(NO_TOOL, card(pci=None, nodes=None))
NO_HOST, NO_ENV, NO_PACKS = top(host=None), top(environment=None), top(packages=None)
HCCN_ABSENT = both(
    *(
        answer(f"run hccn_tool -i {n} -{k} -g", outcome=Outcome.ABSENT)
        for n in range(N)
        for k in ("link", "ip", "net_health")
    )
)
ODD = square(lambda a, b: "SYS" if 3 in (a, b) else "HCCS")
UNEVEN = replace(
    square(lambda a, b: "HCCS"), cpu_affinity={"D0": "0", "D1": "0", "D2": "0", "D3": "1"}, numa_affinity={}
)
EMPTY_CARD, NOTHING = Document("npu-smi", "unknown"), Document("npu-smi", "board", detail={"fields": {}})
NONE = card(devices=())

# check -> (vendor, wrong and how bad, absent, unreadable); right is `healthy`, with a job for job.*.
# Absent must be SKIP or UNKNOWN (or the severity given), unreadable UNKNOWN (or SKIP where the cause is told elsewhere).
Case = tuple[str, Change, Severity, Change, Change]
CASES: dict[str, Case] = {
    "driver.tool": ("npu", document(error=ToolError("device-busy", -8020, "ret is -8020")), FAIL, card(tool=None), JUNK),
    "driver.whole_answer": ("npu", document(truncated=True), UNKNOWN, NO_TOOL, JUNK),
    "driver.version": ("npu", document(driver_version="22.0.4"), FAIL, both(NO_TOOL, file(VERSION_FILE, None)), document(driver_version="x.x.x")),
    "driver.agrees": ("npu", document(tool_version="23.0.0"), WARN, DEAD, both(document(tool_version="?"), file(VERSION_FILE, None))),
    "driver.firmware": ("npu", file(FIRMWARE_FILE, Document("", "", detail={"firmware_version": "9.9.0"})), FAIL, both(file(FIRMWARE_FILE, None), told("board", None)), both(file(FIRMWARE_FILE, EMPTY_CARD), told("board", None))),
    "driver.compatible": ("npu", told("board", fields(Compatibility="Mismatch")), FAIL, told("board", None), told("board", fields(Model="?"))),
    "driver.install_record": ("npu", file(INSTALL_FILE, Document("", "", detail={"fields": {"Driver_Install_Status": "failed"}})), FAIL, both(host(in_container=True), answer(INSTALL_FILE, outcome=Outcome.ABSENT)), file(INSTALL_FILE, EMPTY_CARD)),
    "devices.present": ("npu", NONE, FAIL, both(NO_TOOL, card(pci=None)), JUNK),
    "devices.count": ("npu", card(pci=tuple(f"{n:02x}:00.0" for n in range(5)), nodes=()), FAIL, card(pci=None, nodes=None), document(truncated=True)),
    "devices.health": ("npu", dev0(health="Alarm"), FAIL, dev(health=None), dev0(health="???")),
    "devices.ecc": ("npu", told("ecc", fields(HBM_Double_Bit_Error_Count=2)), FAIL, told("ecc", None), told("ecc", NOTHING)),
    "devices.memory": ("npu", dev0(memory_used_mib=30000), WARN, NO_TOOL, dev(memory_used_mib=None)),
    "devices.processes": ("npu", card(processes=(Process(0, 0, 4242, "python3", 900),)), WARN, NO_TOOL, card(processes=None)),
    "devices.utilization": ("npu", dev0(utilization_percent=90), WARN, NO_TOOL, dev(utilization_percent=None)),
    "devices.temperature": ("npu", dev0(temperature_c=85), WARN, NO_TOOL, dev(temperature_c=None)),
    "devices.uniform": ("npu", dev0(memory_total_mib=32768), WARN, NO_TOOL, dev0(memory_total_mib=None)),
    "devices.chips": ("iluvatar", lambda f: card(devices=f.vendors[0].devices[:3], pci=None)(f), FAIL, dev(name="Iluvatar MR-V100"), dev(name=None)),
    "devices.mig": ("nvidia", dev0(mig_mode="Enabled"), WARN, dev(mig_mode=None), dev(mig_mode=None, name=None)),
    "devices.numbering": ("npu", dev0(npu=16), WARN, card(nodes=()), dev(npu=None)),
    "devices.visible": ("npu", env(ASCEND_RT_VISIBLE_DEVICES="0, 1"), FAIL, env(ASCEND_RT_VISIBLE_DEVICES=None), NO_ENV),
    "links.topology": ("npu", card(topology=square(lambda a, b: None)), FAIL, NO_TOOL, card(topology=None)),
    "links.uniform": ("npu", card(topology=ODD), WARN, NO_TOOL, card(topology=None)),
    "links.numa": ("npu", card(topology=UNEVEN), WARN, card(topology=replace(UNEVEN, cpu_affinity={})), card(topology=None)),
    "toolkit.present": ("npu", answer(TREES, outcome=Outcome.EMPTY), WARN, top(answers={}), answer(TREES, outcome=Outcome.FAILED)),
    "toolkit.single": ("npu", env(LD_LIBRARY_PATH=f"{CANN}/lib64:/usr/local/Ascend/ascend-toolkit/8.2.RC1/lib64"), FAIL, both(answer(TREES, outcome=Outcome.EMPTY), env(LD_LIBRARY_PATH=None)), NO_ENV),
    "toolkit.version": ("npu", file(CONFIG, Document("", "", detail={"cann_version": "5.1.0"})), WARN, both(file(CONFIG, None), answer(TREES, outcome=Outcome.EMPTY)), file(CONFIG, Document("", "", detail={"cann_version": "?"}))),
    "toolkit.driver": ("npu", document(driver_version="22.0.4"), FAIL, both(file(CONFIG, None), answer(TREES, outcome=Outcome.EMPTY)), document(driver_version="?")),
    "toolkit.environment": ("npu", env(ASCEND_HOME_PATH=None), WARN, answer(TREES, outcome=Outcome.EMPTY), NO_ENV),
    "toolkit.atb": ("npu", answer(ATB, outcome=Outcome.EMPTY), WARN, answer(TREES, outcome=Outcome.EMPTY), answer(ATB, outcome=Outcome.FAILED)),
    "toolkit.preload": ("iluvatar", env(LD_PRELOAD="/usr/local/corex-3.1/lib64/libcuda.so.1"), FAIL, env(LD_PRELOAD=None), NO_ENV),
    "network.hccn_link": ("npu", told("link", fields(link_status="DOWN")), FAIL, both(told("link", None), HCCN_ABSENT), told("link", EMPTY_CARD)),
    "network.hccn_address": ("npu", told("ip", Document("", "error", error=ToolError("network-not-configured"))), WARN, both(told("ip", None), HCCN_ABSENT), told("ip", EMPTY_CARD)),
    "network.hccn_health": ("npu", told("net_health", fields(net_health_status="Socket failed")), WARN, both(told("net_health", None), HCCN_ABSENT), told("net_health", EMPTY_CARD)),
    "network.hccn_conf": ("npu", answer("read /etc/hccn.conf", "address_0=10.9.9.9"), WARN, answer("read /etc/hccn.conf", outcome=Outcome.ABSENT), answer("read /etc/hccn.conf", "\x00\x01")),
    "network.own_name": ("npu", top(network=Network(("127.0.1.1",), {})), WARN, top(network=None), top(network=Network((), {}))),
    "network.interfaces": ("npu", top(network=Network((), {"eth0": Interface((), 1500, False)})), WARN, top(network=None), top(network=Network((), {"eth0": Interface()}))),
    "network.named_interfaces": ("npu", env(NCCL_SOCKET_IFNAME="ib7"), FAIL, env(NCCL_SOCKET_IFNAME=None), top(network=None)),
    "host.memory": ("npu", host(memory_available_bytes=GIB), WARN, NO_HOST, host(memory_available_bytes=None)),
    "host.swap": ("npu", host(swap_used_bytes=7 * GIB), WARN, host(swap_total_bytes=0), host(swap_used_bytes=None)),
    "host.disk": ("npu", room(".", GIB // 2), FAIL, top(disks=None), top(disks={".": Disk()})),
    "host.shm": ("npu", room("/dev/shm", 64 << 20), FAIL, top(disks=None), room("/dev/shm", None)),
    "host.open_files": ("npu", top(limits=Limits(1024, 4096)), WARN, top(limits=None), top(limits=Limits())),
    "host.memlock": ("npu", top(limits=Limits(1024, 4096, 65536, 65536)), WARN, top(vendors=()), top(limits=Limits())),
    "host.kernel": ("npu", host(kernel="3.10.0-957"), WARN, host(kernel=None), host(kernel="weird")),
    "host.architecture": ("iluvatar", host(architecture="aarch64"), FAIL, NO_HOST, host(architecture=None)),
    "host.cores": ("npu", host(cpu_count=4), WARN, NO_HOST, host(cpu_count=None)),
    "host.hugepages": ("npu", host(hugepages_total=200000, hugepages_free=200000), WARN, NO_HOST, host(memory_total_bytes=None)),
    "host.clock": ("npu", top(clock_synchronised=False), WARN, top(clock_synchronised=None), both(answer("ask clock", "{}"), top(clock_synchronised=None))),
    "host.stale_variables": ("npu", env(PADDLE_TRAINER_ID="3"), WARN, NO_ENV, NO_ENV),
    "engine.reachable": ("npu", top(engine=Engine(error="Cannot connect")), WARN, top(answers={}), both(answer(DOCKER, outcome=Outcome.HUNG), top(engine=Engine(error="no answer")))),
    "engine.version": ("npu", top(engine=Engine("19.3.1")), FAIL, top(engine=None), top(engine=Engine("dev"))),
    "engine.runtime": ("npu", top(engine=Engine("26.1.3", ("runc",))), WARN, top(engine=None), top(engine=Engine("26.1.3"))),
    "engine.disk": ("npu", room("/var/lib/docker", 9 * GIB), WARN, top(engine=None), top(disks=None)),
    "python.version": ("npu", top(packages=Packages("3.7.1")), WARN, NO_PACKS, top(packages=Packages("three"))),
    "python.paddle": ("npu", packs(paddlepaddle_gpu="3.1.0"), FAIL, packs(paddlepaddle=None), packs(paddlepaddle="git")),
    "python.plugin": ("npu", packs(paddlepaddle="3.3.0"), FAIL, packs(paddlepaddle=None, paddle_custom_npu=None), packs(paddlepaddle="git")),
    "python.device_build": ("nvidia", packs(paddlepaddle="3.1.0", paddlepaddle_gpu=None), WARN, packs(paddlepaddle_gpu=None), NO_PACKS),
    "python.numpy": ("npu", packs(numpy="2.4.1", torch_npu=None), FAIL, packs(numpy=None), packs(numpy="git")),
    "python.torch_npu": ("npu", packs(torch="2.3.1"), FAIL, packs(torch_npu=None), packs(torch="git")),
    "python.triton": ("npu", packs(use_triton_in_paddle=None), WARN, packs(triton=None), NO_PACKS),
    "job.device": ("npu", job(device="nvidia"), FAIL, both(job(), NO_TOOL), both(job(), JUNK)),
    "job.cards": ("npu", job(cards=16), FAIL, job(cards=None), both(job(), JUNK)),
    "job.memory": ("npu", job(memory_gib=80), FAIL, job(memory_gib=None), both(job(), dev(memory_total_mib=None))),
    "job.architecture": ("npu", job(architectures=("aarch64",)), FAIL, job(architectures=()), both(job(), NO_HOST)),
    "job.driver": ("npu", job(driver_minimum="25.2.0"), FAIL, job(driver_minimum=None), both(job(), document(driver_version="?"))),
    "job.firmware": ("npu", job(firmware_minimum="8.0.0"), FAIL, job(firmware_minimum=None), job(firmware_minimum="?")),
    "job.toolkit": ("npu", job(toolkit_minimum="9.0.0"), FAIL, job(toolkit_minimum=None), job(toolkit_minimum="?")),
    "job.host_memory": ("npu", job(host_memory_gib=600), FAIL, job(host_memory_gib=None), both(job(), NO_HOST)),
    "job.shm": ("npu", both(job(), room("/dev/shm", GIB)), FAIL, job(shm_gib=None), both(job(), room("/dev/shm", None))),
    "job.disk": ("npu", job(disk_gib=4000), FAIL, job(disk_gib=None), both(job(), top(disks=None))),
    "job.packages": ("npu", both(job(), packs(paddlepaddle="3.0.0")), FAIL, job(packages=()), job(packages=(("numpy", "=>1"),))),
}  # fmt: skip
BY_NAME = {check.name: check for check in checks.CHECKS}


def judged(name: str, facts: Facts) -> Finding:
    found = list(checks.run(BY_NAME[name], facts))
    assert len(found) == 1
    return found[0]


def case(name: str) -> tuple[Facts, Case]:
    facts = healthy(CASES[name][0])
    return (job()(facts) if name.startswith("job.") else facts), CASES[name]


def test_every_check_has_its_cases() -> None:
    """A check that is added without its four cases is missed here."""
    assert set(CASES) == set(BY_NAME)


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    """A machine that is as it should be gets OK, and is told what was seen."""
    facts, _ = case(name)
    found = judged(name, facts)

    assert (found.severity, bool(found.seen)) == (OK, True), found.seen


@pytest.mark.parametrize("name", CASES)
def test_wrong(name: str) -> None:
    """What is wrong is as bad as it is, says what was seen, what to do, and by which source."""
    facts, (_, wrong, severity, _, _) = case(name)
    found = judged(name, wrong(facts))

    assert found.severity is severity, found.seen
    assert found.seen and found.source and found.remedy and found.remedy.words


@pytest.mark.parametrize("name", CASES)
def test_absent(name: str) -> None:
    """What is not there is skipped or cannot be told: it never looks right, and never wrong."""
    facts, (_, _, _, absent, _) = case(name)
    found = judged(name, absent(facts))

    assert found.severity in (SKIP, UNKNOWN), found.seen
    assert "crashed" not in found.seen


@pytest.mark.parametrize("name", CASES)
def test_unreadable(name: str) -> None:
    """What cannot be read is UNKNOWN; it is skipped where another check tells the cause."""
    facts, (_, _, _, _, unreadable) = case(name)
    found = judged(name, unreadable(facts))

    assert found.severity is UNKNOWN or "follows from" in found.seen, found.seen
    assert "crashed" not in found.seen


def test_crash_is_a_finding() -> None:
    """A check that crashes is UNKNOWN with its error, and the others go on."""
    broken = replace(healthy("npu"), host=Host(memory_available_bytes="much"))  # type: ignore[arg-type]
    found = {f.name: f for f in checks.run_all(broken)}

    assert found["host.memory"].severity is UNKNOWN
    assert "TypeError" in found["host.memory"].seen
    assert found["devices.health"].severity is OK


def test_healthy_machines_have_no_complaint() -> None:
    """The builder's machines are green as a whole, so that a case shows one thing alone."""
    wrong = {
        v: [f.name for f in checks.run_all(healthy(v)) if f.severity >= UNKNOWN] for v in ("npu", "iluvatar", "nvidia")
    }

    assert wrong == {"npu": [], "iluvatar": [], "nvidia": []}


def test_two_vendors_are_each_judged() -> None:
    """NVIDIA and Iluvatar cards in one machine: each gets its findings, with its name on them."""
    mixed = replace(healthy("nvidia"), vendors=(*healthy("nvidia").vendors, *healthy("iluvatar").vendors))
    found = [(f.device, f.severity) for f in checks.run_all(mixed, only=["devices.present"])]

    assert found == [("nvidia", OK), ("iluvatar", OK)]


def test_only_and_skip() -> None:
    """Checks and areas can be asked for, and left out."""
    names = [f.name for f in checks.run_all(healthy("npu"), only=["links", "host.shm"], skip=["links.numa"])]

    assert names == ["links.topology", "links.uniform", "host.shm"]


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """A misspelt check is answered with those that are near."""
    with pytest.raises(UsageError) as refused:
        checks.run_all(healthy("npu"), only=["device.health"])

    assert "devices.health" in refused.value.next_step


def test_page_of_checks_is_current(request: pytest.FixtureRequest) -> None:
    """docs/checks.md is what the table says: python -m envcheck.checks > docs/checks.md"""
    kept = (request.config.rootpath / "docs" / "checks.md").read_text(encoding="utf-8")

    assert kept == page()
