"""Slurm and Kubernetes jobs in Chinese; slurm.log stays English, because `envcheck explain` reads it."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from envcheck.cli import main
from envcheck.core import language
from envcheck.core.errors import EnvcheckError, describe_os_error
from envcheck.core.messages import _
from launch.backends.k8s import api, submit
from launch.backends.k8s import run_entry as k8s_run_entry
from launch.backends.k8s.manifests import K8sManifest
from launch.backends.slurm import node_reports, placement, run_entry, sbatch_options, site, slurm_options
from launch.backends.slurm.node_reports import FailedGate, NodesVerdict
from launch.run import run_text
from launch.run.states import QUEUED
from launch.runs import queue_wait
from launch.runs.run_state import Run
from tests.envcheck.core.language.test_language_reports import ENGLISH

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
    (*ON_K8S, "--storage", "c", "--dashboard"),
    (*ON_K8S, "--storage", "c", "--job-name", "A_b"),
    (*ON_K8S, "--storage", "c", "--as-script"),
    (*ON_K8S, "--storage", "c", "--image", "a", "--image", "b"),
]
MIXED = "npu*|up|infinite|8|npu:16\ngpu|up|2-00:00:00|4|gpu:h200:8\nold|down|1:00:00|8|npu:16\n"


pytestmark = pytest.mark.usefixtures("chinese")


def is_chinese(text: str) -> bool:
    return bool(re.search("[一-鿿]", language.translate(text)))


def test_reasons_in_tables_have_their_chinese() -> None:
    """Why an option is rejected and what to use instead."""
    texts = [text for pair in sbatch_options.REFUSED_OPTIONS.values() for text in pair]
    texts += [*slurm_options.REFUSED.values(), *slurm_options.NEXT.values()]

    assert [text for text in texts if not is_chinese(text)] == []


@pytest.mark.parametrize("status", (401, 403, 404, 409, 422, 500))
def test_errors_of_a_cluster_are_chinese(status: int) -> None:
    """The message of the cluster itself is quoted."""
    error = api.build_refusal_error(status, "pods is forbidden", None, "default")

    assert is_chinese(error.message), error.message


@pytest.mark.parametrize("argv", REFUSED, ids=lambda argv: " ".join(argv[7:]))
def test_a_refusal_is_chinese(argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Error message and next step."""
    monkeypatch.chdir(tmp_path)
    err = CliRunner().invoke(main.main, argv).exception

    assert isinstance(err, EnvcheckError), err
    assert [text for text in (err.message, err.next_step) if not is_chinese(text)] == []


@pytest.mark.parametrize(("device", "cards", "partition"), [("npu", 16, "no"), ("npu", 16, "old")])
def test_where_a_job_does_not_fit_is_chinese(device: str, cards: int, partition: str) -> None:
    """Partitions and GRES stay as Slurm prints them."""
    with pytest.raises(EnvcheckError) as err:
        placement.choose_placement(tuple(site.parse_sinfo(MIXED)), device, 8, cards, partition, "")

    assert ENGLISH.findall(language.translate(err.value.message)) == [], language.translate(err.value.message)


def test_states_of_a_slurm_job_are_chinese(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `runs follow` reports them while the job waits; the reason stays as Slurm gives it."""
    monkeypatch.setattr(queue_wait, "LOOK_EVERY_S", 0.0)
    states = iter(("running", "succeeded"))
    run = Run(tmp_path, QUEUED, None, {"slurm": {"job": "7", "state": "PENDING", "reason": "Resources"}})

    def look(folder: Path) -> Run:
        return Run(
            folder, next(states), None, {"slurm": {"job": "7", "state": "COMPLETED", "node_list": "node[01-02]"}}
        )

    reported: list[str] = []
    run_entry.wait_until_started(run, reported.append, look)

    assert reported == ["envcheck: 作业 7 在等待：Resources", "envcheck: 作业 7 正在 node[01-02] 上运行"]


@pytest.mark.parametrize("reason", ["", "Resources"])
@pytest.mark.parametrize("nodes", ["", "n[1-2]"])
@pytest.mark.parametrize(
    ("state", "word"), [(QUEUED, "PENDING"), ("running", "RUNNING"), ("running", "UNKNOWN"), ("succeeded", "COMPLETED")]
)
def test_every_state_of_a_job_is_one_sentence(state: str, word: str, nodes: str, reason: str, tmp_path: Path) -> None:
    """Job and reason are in the sentence, in both backends, the nodes if the state is known, and no English words."""
    slurm = {"job": "7", "state": word, "node_list": nodes, "reason": reason}
    kubernetes = {"name": "qwen", "namespace": "default", "reason": reason, "state": slurm["state"].lower()}
    sentences = [
        language.translate(run_entry.describe_status(Run(tmp_path, state, None, {"slurm": slurm}))),
        language.translate(k8s_run_entry.describe_status(Run(tmp_path, state, None, {"kubernetes": kubernetes}))),
    ]

    assert "作业 7" in sentences[0] and reason in sentences[0]
    assert word == "UNKNOWN" or nodes in sentences[0]
    assert all(("未知" in sentence) is (word == "UNKNOWN") for sentence in sentences)
    assert "作业 qwen" in sentences[1] and "命名空间 default" in sentences[1]
    assert [ENGLISH.findall(text) for text in sentences] == [[], []]


def test_failed_nodes_are_reported_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """Which nodes, the finding of each preflight check, and the next step."""
    taken = describe_os_error(OSError(errno.EADDRINUSE, "Address already in use"))
    seen = _("cannot open port {port}: {reason}", port=29777, reason=taken)
    gate = FailedGate(
        "nodes.port", seen, "Choose another port with --port, or stop the process that uses it (ss -ltnp)."
    )
    for line in node_reports.describe_verdict(NodesVerdict(("n1", "n2"), {"n2": (gate,)})):
        run_text.print_translated(line)
    printed = capsys.readouterr().err

    assert printed.startswith("envcheck：2 个节点中有 1 个未通过启动检查：n2\n")
    assert "n2：nodes.port：无法打开端口 29777：" in printed and "下一步：请用 --port 换一个端口" in printed
    assert ENGLISH.findall(printed) == [], printed


def test_a_submitted_kubernetes_job_is_reported_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    """What was created, and how to follow and stop it; a line of a container's log is not translated."""
    job = K8sManifest(
        "pytorchjobs", {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "qwen"}}
    )
    for message in submit.describe_created_job(job, "default", "run-1", 2):
        submit._print_message(message)
    submit._print_message("  the job was deleted")
    created, follow, stop, line = capsys.readouterr().err.splitlines()

    assert created == "已在命名空间 default 中创建 PyTorchJob qwen 及其 2 个附属对象"
    assert follow == "跟踪：envcheck runs follow run-1；查看：envcheck runs show run-1"
    assert stop == "停止：envcheck runs stop run-1，或 kubectl delete pytorchjobs.kubeflow.org qwen -n default"
    assert line == "  the job was deleted"
