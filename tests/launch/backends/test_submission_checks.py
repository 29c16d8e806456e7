"""What needs no node is judged before a job is submitted to Kubernetes or started over ssh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envcheck.core.errors import EnvcheckError, UsageError
from envcheck.core.facts import Facts
from launch import job_files
from launch.backends import submission_checks
from launch.backends.k8s import session
from launch.backends.roles import resolve_roles
from launch.backends.ssh import train_hosts
from launch.targets.train_request import TrainRequest

SWIFT = TrainRequest(recipe="qwen-7b-npu-swift", method="lora", variant="zero3")
BIG = TrainRequest(model="300b", method="sft", device="npu")
MIXED = TrainRequest(recipe="ernie-21b-hetero", method="lora")
TINY = TrainRequest(recipe="tiny-cpu", method="lora", port=29517)
IMAGES = {"image": ("nvidia=a:1", "iluvatar=b:1")}


@pytest.mark.parametrize(
    ("request_", "own", "words"),
    [
        (SWIFT, {"image": ("worker=a/b:1",)}, "--image: recipe qwen-7b-npu-swift has no role 'worker'"),
        (SWIFT, {"resource": ("worker=a/b:1",)}, "--resource: recipe qwen-7b-npu-swift has no role 'worker'"),
        (MIXED, {"image": (*IMAGES["image"], "npu=c:1")}, "--image: recipe ernie-21b-hetero has no role 'npu'"),
        (SWIFT, {"resource": ("huawei.com/Ascend910:0",)}, "invalid value for --resource: 'huawei.com/Ascend910:0'"),
        (SWIFT, {"rdma": "rdma/x:0"}, "invalid value for --rdma: 'rdma/x:0'"),
        (SWIFT, {"no_gang": True, "queue": "train"}, "--no-gang cannot be used with --queue: Volcano alone has queues"),
        (replace(SWIFT, data=Path("x.json")), {}, "--data x.json is not in the pods of recipe qwen-7b-npu-swift"),
        (replace(SWIFT, data=Path("/srv/x")), {}, "--data /srv/x is not in the pods of recipe qwen-7b-npu-swift"),
        (replace(BIG, port=10250), {}, "port 10250 belongs to kubelet"),
        (
            replace(BIG, port=60001),
            {},
            "port 60001 of the launcher is one of the ports of the collectives, 60000-60015",
        ),
        (replace(BIG, port=22), {}, "port 22 belongs to sshd"),
        (SWIFT, {"storage": "/."}, "--storage /. would give the pods the system of the node"),
        (SWIFT, {"storage": "/proc/1"}, "--storage /proc/1 would give the pods the system of the node"),
        (SWIFT, {"image": ("Train:1",)}, "invalid value for --image: 'Train:1'"),
        (
            BIG,
            {"resource": ("huawei.com/Ascend910:8",)},
            "--resource huawei.com/Ascend910:8: requests 8 on each node, but the job uses 16 devices",
        ),
        (BIG, {"resource": ("huawei.com/Ascend910:16",), "storage": "/srv/x", "image": ("r.example:5000/a/b:1",)}, ""),
        (replace(BIG, data=Path("/workspace/x.json"), port=81), {}, ""),
        (MIXED, IMAGES, ""),
    ],
)
def test_a_job_for_kubernetes(request_: TrainRequest, own: dict[str, Any], words: str) -> None:
    """Roles that the recipe does not have, no cards, queues without gang scheduling, paths outside of the storage, and
    ports of the node's own services are refused before a manifest is made; valid values are not."""
    values = {"storage": "train-data", **own}
    if not words:
        session.check_values(request_, *session.resolve_pod_groups(request_, values))
        return
    with pytest.raises(UsageError) as err:
        session.check_values(request_, *session.resolve_pod_groups(request_, values))

    assert err.value.message == words


@pytest.mark.parametrize(
    ("request_", "hosts", "words"),
    [
        (replace(TINY, port=None), 2, "missing value for MASTER_PORT"),
        (replace(TINY, data=Path("x.json")), 2, "--data x.json is relative, but it is a path on the hosts"),
        (replace(TINY, into=Path("env")), 2, "--into env is relative, but it is a path on the hosts"),
        (replace(TINY, settings=("nonsense=1",)), 2, "no option 'nonsense'"),
        (replace(TINY, master="127.0.0.1"), 2, "--master 127.0.0.1 is a loopback address"),
        (replace(TINY, master="node1:29000"), 2, "--master node1:29000 and --port 29517 name different ports"),
        (BIG, 2, "2 x 16 = 32 cards"),
        (replace(BIG, port=60001), 8, "port 60001 of the launcher is one of the ports of the collectives"),
        (replace(BIG, model="21c"), 8, "no recipe matches --model 21c"),
        (replace(BIG, port=22), 8, "port 22 belongs to sshd"),
        (replace(TINY, runs=Path("/proc/x")), 2, "--runs /proc/x: no run folder can be made there"),
        (replace(TINY, runs=Path("/dev/full")), 2, "--runs /dev/full: no run folder can be made there"),
        (replace(TINY, runs=Path("/dev/shm/runs")), 2, ""),
        (BIG, 8, ""),
        (TINY, 2, ""),
        (MIXED, 2, ""),
        (TrainRequest(model="21b", method="lora"), 1, ""),  # several recipes: each host takes the one for its devices
    ],
)
def test_a_job_for_hosts(request_: TrainRequest, hosts: int, words: str) -> None:
    """Wrong options, incomplete commands, relative paths and impossible ports are errors of the command line, before
    any host is asked; valid jobs pass."""
    names = [f"node{number:02}" for number in range(hosts)]
    if not words:
        train_hosts.check_job(request_, names)
        return
    with pytest.raises(UsageError) as err:
        train_hosts.check_job(request_, names)

    assert words in err.value.message


def test_paths_that_other_nodes_may_not_see(tmp_path: Path) -> None:
    """A folder on this machine's own disk or in its memory is named, a network file system is not; the deepest mounted
    folder counts, behind symbolic links."""
    (tmp_path / "local").mkdir()
    (tmp_path / "link").symlink_to("local")
    folders = {"runs": tmp_path / "link" / "runs", "data": tmp_path / "data.json"}
    request = replace(TINY, port=None, **folders)
    mounts = [("/", "ext4"), (str(tmp_path), "nfs4"), (str(tmp_path / "local"), "tmpfs")]
    (job,) = resolve_roles(request, Facts())

    notes = submission_checks.describe_local_paths(request, job, "/envcheck", mounts)

    assert [(note.values["option"], note.values["kind"]) for note in notes] == [
        ("--runs", "tmpfs"),
        ("envcheck", "ext4"),
    ]


def test_a_folder_that_cannot_be_made_is_named() -> None:
    """--write of a script or of manifests into /proc is an error with the folder, not a bug of envcheck."""
    with pytest.raises(EnvcheckError, match="cannot write to /proc/x: "):
        job_files.write_files(Path("/proc/x"), {"job.sbatch": ""}, over=False)


def test_one_host_gets_no_rank() -> None:
    """Jobs of one node refuse --rank and --master, which only hosts of several get."""
    one = train_hosts.NodesRequest(("a",), (), "", master="a").list_host_options("a")
    two = train_hosts.NodesRequest(("a", "b"), (), "", master="a").list_host_options("b")

    assert one == ("--nnodes", "1", "--runs", "runs/a")
    assert two == ("--nnodes", "2", "--rank", "1", "--master", "a", "--runs", "runs/b")
