# ruff: noqa: E501  the table of cases is read across, one line a check
"""Every check in four cases: right, wrong, absent, unreadable.  Facts are built, not parsed: checks read facts alone."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from envcheck import checks
from envcheck.core.errors import UsageError
from envcheck.core.facts import Disk, EngineFacts, Facts, Interface, JobFit, Limits, Network, Packages, SystemFacts
from envcheck.core.model import Document, Finding, Outcome, Process, ToolError
from envcheck.settings.thresholds import THRESHOLDS
from tests.envcheck.checks import check_cases_kunlunxin, check_cases_machine, check_cases_network, check_cases_packages
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
    SCRIPT,
    TREES,
    UNEVEN,
    UNKNOWN,
    VERSION_FILE,
    WARN,
    Case,
    Change,
    apply_changes,
    change_answer,
    change_collector,
    change_device_documents,
    change_devices,
    change_disk,
    change_document,
    change_environment,
    change_facts,
    change_first_device,
    change_host,
    change_packages,
    change_vendor,
    change_vendor_document,
    make_answer,
    make_fields,
    make_healthy_facts,
    make_job_change,
    make_topology,
)

# check -> (vendor, wrong and how bad, absent, unreadable); right is `make_healthy_facts`, with a job for job.*.
# Absent must be NOT_APPLICABLE, BLOCKED or UNKNOWN; unreadable UNKNOWN, or BLOCKED if another check reports the cause.
CASES: dict[str, Case] = {
    "driver.tool": ("npu", change_document(error=ToolError("device-busy", -8020, "ret is -8020")), FAIL, change_vendor(tool=None), JUNK),
    "driver.whole_answer": ("npu", change_document(truncated=True), UNKNOWN, NO_TOOL, JUNK),
    "driver.version": ("npu", change_document(driver_version="22.0.4"), FAIL, apply_changes(NO_TOOL, change_vendor_document(VERSION_FILE, None)), change_document(driver_version="x.x.x")),
    "driver.agrees": ("npu", change_document(tool_version="23.0.0"), WARN, DEAD, apply_changes(change_document(tool_version="?"), change_vendor_document(VERSION_FILE, None))),
    "driver.firmware": ("npu", change_vendor_document(FIRMWARE_FILE, Document("", "", detail={"firmware_version": "9.9.0"})), FAIL, apply_changes(change_vendor_document(FIRMWARE_FILE, None), change_device_documents("board", None)), apply_changes(change_vendor_document(FIRMWARE_FILE, EMPTY_CARD), change_device_documents("board", None))),
    "driver.compatible": ("npu", change_device_documents("board", make_fields(Compatibility="Mismatch")), FAIL, change_device_documents("board", None), change_device_documents("board", make_fields(Model="?"))),
    "driver.install_record": ("npu", change_vendor_document(INSTALL_FILE, Document("", "", detail={"fields": {"Driver_Install_Status": "failed"}})), FAIL, apply_changes(change_host(in_container=True), change_answer(INSTALL_FILE, outcome=Outcome.ABSENT)), change_vendor_document(INSTALL_FILE, EMPTY_CARD)),
    "devices.present": ("npu", NONE, FAIL, apply_changes(NO_TOOL, change_vendor(pci=None)), JUNK),
    "devices.count": ("npu", change_vendor(pci=tuple(f"{n:02x}:00.0" for n in range(5)), nodes=()), FAIL, change_vendor(pci=None, nodes=None), change_document(truncated=True)),
    "devices.health": ("npu", change_first_device(health="Alarm"), FAIL, change_devices(health=None), change_first_device(health="???")),
    "devices.ecc": ("npu", change_device_documents("ecc", make_fields(HBM_Double_Bit_Error_Count=2)), FAIL, change_device_documents("ecc", None), change_device_documents("ecc", NOTHING)),
    "devices.memory": ("npu", change_first_device(memory_used_mib=30000), WARN, NO_TOOL, change_devices(memory_used_mib=None)),
    "devices.processes": ("npu", change_vendor(processes=(Process(0, 0, 4242, "python3", 900),)), WARN, NO_TOOL, change_vendor(processes=None)),
    "devices.utilization": ("npu", change_first_device(utilization_percent=90), WARN, NO_TOOL, change_devices(utilization_percent=None)),
    "devices.temperature": ("npu", change_first_device(temperature_c=85), WARN, NO_TOOL, change_devices(temperature_c=None)),
    "devices.uniform": ("npu", change_first_device(memory_total_mib=32768), WARN, NO_TOOL, change_first_device(memory_total_mib=None)),
    "devices.chips": ("iluvatar", lambda f: change_vendor(devices=f.vendors[0].devices[:3], pci=None)(f), FAIL, change_devices(name="Iluvatar MR-V100"), change_devices(name=None)),
    "devices.mig": ("nvidia", change_first_device(mig_mode="Enabled"), WARN, change_devices(mig_mode=None), change_devices(mig_mode=None, name=None)),
    "devices.numbering": ("npu", change_first_device(npu=16), WARN, change_vendor(nodes=()), change_devices(npu=None)),
    "devices.visible": ("npu", change_environment(ASCEND_RT_VISIBLE_DEVICES="0, 1"), FAIL, change_environment(ASCEND_RT_VISIBLE_DEVICES=None), NO_ENV),
    "links.topology": ("npu", change_vendor(topology=make_topology(lambda a, b: None)), FAIL, NO_TOOL, change_vendor(topology=None)),
    "links.uniform": ("npu", change_vendor(topology=ODD), WARN, NO_TOOL, change_vendor(topology=None)),
    "links.numa": ("npu", change_vendor(topology=UNEVEN), WARN, change_vendor(topology=replace(UNEVEN, cpu_affinity={})), change_vendor(topology=None)),
    "toolkit.present": ("npu", change_answer(TREES, outcome=Outcome.EMPTY), WARN, change_facts(answers={}), change_answer(TREES, outcome=Outcome.FAILED)),
    "toolkit.single": ("npu", change_environment(LD_LIBRARY_PATH=f"{CANN}/lib64:/usr/local/Ascend/ascend-toolkit/8.2.RC1/lib64"), FAIL, apply_changes(change_answer(TREES, outcome=Outcome.EMPTY), change_environment(LD_LIBRARY_PATH=None)), NO_ENV),
    "toolkit.version": ("npu", change_vendor_document(CONFIG, Document("", "", detail={"cann_version": "5.1.0"})), WARN, apply_changes(change_vendor_document(CONFIG, None), change_answer(TREES, outcome=Outcome.EMPTY)), change_vendor_document(CONFIG, Document("", "", detail={"cann_version": "?"}))),
    "toolkit.driver": ("npu", change_document(driver_version="22.0.4"), FAIL, apply_changes(change_vendor_document(CONFIG, None), change_answer(TREES, outcome=Outcome.EMPTY)), change_document(driver_version="?")),
    "toolkit.environment": ("npu", change_environment(ASCEND_HOME_PATH=None), WARN, change_answer(TREES, outcome=Outcome.EMPTY), NO_ENV),
    "toolkit.atb": ("npu", change_answer(ATB, outcome=Outcome.EMPTY), WARN, change_answer(TREES, outcome=Outcome.EMPTY), change_answer(ATB, outcome=Outcome.FAILED)),
    "toolkit.preload": ("iluvatar", change_environment(LD_PRELOAD="/usr/local/corex-3.1/lib64/libcuda.so.1"), FAIL, change_environment(LD_PRELOAD=None), NO_ENV),
    "network.hccn_link": ("npu", change_device_documents("link", make_fields(link_status="DOWN")), FAIL, apply_changes(change_device_documents("link", None), HCCN_ABSENT), change_device_documents("link", EMPTY_CARD)),
    "network.hccn_address": ("npu", change_device_documents("ip", Document("", "error", error=ToolError("network-not-configured"))), WARN, apply_changes(change_device_documents("ip", None), HCCN_ABSENT), change_device_documents("ip", EMPTY_CARD)),
    "network.hccn_health": ("npu", change_device_documents("net_health", make_fields(net_health_status="Socket failed")), WARN, apply_changes(change_device_documents("net_health", None), HCCN_ABSENT), change_device_documents("net_health", EMPTY_CARD)),
    "network.hccn_conf": ("npu", change_answer("read /etc/hccn.conf", "address_0=10.9.9.9"), WARN, change_answer("read /etc/hccn.conf", outcome=Outcome.ABSENT), change_answer("read /etc/hccn.conf", "\x00\x01")),
    "network.own_name": ("npu", change_facts(network=Network(("127.0.1.1",), {})), WARN, change_facts(network=None), change_facts(network=Network((), {}))),
    "network.interfaces": ("npu", change_facts(network=Network((), {"eth0": Interface((), 1500, False)})), WARN, change_facts(network=None), change_facts(network=Network((), {"eth0": Interface()}))),
    "network.named_interfaces": ("npu", change_environment(NCCL_SOCKET_IFNAME="ib7"), FAIL, change_environment(NCCL_SOCKET_IFNAME=None), change_facts(network=None)),
    "host.memory": ("npu", change_host(memory_available_bytes=GIB), WARN, NO_HOST, change_host(memory_available_bytes=None)),
    "host.swap": ("npu", change_host(swap_used_bytes=7 * GIB), WARN, change_host(swap_total_bytes=0), change_host(swap_used_bytes=None)),
    "host.disk": ("npu", change_disk(".", GIB // 2), FAIL, change_facts(disks=None), change_facts(disks={".": Disk()})),
    "host.shm": ("npu", change_disk("/dev/shm", 64 << 20), FAIL, change_facts(disks=None), change_disk("/dev/shm", None)),
    "host.open_files": ("npu", change_facts(limits=Limits(1024, 4096)), WARN, change_facts(limits=None), change_facts(limits=Limits())),
    "host.memlock": ("npu", change_facts(limits=Limits(1024, 4096, 65536, 65536)), WARN, change_facts(vendors=()), change_facts(limits=Limits())),
    "host.kernel": ("npu", change_host(kernel="3.10.0-957"), WARN, change_host(kernel=None), change_host(kernel="weird")),
    "host.architecture": ("iluvatar", change_host(architecture="aarch64"), FAIL, NO_HOST, change_host(architecture=None)),
    "host.cores": ("npu", change_host(cpu_count=4), WARN, NO_HOST, change_host(cpu_count=None)),
    "host.hugepages": ("npu", change_host(hugepages_total=200000, hugepages_free=200000), WARN, NO_HOST, change_host(memory_total_bytes=None)),
    "host.clock": ("npu", change_facts(clock_synchronised=False), WARN, change_facts(clock_synchronised=None), apply_changes(change_answer("ask clock", "{}"), change_facts(clock_synchronised=None))),
    "host.stale_variables": ("npu", change_environment(PADDLE_TRAINER_ID="3"), WARN, NO_ENV, NO_ENV),
    "engine.reachable": ("npu", change_facts(engine=EngineFacts(error="Cannot connect")), WARN, change_facts(answers={}), apply_changes(change_answer(DOCKER, outcome=Outcome.HUNG), change_facts(engine=EngineFacts(error="no answer")))),
    "engine.version": ("npu", change_facts(engine=EngineFacts("19.3.1")), FAIL, change_facts(engine=None), change_facts(engine=EngineFacts("dev"))),
    "engine.runtime": ("npu", change_facts(engine=EngineFacts("26.1.3", ("runc",))), WARN, change_facts(engine=None), change_facts(engine=EngineFacts("26.1.3"))),
    "engine.default_runtime": ("npu", change_facts(engine=EngineFacts("26.1.3", ("nvidia",), "nvidia")), WARN, change_facts(engine=None), change_facts(engine=EngineFacts("26.1.3"))),
    "engine.disk": ("npu", change_disk("/var/lib/docker", 9 * GIB), WARN, change_facts(engine=None), change_facts(disks=None)),
    "python.version": ("npu", change_facts(packages=Packages("3.7.1")), WARN, NO_PACKS, change_facts(packages=Packages("three"))),
    "python.paddle": ("npu", change_packages(paddlepaddle_gpu="3.1.0"), FAIL, change_packages(paddlepaddle=None), change_packages(paddlepaddle="git")),
    "python.plugin": ("npu", change_packages(paddlepaddle="3.3.0"), FAIL, change_packages(paddlepaddle=None, paddle_custom_npu=None), change_packages(paddlepaddle="git")),
    "python.device_build": ("nvidia", change_packages(paddlepaddle="3.1.0", paddlepaddle_gpu=None), WARN, change_packages(paddlepaddle_gpu=None), NO_PACKS),
    "python.numpy": ("npu", change_packages(numpy="2.4.1", torch_npu=None), FAIL, change_packages(numpy=None), change_packages(numpy="git")),
    "python.torch_npu": ("npu", change_packages(torch="2.3.1"), FAIL, change_packages(torch_npu=None), change_packages(torch="git")),
    "python.triton": ("npu", change_packages(use_triton_in_paddle=None), WARN, change_packages(triton=None), NO_PACKS),
    "job.device": ("npu", make_job_change(device="nvidia"), FAIL, apply_changes(make_job_change(), NO_TOOL), apply_changes(make_job_change(), JUNK)),
    "job.cards": ("npu", make_job_change(cards=16), FAIL, make_job_change(cards=None), apply_changes(make_job_change(), JUNK)),
    "job.memory": ("npu", make_job_change(memory_gib=80), FAIL, make_job_change(memory_gib=None), apply_changes(make_job_change(), change_devices(memory_total_mib=None))),
    "job.architecture": ("npu", make_job_change(architectures=("aarch64",)), FAIL, make_job_change(architectures=()), apply_changes(make_job_change(), NO_HOST)),
    "job.driver": ("npu", make_job_change(driver_minimum="25.2.0"), FAIL, make_job_change(driver_minimum=None), apply_changes(make_job_change(), change_document(driver_version="?"))),
    "job.firmware": ("npu", make_job_change(firmware_minimum="8.0.0"), FAIL, make_job_change(firmware_minimum=None), make_job_change(firmware_minimum="?")),
    "job.toolkit": ("npu", make_job_change(toolkit_minimum="9.0.0"), FAIL, make_job_change(toolkit_minimum=None), make_job_change(toolkit_minimum="?")),
    "job.host_memory": ("npu", make_job_change(host_memory_gib=600), FAIL, make_job_change(host_memory_gib=None), apply_changes(make_job_change(), NO_HOST)),
    "job.shm": ("npu", apply_changes(make_job_change(), change_disk("/dev/shm", GIB)), FAIL, make_job_change(shm_gib=None, device="cpu"), apply_changes(make_job_change(), change_disk("/dev/shm", None))),
    "job.disk": ("npu", make_job_change(disk_gib=4000), FAIL, make_job_change(disk_gib=None), apply_changes(make_job_change(), change_facts(disks=None))),
    "job.packages": ("npu", apply_changes(make_job_change(), change_packages(paddlepaddle="3.0.0")), FAIL, make_job_change(packages=()), make_job_change(packages=(("numpy", "=>1"),))),
}  # fmt: skip
CASES |= (
    check_cases_kunlunxin.CASES | check_cases_machine.CASES | check_cases_packages.CASES | check_cases_network.CASES
)
BY_NAME = {check.name: check for check in checks.CHECKS}


def run_check(name: str, facts: Facts) -> Finding:
    found = list(checks.run_check(BY_NAME[name], facts))
    assert len(found) == 1
    return found[0]


def make_case(name: str) -> tuple[Facts, Case]:
    facts = make_healthy_facts(CASES[name][0])
    right = check_cases_network.RIGHT | check_cases_kunlunxin.RIGHT
    facts = right[name](facts) if name in right else facts
    tag = "cann80RC1-ubuntu20-x86_64-gcc84-py310" if name == "job.image_versions" else "3.1-910b"
    image = {"image": f"registry.baidubce.com/device/paddle-npu:{tag}"}
    own = image if name.startswith("job.image") else {"script": SCRIPT}
    return (
        make_job_change(**own, degrees=JobFit(True, "tensor 4"))(facts) if name.startswith("job.") else facts
    ), CASES[name]


def test_every_check_has_its_cases() -> None:
    """A check that is added without its four cases is missed here."""
    assert set(CASES) == set(BY_NAME)


@pytest.mark.parametrize("name", CASES)
def test_right(name: str) -> None:
    """A correct machine is OK, and the result is shown."""
    facts, _ = make_case(name)
    found = run_check(name, facts)

    assert (found.status, bool(found.seen)) == (OK, True), found.seen


@pytest.mark.parametrize("name", CASES)
def test_wrong(name: str) -> None:
    """A fault has its severity, result, remedy and source."""
    facts, (_, wrong, status, _, _) = make_case(name)
    found = run_check(name, wrong(facts))

    assert found.status is status, found.seen
    assert found.seen and found.source and found.remedy and found.remedy.words


@pytest.mark.parametrize("name", CASES)
def test_absent(name: str) -> None:
    """What is not there does not apply, is blocked or unknown: it never looks right, and never wrong."""
    facts, (_, _, _, absent, _) = make_case(name)
    found = run_check(name, absent(facts))

    assert found.status in (NOT_APPLICABLE, BLOCKED, UNKNOWN), found.seen
    assert "crashed" not in found.seen


@pytest.mark.parametrize("name", CASES)
def test_unreadable(name: str) -> None:
    """What cannot be read is UNKNOWN, or BLOCKED by the check that names the cause."""
    facts, (_, _, _, _, unreadable) = make_case(name)
    found = run_check(name, unreadable(facts))

    assert found.status is UNKNOWN or (found.status is BLOCKED and found.blocked_by), found.seen
    assert "crashed" not in found.seen


def test_a_tool_that_says_nothing_has_no_layout() -> None:
    """Empty output is reported as empty, not as an unknown format."""
    facts = change_vendor(
        document=Document("npu-smi", "unknown"), devices=(), tool=make_answer("run npu-smi info", "")
    )(make_healthy_facts("npu"))

    assert run_check("driver.tool", facts).seen == "npu-smi exited with status 0 and printed nothing"


@pytest.mark.parametrize("at_work", [change_devices(utilization_percent=97), change_devices(memory_used_mib=60000)])
def test_a_hot_card_that_is_at_work_is_not_called_idle(at_work: Change) -> None:
    """What is advised fits its load."""
    hot = change_first_device(temperature_c=95)(make_healthy_facts("npu"))
    told = [run_check("devices.temperature", facts).remedy for facts in (hot, at_work(hot))]

    assert [bool(remedy and "hot while idle" in remedy.words) for remedy in told] == [True, False]


def test_figures_of_one() -> None:
    """One error is no errors, and one tool agrees."""
    one = change_first_device(ecc_uncorrected=1)(make_healthy_facts("nvidia"))
    agreed = run_check("driver.agrees", change_vendor_document(VERSION_FILE, None)(make_healthy_facts("npu")))

    assert run_check("devices.ecc", one).seen == "device 0: 1 uncorrectable memory error"
    assert agreed.seen.startswith("the vendor tool reports driver")


def test_crash_is_a_finding() -> None:
    """A check that crashes is UNKNOWN with its error, and the others go on."""
    broken = replace(make_healthy_facts("npu"), host=SystemFacts(memory_available_bytes="much"))  # type: ignore[arg-type]
    found = {f.name: f for f in checks.run_checks(broken)}

    assert found["host.memory"].status is UNKNOWN
    assert "TypeError" in found["host.memory"].seen
    assert found["devices.health"].status is OK


def test_healthy_machines_have_no_complaint() -> None:
    """The builder's machines are green as a whole, so that a case shows one thing alone."""
    wrong = {
        v: [f.name for f in checks.run_checks(make_healthy_facts(v)) if f.status >= UNKNOWN]
        for v in ("npu", "iluvatar", "nvidia")
    }

    assert wrong == {"npu": [], "iluvatar": [], "nvidia": []}


