# ruff: noqa: E501  the table of cases is read across, one line a check
"""Every check in four cases: right, wrong, absent, unreadable.  Facts are built, not parsed: checks read facts alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from envcheck import checks
from envcheck.cli.docs_checks import pages
from envcheck.core.errors import UsageError
from envcheck.core.facts import Disk, Engine, Facts, Fit, Host, Interface, Limits, Network, Packages
from envcheck.core.model import Document, Finding, Outcome, Process, ToolError
from envcheck.settings.thresholds import THRESHOLDS
from tests.envcheck.checks import check_cases_machine, check_cases_network, check_cases_packages
from tests.envcheck.checks.check_parts import (
    ATB,
    BLOCKED,
    CANN,
    CONFIG,
    DEAD,
    DOCKER,
    EMPTY_CARD,
    FAIL,
    FIRMWARE_FILE,
    GIB,
    HCCN_ABSENT,
    INSTALL_FILE,
    JUNK,
    NO_ENV,
    NO_HOST,
    NO_PACKS,
    NO_TOOL,
    NONE,
    NOT_APPLICABLE,
    NOTHING,
    ODD,
    OK,
    TREES,
    UNEVEN,
    UNKNOWN,
    VERSION_FILE,
    WARN,
    Case,
    Change,
    answer,
    asks,
    both,
    card,
    dev,
    dev0,
    document,
    env,
    fields,
    file,
    healthy,
    host,
    job,
    packs,
    room,
    said,
    square,
    told,
    top,
)

# check -> (vendor, wrong and how bad, absent, unreadable); right is `healthy`, with a job for job.*.
# Absent must be NOT_APPLICABLE, BLOCKED or UNKNOWN, unreadable UNKNOWN, or BLOCKED where another check tells the cause.
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
    "job.shm": ("npu", both(job(), room("/dev/shm", GIB)), FAIL, job(shm_gib=None, device="cpu"), both(job(), room("/dev/shm", None))),
    "job.disk": ("npu", job(disk_gib=4000), FAIL, job(disk_gib=None), both(job(), top(disks=None))),
    "job.packages": ("npu", both(job(), packs(paddlepaddle="3.0.0")), FAIL, job(packages=()), job(packages=(("numpy", "=>1"),))),
}  # fmt: skip
CASES |= check_cases_machine.CASES | check_cases_packages.CASES | check_cases_network.CASES
BY_NAME = {check.name: check for check in checks.CHECKS}


def judged(name: str, facts: Facts) -> Finding:
    found = list(checks.run(BY_NAME[name], facts))
    assert len(found) == 1
    return found[0]


def case(name: str) -> tuple[Facts, Case]:
    facts = healthy(CASES[name][0])
    facts = check_cases_network.RIGHT[name](facts) if name in check_cases_network.RIGHT else facts
    image = {"image": "quay.io/ascend/paddle:3.1-910b"} if name.startswith("job.image") else {}
    return (job(**image, degrees=Fit(True, "tensor 4"))(facts) if name.startswith("job.") else facts), CASES[name]


def test_every_check_has_its_cases() -> None:
    """A check that is added without its four cases is missed here."""
    assert set(CASES) == set(BY_NAME)


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    """A machine that is as it should be gets OK, and is told what was seen."""
    facts, _ = case(name)
    found = judged(name, facts)

    assert (found.status, bool(found.seen)) == (OK, True), found.seen


@pytest.mark.parametrize("name", CASES)
def test_wrong(name: str) -> None:
    """What is wrong is as bad as it is, says what was seen, what to do, and by which source."""
    facts, (_, wrong, status, _, _) = case(name)
    found = judged(name, wrong(facts))

    assert found.status is status, found.seen
    assert found.seen and found.source and found.remedy and found.remedy.words


@pytest.mark.parametrize("name", CASES)
def test_absent(name: str) -> None:
    """What is not there does not apply, is blocked or unknown: it never looks right, and never wrong."""
    facts, (_, _, _, absent, _) = case(name)
    found = judged(name, absent(facts))

    assert found.status in (NOT_APPLICABLE, BLOCKED, UNKNOWN), found.seen
    assert "crashed" not in found.seen


@pytest.mark.parametrize("name", CASES)
def test_unreadable(name: str) -> None:
    """What cannot be read is UNKNOWN, or BLOCKED by the check that names the cause."""
    facts, (_, _, _, _, unreadable) = case(name)
    found = judged(name, unreadable(facts))

    assert found.status is UNKNOWN or (found.status is BLOCKED and found.blocked_by), found.seen
    assert "crashed" not in found.seen


def test_a_tool_that_says_nothing_has_no_layout() -> None:
    """It printed nothing: that is what is said, and not that its layout is new."""
    facts = card(document=Document("npu-smi", "unknown"), devices=(), tool=said("run npu-smi info", ""))(healthy("npu"))

    assert judged("driver.tool", facts).seen == "npu-smi ended with status 0 and printed nothing"


@pytest.mark.parametrize("at_work", [dev(utilization_percent=97), dev(memory_used_mib=60000)])
def test_a_hot_card_that_is_at_work_is_not_called_idle(at_work: Change) -> None:
    """What is advised fits its load."""
    hot = dev0(temperature_c=95)(healthy("npu"))
    told = [judged("devices.temperature", facts).remedy for facts in (hot, at_work(hot))]

    assert [bool(remedy and "hot when idle" in remedy.words) for remedy in told] == [True, False]


def test_figures_of_one() -> None:
    """One error is no errors, and one tool agrees."""
    one = dev0(ecc_uncorrected=1)(healthy("nvidia"))
    agreed = judged("driver.agrees", file(VERSION_FILE, None)(healthy("npu")))

    assert judged("devices.ecc", one).seen == "device 0: 1 uncorrectable memory error"
    assert agreed.seen.startswith("the tool agrees with driver")


def test_crash_is_a_finding() -> None:
    """A check that crashes is UNKNOWN with its error, and the others go on."""
    broken = replace(healthy("npu"), host=Host(memory_available_bytes="much"))  # type: ignore[arg-type]
    found = {f.name: f for f in checks.run_all(broken)}

    assert found["host.memory"].status is UNKNOWN
    assert "TypeError" in found["host.memory"].seen
    assert found["devices.health"].status is OK


def test_healthy_machines_have_no_complaint() -> None:
    """The builder's machines are green as a whole, so that a case shows one thing alone."""
    wrong = {
        v: [f.name for f in checks.run_all(healthy(v)) if f.status >= UNKNOWN] for v in ("npu", "iluvatar", "nvidia")
    }

    assert wrong == {"npu": [], "iluvatar": [], "nvidia": []}


