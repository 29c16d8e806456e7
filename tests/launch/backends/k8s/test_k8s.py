"""`envcheck train --on k8s --dry-run`: the manifests, validated with the published schemas."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from envcheck.cli.main import main
from installers.recipes import catalogue
from launch.backends.k8s import cluster_terms
from launch.catalogue.schedulers import kubernetes_names
from tests.launch.backends.k8s import k8s_parts

CONFIGMAP = 1 << 20  # bytes of all values: the limit of the API server
FIVE = {  # the published systems, with the options they need
    "300b": ("--recipe", "ernie-300b-npu", "--method", "sft"),
    "iluvatar": ("--recipe", "ernie-21b-iluvatar", "--method", "lora"),
    "hetero": (
        "--recipe",
        "ernie-21b-hetero",
        "--method",
        "lora",
        "--image",
        "nvidia=r.example/n:1",
        "--image",
        "r.example/i:1",
    ),
    "llamafactory": ("--recipe", "qwen-7b-npu-llamafactory", "--method", "lora"),
    "swift": ("--recipe", "qwen-7b-npu-swift", "--method", "lora", "--variant", "zero3"),
}
STORED = ("--storage", "train-data")
Bodies = dict[str, dict[str, Any]]


def run_train(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["train", "--on", "k8s", *words], catch_exceptions=True)
    if done.exception and not isinstance(done.exception, SystemExit):
        return 2, f"{done.exception} {getattr(done.exception, 'next_step', '')}"
    return done.exit_code, done.output


def render_documents(*words: str) -> Bodies:
    """Return the manifests by kind."""
    code, text = run_train(*words, "--dry-run", "--job-name", "job")
    assert code == 0, text
    return {body["kind"]: body for body in yaml.safe_load_all(text)}


def list_pod_specs(bodies: Bodies) -> dict[str, dict[str, Any]]:
    """Return the pod specs by replica type."""
    job = next(body for kind, body in bodies.items() if kind.endswith("Job"))
    replicas = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
    return {name: each["template"]["spec"] for name, each in replicas.items()}


def list_jobs() -> Iterator[tuple[str, ...]]:
    for recipe in catalogue.load_all():
        for job in recipe.jobs:
            if job.method not in catalogue.TALKS and job.role in ("", "nvidia"):
                variant = ("--variant", job.variant) if job.variant else ()
                yield ("--recipe", recipe.name, "--method", job.method, *variant)


@pytest.mark.slow
@pytest.mark.parametrize("words", list(list_jobs()), ids=lambda words: "-".join(words[1::2]))
def test_every_job_of_every_recipe_is_valid(words: tuple[str, ...]) -> None:
    """The manifests of each job match the schemas of Kubernetes, Kubeflow and Volcano, without unknown fields."""
    bodies = render_documents(*words, *STORED, "--image", "registry.example/train:1")

    assert {kind: k8s_parts.list_errors(body) for kind, body in bodies.items()} == {kind: [] for kind in bodies}


def test_schemas_find_what_is_wrong() -> None:
    """The schemas find a misspelt field, in the pod template or at the top level."""
    bodies = render_documents(*FIVE["swift"], *STORED)
    list_pod_specs(bodies)["Master"]["containers"][0]["imagee"] = "x"
    bodies["PodGroup"]["spec"]["minMembers"] = 1

    found = [k8s_parts.list_errors(bodies[kind]) for kind in ("PyTorchJob", "PodGroup", "ConfigMap")]

    assert [bool(each) for each in found] == [True, True, False]


@pytest.mark.parametrize(
    ("system", "kind", "resources"),
    [
        ("300b", "PaddleJob", {"Master": {"huawei.com/Ascend910": 16}, "Worker": {"huawei.com/Ascend910": 16}}),
        ("iluvatar", "PaddleJob", {"Master": {"iluvatar.com/gpu": 8}}),
        ("hetero", "PaddleJob", {"Master": {"nvidia.com/gpu": 8}, "Worker": {"iluvatar.com/gpu": 4}}),
        ("llamafactory", "PyTorchJob", {"Master": {"huawei.com/Ascend910": 1}}),
        ("swift", "PyTorchJob", {"Master": {"huawei.com/Ascend910": 4}}),
    ],
)
def test_each_system_asks_for_its_cards(system: str, kind: str, resources: Any) -> None:
    """The job kind depends on the framework, the resource on the vendor; both containers of a pod request the same."""
    bodies = render_documents(*FIVE[system], *STORED)

    found = list_pod_specs(bodies)
    assert kind in bodies
    assert {name: pod["containers"][0]["resources"]["limits"] for name, pod in found.items()} == resources
    assert {name: pod["initContainers"][0]["resources"]["limits"] for name, pod in found.items()} == resources


def test_300b_is_a_gang_of_eight() -> None:
    """8 nodes with 16 devices: one master, seven workers, scheduled together."""
    bodies = render_documents(*FIVE["300b"], *STORED, "--queue", "big")

    job, group = bodies["PaddleJob"]["spec"], bodies["PodGroup"]["spec"]
    assert {name: each["replicas"] for name, each in job["paddleReplicaSpecs"].items()} == {"Master": 1, "Worker": 7}
    assert group == {"minMember": 8, "queue": "big", "minResources": {"huawei.com/Ascend910": 128}}
    assert job["runPolicy"]["schedulingPolicy"] == {"minAvailable": 8, "queue": "big"}
    assert {pod["schedulerName"] for pod in list_pod_specs(bodies).values()} == {"volcano"}


def test_recipe_container_becomes_the_pod() -> None:
    """Mounts, shared memory, network and environment come from the recipe; no pod is privileged, and none mounts /dev,
    home folders or kernel sources."""
    bodies = render_documents(*FIVE["iluvatar"], *STORED)
    paths = {v["hostPath"]["path"] for v in list_pod_specs(bodies)["Master"]["volumes"] if "hostPath" in v}
    npu = list_pod_specs(render_documents(*FIVE["300b"], *STORED))["Master"]
    volumes = {volume["name"]: volume for volume in npu["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in npu["containers"][0]["volumeMounts"]}

    assert paths == set()
    assert "/home" not in mounts
    assert "privileged" not in json.dumps(bodies)
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "131072Mi"}
    assert mounts["/dev/shm"]["name"] == "shm"
    assert mounts["/usr/local/Ascend/driver"]["readOnly"] is True
    assert volumes[mounts["/workspace"]["name"]]["persistentVolumeClaim"] == {"claimName": "train-data"}
    assert npu["hostNetwork"] is True
    assert {"name": "ASCEND_RT_VISIBLE_DEVICES", "value": ",".join(map(str, range(16)))} in npu["containers"][0]["env"]


def test_storage_may_be_a_folder_of_the_nodes() -> None:
    """--storage /FOLDER is a host folder that must exist; the mounts of a recipe are folders in it."""
    pod = list_pod_specs(render_documents(*FIVE["llamafactory"], "--storage", "/srv/train"))["Master"]
    subs = [mount.get("subPath") for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "storage"]

    storage = next(volume for volume in pod["volumes"] if volume["name"] == "storage")
    assert storage["hostPath"] == {"path": "/srv/train", "type": "Directory"}
    assert subs == ["hf_cache", "ms_cache", "output"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--recipe", "ernie-21b-iluvatar", "--method", "lora"), "--storage"),
        ((*FIVE["swift"], "--storage", "../x"), "invalid value for --storage"),
        ((*FIVE["swift"], "--storage", "/a/../../etc"), "invalid value for --storage"),
        (("--recipe", "ernie-21b-hetero", "--method", "lora", *STORED), "--image nvidia="),
        ((*FIVE["300b"], *STORED, "--rank", "3"), "--rank cannot be used with --on k8s"),
        ((*FIVE["swift"], *STORED, "--dashboard"), "each pod runs the preflight checks itself"),
        ((*FIVE["swift"], *STORED, "--namespace", "No Such"), "--namespace"),
        ((*FIVE["swift"], *STORED, "--image", "user:word@r.example/x y"), "--image"),
        ((*FIVE["swift"], *STORED, "--resource", "npu"), "huawei.com/Ascend910:16"),
        ((*FIVE["swift"], *STORED, "--as-script"), "YAML"),
        ((*FIVE["swift"], *STORED, "--partition", "p"), "Slurm"),
    ],
)
def test_invalid_options(words: tuple[str, ...], expected: str) -> None:
    """Invalid options exit with code 2 and name the option or its fix."""
    code, text = run_train(*words, "--dry-run", "--job-name", "job")

    assert (code, expected in text) == (2, True), text


def test_no_secret_reaches_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller's environment is not in the manifests, and an option with a secret is rejected without printing it."""
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdefghijklmn")
    _, text = run_train(*FIVE["swift"], *STORED, "--dry-run")
    code, refused = run_train(*FIVE["swift"], *STORED, "--dry-run", "--set", "output_name=hf_0123456789abcdefghijklmn")

    assert "hf_0123456789" not in text
    assert (code, "hf_0123456789" in refused) == (2, False)


