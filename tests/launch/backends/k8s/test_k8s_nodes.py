"""Whether a cluster's nodes can take a job's pods, by what its API tells of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envcheck.cli import schemas
from launch.backends.k8s import node_resources
from launch.backends.k8s.k8s_options import parts, wish
from launch.backends.k8s.node_resources import K8sNode
from launch.backends.node_findings import blocked_by, print_placement
from launch.targets.request import TrainRequest
from tests.launch.backends.k8s import api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, TENANT, done

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")
NODES = "/api/v1/nodes"
NPU, GPU, BOARD = "huawei.com/Ascend910", "nvidia.com/gpu", "iluvatar.com/gpu"


def body(name: str, arch: str = "amd64", memory: str = "2Ti", **resources: str) -> dict[str, Any]:
    """A node as the API has it; of resources the part behind the slash of their name."""
    named = {full: resources[full.split("/")[1]] for full in (NPU,) if full.split("/")[1] in resources}
    named |= {full: resources[key] for key, full in (("nvidia", GPU), ("iluvatar", BOARD)) if key in resources}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}},
        "status": {"allocatable": {"cpu": "192", "memory": memory, "pods": "110", **named}},
    }


def nodes(*bodies: dict[str, Any]) -> tuple[K8sNode, ...]:
    return tuple(node_resources.parse({"items": list(bodies)}))


def judged(request: TrainRequest, *bodies: dict[str, Any], **own: object) -> tuple[str, ...]:
    said = wish({"storage": "data", **own}, "job")
    return blocked_by(node_resources.judge_pods(parts(request, said), nodes(*bodies)))


def test_what_the_api_tells_of_a_node() -> None:
    """Name, the architecture as uname calls it, and quantities as numbers; what is no quantity is left out."""
    strange = body("b", Ascend910="many")
    del strange["metadata"]["labels"]
    strange["status"]["nodeInfo"] = {"architecture": "arm64"}
    one, other = nodes(body("a", memory="263766020Ki", Ascend910="8"), strange)

    assert (one.name, one.architecture, one.allocatable["memory"]) == ("a", "x86_64", 263766020 << 10)
    assert (one.allocatable[NPU], other.architecture, NPU in other.allocatable) == (8, "aarch64", False)


FOUR = TrainRequest(recipe="qwen-7b-npu-swift", method="lora", variant="zero3")  # one pod of 4 cards, x86_64's image
WIDE = TrainRequest(model="300b", method="sft", device="npu")  # 8 pods of 16 cards and 559 GiB each


@pytest.mark.parametrize(
    ("request_", "bodies", "names"),
    [
        (FOUR, [body("a", Ascend910="8")], ()),
        (FOUR, [body("a", Ascend910="2")], ("cards",)),
        (FOUR, [body("a"), body("b", nvidia="8")], ("device",)),
        (FOUR, [body("a", "arm64", Ascend910="8")], ("architecture",)),
        (FOUR, [body("a", memory="16Gi", Ascend910="8")], ("host_memory",)),
        (FOUR, [body("a", "arm64", Ascend910="8"), body("b", Ascend910="8")], ()),
        (WIDE, [body(f"n{n}", Ascend910="16") for n in range(8)], ()),
        (WIDE, [body(f"n{n}", Ascend910="16") for n in range(7)], ("nodes",)),
        (WIDE, [body("big", Ascend910="128", memory="8Ti")], ()),
    ],
)
def test_which_requirement_no_node_meets(
    request_: TrainRequest, bodies: list[dict[str, Any]], names: tuple[str, ...]
) -> None:
    """By what can be allocated in all, not by what is free; pods of one job may share a large node."""
    assert judged(request_, *bodies, no_gang=True) == names


@pytest.mark.parametrize(
    ("resource", "names"), [((), ()), (("iluvatar.com/gpu:16",), ("cards",)), (("iluvatar.com/gpu:8",), ())]
)
def test_boards_and_chips(resource: tuple[str, ...], names: tuple[str, ...]) -> None:
    """The plugin counts boards of two chips, or what a person says that it counts."""
    request = TrainRequest(model="21b", method="lora", device="iluvatar")

    assert judged(request, body("a", iluvatar="8"), resource=resource) == names


def test_each_role_has_its_own_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """A job over mixed cards is refused for the role that finds none, and names it."""
    images = ("nvidia=registry.example/a:1", "iluvatar=registry.example/b:1")
    every = parts(
        TrainRequest(recipe="ernie-21b-hetero", method="lora"), wish({"storage": "data", "image": images}, "job")
    )
    nvidia, iluvatar = node_resources.judge_pods(every, nodes(body("a", nvidia="8"), body("b", iluvatar="2")))
    print_placement((nvidia, iluvatar))

    assert (nvidia.is_refused, iluvatar.blocked_by) == (False, ("device", "cards"))
    assert "blocked: ernie-21b-hetero lora (iluvatar) needs 1 node" in capsys.readouterr().err


@pytest.mark.slow
def test_nothing_is_made_that_no_node_can_take(tmp_path: Path) -> None:
    """Exit code 1 with the judge's own sentence, no job, no folder; one node that fits lets it through."""
    with api_small.small_api(tmp_path) as (api, _):
        api.has_kinds(*EVERY)
        api.ask("POST", NODES, {"kind": "Node", "apiVersion": "v1", **body("small", Ascend910="2")})
        code, out, err = done(api.kubeconfig(), *SWIFT, "--job-name", "large", "--detach", "--json")
        made, said = api.ask("GET", f"{JOBS}/large"), json.loads(out)
        api.ask("POST", NODES, {"kind": "Node", "apiVersion": "v1", **body("enough", Ascend910="8")})
        fits = done(api.kubeconfig(), *SWIFT, "--job-name", "large", "--detach")

    assert (code, made, said["blocked_by"]) == (1, None, ["cards"]), err
    jsonschema.validate(said, schemas.schema("train-k8s"))
    assert "found: cluster 0/1\nfail    small: job.cards: " in err
    assert err.endswith("envcheck: nothing was submitted\n")
    assert fits[0] == 0, fits
    assert len(list((tmp_path / "runs").glob("*"))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("may_list", (False, True))
def test_nodes_that_are_not_told(may_list: bool, tmp_path: Path) -> None:
    """Who may not list nodes, or a cluster that has none yet, is not held up: it is said, and the job is made."""
    with api_small.small_api(tmp_path) as (api, _):
        api.has_kinds(*EVERY)
        config = api.kubeconfig() if may_list else api.kubeconfig(TENANT)
        code, _, err = done(config, *SWIFT, "--job-name", "unjudged", "--detach")

    why = "the cluster lists no nodes" if may_list else "the cluster forbids it: nodes is forbidden"
    assert (code, f"note: the nodes were not checked before submission: {why}" in err) == (0, True), err


def test_several_pages_of_nodes(tmp_path: Path) -> None:
    """Nodes come in pages of some hundreds."""

    class Answer:
        def __init__(self, document: dict[str, Any]) -> None:
            self.data = json.dumps(document).encode()

    class Core:
        def list_node(self, _continue: str = "", **_: object) -> Answer:
            more = {} if _continue else {"continue": "next"}
            return Answer({"metadata": more, "items": [body("b" if _continue else "a")]})

    cluster: Any = type("Cluster", (), {"core": Core()})()
    found = node_resources.ask(cluster)

    assert [node.name for node in found if isinstance(node, K8sNode)] == ["a", "b"]
