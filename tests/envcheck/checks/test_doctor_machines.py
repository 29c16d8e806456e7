"""Machines × faults: each fault is caught by the right finding, and a machine without one is green."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck import checks, report
from envcheck.collect import facts
from envcheck.core import versions
from envcheck.core.facts import Facts, MachineRequirements
from envcheck.core.model import Finding, Status
from envcheck.job.next_command import suggest_command
from envcheck.job.request import JobRequest
from envcheck.report import plain_text as text_report
from envcheck.simulate import faults
from envcheck.simulate import machine_file as described
from envcheck.vendors import VENDORS
from installers.recipes.catalogue import load_all
from installers.recipes.recipe import derive_requirements
from tests.envcheck.checks.doctor_helpers import MACHINES, simulate_machine
from tests.envcheck.report.report_helpers import make_machine_report

RECIPES = {recipe.name: recipe for recipe in load_all()}
GOLDEN = Path(__file__).parents[2] / "data" / "golden"
UNKNOWN, WARN, FAIL = Status.UNKNOWN, Status.WARN, Status.FAIL

# fault -> the finding that catches it, and how bad that is.
CAUGHT = {
    "card-lost": ("devices.count", FAIL),
    "health-warning": ("devices.health", WARN),
    "health-alarm": ("devices.health", FAIL),
    "memory-held": ("devices.processes", WARN),
    "hot": ("devices.temperature", FAIL),
    "ecc": ("devices.ecc", FAIL),
    "link-down": ("network.hccn_link", FAIL),
    "topology-degraded": ("links.uniform", WARN),
    "driver-old": ("driver.version", FAIL),
    "library-mismatch": ("driver.agrees", WARN),
    "dcmi-8005": ("driver.tool", FAIL),
    "dcmi-8020": ("driver.tool", FAIL),
    "truncated": ("driver.whole_answer", UNKNOWN),
    "tool-hang": ("driver.tool", FAIL),
    "tool-missing": ("driver.tool", FAIL),
    "docker-absent": ("engine.reachable", WARN),
    "shm-small": ("host.shm", FAIL),
    "module-gone": ("driver.module", FAIL),
    "ghost": ("devices.ghosts", WARN),
    "node-closed": ("devices.access", WARN),
    "kernel-next": ("driver.next_kernel", WARN),
    "library-lost": ("driver.library", WARN),
    "node-held": ("devices.open_nodes", WARN),
    "card-shared": ("devices.shared", WARN),
    "container-shm": ("engine.shm", WARN),
    "engine-config": ("engine.settings", WARN),
    "user-unnamed": ("host.user", WARN),
    "runc-open": ("engine.runc", WARN),
    "dcmi-writable": ("driver.dcmi_owner", WARN),
    "mount-folder": ("driver.mounts", WARN),
    "path-dead": ("toolkit.paths", WARN),
    "opp-other": ("toolkit.operators", WARN),
    "kernels-missing": ("toolkit.kernels", WARN),
    "nnal-other": ("toolkit.nnal", WARN),
    "cpu-manager": ("engine.cpu_manager", WARN),
    "corex-other": ("toolkit.corex", WARN),
    "library-twice": ("toolkit.copies", WARN),
    "standard-old": ("python.libstdcxx", WARN),
    "ports-open": ("network.port_range", WARN),
    "tls-uneven": ("network.hccn_tls", WARN),
    "rdma-down": ("network.rdma_state", WARN),
    "rdma-hidden": ("network.rdma", WARN),
    "fabric-down": ("driver.fabric", FAIL),
    "iommu-on": ("host.iommu", WARN),
    "xre-hidden": ("toolkit.xre", WARN),
    "sbl-old": ("driver.sbl", WARN),
}
# Where a vendor or machine shows the fault in its own way.
CAUGHT_HERE = {
    ("nvidia", "library-mismatch"): ("driver.tool", FAIL),  # nvidia-smi refuses to work at all
    ("xpu", "library-mismatch"): ("toolkit.xre", UNKNOWN),  # the tool shows no version of its own
    ("dev-4090x1", "card-lost"): ("devices.present", FAIL),  # its only card
    ("cpu", "docker-absent"): ("engine.reachable", Status.NOT_APPLICABLE),  # a CPU run needs no engine
    ("cpu", "shm-small"): ("host.shm", WARN),
}
AMISS = {"a100x8-mig": {"devices.mig"}}  # what truly is amiss on a machine without fault
# Results of collectors and files are equal on all machines of a vendor: tested on one of them.
ONE_EACH = ("atlas-800t-a2", "bi-v150x8", "h200x8", "p800x8", "cpu")


def is_seen_by_collectors_only(name: str, fault: str) -> bool:
    machine = described.load_machine(name, None)
    return faults.apply_faults(machine, [faults.parse_fault(fault)]) == replace(machine, amiss=frozenset({fault}))


PAIRS = [
    pytest.param(name, fault, marks=() if name in ONE_EACH else pytest.mark.slow)
    for name in MACHINES
    for fault in faults.list_applicable_faults(described.load_machine(name, None))
    if name in ONE_EACH or not is_seen_by_collectors_only(name, fault)
]
GOLDENS = [
    ("atlas-800t-a2", ""),
    ("atlas-800t-a2", "health-alarm"),
    ("atlas-200t-a2-box16", "topology-degraded"),
    ("bi-v150x8", ""),
    ("h200x8", "library-mismatch"),
    ("h200x8", "truncated"),
    ("dev-4090x1", "memory-held"),
    ("cpu", ""),
]


@functools.cache  # two tests look at the same machine with the same fault
def _examine_machine(name: str, *wishes: str) -> tuple[list[Finding], Facts]:
    with simulate_machine(name, wishes) as machine:
        found = facts.gather_facts(machine)
    return checks.run_checks(found), found


def _find_expected(name: str, fault: str) -> tuple[str, Status]:
    vendor = described.load_machine(name, None).vendor
    return CAUGHT_HERE.get((name, fault)) or CAUGHT_HERE.get((vendor, fault)) or CAUGHT[fault]


@pytest.mark.parametrize("name", MACHINES)
def test_machine_without_fault_is_green(name: str) -> None:
    """Nothing is wrong or untold on a machine without fault, except for what truly is amiss, and doctor ends with 0."""
    findings, _ = _examine_machine(name)
    wrong = {f.name for f in findings if f.status >= UNKNOWN}

    assert wrong == AMISS.get(name, set())
    assert report.exit_code(findings) == 0


@pytest.mark.parametrize(("name", "fault"), PAIRS, ids=lambda part: str(part))
def test_fault_is_caught(name: str, fault: str) -> None:
    """The right check reports the fault with its severity; all other results are consequences of it."""
    findings, _ = _examine_machine(name, fault)
    expected, status = _find_expected(name, fault)
    told = {f.name: f.status for f in findings}
    others = {n for n, s in told.items() if s >= UNKNOWN} - {expected} - AMISS.get(name, set())

    assert told[expected] is status
    assert not others


@functools.cache
def _check_job(name: str, recipe: str, *wishes: str) -> dict[str, str]:
    """What is wrong with a machine for the recipe's first job, by check."""
    job = derive_requirements(RECIPES[recipe], RECIPES[recipe].jobs[0])
    known = replace(_examine_machine(name, *wishes)[1], wanted=job)
    return {f.name: f.seen for f in checks.run_checks(known) if f.status >= UNKNOWN}


