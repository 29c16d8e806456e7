"""`envcheck train --on k8s --dry-run`: what the documents say, held against the published schemas."""

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
from launch.backends.k8s import tables
from launch.catalogue.schedulers import kubernetes_names
from tests.launch.backends.k8s import k8s_parts

CONFIGMAP = 1 << 20  # bytes of all values, as the API server counts them
FIVE = {  # the published systems; what they want besides
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


def said(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["train", "--on", "k8s", *words], catch_exceptions=True)
    if done.exception and not isinstance(done.exception, SystemExit):
        return 2, f"{done.exception} {getattr(done.exception, 'next_step', '')}"
    return done.exit_code, done.output


def rendered(*words: str) -> Bodies:
    """The documents by their kind."""
    code, text = said(*words, "--dry-run", "--job-name", "job")
    assert code == 0, text
    return {body["kind"]: body for body in yaml.safe_load_all(text)}


def pods(bodies: Bodies) -> dict[str, dict[str, Any]]:
    """The pods' specs by their replica type."""
    job = next(body for kind, body in bodies.items() if kind.endswith("Job"))
    replicas = next(value for key, value in job["spec"].items() if key.endswith("ReplicaSpecs"))
    return {name: each["template"]["spec"] for name, each in replicas.items()}


def every_job() -> Iterator[tuple[str, ...]]:
    for recipe in catalogue.load_all():
        for job in recipe.jobs:
            if job.method not in catalogue.TALKS and job.role in ("", "nvidia"):
                variant = ("--variant", job.variant) if job.variant else ()
                yield ("--recipe", recipe.name, "--method", job.method, *variant)


@pytest.mark.slow
@pytest.mark.parametrize("words", list(every_job()), ids=lambda words: "-".join(words[1::2]))
def test_every_job_of_every_recipe_is_valid(words: tuple[str, ...]) -> None:
    """Each job's documents are what Kubernetes', Kubeflow's and Volcano's schemas take, no field unknown."""
    bodies = rendered(*words, *STORED, "--image", "registry.example/train:1")

    assert {kind: k8s_parts.wrong(body) for kind, body in bodies.items()} == {kind: [] for kind in bodies}


def test_schemas_find_what_is_wrong() -> None:
    """A misspelt field, deep in a pod's template or at the top, is found by the schemas."""
    bodies = rendered(*FIVE["swift"], *STORED)
    pods(bodies)["Master"]["containers"][0]["imagee"] = "x"
    bodies["PodGroup"]["spec"]["minMembers"] = 1

    found = [k8s_parts.wrong(bodies[kind]) for kind in ("PyTorchJob", "PodGroup", "ConfigMap")]

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
    """The kind of job is the framework's, the resource the vendor's; both containers of a pod ask for the same."""
    bodies = rendered(*FIVE[system], *STORED)

    found = pods(bodies)
    assert kind in bodies
    assert {name: pod["containers"][0]["resources"]["limits"] for name, pod in found.items()} == resources
    assert {name: pod["initContainers"][0]["resources"]["limits"] for name, pod in found.items()} == resources


def test_300b_is_a_gang_of_eight() -> None:
    """8 nodes of 16 cards: one master, seven workers numbered from 1, all or none."""
    bodies = rendered(*FIVE["300b"], *STORED, "--queue", "big")

    job, group = bodies["PaddleJob"]["spec"], bodies["PodGroup"]["spec"]
    assert {name: each["replicas"] for name, each in job["paddleReplicaSpecs"].items()} == {"Master": 1, "Worker": 7}
    assert group == {"minMember": 8, "queue": "big", "minResources": {"huawei.com/Ascend910": 128}}
    assert job["runPolicy"]["schedulingPolicy"] == {"minAvailable": 8, "queue": "big"}
    assert {pod["schedulerName"] for pod in pods(bodies).values()} == {"volcano"}


def test_recipe_container_becomes_the_pod() -> None:
    """Mounts, shared memory, network and environment are the recipe's; nobody is privileged and no /dev is mounted."""
    bodies = rendered(*FIVE["iluvatar"], *STORED)
    paths = {v["hostPath"]["path"] for v in pods(bodies)["Master"]["volumes"] if "hostPath" in v}
    npu = pods(rendered(*FIVE["300b"], *STORED))["Master"]
    volumes = {volume["name"]: volume for volume in npu["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in npu["containers"][0]["volumeMounts"]}

    assert paths == {"/home", "/usr/src", "/lib/modules"}
    assert "privileged" not in json.dumps(bodies)
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "131072Mi"}
    assert mounts["/dev/shm"]["name"] == "shm"
    assert mounts["/usr/local/Ascend/driver"]["readOnly"] is True
    assert volumes[mounts["/workspace"]["name"]]["persistentVolumeClaim"] == {"claimName": "train-data"}
    assert npu["hostNetwork"] is True
    assert {"name": "ASCEND_RT_VISIBLE_DEVICES", "value": ",".join(map(str, range(16)))} in npu["containers"][0]["env"]


def test_storage_may_be_a_folder_of_the_nodes() -> None:
    """--storage /FOLDER is a folder that must be there; several mounts of one recipe are folders in it."""
    pod = pods(rendered(*FIVE["llamafactory"], "--storage", "/srv/train"))["Master"]
    subs = [mount.get("subPath") for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "storage"]

    storage = next(volume for volume in pod["volumes"] if volume["name"] == "storage")
    assert storage["hostPath"] == {"path": "/srv/train", "type": "Directory"}
    assert subs == ["hf_cache", "ms_cache", "output"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--recipe", "ernie-21b-iluvatar", "--method", "lora"), "--storage"),
        ((*FIVE["swift"], "--storage", "../x"), "neither a claim nor a folder"),
        ((*FIVE["swift"], "--storage", "/a/../../etc"), "neither a claim nor a folder"),
        (("--recipe", "ernie-21b-hetero", "--method", "lora", *STORED), "--image nvidia="),
        ((*FIVE["300b"], *STORED, "--rank", "3"), "the pods know it"),
        ((*FIVE["swift"], *STORED, "--watch"), "walks the gates itself"),
        ((*FIVE["swift"], *STORED, "--namespace", "No Such"), "--namespace"),
        ((*FIVE["swift"], *STORED, "--image", "user:word@r.example/x y"), "--image"),
        ((*FIVE["swift"], *STORED, "--resource", "npu"), "huawei.com/Ascend910:16"),
        ((*FIVE["swift"], *STORED, "--as-script"), "YAML"),
        ((*FIVE["swift"], *STORED, "--partition", "p"), "Slurm"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], told: str) -> None:
    """Wrong options end with code 2 and words that say what to do."""
    code, text = said(*words, "--dry-run", "--job-name", "job")

    assert (code, told in text) == (2, True), text


def test_no_secret_reaches_a_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment is in the documents, and an option with a secret is refused unsaid."""
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdefghijklmn")
    _, text = said(*FIVE["swift"], *STORED, "--dry-run")
    code, refused = said(*FIVE["swift"], *STORED, "--dry-run", "--set", "output_name=hf_0123456789abcdefghijklmn")

    assert "hf_0123456789" not in text
    assert (code, "hf_0123456789" in refused) == (2, False)


def test_scripts_are_sound() -> None:
    """bash reads every script of every system."""
    for system, words in FIVE.items():
        for name, text in rendered(*words, *STORED)["ConfigMap"]["data"].items():
            if name.endswith(".sh"):
                done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=False)
                assert (system, name, done.returncode, done.stderr) == (system, name, 0, "")


def test_written_files_are_all_that_is_needed(tmp_path: Path) -> None:
    """--write leaves the job and envcheck itself as files, the sum of which the job names; a server takes each."""
    code, text = said(*FIVE["swift"], *STORED, "--write", str(tmp_path), "--job-name", "job")
    packed = list(yaml.safe_load_all((tmp_path / "envcheck.yaml").read_text()))
    job = next(yaml.safe_load_all((tmp_path / "job.yaml").read_text()))

    sent = next(
        v for v in job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["volumes"] if v["name"] == "sent"
    )
    assert code == 0, text
    named = [each["configMap"]["name"] for each in sent["projected"]["sources"]]
    assert named == [each["metadata"]["name"] for each in packed]
    assert [k8s_parts.wrong(each) for each in packed] == [[] for _ in packed]
    assert all(len(text) * 3 // 4 < CONFIGMAP for each in packed for text in each["binaryData"].values())


def test_every_recipe_has_a_kind_and_cards() -> None:
    """No framework and no vendor of the recipes is missing in the tables, and each row names its source."""
    for recipe in catalogue.load_all():
        assert tables.kind_of(recipe.framework).container
        names = [kubernetes_names(job.device or recipe.device) for job in recipe.jobs]
        assert all(one and one.source for one in names)