def test_two_vendors_are_each_judged() -> None:
    """NVIDIA and Iluvatar cards in one machine: each gets its findings, with its name on them."""
    mixed = replace(healthy("nvidia"), vendors=(*healthy("nvidia").vendors, *healthy("iluvatar").vendors))
    found = [(f.device, f.status) for f in checks.run_all(mixed, only=["devices.present"])]

    assert found == [("nvidia", OK), ("iluvatar", OK)]


def test_only_and_skip() -> None:
    """Checks and areas can be asked for, and left out."""
    names = [f.name for f in checks.run_all(healthy("npu"), only=["links", "host.shm"], skip=["links.numa"])]

    assert names == ["links.topology", "links.uniform", "host.shm"]


@pytest.mark.parametrize(("uid", "written"), [(1234, True), (0, False)])
def test_no_second_root(uid: int, written: bool) -> None:
    """A user without a line in passwd is told the line to add; root is not: it would be a second account with its id."""
    unnamed = asks("caller", uid=uid, user=None)
    (found,) = checks.run_all(unnamed(healthy("npu")), only=["host.user"])
    commands = " ".join(found.remedy.commands if found.remedy else ())

    assert found.status is WARN and f"uid {uid} has no entry" in found.seen
    assert ("tee -a /etc/passwd" in commands, f"trainer:x:{uid}:{uid}:" in commands) == (written, written)


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """A misspelt check is answered with those that are near."""
    with pytest.raises(UsageError) as refused:
        checks.run_all(healthy("npu"), only=["device.health"])

    assert "devices.health" in refused.value.next_step


def test_every_check_says_when_and_what_to_do() -> None:
    """Each has a rule that names its severities and thresholds that there are, and a general remedy."""
    said = {check.name: check for check in checks.CHECKS}
    named = [t for c in checks.CHECKS for t in re.findall(r"\w+\.\w+\.\w+_(?:gib|percent|c|count)\b", c.rule)]

    assert [n for n, c in said.items() if not re.search(r"\b(WARN|FAIL|UNKNOWN)\b", c.rule)] == []
    assert [n for n, c in said.items() if not c.fix.endswith(".")] == []
    assert len(named) > 5 and set(named) <= set(THRESHOLDS)
    assert len(checks.CHECKS) >= 100


def test_pages_of_checks_are_current(request: pytest.FixtureRequest) -> None:
    """docs/checks is what the table says, a page an area: python -m envcheck.cli.docs_checks docs/checks"""
    folder = request.config.rootpath / "docs" / "checks"

    assert {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()} == pages()
