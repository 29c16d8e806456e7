"""Parallel degrees of a configuration: against the machine's cards, and against the script that starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from envcheck.collect import facts
from envcheck.core.facts import Facts
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.model import Status
from envcheck.lint import files, linter, render_remarks
from envcheck.report import Style
from envcheck.scripts import source_file
from tests.envcheck.checks.doctor_helpers import simulate_machine

FAIL, UNKNOWN = Status.FAIL, Status.UNKNOWN
HEAD = "fine_tuning: LoRA\nmax_seq_len: 8192\n"


@pytest.fixture(scope="module")
def eight() -> Facts:
    with simulate_machine("atlas-800t-a2") as answers:
        return facts.gather_facts(answers, "auto")


def lint_text(name: str, text: str, machine: TargetMachine, rule: str = "training.world") -> list[tuple[Status, str]]:
    result = linter.lint_source(source_file.make_source(name, text.encode()), machine, others=False)
    return [(remark.severity, remark.seen) for remark in result.remarks if remark.rule == rule]


DEGREES = (
    ("tensor_parallel_degree: 8\n", []),
    ("tensor_parallel_degree: 2\npipeline_parallel_degree: 4\n", []),
    ("tensor_parallel_degree: 3\n", [FAIL]),
    ("pipeline_parallel_degree: 2\nsharding_parallel_degree: 3\nsharding: stage1\n", [FAIL]),
    ("tensor_parallel_degree: 8\npipeline_parallel_degree: 2\n", [UNKNOWN]),
    ("tensor_parallel_degree: 2\nsep_parallel_degree: 3\n", [FAIL]),
    ("expert_parallel_degree: 5\n", [FAIL]),
    ("tensor_parallel_degree: -1\nsharding_parallel_degree: -1\n", []),
    ("tensor_model_parallel_size: 2\nsharding_parallel_size: 4\ncontext_parallel_size: 2\n", []),
)


@pytest.mark.parametrize(("text", "severities"), DEGREES)
def test_cards_of_the_machine(text: str, severities: list[Status], eight: Facts) -> None:
    """Degrees that do not divide eight devices fail; more machines are unknown; otherwise there is no remark."""
    assert [severity for severity, _ in lint_text("a.yaml", HEAD + text, TargetMachine(lambda: eight))] == severities


def test_no_machine() -> None:
    """Without known devices, degrees in a configuration get no remark."""
    text = f"{HEAD}tensor_parallel_degree: 3\n"

    assert lint_text("a.yaml", text, TargetMachine()) == lint_text("a.yaml", text, TargetMachine(lambda: Facts())) == []


STARTS = (
    ("erniekit train conf.yaml", True),
    ("export NNODES=3 RANK=0 MASTER_ADDR=192.0.2.1 MASTER_PORT=8000\nerniekit train conf.yaml", False),
    ("export ASCEND_RT_VISIBLE_DEVICES=0,1,2\nerniekit train conf.yaml", False),
    ("python -m paddle.distributed.launch --npus 0,1,2,3 train.py conf.yaml", True),
    ("python -m paddle.distributed.launch --npus 0,1,2,3 train.py other.yaml", False),
    ("cd conf\nerniekit train conf.yaml", False),
)


@pytest.mark.parametrize(("text", "wrong"), STARTS)
def test_file_beside_the_script(text: str, wrong: bool, eight: Facts, tmp_path: Path) -> None:
    """Degrees of the file that a script starts are held against its launcher, or the cards that it takes."""
    (tmp_path / "conf.yaml").write_text(f"{HEAD}tensor_parallel_degree: 3\n")
    found = lint_text("run.sh", f"#!/bin/bash\n{text}\n", TargetMachine(lambda: eight, folder=tmp_path))

    assert [severity for severity, _ in found] == [FAIL] * wrong
    assert all("tensor_parallel_degree 3 (conf.yaml)" in seen for _, seen in found)


def test_heads_of_the_file_beside(tmp_path: Path) -> None:
    """Model and degree may both be in the file that the script uses."""
    conf = f"{HEAD}model_name_or_path: baidu/ERNIE-4.5-21B-A3B-Paddle\ntensor_parallel_degree: 8\n"
    (tmp_path / "conf.yaml").write_text(conf)
    found = lint_text(
        "run.sh", "#!/bin/bash\nerniekit train conf.yaml\n", TargetMachine(folder=tmp_path), "training.heads"
    )

    assert found == [
        (FAIL, "ernie-4.5-21b-a3b has 20 attention heads, which is not divisible by tensor_parallel_degree 8")
    ]


def test_used_files_have_their_own_lint(tmp_path: Path) -> None:
    """Linting a file names the configurations that it uses, with the command that lints them; those that the same run
    lints are not named."""
    for name, text in {
        "run.sh": "#!/bin/bash\nerniekit train conf.yaml\ndeepspeed train.py --deepspeed 'ds 2.json' --data no.json\n",
        "conf.yaml": f"{HEAD}max_steps: 9\nwarmup_steps: 99\n",
        "ds 2.json": "{}",
    }.items():
        (tmp_path / name).write_text(text)
    script = str(tmp_path / "run.sh")

    result = linter.lint_source(source_file.read_source(script), TargetMachine(folder=tmp_path))
    several = files.lint_files(files.list_files([script, str(tmp_path / "conf.yaml")]), TargetMachine())

    assert result.used_files == (str(tmp_path / "conf.yaml"), str(tmp_path / "ds 2.json"))
    assert json.loads(render_remarks.as_json(result, strict=False))["used_files"] == list(result.used_files)
    assert f"'{tmp_path}/ds 2.json'" in render_remarks.as_text(result, Style(400, "ascii", True))
    assert [each.result.used_files for each in several.results if each.result] == [(str(tmp_path / "ds 2.json"),), ()]


def test_strange_files_beside(tmp_path: Path) -> None:
    """A file that is a folder, no YAML, too large or not to be had lends nothing, and ends nothing."""
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "broken.yaml").write_bytes(b"\0\xff{")
    (tmp_path / "large.yaml").write_text(HEAD + "# long\n" * 100_000)
    for name in ("folder.yaml", "broken.yaml", "large.yaml", "gone.yaml", "a\tb.yaml"):
        assert lint_text("run.sh", f"#!/bin/bash\nerniekit train '{name}'\n", TargetMachine(folder=tmp_path)) == []


SOME_CARDS = (
    "docker exec -e ASCEND_RT_VISIBLE_DEVICES=0,1,2 box erniekit train conf.yaml",
    "docker run -v /a:/a image:1 erniekit train conf.yaml",
    "srun --gres=npu:3 erniekit train conf.yaml",
    "deepspeed --exclude localhost:0,1 train.py --tensor-model-parallel-size 3",
    "deepspeed -e localhost:0,1 train.py --tensor-model-parallel-size 3",
    "deepspeed -i localhost:0,1,2 train.py --tensor-model-parallel-size 3",
    "deepspeed -H hosts train.py --tensor-model-parallel-size 3 --pipeline-model-parallel-size 8",
)


@pytest.mark.parametrize("text", SOME_CARDS)
def test_some_of_the_cards(text: str, eight: Facts, tmp_path: Path) -> None:
    """Nothing fails where a container, Slurm or deepspeed's own options take fewer cards than the machine has."""
    (tmp_path / "conf.yaml").write_text(f"{HEAD}tensor_parallel_degree: 3\n")
    machine = TargetMachine(lambda: eight, folder=tmp_path)

    assert FAIL not in [severity for severity, _ in lint_text("run.sh", f"#!/bin/bash\n{text}\n", machine)]


