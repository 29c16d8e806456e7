"""`envcheck train --on k8s` with each operator, architecture and option of the pods."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from envcheck.core.errors import BUG, CHECK_FAILED, INTERRUPTED, TRAINING_FAILED
from launch.backends.k8s import cluster_terms, job_bodies, patches, status
from tests.launch.backends.k8s import k8s_parts
from tests.launch.backends.k8s.test_k8s import FIVE, STORED, list_pod_specs, render_documents, run_train

OPTIONS = (
    *("--pull-secret", "registry", "--toleration", "nvidia.com/gpu:NoSchedule", "--toleration", "team=a"),
    *("--node-selector", "zone=b", "--priority-class", "high", "--service-account", "trainer"),
    *("--annotation", "note=it's: #1", "--rdma", "rdma/hca:2"),
)
OPERATORS = ("training", "trainer", "jobset", "volcano", "ascend")


def find_templates(bodies: dict[str, Any]) -> list[dict[str, Any]]:
    return [template for body in bodies.values() for template in patches.find_pod_templates(body)]


def test_operators_are_those_of_the_tables() -> None:
    """The operators are those of the tables, the vendors' last."""
    assert cluster_terms.list_operators() == OPERATORS


@pytest.mark.parametrize(("operator", "system"), [*itertools.product(OPERATORS, ("swift",)), *itertools.product(
    ("training", "trainer", "jobset", "volcano"), ("300b",)), ("jobset", "hetero"), ("volcano", "hetero")])  # fmt: skip
