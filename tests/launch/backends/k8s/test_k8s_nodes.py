"""Checks before submission: which nodes of a cluster meet the requirements of a job, as far as its API lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envcheck.cli import schemas
from launch.backends.k8s import node_resources
from launch.backends.k8s.k8s_options import build_pod_groups, parse_k8s_options
from launch.backends.k8s.node_resources import K8sNode
from launch.backends.node_findings import blocked_by, print_placement
from launch.targets.train_request import TrainRequest
from tests.launch.backends.k8s import api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, TENANT, run_envcheck

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")
NODES = "/api/v1/nodes"
NPU, GPU, BOARD = "huawei.com/Ascend910", "nvidia.com/gpu", "iluvatar.com/gpu"


def make_node_body(name: str, arch: str = "amd64", memory: str = "2Ti", **resources: str) -> dict[str, Any]:
    """Return a node as the API lists it; `resources` by vendor, or by the name after the slash."""
    named = {full: resources[full.split("/")[1]] for full in (NPU,) if full.split("/")[1] in resources}
    named |= {full: resources[key] for key, full in (("nvidia", GPU), ("iluvatar", BOARD)) if key in resources}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}},
        "status": {"allocatable": {"cpu": "192", "memory": memory, "pods": "110", **named}},
    }


def parse_nodes(*bodies: dict[str, Any]) -> tuple[K8sNode, ...]:
    return tuple(node_resources.parse_nodes({"items": list(bodies)}))


def judge_request(request: TrainRequest, *bodies: dict[str, Any], **own: object) -> tuple[str, ...]:
    options = parse_k8s_options({"storage": "data", **own}, "job")
    return blocked_by(node_resources.judge_pods(build_pod_groups(request, options), parse_nodes(*bodies)))


def test_parse_nodes() -> None:
    """Name, architecture as uname names it, and quantities as numbers; invalid quantities are skipped."""
    strange = make_node_body("b", Ascend910="many")
    del strange["metadata"]["labels"]
    strange["status"]["nodeInfo"] = {"architecture": "arm64"}
    one, other = parse_nodes(make_node_body("a", memory="263766020Ki", Ascend910="8"), strange)

    assert (one.name, one.architecture, one.allocatable["memory"]) == ("a", "x86_64", 263766020 << 10)
    assert (one.allocatable[NPU], other.architecture, NPU in other.allocatable) == (8, "aarch64", False)


FOUR = TrainRequest(
    recipe="qwen-7b-npu-swift", method="lora", variant="zero3"
)  # one pod of 4 cards, an image for two architectures
WIDE = TrainRequest(model="300b", method="sft", device="npu")  # 8 pods of 16 cards and 559 GiB each


@pytest.mark.parametrize(
    ("request_", "bodies", "names"),
    [
        (FOUR, [make_node_body("a", Ascend910="8")], ()),
        (FOUR, [make_node_body("a", Ascend910="2")], ("cards",)),
        (FOUR, [make_node_body("a"), make_node_body("b", nvidia="8")], ("device",)),
        (FOUR, [make_node_body("a", "arm64", Ascend910="8")], ()),
        (FOUR, [make_node_body("a", "s390x", Ascend910="8")], ("architecture",)),
        (WIDE, [make_node_body(f"n{n}", "arm64", Ascend910="16") for n in range(8)], ("architecture",)),
        (FOUR, [make_node_body("a", memory="16Gi", Ascend910="8")], ("host_memory",)),
        (FOUR, [make_node_body("a", "arm64", Ascend910="8"), make_node_body("b", Ascend910="8")], ()),
        (WIDE, [make_node_body(f"n{n}", Ascend910="16") for n in range(8)], ()),
        (WIDE, [make_node_body(f"n{n}", Ascend910="16") for n in range(7)], ("nodes",)),
        (WIDE, [make_node_body("big", Ascend910="128", memory="8Ti")], ()),
    ],
)
def test_which_requirement_no_node_meets(
    request_: TrainRequest, bodies: list[dict[str, Any]], names: tuple[str, ...]
) -> None:
    """By allocatable resources, not by free ones; pods of one job may share a large node."""
    assert judge_request(request_, *bodies, no_gang=True) == names


@pytest.mark.parametrize(
    ("resource", "names"), [((), ()), (("iluvatar.com/gpu:16",), ("cards",)), (("iluvatar.com/gpu:8",), ())]
)
def test_boards_and_chips(resource: tuple[str, ...], names: tuple[str, ...]) -> None:
    """The device plugin counts boards with two chips, or what --resource says."""
    request = TrainRequest(model="21b", method="lora", device="iluvatar")

    assert judge_request(request, make_node_body("a", iluvatar="8"), resource=resource) == names


def test_each_role_has_its_own_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """A job over mixed devices is refused for the role without nodes, which the title names."""
    images = ("nvidia=registry.example/a:1", "iluvatar=registry.example/b:1")
    every = build_pod_groups(
        TrainRequest(recipe="ernie-21b-hetero", method="lora"),
        parse_k8s_options({"storage": "data", "image": images}, "job"),
    )
    nvidia, iluvatar = node_resources.judge_pods(
        every, parse_nodes(make_node_body("a", nvidia="8"), make_node_body("b", iluvatar="2"))
    )
    print_placement((nvidia, iluvatar))

    assert (nvidia.is_refused, iluvatar.blocked_by) == (False, ("device", "cards"))
    assert "blocked: ernie-21b-hetero lora (iluvatar) needs 1 node" in capsys.readouterr().err


@pytest.mark.slow
def test_a_job_without_fitting_nodes_is_not_created(tmp_path: Path) -> None:
    """Exit code 1 with the unmet requirement, no job and no run folder; with one fitting node it is submitted."""
    with api_small.start_small_api(tmp_path) as (api, _):
        api.set_kinds(*EVERY)
        api.send_request("POST", NODES, {"kind": "Node", "apiVersion": "v1", **make_node_body("small", Ascend910="2")})
        code, out, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "large", "--detach", "--json")
        created, document = api.send_request("GET", f"{JOBS}/large"), json.loads(out)
        api.send_request("POST", NODES, {"kind": "Node", "apiVersion": "v1", **make_node_body("enough", Ascend910="8")})
        fits = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "large", "--detach")

    assert (code, created, document["blocked_by"]) == (1, None, ["cards"]), err
    jsonschema.validate(document, schemas.build_schema("train-k8s"))
    assert "found: cluster 0/1\nfailed   small: job.cards: " in err
    assert err.endswith("envcheck: the job was not submitted\n")
    assert fits[0] == 0, fits
    assert len(list((tmp_path / "runs").glob("*"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("may_list", (False, True))
def test_nodes_that_cannot_be_listed(may_list: bool, tmp_path: Path) -> None:
    """Without permission to list nodes, or without nodes, a note is printed and the job is created."""
    with api_small.start_small_api(tmp_path) as (api, _):
        api.set_kinds(*EVERY)
        config = api.write_kubeconfig() if may_list else api.write_kubeconfig(TENANT)
        code, _, err = run_envcheck(config, *SWIFT, "--job-name", "unjudged", "--detach")

    why = "the cluster has no nodes" if may_list else "permission denied by the cluster: nodes is forbidden"
    assert (code, f"note: the nodes were not checked before submission: {why}" in err) == (0, True), err


def test_several_pages_of_nodes(tmp_path: Path) -> None:
    """Nodes are listed in pages of PAGE nodes."""

    class Answer:
        def __init__(self, document: dict[str, Any]) -> None:
            self.data = json.dumps(document).encode()

    class Core:
        def list_node(self, _continue: str = "", **_: object) -> Answer:
            more = {} if _continue else {"continue": "next"}
            return Answer({"metadata": more, "items": [make_node_body("b" if _continue else "a")]})

    cluster: Any = type("Cluster", (), {"core": Core()})()
    found = node_resources.list_nodes(cluster)

    assert [node.name for node in found if isinstance(node, K8sNode)] == ["a", "b"]
