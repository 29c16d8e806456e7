"""The gates on simulated machines: the five published systems, healthy and with each fault."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck import checks
from envcheck.core.model import Finding, Status
from envcheck.simulate import faults, machine_file
from launch import gates
from launch.gates import job_requirements
from launch.gates.context import GateContext
from launch.planner import recipe_job
from launch.run.container_stage import ContainerStage
from tests.launch.gates.gate_parts import GIB, SIGHT, make_context, make_recipe_context
from tests.tiers import thin_out

pytestmark = pytest.mark.slow

ENVCHECK = (sys.executable, "-m", "envcheck")
ROOT = Path(__file__).parents[3]
BOX16 = "atlas-200t-a2-box16"
NEWER = "driver-old=25.5.0"  # the machine as described has driver 24.1, and today's CANN wants 25
SYSTEMS = (  # recipe, method or variant, its own machine, and what is different there
    ("ernie-300b-npu", "lora", BOX16, ()),
    ("ernie-21b-iluvatar", "lora", "bi-v150x8", ()),
    ("ernie-21b-hetero", "lora", "h200x8", ()),
    ("qwen-7b-npu-llamafactory", "lora", "atlas-800t-a2", (NEWER,)),
    ("qwen-7b-npu-swift", "zero2", "atlas-800t-a2", (NEWER,)),
)
# The gate that a fault closes, or the check of doctor's: of the others training does not die, or nobody can tell.
CLOSES = {
    "card-lost": "devices.count",
    "health-alarm": "devices.health",
    "memory-held": "memory",
    "hot": "devices.temperature",
    "ecc": "devices.ecc",
    "link-down": "network.hccn_link",
    "driver-old": "driver.version",
    "dcmi-8005": "driver.tool",
    "dcmi-8020": "driver.tool",
    "tool-hang": "driver.tool",
    "tool-missing": "driver.tool",
    "docker-absent": "engine.reachable",
    "shm-small": "shm",
    "module-gone": "driver.module",
    "fabric-down": "driver.fabric",
}
# Faults with which a training runs, or of which nobody can tell: no gate is closed, and gate.doctor names the check.  A
# Warning of npu-smi is a card that works (of Alarm and Critical the manual says that it does not); cards without their
# direct links talk over PCIe, slower; npu-smi and ixsmi go on with libraries that are ahead of the driver, and so does
# what was loaded with it (nvidia-smi does not: driver.tool fails); a list that stops short tells no number of cards,
# and a start does not wait for an answer that nobody has.  The second is the exit code of --gates.
NOTED = {
    "health-warning": ("devices.health", 0),
    "topology-degraded": ("links.uniform", 0),
    "library-mismatch": ("driver.agrees", 0),
    "truncated": ("driver.whole_answer", 3),
    "ghost": ("devices.ghosts", 0),
    "node-closed": ("devices.access", 0),  # programs in a container are root's
    "node-held": ("devices.open_nodes", 0),
    "card-shared": ("devices.shared", 0),
    "kernel-next": ("driver.next_kernel", 0),
    "library-lost": ("driver.library", 0),  # an image brings its own
    "dcmi-writable": ("driver.dcmi_owner", 0),
    "mount-folder": ("driver.mounts", 0),
}
# Faults of the host's toolkit, engine and accounts, which do not affect a training in a container: doctor only.
QUIET = {
    *("container-shm", "engine-config", "runc-open", "cpu-manager", "user-unnamed"),
    *("ports-open", "tls-uneven", "rdma-down", "rdma-hidden", "iommu-on"),  # told by doctor: slower, or by bad luck
    *("path-dead", "opp-other", "kernels-missing", "nnal-other", "corex-other", "standard-old", "library-twice"),
}
OF_MACHINE = ("doctor", "devices", "world", "topology", "mixed", "degrees", "steps", "memory", "host", "shm", "name")


def run_gates(s: GateContext) -> dict[str, Finding]:
    judged = replace(s, doctor=tuple(checks.run_checks(s.facts)))
    return {name: gates.GATES[name](judged) for name in OF_MACHINE}


def list_closed_gates(found: dict[str, Finding]) -> set[str]:
    """Return the failed gates; for gate.doctor the failed checks."""
    names = {name for name, finding in found.items() if finding.status is Status.FAIL}
    lines = found["doctor"].evidence if "doctor" in names else ()
    return (names - {"doctor"}) | {line.partition(":")[0] for line in lines}


@pytest.mark.parametrize(("recipe", "method", "machine", "as_it_is"), SYSTEMS)
def test_the_right_machine(recipe: str, method: str, machine: str, as_it_is: tuple[str, ...]) -> None:
    """No gate fails on the published systems, and the device count is reported."""
    found = run_gates(make_recipe_context(recipe, method, machine, *as_it_is))

    assert list_closed_gates(found) == set()
    assert found["memory"].status is found["degrees"].status is found["host"].status is Status.OK


@pytest.mark.parametrize(("recipe", "method", "machine", "as_it_is"), thin_out(2, SYSTEMS))
def test_each_fault_closes_its_gate(recipe: str, method: str, machine: str, as_it_is: tuple[str, ...]) -> None:
    """Each fault in the table fails its gate and prevents the start."""
    described, told = machine_file.load_machine(machine, None), {}
    assert described.devices
    most = described.devices.memory_mib - described.chips[0].memory_used_mib - 2048
    for fault in sorted(set(faults.list_applicable_faults(described)) & CLOSES.keys()):
        wish = f"{fault}={most}" if fault == "memory-held" else fault
        told[fault] = list_closed_gates(
            run_gates(make_recipe_context(recipe, method, machine, *(as_it_is if fault != "driver-old" else ()), wish))
        )
    if not make_recipe_context(recipe, method, machine).recipe.image:
        told.pop("docker-absent")  # no container is wanted

    assert {fault: closed for fault, closed in told.items() if CLOSES[fault] not in closed} == {}


@pytest.mark.parametrize(("recipe", "method", "machine", "as_it_is"), thin_out(2, SYSTEMS))
def test_a_harmless_fault_is_reported(recipe: str, method: str, machine: str, as_it_is: tuple[str, ...]) -> None:
    """Harmless faults and unknown results fail no gate; gate.doctor names them."""
    described = machine_file.load_machine(machine, None)
    for fault in sorted(set(faults.list_applicable_faults(described)) & (NOTED.keys() | QUIET)):
        found = run_gates(make_recipe_context(recipe, method, machine, *as_it_is, fault))
        if (fault, described.vendor) == ("library-mismatch", "nvidia"):
            assert list_closed_gates(found) == {"driver.tool"}
            continue
        assert list_closed_gates(found) == set(), fault
        assert fault in QUIET or NOTED[fault][0] in found["doctor"].seen, fault


@pytest.mark.parametrize(("driver", "status"), [("4.3.0", Status.WARN), ("4.3.8", Status.OK)])
def test_a_driver_older_than_the_image_is_reported(driver: str, status: Status) -> None:
    """The image of the Iluvatar recipe was published with driver 4.3.8: an older one is a warning before the start."""
    host = make_recipe_context("ernie-21b-iluvatar", "lora", "bi-v150x8")
    seen = replace(host, stage=ContainerStage(host.recipe))
    known = [replace(v, document=replace(v.document, driver_version=driver)) for v in seen.facts.vendors if v.document]
    judged = job_requirements.judge_machine(
        job_requirements.add_requirements(replace(seen, facts=replace(seen.facts, vendors=tuple(known))))
    )

    found = gates.GATES["doctor"](judged)

    assert ("job.image_versions" in found.seen) is (status is Status.WARN)
    assert any("documented with driver 4.3.8; 4.3.0 is installed" in line for line in found.evidence) is (
        status is Status.WARN
    )


def test_a_cut_off_answer_is_no_number() -> None:
    """With a truncated list, or cards on the bus only, the device count is UNKNOWN and the failed tool is named."""
    for fault, status, cause in (
        ("truncated", Status.UNKNOWN, ""),
        ("dcmi-8005", Status.BLOCKED, "driver.tool"),
        ("tool-missing", Status.BLOCKED, "driver.tool"),
    ):
        found = run_gates(make_recipe_context("ernie-300b-npu", "lora", BOX16, fault))

        assert (found["devices"].status, found["devices"].blocked_by) == (status, cause), fault
        assert found["topology"].status is Status.UNKNOWN, fault


def test_a_busy_card_is_named_with_its_process() -> None:
    """Only the job's cards count; the message names card, free memory and process."""
    found = gates.GATES["memory"](
        make_recipe_context("qwen-7b-npu-swift", "lora", "atlas-800t-a2", "memory-held=60000")
    )

    assert found.status is Status.FAIL
    assert found.seen.startswith("device 0: 2.2 GiB of memory free (in use by python3 (pid 20817, 60000 MiB)); ")


