"""Trainings as jobs of Slurm and of Kubernetes in Chinese; Slurm's own logs stay English, since explain reads them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import EnvcheckError
from launch import backends
from launch.backends import k8s, slurm
from launch.backends.k8s import api, cluster, follow
from launch.backends.slurm import node_reports, place, run_entry, sbatch_options, site, slurm_options
from launch.backends.slurm.node_reports import ClosedGate, NodesVerdict
from launch.run import run_text
from launch.runs import waiting
from launch.runs.run_state import QUEUED, Run
from tests.envcheck.core.language import language_parts
from tests.envcheck.core.language.test_language import TABLES, lacking
from tests.envcheck.core.language.test_language_reports import ENGLISH

SLURM = (
    *("merge_records", "job", "node_reports", "sbatch_options", "place", "queue", "run_entry", "session", "site"),
    *("submit", "slurm_options", "node_resources"),
)
K8S = (
    *("cluster", "api", "follow", "logs", "pod_recipes", "pod", "run_entry", "session", "status", "tables"),
    *("k8s_options", "node_resources"),
)
FILES = [
    *(Path(slurm.__path__[0]) / f"{name}.py" for name in SLURM),
    *(Path(k8s.__path__[0]) / f"{name}.py" for name in K8S),
    *(Path(backends.__path__[0]) / f"{name}.py" for name in ("node_findings", "node_requirements")),
    Path(waiting.__file__),
]
SAYERS = {
    **language_parts.SAYERS,
    "say": (0,),
    "spoken": (0,),
    "_say": (0,),
    "spoken_aside": (0,),
    "EnvcheckError": (0, 1),
}
# Parts of what stands whole in a table; commands; what goes into a script or a document; a container's name.
PARTS = {
    *("waits", "runs", "has ended", "has ended, {}", "job {} {}{}{}", "job {} {} in {}{}", "{}, {}, status {}:"),
    *(
        "{} node{}",
        "{} node{} of {} cards ({})",
        "status {}",
        "scancel {}: {}",
        "{} {} is nothing that sbatch would take",
    ),
    *("python3 -m pip install 'envcheck-toolkit[k8s]'", "{}; {}", '{ value = {}, source = "--image" }'),
    *(
        "ConfigMaps {} to {}, {} KiB, hold envcheck itself for the gates",
        "# {}: --write DIR writes them beside these.\n{}",
    ),
    *("no sinfo answers here: partition and --gres are guesses; --gres NAME:N says what the site has",),
}
COMMANDS = re.compile(r"(?:kubectl|envcheck|squeue|sinfo|chmod) \S+.*")
ON_SLURM = ("train", "--on", "slurm", "--model", "tiny", "--method", "lora", "--device", "cpu")
ON_K8S = ("train", "--on", "k8s", "--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3")
REFUSED = [
    (*ON_SLURM, "--rank", "1"),
    (*ON_SLURM, "--gres", "a b"),
    (*ON_SLURM, "--time", "tomorrow"),
    (*ON_SLURM, "--sbatch", "--requeue"),
    (*ON_SLURM, "--sbatch", "--part=a"),
    (*ON_SLURM, "--sbatch", "--signal=USR1"),
    (*ON_SLURM, "--partition", "a", "--partition", "b"),
    (*ON_K8S, "--dry-run"),
    (*ON_K8S, "--storage", "../x"),
    (*ON_K8S, "--storage", "c", "--rank", "1"),
    (*ON_K8S, "--storage", "c", "--watch"),
    (*ON_K8S, "--storage", "c", "--job-name", "A_b"),
    (*ON_K8S, "--storage", "c", "--as-script"),
    (*ON_K8S, "--storage", "c", "--image", "a", "--image", "b"),
]
MIXED = "npu*|up|infinite|8|npu:16\ngpu|up|2-00:00:00|4|gpu:h200:8\nold|down|1:00:00|8|npu:16\n"


pytestmark = pytest.mark.usefixtures("chinese")


def is_chinese(text: str) -> bool:
    return bool(re.search("[一-鿿]", language.say(text)))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.stem}.{file.stem}")
def test_each_sentence_has_its_chinese(file: Path) -> None:
    """What is said of a job, advised or refused stands in a table, values aside."""
    alone = {text.strip() for text in TABLES}
    found = lacking(language_parts.sentences(file, SAYERS))

    assert [text for text in found if text not in {*alone, *PARTS} and not COMMANDS.fullmatch(text)] == []


def test_reasons_in_tables_have_their_chinese() -> None:
    """Why an option has no place in a job, and what to say instead; what a cluster lacks."""
    told = [text for pair in sbatch_options.OURS.values() for text in pair]
    told += [*slurm_options.REFUSED.values(), *slurm_options.NEXT.values(), *api.LACKING.values()]

    assert [text for text in told if not is_chinese(text)] == []


@pytest.mark.parametrize("status", (401, 403, 404, 409, 422, 500))
def test_what_a_cluster_answers_is_chinese(status: int) -> None:
    """Its own message stays as it is, behind ours."""
    refused = api.refusal(status, "pods is forbidden", None, "default")

    assert is_chinese(refused.message), refused.message


@pytest.mark.parametrize("argv", REFUSED, ids=lambda argv: " ".join(argv[7:]))
def test_a_refusal_is_chinese(argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person meets it: the sentence and what to do."""
    monkeypatch.chdir(tmp_path)
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, EnvcheckError), err
    assert [text for text in (err.message, err.next_step) if not is_chinese(text)] == []