def test_scripts_are_sound() -> None:
    """bash -n accepts every script of every system."""
    for system, words in FIVE.items():
        for name, text in render_documents(*words, *STORED)["ConfigMap"]["data"].items():
            if name.endswith(".sh"):
                done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
                assert (system, name, done.returncode, done.stderr) == (system, name, 0, "")


def test_written_files_are_all_that_is_needed(tmp_path: Path) -> None:
    """--write saves the job and envcheck as files; the job mounts all parts of envcheck, each below the size limit."""
    code, text = run_train(*FIVE["swift"], *STORED, "--write", str(tmp_path), "--job-name", "job")
    packed = list(yaml.safe_load_all((tmp_path / "envcheck.yaml").read_text()))
    job = next(yaml.safe_load_all((tmp_path / "job.yaml").read_text()))

    sent = next(
        v for v in job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["volumes"] if v["name"] == "sent"
    )
    assert code == 0, text
    named = [each["configMap"]["name"] for each in sent["projected"]["sources"]]
    assert named == [each["metadata"]["name"] for each in packed]
    assert [k8s_parts.list_errors(each) for each in packed] == [[] for _ in packed]
    assert all(len(text) * 3 // 4 < CONFIGMAP for each in packed for text in each["binaryData"].values())


def test_every_recipe_has_a_kind_and_cards() -> None:
    """The tables have every framework and vendor of the recipes, and each row has a source."""
    for recipe in catalogue.load_all():
        assert cluster_terms.find_job_kind(recipe.framework).container
        names = [kubernetes_names(job.device or recipe.device) for job in recipe.jobs]
        assert all(one and one.source for one in names)