def test_one_full_card_of_all_that_are_used() -> None:
    """If only one card is full, the fix is to free that card, not to use larger cards."""
    found = gates.GATES["memory"](make_recipe_context("ernie-21b-iluvatar", "lora", "bi-v150x8", "memory-held=30000"))

    assert found.status is Status.FAIL
    assert found.seen.startswith("device 0: 2.6 GiB of memory free (in use by python3 (pid 20817, 30000 MiB)); ")
    assert found.remedy and found.remedy.words == "Stop the processes that use the memory."


@pytest.mark.parametrize(
    ("recipe", "machine", "mib", "named"),
    [
        ("ernie-21b-iluvatar", "bi-v150x8", 30000, False),
        ("ernie-21b-iluvatar", "bi-v150x8", 700, True),
        ("qwen-7b-npu-swift", "atlas-800t-a2", 60000, False),
        ("qwen-7b-npu-swift", "atlas-800t-a2", 700, True),
    ],
)
def test_a_process_on_a_card_is_reported_once(recipe: str, machine: str, mib: int, named: bool) -> None:
    """A process that fills a card fails gate.memory, not gate.doctor; if enough is free, doctor notes it."""
    faulty = (f"memory-held={mib}", *([NEWER] if "npu" in recipe else []))
    seen = make_recipe_context(recipe, "lora", machine, *faulty)
    seen = job_requirements.judge_machine(seen)

    assert gates.GATES["memory"](seen).status is (Status.OK if named else Status.FAIL)
    assert ("devices.processes" in gates.GATES["doctor"](seen).seen) == named