@pytest.mark.parametrize(("device", "cards", "partition"), [("npu", 16, "no"), ("npu", 16, "old")])
def test_where_a_job_does_not_fit_is_chinese(device: str, cards: int, partition: str) -> None:
    """What the site has instead stays as Slurm writes it."""
    with pytest.raises(EnvcheckError) as err:
        place.place(tuple(site.parse(MIXED)), device, 8, cards, partition, "")

    assert ENGLISH.findall(language.say(err.value.message)) == [], language.say(err.value.message)


def test_how_a_job_goes_is_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one waits with it, by the words of Slurm for the reason."""
    monkeypatch.setattr(waiting, "LOOK_EVERY_S", 0.0)
    states = iter(("running", "finished"))
    run = Run(tmp_path, QUEUED, None, {"slurm": {"job": "7", "state": "PENDING", "reason": "Resources"}})

    def look(folder: Path) -> Run:
        return Run(folder, next(states), None, {"slurm": {"job": "7", "state": "COMPLETED", "on": "node[01-02]"}})

    told: list[str] = []
    run_entry.wait(run, told.append, look)

    assert told == ["envcheck: 作业 7 在等待：Resources", "envcheck: 作业 7 正在 node[01-02] 上运行"]


def test_nodes_that_are_not_fit_are_told_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """Which nodes, and each gate's own words, as the person who submitted the job sees them."""
    shut = ClosedGate("gate.data", "1 of 1 files is wrong, seen from /workspace", "Put the data there.")
    for line in node_reports.told(NodesVerdict(("n1", "n2"), {"n2": (shut,)})):
        run_text.spoken_aside(line)
    said = capsys.readouterr().err

    assert said.startswith("envcheck：2 个节点中有 1 个不可用：n2\n")
    assert ENGLISH.findall(said) == [], said


def test_a_job_of_a_cluster_is_told_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """What was made and how it ends; a line of a training's own log is left as it is."""
    cluster._say("made  PyTorchJob qwen in the namespace default, 2 more with it")
    cluster._say("ends  by: kubectl delete pytorchjobs.kubeflow.org qwen -n default")
    cluster._say("  the job was deleted")
    cluster._say(f"qwen-master-0, {follow.GATE}, status 1:")
    made, ends, line, _ = capsys.readouterr().err.splitlines()

    assert made == "已创建  命名空间 default 中的 PyTorchJob qwen，及其附属的 2 个对象"
    assert ends == "结束方法：kubectl delete pytorchjobs.kubeflow.org qwen -n default"
    assert line == "  the job was deleted"