def _list_recipes(name: str) -> list[str]:
    vendor = described.load_machine(name, None).vendor
    return [recipe for recipe, told in RECIPES.items() if (told.jobs[0].device or told.device) == vendor]


@pytest.mark.parametrize(("name", "fault"), PAIRS, ids=lambda part: str(part))
def test_a_fault_is_told_once_with_a_job(name: str, fault: str) -> None:
    """What a job lacks because of the fault is a consequence of its check, or replaces it."""
    for recipe in _list_recipes(name):
        new = _check_job(name, recipe, fault).keys() - _check_job(name, recipe).keys()

        assert len(new) <= 1, recipe


@pytest.mark.parametrize("name", ["atlas-800t-a2", "atlas-800t-a3", "bi-v150x8", "h200x8"])
def test_an_old_driver_is_upgraded_once(name: str) -> None:
    """The driver that is advised is no older than the job asks for, nor than any that the toolkit is named with."""
    for recipe in _list_recipes(name):
        advised = _check_job(name, recipe, "driver-old")["driver.version"].rpartition(" ")[2]

        assert versions.is_at_least(advised, RECIPES[recipe].driver_minimum or "0")
    if name == "atlas-800t-a3":
        (found,) = [f for f in _examine_machine(name, "driver-old")[0] if f.name == "driver.version"]
        assert found.seen == "driver 22.0.4 is older than 24.1.RC2" and "documented in CANN 8.2.RC1." in str(
            found.remedy
        )