def test_two_vendors_are_each_judged() -> None:
    """NVIDIA and Iluvatar cards in one machine: each gets its findings, with its name on them."""
    mixed = replace(
        make_healthy_facts("nvidia"),
        vendors=(*make_healthy_facts("nvidia").vendors, *make_healthy_facts("iluvatar").vendors),
    )
    found = [(f.device, f.status) for f in checks.run_checks(mixed, only=["devices.present"])]

    assert found == [("nvidia", OK), ("iluvatar", OK)]


def test_only_and_skip() -> None:
    """Checks and areas can be asked for, and left out."""
    names = [
        f.name for f in checks.run_checks(make_healthy_facts("npu"), only=["links", "host.shm"], skip=["links.numa"])
    ]

    assert names == ["links.topology", "links.uniform", "host.shm"]


@pytest.mark.parametrize(("uid", "written"), [(1234, True), (0, False)])
def test_no_second_root(uid: int, written: bool) -> None:
    """A user without a passwd entry gets the line to add; root does not: it would be a second account with uid 0."""
    unnamed = change_collector("caller", uid=uid, user=None)
    (found,) = checks.run_checks(unnamed(make_healthy_facts("npu")), only=["host.user"])
    commands = " ".join(found.remedy.commands if found.remedy else ())

    assert found.status is WARN and f"uid {uid} has no entry" in found.seen
    assert ("tee -a /etc/passwd" in commands, f"trainer:x:{uid}:{uid}:" in commands) == (written, written)


def test_unknown_name_is_refused_with_the_nearest() -> None:
    """A misspelt check is answered with those that are near."""
    with pytest.raises(UsageError) as refused:
        checks.run_checks(make_healthy_facts("npu"), only=["device.health"])

    assert "devices.health" in refused.value.next_step


def test_every_check_says_when_and_what_to_do() -> None:
    """Each has a rule that names its severities and thresholds that there are, and a general remedy."""
    said = {check.name: check for check in checks.CHECKS}
    named = [t for c in checks.CHECKS for t in re.findall(r"\w+\.\w+\.\w+_(?:gib|percent|c|count)\b", c.rule)]

    assert [n for n, c in said.items() if not re.search(r"\b(WARN|FAIL|UNKNOWN)\b", c.rule)] == []
    assert [n for n, c in said.items() if not c.fix.endswith(".")] == []
    assert len(named) > 5 and set(named) <= set(THRESHOLDS)
    assert len(checks.CHECKS) >= 100