def test_manifests_of_each_operator_are_valid(operator: str, system: str) -> None:
    """The manifests match the published schemas, with all options; all pods get them, and one is node 0."""
    bodies = render_documents(*FIVE[system], *STORED, "--operator", operator, *OPTIONS)
    pods = find_templates(bodies)

    assert {kind: k8s_parts.list_errors(body) for kind, body in bodies.items()} == {kind: [] for kind in bodies}
    assert all(pod["spec"]["imagePullSecrets"] == [{"name": "registry"}] for pod in pods)
    assert all(pod["spec"]["tolerations"][0] == {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
               for pod in pods)  # fmt: skip
    assert all(pod["spec"]["nodeSelector"]["zone"] == "b" and pod["spec"]["priorityClassName"] == "high"
               for pod in pods)  # fmt: skip
    assert all(pod["metadata"]["annotations"]["note"] == "it's: #1" for pod in pods)
    for pod in pods:
        for container in (*pod["spec"]["initContainers"], *pod["spec"]["containers"]):
            assert container["resources"]["limits"]["rdma/hca"] == 2
            assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


RESTARTS = {
    "training": ("PyTorchJob", {"runPolicy": {"backoffLimit": 3}}),
    "ascend": ("AscendJob", {"runPolicy": {"backoffLimit": 3}}),
    "trainer": ("TrainingRuntime", {"template": {"spec": {"failurePolicy": {"maxRestarts": 3}}}}),
    "jobset": ("JobSet", {"failurePolicy": {"maxRestarts": 3}}),
    "volcano": ("Job", {"maxRetry": 3}),
}


def contains(found: Any, wanted: Any) -> bool:
    """Return whether all keys of a mapping, at any depth, have the wanted values."""
    if not isinstance(wanted, dict):
        return bool(found == wanted)
    return isinstance(found, dict) and all(contains(found.get(key), value) for key, value in wanted.items())


@pytest.mark.parametrize("operator", OPERATORS)
def test_restarts_by_each_operator(operator: str) -> None:
    """--restart becomes the operator's own option; pods do not get it, and those that failed are not started again."""
    bodies = render_documents(*FIVE["swift"], *STORED, "--operator", operator, "--restart", "3")
    kind, wanted = RESTARTS[operator]
    text = json.dumps(bodies)

    assert contains(bodies[kind]["spec"], wanted), bodies[kind]["spec"]
    assert {kind: k8s_parts.list_errors(body) for kind, body in bodies.items()} == {kind: [] for kind in bodies}
    assert "--restart" not in text
    if operator in ("trainer", "jobset"):
        assert INTERRUPTED not in job_bodies.FAILED["values"]  # evicted: as with kubeflow, above 127 starts again
        assert {CHECK_FAILED, TRAINING_FAILED, BUG} <= set(job_bodies.FAILED["values"])
    assert [sign in text for sign in ('"ExitCode"', '"FailJobSet"', '"PodEvicted"')].count(True) == 1


@pytest.mark.parametrize(
    ("operator", "master", "index"),
    [
        ("training", "job-master-0", "metadata.labels['training.kubeflow.org/replica-index']"),
        ("trainer", "job-node-0-0.job", "metadata.annotations['batch.kubernetes.io/job-completion-index']"),
        ("jobset", "job-master-0-0.job", "metadata.annotations['batch.kubernetes.io/job-completion-index']"),
        ("volcano", "job-master-0.job", "metadata.annotations['volcano.sh/task-index']"),
    ],
)
def test_ranks_come_from_the_operator(operator: str, master: str, index: str) -> None:
    """Each pod knows the name of node 0 and its own number as its operator gives them; there are 8 pods."""
    bodies = render_documents(*FIVE["300b"], *STORED, "--operator", operator)
    variables = [{each["name"]: each for each in pod["spec"]["containers"][0]["env"]} for pod in find_templates(bodies)]

    assert {each["MASTER_NAME"]["value"] for each in variables} == {master}
    assert variables[-1]["REPLICA_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"] == index
    assert ("PodGroup" in bodies) == (operator in ("training", "jobset"))


@pytest.mark.parametrize(
    ("words", "architecture", "image"),
    [
        (FIVE["swift"], None, "quay.io/ascend/ms-swift"),  # one tag for both
        (FIVE["300b"], "amd64", "x86_64"),  # a tag each, and the recipe is for x86_64
        ((*FIVE["300b"], "--arch", "arm64"), "arm64", "aarch64"),
        ((*FIVE["swift"], "--arch", "aarch64"), "arm64", ""),
        ((*FIVE["swift"], "--image", "r.example/a:1"), None, "r.example/a:1"),
        ((*FIVE["swift"], "--image", "r.example/a:1", "--arch", "amd64"), "amd64", "r.example/a:1"),
    ],
)
def test_architecture_follows_the_image(words: tuple[str, ...], architecture: str | None, image: str) -> None:
    """An image for several architectures runs on any node; others select their nodes; --arch chooses."""
    pod = find_templates(render_documents(*words, *STORED))[0]["spec"]

    assert (pod.get("nodeSelector") or {}).get("kubernetes.io/arch") == architecture
    assert image in pod["containers"][0]["image"]


def test_vendor_operator_selects_nodes_as_its_scheduler_does() -> None:
    """The vendor's labels are selected; on a super pod the job says how many cards belong together."""
    found = render_documents(*FIVE["swift"], *STORED, "--operator", "ascend", "--arch", "arm64")
    pod = find_templates(found)[0]
    big = render_documents(
        *(*FIVE["swift"], *STORED, "--operator", "ascend", "--node-selector", "accelerator-type=module-a3-16")
    )

    expected = {"kubernetes.io/arch": "arm64", "host-arch": "huawei-arm", "accelerator-type": "module-910b-8"}
    assert pod["spec"]["nodeSelector"] == expected
    assert pod["metadata"]["labels"]["ring-controller.atlas"] == "ascend-910b"
    assert found["AscendJob"]["metadata"]["labels"]["framework"] == "pytorch"
    assert "annotations" not in found["AscendJob"]["metadata"]
    assert big["AscendJob"]["metadata"]["annotations"] == {"sp-block": "4"}
    assert pod["spec"]["containers"][0]["name"] == "ascend"


def test_queues_of_volcano_and_kueue() -> None:
    """A queue of Kueue is a label of the job, which Volcano then does not schedule; one of Volcano is in its policy."""
    kueue = render_documents(*FIVE["swift"], *STORED, "--operator", "jobset", "--queue", "kueue:team")
    volcano = render_documents(*FIVE["swift"], *STORED, "--operator", "volcano", "--queue", "team", "--ttl", "60")

    assert kueue["JobSet"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "schedulerName" not in json.dumps(kueue)
    assert (volcano["Job"]["spec"]["queue"], volcano["Job"]["spec"]["ttlSecondsAfterFinished"]) == ("team", 60)


def test_security_level_is_named_with_its_reasons() -> None:
    """The text and the document name the Pod Security level; without folders of the nodes it is baseline."""
    _, text = run_train(*FIVE["300b"], *STORED, "--dry-run")
    _, less = run_train(*FIVE["swift"], *STORED, "--dry-run", "--no-host-folders", "--json")

    assert "# Pod Security level privileged: hostNetwork, hostPath /usr/local/Ascend/driver" in text
    assert json.loads(less)["pod_security"]["level"] == "baseline"


def test_merge_patches_change_pods_and_jobs(tmp_path: Path) -> None:
    """A patch of kind Pod changes every pod; lists are merged by their keys; null and $patch delete."""
    patch = tmp_path / "patch.yaml"
    patch.write_text(
        "kind: Pod\nspec:\n  hostNetwork: null\n  dnsPolicy: Default\n  containers:\n  - name: paddle\n    env:\n"
        "    - {name: EXTRA, value: '1'}\n    - {name: KIT_DIGEST, $patch: delete}\n"
        "---\nkind: PaddleJob\nmetadata: {labels: {team: a}}\n"
    )
    bodies = render_documents(*FIVE["300b"], *STORED, "--patch", str(patch))

    assert k8s_parts.list_errors(bodies["PaddleJob"]) == []
    assert bodies["PaddleJob"]["metadata"]["labels"]["team"] == "a"
    for pod in list_pod_specs(bodies).values():
        names = [each["name"] for each in pod["containers"][0]["env"]]
        assert ("hostNetwork" in pod, pod["dnsPolicy"], "EXTRA" in names, "KIT_DIGEST" in names, len(names) > 3) == (
            (False, "Default", True, False, True)
        )


def test_json_patches_are_rfc_6902(tmp_path: Path) -> None:
    """All operations work, with escaped paths and the end of lists."""
    body = {"kind": "X", "metadata": {"name": "x"}, "a": {"b/c": [1, 2]}, "d": 4}
    operations = [
        {"op": "test", "path": "/a/b~1c/1", "value": 2},
        {"op": "add", "path": "/a/b~1c/-", "value": 3},
        {"op": "replace", "path": "/a/b~1c/0", "value": 9},
        {"op": "copy", "from": "/d", "path": "/e"},
        {"op": "move", "from": "/d", "path": "/a/f"},
        {"op": "remove", "path": "/a/b~1c/1"},
    ]
    patch = tmp_path / "p.json"
    patch.write_text(json.dumps(operations))

    found = patches.apply_patches([body], patches.load_patches([patch]))[0]

    assert found == {"kind": "X", "metadata": {"name": "x"}, "a": {"b/c": [9, 3], "f": 4}, "e": 4}
    assert body["d"] == 4


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- {op: remove, path: /spec/nothing}", "operation 1 (remove /spec/nothing): its path does not exist"),
        ("- {op: test, path: /kind, value: X}", "the value is another one"),
        ("- {op: add, path: /spec/a/-1, value: 1}", "its path does not exist"),
        ("- {op: leap, path: /kind}", "unknown operation"),
        ("kind: Deployment\nspec: {}", "no object of kind Deployment"),
        ("spec: {template: {spec: {containers: [{image: x}]}}}", "an item of a list has no name"),
        ("metadata: {name: other}", "the name of an object cannot be changed"),
        ("a: &x 1\nb: *x", "YAML aliases"),
        ("!!python/object/apply:os.system [ls]", "--patch"),
        ("[" * 3000, "--patch"),
        ("", "it is empty"),
        ("5", "neither an object nor a list"),
        ("spec: {token: hf_0123456789abcdefghijklmn}", "contains a secret"),
    ],
)
def test_patches_that_do_not_fit_are_one_sentence(tmp_path: Path, text: str, reason: str) -> None:
    """A patch that cannot be applied ends with exit code 2 and its reason."""
    patch = tmp_path / "patch.yaml"
    patch.write_text(text)

    code, output = run_train(*FIVE["swift"], *STORED, "--dry-run", "--patch", str(patch))

    assert (code, reason in output) == (2, True), output
    assert "hf_0123" not in output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--operator", "none"), "use one of: training, trainer, jobset, volcano, ascend"),
        (("--arch", "riscv64"), "Invalid value for '--arch'"),
        (("--operator", "volcano", "--queue", "kueue:a"), "cannot be used with --queue kueue:"),
        (("--queue", "kueue:"), "invalid value for --queue"),
        (("--operator", "trainer", "--ttl", "5"), "cannot be used with --ttl"),
        (("--ttl", "soon"), "--ttl"),
        (("--toleration", "a=b:Never"), "--toleration"),
        (("--node-selector", "zone"), "--node-selector"),
        (("--annotation", "a=b\nc: d"), "--annotation"),
        (("--annotation", "token=hf_0123456789abcdefghijklmn"), "--annotation"),
        (("--pull-secret", "A B"), "--pull-secret"),
        (("--rdma", "hca"), "rdma/hca_shared_devices_a:1"),
        (("--priority-class", "-x"), "--priority-class"),
        (("--patch", "/nonexistent/patch"), "/nonexistent/patch"),
    ],
)
def test_wrong_options_are_refused(words: tuple[str, ...], reason: str) -> None:
    """Values that Kubernetes would reject, and options that do not fit together, end with exit code 2."""
    code, text = run_train(*FIVE["swift"], *STORED, "--dry-run", *words)

    assert (code, reason in text) == (2, True), text
    assert "hf_0123" not in text