@pytest.mark.parametrize(("name", "fault"), PAIRS, ids=lambda part: str(part))
def test_what_is_wrong_is_shown(name: str, fault: str) -> None:
    """Each warning and failure has evidence with a line behind the command, an action, and commands without gaps."""
    findings, _ = _examine_machine(name, fault)
    for found in (f for f in findings if f.status >= WARN):
        assert found.evidence and not found.evidence[-1].startswith("$ "), found
        assert found.remedy and found.remedy.words.endswith("."), found
        assert not [c for c in found.remedy.commands if "..." in c or "<" in c], found


@pytest.mark.parametrize("name", ["atlas-800t-a2", "atlas-800t-a3", "bi-v150x8", "h200x8", "a100x8-mig", "dev-4090x1"])
@pytest.mark.parametrize(
    ("fault", "check", "figure"),
    [
        ("hot=96", "devices.temperature", r"(?<!\d)96(?!\.\d)"),
        ("memory-held=7000", "devices.memory", r"\b(7\d{3}|10\d{3})\b"),
        ("ecc=3", "devices.ecc", r"(:\s*|>)3\b"),
    ],
)
def test_evidence_is_of_that_device_and_that_figure(name: str, fault: str, check: str, figure: str) -> None:
    """The line shown is the one that has the figure, not the first that looks like it (a VBIOS is 96.00.A5)."""
    if fault.partition("=")[0] not in faults.list_applicable_faults(described.load_machine(name, None)):
        fault, check, figure = "hot=97", "devices.temperature", r"(?<!\d)97(?!\.\d)"
    found = next(f for f in _examine_machine(name, fault)[0] if f.name == check)

    assert re.search(figure, found.evidence[-1])
    assert "vbios" not in found.evidence[-1]


@pytest.mark.parametrize("fault", ["tool-missing", "dcmi-8005", "card-lost"])
def test_leaving_the_cause_out_is_not_green(fault: str) -> None:
    """With --only links what depends on a check that was not selected is UNKNOWN, though a part of it was judged."""
    with simulate_machine("atlas-800t-a2", [fault]) as machine:
        found = facts.gather_facts(machine)
    findings = checks.run_checks(found, only=["links"])

    assert {f.status for f in findings} == {UNKNOWN}
    assert report.exit_code(findings) == 3


@pytest.mark.parametrize(("name", "fault"), PAIRS, ids=lambda part: str(part))
def test_nobody_is_told_of_another_vendors_tool(name: str, fault: str) -> None:
    """What was seen, what to do and the commands name the tool of the machine's own cards alone."""
    own = described.load_machine(name, None).vendor
    strange = {known.tool for vendor, known in VENDORS.items() if vendor != own and known.tool}
    findings, _ = _examine_machine(name, fault)
    said = [w for f in findings for w in (f.seen, *((f.remedy.words, *f.remedy.commands) if f.remedy else ()))]

    assert [words for words in said if any(tool in words for tool in strange)] == []


@pytest.mark.parametrize("fault", faults.list_applicable_faults(described.load_machine("p800x8", None)))
def test_remedies_of_kunlunxin_name_what_it_has(fault: str) -> None:
    """No remedy names NCCL, DKMS, an environment script, or a PCI vendor id that none of the cards has."""
    findings, _ = _examine_machine("p800x8", fault)
    advised = [w for f in findings if f.remedy for w in (f.remedy.words, *f.remedy.commands)]

    assert [words for words in advised if re.search(r"NCCL|dkms|set_env|2057", words)] == []