def test_degrees_that_do_not_divide() -> None:
    """Tensor parallel 8 with 20 heads and 4 key/value heads fails; valid degrees are listed."""
    found = gates.GATES["degrees"](
        make_recipe_context("ernie-21b-iluvatar", "lora", "bi-v150x8", parallel={"tensor": 8, "pipeline": 2})
    )

    assert found.status is Status.FAIL
    assert found.seen == "tensor parallel 8 does not divide 20 heads and 4 key/value heads; valid: 1, 2, 4"
    assert found.remedy and "--set tensor_parallel_degree=N" in found.remedy.words


def test_doctor_reports_degrees_of_the_recipe() -> None:
    """job.degrees reports the same for the published model; valid degrees pass."""
    told = {}
    for tensor in (4, 8):
        s = make_recipe_context("ernie-21b-iluvatar", "lora", "bi-v150x8", parallel={"tensor": tensor, "pipeline": 2})
        assert s.facts.wanted
        wanted = replace(s.facts.wanted, degrees=recipe_job.judge_degrees(s.recipe, s.job, s.facts))
        (told[tensor],) = checks.run_checks(replace(s.facts, wanted=wanted), ["job.degrees"])

    assert told[4].status is Status.OK and "20 heads" in told[4].seen
    assert told[8].status is Status.FAIL and told[8].seen.endswith("20 heads and 4 key/value heads; valid: 1, 2, 4")
    assert told[8].remedy and told[8].remedy.commands[0].startswith("envcheck plan --model ")


def test_the_config_that_is_there_counts() -> None:
    """The heads in the local config.json count, not the published ones; an invalid file is UNKNOWN."""
    right = make_recipe_context("ernie-21b-iluvatar", "lora", "bi-v150x8", parallel={"tensor": 8, "pipeline": 2})
    edited = {"model_type": "ernie4_5_moe", "hidden_size": 2560, "num_hidden_layers": 28, "vocab_size": 103424}
    edited |= {"num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 12288}
    there = {"m": {"shards": 1, "size_bytes": 1, "flaws": [], "config": edited}}
    broken = {"m": {**there["m"], "config": {"hidden_size": "many"}}}

    for models, status in ((there, Status.OK), (broken, Status.UNKNOWN)):
        s = job_requirements.add_requirements(replace(right, sight=replace(SIGHT, models=models)))

        assert gates.GATES["degrees"](s).status is status


def test_checkpoints_are_counted() -> None:
    """Disk space is that of all kept checkpoints: 300B SFT keeps two of 488 GiB on each of 8 nodes."""
    s = make_recipe_context("ernie-300b-npu", "sft", BOX16)
    limited = replace(s, job=replace(s.job, arguments=(*s.job.arguments, "--save_total_limit", "1")))
    two, one = (gates.GATES["disk"](replace(x, sight=replace(SIGHT, free_bytes=900 * GIB))) for x in (s, limited))

    assert (two.status, one.status) == (Status.FAIL, Status.OK)
    assert two.evidence[0] == "2 checkpoints of 488.1 GiB each on this node, according to the planner"


def run_refused(folder: Path, machine: str, *more: str) -> tuple[int, dict[str, dict[str, object]], str]:
    env = {**os.environ, "ENVCHECK_HOME": str(folder / "home"), "NO_COLOR": "1", "PYTHONPATH": str(ROOT)}
    argv = [*ENVCHECK, "simulate", machine, "--", *ENVCHECK, "train", *more, "--json"]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=120)
    found = json.loads(done.stdout).get("gates", []) if done.stdout else []
    return done.returncode, {gate["name"]: gate for gate in found}, done.stderr