def test_unfit_operators_are_refused() -> None:
    """An operator that knows no Paddle, or cannot have roles, is refused with what to use."""
    paddle = run_train(*FIVE["300b"], *STORED, "--dry-run", "--operator", "ascend")
    roles = run_train(*FIVE["hetero"], *STORED, "--dry-run", "--operator", "trainer")

    assert (paddle[0], "does not support framework 'erniekit'" in paddle[1]) == (2, True), paddle
    assert (roles[0], "mixed devices" in roles[1]) == (2, True), roles


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"conditions": [{"type": "Complete", "status": "True"}]}, status.SUCCEEDED),
        ({"conditions": [{"type": "Completed", "status": "True"}]}, status.SUCCEEDED),
        ({"conditions": [{"type": "Failed", "status": "True", "message": "no"}]}, status.FAILED),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, status.PENDING),
        ({"replicatedJobsStatus": [{"name": "master", "active": 1}]}, status.RUNNING),
        ({"state": {"phase": "Running"}}, status.RUNNING),
        ({"state": {"phase": "Pending"}}, status.PENDING),
        ({"state": {"phase": "Terminated", "message": "a pod failed"}}, status.FAILED),
        ({"state": {"phase": "Completed"}}, status.SUCCEEDED),
    ],
)
def test_states_of_all_operators_are_read(body: dict[str, Any], state: str) -> None:
    """Conditions of JobSet and TrainJob and phases of Volcano are the same few states."""
    assert status.parse_job_status({"metadata": {"uid": "u"}, "status": body}, "u").state == state