@pytest.mark.parametrize(
    ("name", "fault", "check", "advised"),
    [
        ("p800x8", "iommu-on", "host.iommu", "configure the hypervisor instead."),
        ("bi-v150x8", "iommu-on", "host.iommu", "instead. NCCL_P2P_DISABLE=1 is a slower workaround."),
        ("p800x8", "rdma-down", "network.rdma_state", "exclude the port with BKCL_RDMA_NICS."),
        ("h200x8", "rdma-down", "network.rdma_state", "exclude the port with NCCL_IB_HCA."),
        ("p800x8", "library-lost", "driver.library", "export LD_LIBRARY_PATH=/usr/local/xpu/lib:"),
        ("atlas-800t-a2", "library-lost", "driver.library", "source the vendor's set_env.sh."),
        ("p800x8", "module-gone", "driver.module", "envcheck provision --device xpu --install-driver"),
        ("atlas-800t-a2", "module-gone", "driver.module", "sudo dkms autoinstall -k "),
        ("p800x8", "kernel-next", "driver.next_kernel", "install the driver package again"),
        ("h200x8", "kernel-next", "driver.next_kernel", "sudo dkms autoinstall -k "),
        ("p800x8", "node-closed", "devices.access", "the udev rule 99-kunlun.rules"),
        ("h200x8", "node-closed", "devices.access", "add a udev rule"),
        ("p800x8", "card-lost", "devices.count", "card. dmesg | grep -i kunlun lspci -nn -d 1d22: xpu-smi"),
        ("h200x8", "card-lost", "devices.count", "card. dmesg | grep -i -E 'nvrm|xid' lspci -nn -d 10de: nvidia-smi"),
        ("p800x8", "container-shm", "engine.shm", "--shm-size=128g"),
        ("h200x8", "container-shm", "engine.shm", "--shm-size=64g"),
        ("p800x8", "shm-small", "host.shm", "size=128G"),
        ("h200x8", "shm-small", "host.shm", "size=64G"),
    ],
)
def test_remedies_are_those_of_the_vendor(name: str, fault: str, check: str, advised: str) -> None:
    """Words and commands are of the vendor's record; without one there, the general ones."""
    (found,) = [f for f in _examine_machine(name, fault)[0] if f.name == check]
    assert found.remedy

    assert advised in " ".join((found.remedy.words, *found.remedy.commands))


def test_every_fault_has_its_line() -> None:
    """A new simulated fault fails here until its check is listed."""
    assert set(CAUGHT) == set(faults.load_faults())


def test_faults_together() -> None:
    """Several faults at once are each reported."""
    findings, _ = _examine_machine("atlas-800t-a2", "health-alarm", "shm-small", "hot")
    failed = {f.name for f in findings if f.status is FAIL}

    assert failed == {"devices.health", "host.shm", "devices.temperature"}


def test_nobody_is_sent_into_the_group_of_root() -> None:
    """If root's group owns the nodes, users are not told to join it: its members could do more than train."""
    findings, _ = _examine_machine("dev-4090x1", "node-closed")
    (closed,) = (f for f in findings if f.name == "devices.access")

    assert closed.status is WARN and closed.remedy
    assert "udev" in closed.remedy.words and not any("usermod" in command for command in closed.remedy.commands)


@pytest.mark.parametrize(("image", "status"), [(None, FAIL), ("registry.example/ernie:1", WARN)])
def test_closed_nodes_fail_a_job_on_the_host(image: str | None, status: Status) -> None:
    """A container opens the nodes as root; a job on the host opens them as the user, who cannot."""
    with simulate_machine("p800x8", ("node-closed",)) as machine:
        wanted = MachineRequirements("r", "sft", "xpu", image=image)
        found = replace(facts.gather_facts(machine), wanted=wanted)

    (closed,) = (f for f in checks.run_checks(found) if f.name == "devices.access")

    assert closed.status is status


@pytest.mark.parametrize("device", ["npu", "nvidia"])
def test_named_device_that_is_not_there(device: str) -> None:
    """A device that was asked for by name and is not there fails: no tool, and no such card."""
    with simulate_machine("cpu") as machine:
        findings = checks.run_checks(facts.gather_facts(machine, device))
    failed = [f.name for f in findings if f.status is FAIL]

    assert failed == ["driver.tool", "devices.present"]


@pytest.mark.parametrize(("name", "fault"), GOLDENS, ids=lambda part: str(part))
def test_golden_report(name: str, fault: str) -> None:
    """The report equals the golden file; ENVCHECK_REWRITE_GOLDEN=1 rewrites it."""
    findings, found = _examine_machine(name, *([fault] if fault else []))
    step = suggest_command(JobRequest(), None, load_all(), found)
    screen = text_report.render(make_machine_report(findings, found, style=report.Style(width=80), next_command=step))
    text = re.sub(r"\d+(\.\d+)? (GiB|MiB) free", "N free", screen)
    stem = f"doctor_{name}{f'_{fault}' if fault else ''}.{report.exit_code(findings)}.txt"
    if os.environ.get("ENVCHECK_REWRITE_GOLDEN"):
        (GOLDEN / stem).write_text(text, encoding="utf-8")

    assert text == (GOLDEN / stem).read_text(encoding="utf-8")
