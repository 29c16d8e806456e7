"""Every kind of manifest on a real kube-apiserver, as kubectl creates it; no kubelet runs the pods: they stay Pending.

The custom kinds are those of tests/data/crds.  A server leaves their pod templates to the operators, so each template
is created as a pod too.
"""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.backends.k8s import patches
from tests.launch.backends.k8s import api_parts, k8s_parts
from tests.launch.backends.k8s.api_parts import ApiServer
from tests.launch.backends.k8s.test_k8s import FIVE, STORED, list_jobs, run_train
from tests.launch.backends.k8s.test_k8s_operators import OPERATORS, OPTIONS

pytestmark = pytest.mark.extended
HEALTH = Path(__file__).parents[4] / "docs" / "examples" / "node-health"
PAIRS = [
    (operator, system)
    for operator, system in itertools.product(OPERATORS, FIVE)
    if (system != "hetero" or operator in ("jobset", "volcano")) and (system == "swift" or operator != "ascend")
]
Body = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A cluster without nodes, with all custom kinds and the priority class of OPTIONS."""
    if not api_parts.find_real_binaries():
        pytest.skip("no kube-apiserver with etcd: CONTRIBUTING.md, A real kube-apiserver for the tests")
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is not installed")
    with api_parts.start_real_api(tmp_path_factory.mktemp("api")) as api:
        api.set_kinds(*k8s_parts.load_crds())
        priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        api.send_request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {**priority, "value": 1000})
        yield api


def run_kubectl(api: ApiServer, *words: str, bodies: Sequence[Body] = ()) -> subprocess.CompletedProcess[str]:
    """Run kubectl with its own cache; it checks the fields with the schemas that the server publishes."""
    argv = ["kubectl", f"--kubeconfig={api.write_kubeconfig()}", f"--cache-dir={api.folder}/cache", *words]
    given = yaml.safe_dump_all(bodies) if bodies else None
    return subprocess.run(argv, input=given, capture_output=True, text=True, timeout=300, check=False)


def create_all(api: ApiServer, bodies: Sequence[Body]) -> None:
    """Create the objects, first as a dry run on the server, and a pod of each pod template."""
    everything = [*bodies, *make_pods(bodies)]
    for words in (("--dry-run=server",), ()):
        done = run_kubectl(api, "create", "-f", "-", *words, bodies=everything)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        assert len(done.stdout.splitlines()) == len(everything)


def make_pods(bodies: Sequence[Body]) -> Iterator[Body]:
    for number, template in enumerate(template for body in bodies for template in patches.find_pod_templates(body)):
        name = f"{bodies[0]['metadata']['name']}-pod-{number}"
        yield {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": name}}


def render_bodies(name: str, *words: str) -> list[Body]:
    code, text = run_train(*words, "--dry-run", "--job-name", name)
    assert code == 0, text
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize(("operator", "system"), PAIRS)
def test_manifests_of_each_operator_are_created(cluster: ApiServer, operator: str, system: str) -> None:
    """The server takes the job of each operator, with all options, and the pods that the operator makes of it."""
    words = (*FIVE[system], *STORED, "--operator", operator, *OPTIONS)

    create_all(cluster, render_bodies(f"{operator}-{system}", *words))

    pods = cluster.send_request("GET", "/api/v1/namespaces/default/pods")["items"]
    own = [pod for pod in pods if pod["metadata"]["name"].startswith(f"{operator}-{system}-pod-")]
    assert {pod["status"]["phase"] for pod in own} == {"Pending"}


def test_every_job_of_every_recipe_is_created(cluster: ApiServer) -> None:
    """The server takes the objects of each job, and their pods."""
    for number, words in enumerate(list_jobs()):
        create_all(cluster, render_bodies(f"job-{number}", *words, *STORED, "--image", "registry.example/train:1"))


def test_a_written_folder_is_created_and_deleted(cluster: ApiServer, tmp_path: Path) -> None:
    """The commands of the guide work: envcheck's own files fit into objects, and the job can be deleted by its file."""
    folder = tmp_path / "big"
    code, text = run_train(*FIVE["swift"], *STORED, "--job-name", "big", "--write", str(folder))
    assert code == 0, text

    created = run_kubectl(cluster, "create", "-f", str(folder))
    deleted = run_kubectl(cluster, "delete", "-f", str(folder / "job.yaml"), "--wait=false")

    assert (created.returncode, created.stderr) == (0, ""), created.stderr
    assert created.stdout.count("configmap/") > 1
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.parametrize("cards", sorted(path.name for path in HEALTH.glob("cards-*.yaml")))
def test_node_health_is_applied(cluster: ApiServer, tmp_path: Path, cards: str) -> None:
    """The example is applied with the patch of each vendor, and with the rule that sets the taint."""
    folder = shutil.copytree(HEALTH, tmp_path / "node-health")
    settings = folder / "kustomization.yaml"
    text = settings.read_text().replace("path: cards-ascend.yaml", f"path: {cards}")
    settings.write_text(text.replace("# - node-taint.yaml", "- node-taint.yaml"))

    applied = run_kubectl(cluster, "apply", "-k", str(folder))
    again = run_kubectl(cluster, "apply", "-k", str(folder))

    assert (applied.returncode, applied.stderr) == (0, ""), applied.stderr
    assert "daemonset.apps/node-health" in applied.stdout and "nodefeaturerule" in applied.stdout
    assert (again.returncode, "created" in again.stdout) == (0, False), again.stderr