def test_a_runtime_precedes_its_job(tmp_path: Path) -> None:
    """The trainer refuses a job whose runtime does not exist, so the file has the runtime first."""
    code, text = run_train(*FIVE["swift"], *STORED, "--operator", "trainer", "--write", str(tmp_path))

    kinds = [body["kind"] for body in yaml.safe_load_all((tmp_path / "job.yaml").read_text())]
    assert (code, kinds) == (0, ["TrainingRuntime", "TrainJob", "ConfigMap"]), text


@pytest.mark.parametrize(
    ("patch", "reason"),
    [
        ("2: 3\n", "the key 2 is not a text"),
        ("kind: Pod\nspec: null\n", "a pod of the job would have no containers"),
        ("kind: Pod\nmetadata: 3\n", "metadata of a pod would not be valid"),
        ("kind: Pod\nspec: {containers: nothing}\n", "containers of a pod would not be valid"),
        ("kind: Pod\nspec: {containers: [{name: other}]}\n", "containers of a pod would not be valid"),
        ("kind: Pod\nspec: {securityContext: 3}\n", "securityContext of a pod would not be valid"),
        ("kind: Pod\nspec: {volumes: [{name: a, hostPath: 4}]}\n", "volumes.hostPath of a pod would not be valid"),
        ('[{"op": "remove", "path": "/kind"}]', "kind of an object cannot be changed"),
        ('[{"op": "replace", "path": "/metadata/name", "value": "b"}]', "use --job-name"),
        ('[{"op": "replace", "path": "/spec", "value": 3}]', "a pod of the job would have no containers"),
    ],
)
def test_patches_that_break_the_job_are_refused(patch: str, reason: str, tmp_path: Path) -> None:
    """What is left must still be this job, with pods that can be read."""
    file = tmp_path / "patch.yaml"
    file.write_text(patch)

    code, text = run_train(*FIVE["swift"], *STORED, "--dry-run", "--patch", str(file))

    assert (code, reason in text) == (2, True), text