def test_full_path_of_another_machine(eight: Facts, tmp_path: Path) -> None:
    """A file in a full path is read where the machine that is meant is this one; a recorded one has its own."""
    (tmp_path / "conf.yaml").write_text(f"{HEAD}tensor_parallel_degree: 3\n")
    for start in (f"erniekit train {tmp_path}/conf.yaml", f"cd {tmp_path}\nerniekit train conf.yaml"):
        text = f"#!/bin/bash\nexport ASCEND_RT_VISIBLE_DEVICES=0,1\n{start}\n"

        assert lint_text("run.sh", text, TargetMachine(lambda: eight, folder=tmp_path)) == []
        assert [
            each for each, _ in lint_text("run.sh", text, TargetMachine(lambda: eight, live=True, folder=tmp_path))
        ] == [FAIL]


@pytest.mark.parametrize(("degree", "found"), ((2, []), (3, [FAIL])))
def test_json_of_paddlenlp(degree: int, found: list[Status], tmp_path: Path) -> None:
    """The degrees in the JSON file of a PaddleNLP program are compared with its processes."""
    values = {"model_name_or_path": "a/b", "max_length": 2048, "lora": True, "sharding": "stage2"}
    more = {"dataset_name_or_path": "./data", "tensor_parallel_degree": degree, "output_dir": "./out"}
    (tmp_path / "n.json").write_text(json.dumps({**values, **more}, indent="\t"))
    text = "python -m paddle.distributed.launch --gpus 0,1 run_finetune.py n.json\n"
    machine = TargetMachine(folder=tmp_path)

    assert [severity for severity, _ in lint_text("run.sh", text, machine)] == found


ACCELERATE = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_NPU\nnum_machines: 2\nnum_processes: 16\n"


def test_accelerates_file_beside(tmp_path: Path) -> None:
    """accelerate's file has the number of machines, the command line the address of the first."""
    (tmp_path / "acc.yaml").write_text(ACCELERATE)
    machine = TargetMachine(folder=tmp_path)
    bare = "#!/bin/bash\naccelerate launch --config_file acc.yaml train.py --lr 1e-5\n"
    whole = bare.replace("train.py", "--main_process_ip 192.0.2.1 --machine_rank $SLURM_NODEID train.py")

    assert [each for each, _ in lint_text("run.sh", bare, machine, "launch.master")] == [FAIL]
    assert [each for each, _ in lint_text("run.sh", bare, machine, "launch.rank")] == [FAIL]
    assert (
        lint_text("run.sh", whole, machine, "launch.master") == lint_text("run.sh", whole, machine, "launch.rank") == []
    )


def test_command_line_beside_accelerates_file(tmp_path: Path) -> None:
    """The command line overrides accelerate's file without a remark; duplicates on it are reported."""
    (tmp_path / "acc.yaml").write_text(ACCELERATE)
    start = "#!/bin/bash\naccelerate launch --config_file acc.yaml --num_processes 8 {}train.py --lr 1e-5\n"
    machine = TargetMachine(folder=tmp_path)
    twice = lint_text("run.sh", start.format("--num_processes $CARDS "), machine, "options.doubled")

    assert lint_text("run.sh", start.format(""), machine, "options.doubled") == []
    assert [seen for _, seen in twice] == ["--num_processes is given twice: first 8, then ...; the last value applies"]


@pytest.mark.parametrize(("nodes", "severities"), (("1000000", [FAIL]), ("0", [FAIL]), ("2", []), ("$NODES", [])))
def test_numbers_of_nodes(nodes: str, severities: list[Status]) -> None:
    """A number of nodes that no cluster has fails; an unknown one gets no remark."""
    text = f"torchrun --nnodes {nodes} --nproc_per_node 8 --node_rank $RANK --master_addr a train.py\n"

    found = lint_text("a.sh", text, TargetMachine(), "launch.processes")

    assert [severity for severity, _ in found] == severities