def test_all_failed_gates_are_reported_at_once(tmp_path: Path) -> None:
    """One answer lists all failed gates, with exit code 1; gates that depend on them are BLOCKED."""
    options = ("--model", "21b", "--method", "lora", "--device", "iluvatar", "--set", "train_dataset_prob=0.5,0.5")
    code, found, err = run_refused(tmp_path, "dev-4090x1", *options)
    closed = {name for name, gate in found.items() if gate["status"] == "FAIL"}

    assert code == 1
    assert {"gate.devices", "gate.mix", "gate.doctor"} <= closed
    assert found["gate.data"]["status"] == found["gate.model"]["status"] == "BLOCKED"
    assert found["gate.data"]["blocked_by"] in closed
    assert all(name in err for name in closed)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--waive", "memroy", "--because", "x"), "did you mean memory?"),
        (("--waive", "devices.counts", "--because", "x"), "did you mean devices.count?"),
        (("--waive", "memory"), "each --waive needs one --because; got 1 and 0"),
        (("--because", "x"), "each --waive needs one --because; got 0 and 1"),
        (("--waive", "memory", "--because", " "), "--because is empty"),
        (("--waive", "command", "--because", "x"), "gate.command cannot be waived"),
        (("--waive", "gate.environment", "--because", "x"), "gate.environment cannot be waived"),
        (
            ("--waive", "doctor", "--because", "x"),
            "gate.doctor cannot be waived: it summarizes many checks; waive the failed one by its name",
        ),
        (
            ("--waive", "memory", "--because", "x", "--waive", "memory", "--because", "y"),
            "--waive memory is given twice",
        ),
    ],
)
def test_wrong_waivers(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """An unusable waiver is exit code 2, with the nearest name or the reason."""
    argv = [*ENVCHECK, "train", "--model", "tiny", "--method", "lora", "--device", "cpu", *words]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_waiver_applies_to_one_gate() -> None:
    """The waived gate is a warning with its reason and is recorded; the others still fail."""
    s = make_context(runs_error="permission denied", holder="17", sight=replace(SIGHT, free_bytes=0))
    waivers = gates.waive.parse_waivers(("disk", "steps"), ("a quota that lies", "in vain"), gates.GATES)
    _, found, waived = gates.apply_waivers(s, waivers)

    assert {f.name for f in gates.select_closed(found)} == {"gate.folder", "gate.alone"}
    assert waived == ("disk: a quota that lies",)
    (disk,) = [f for f in found if f.name == "gate.disk"]
    assert disk.status is Status.WARN
    assert disk.seen.startswith("waived (a quota that lies): ")


def test_a_check_of_doctor_is_waived_by_its_name() -> None:
    """gate.doctor still fails because of another check."""
    failing = Finding("driver.version", Status.FAIL, "too old")
    s = make_context(doctor=(failing, replace(failing, name="devices.health")))
    waivers = gates.waive.parse_waivers(("driver.version",), ("it is patched",), gates.GATES)
    _, found, waived = gates.apply_waivers(s, waivers)
    (doctor,) = [f for f in found if f.name == "gate.doctor"]

    assert doctor.status is Status.FAIL
    assert doctor.evidence == ("devices.health: too old.",)
    assert waived == ("driver.version: it is patched",)


def test_the_fix_for_a_missing_model_fetches_it() -> None:
    """The suggested command has --fetch-weights, without which provision downloads no weights."""
    s = make_recipe_context("ernie-21b-nvidia", "lora", "h200x8")

    found = gates.GATES["model"](replace(s, options="--recipe ernie-21b-nvidia", sight=SIGHT))

    assert found.remedy and found.remedy.commands == ("envcheck provision --recipe ernie-21b-nvidia --fetch-weights",)
