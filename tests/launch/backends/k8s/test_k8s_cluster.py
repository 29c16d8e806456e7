"""`envcheck train --on k8s` with the official client, on the small API server and on a real one if available."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.launch.backends.k8s import api_parts, api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, ApiServer, run_envcheck, run_to_end

pytestmark = pytest.mark.slow

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")
CONFIGS = "/api/v1/namespaces/default/configmaps"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest.fixture(scope="module", params=["small", "real"] if api_parts.find_real_binaries() else ["small"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = tmp_path_factory.mktemp("api")
    if request.param == "real":
        with api_parts.start_real_api(folder) as real:
            yield real
    else:
        with api_small.start_small_api(folder) as (small, _):
            yield small


@pytest.fixture(autouse=True)
def kinds(api: ApiServer) -> None:
    """Install all kinds in the cluster before each test."""
    api.set_kinds(*EVERY)


def list_names(api: ApiServer, where: str) -> set[str]:
    return {item["metadata"]["name"] for item in (api.send_request("GET", where) or {"items": ()})["items"]}


def test_all_objects_of_a_job_are_created(api: ApiServer) -> None:
    """Job, scripts, pod group and envcheck are created; scripts and pod group have the job as owner."""
    code, out, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "whole", "--detach", "--json")
    assert code == 0, err
    job = api.send_request("GET", f"{JOBS}/whole")
    owned = [api.send_request("GET", f"{where}/whole")["metadata"]["ownerReferences"][0] for where in (CONFIGS, GROUPS)]

    assert json.loads(out)["object"] == {"kind": "PyTorchJob", "name": "whole", "namespace": "default"}
    assert [each["uid"] for each in owned] == [job["metadata"]["uid"]] * 2
    assert [name for name in list_names(api, CONFIGS) if name.startswith("envcheck-")]
    assert "hf_0123456789" not in json.dumps([job, api.send_request("GET", CONFIGS)]) + out + err


def test_a_second_job_of_the_name_is_refused(api: ApiServer) -> None:
    """An existing job name ends with exit code 4 and a next step; the first job is not changed."""
    first = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "twice", "--detach")
    uid = api.send_request("GET", f"{JOBS}/twice")["metadata"]["uid"]
    code, _, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "twice", "--detach")

    assert (first[0], code) == (0, 4)
    assert "PyTorchJob twice already exists in namespace default" in err
    assert api.send_request("GET", f"{JOBS}/twice")["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    ("token", "namespace", "expected"),
    [
        ("wrong-token", "default", "the cluster rejected the credentials"),
        (api_parts.STRANGER, "default", "permission denied by the cluster"),
        (api_parts.ADMIN, "absent", "namespace absent not found"),
    ],
)
def test_refusals_are_one_sentence(api: ApiServer, token: str, namespace: str, expected: str) -> None:
    """Invalid credentials, missing permissions and namespaces end with exit code 4; the token is not printed."""
    code, out, err = run_envcheck(api.write_kubeconfig(token, namespace), *SWIFT, "--job-name", "refused", "--detach")

    assert (code, out) == (4, "")
    assert expected in err
    assert len(err.splitlines()) == 2
    assert token not in err


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [("PyTorchJob", "install Kubeflow Training Operator"), ("PodGroup", "install Volcano, or use --no-gang")],
)
def test_missing_kinds_name_what_to_install(api: ApiServer, lacking: str, expected: str) -> None:
    """The missing operator is named, and no object of the job remains."""
    api.set_kinds(*(kind for kind in EVERY if kind != lacking))
    code, _, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "lacking", "--detach")

    assert (code, expected in err) == (4, True), err
    assert "lacking" not in list_names(api, JOBS)


def test_without_a_gang_no_volcano_is_needed(api: ApiServer) -> None:
    """--no-gang creates no pod group and sets no scheduler."""
    api.set_kinds("PyTorchJob")
    code, _, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "alone", "--no-gang", "--detach")
    pod = api.send_request("GET", f"{JOBS}/alone")["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]

    assert (code, "schedulerName" in pod) == (0, False), err


def test_a_job_is_followed_to_its_end(api: ApiServer) -> None:
    """The conditions of the job are reported as they change, also after a watch ended; success is exit code 0."""
    code, out, err = run_to_end(api, "good", "Succeeded", "--json")

    assert code == 0, err
    assert "succeeded: good is Succeeded." in err
    assert json.loads(out)["state"] == "succeeded"


def test_a_failed_job_is_code_5(api: ApiServer) -> None:
    """A failed job without pods also ends with exit code 5."""
    assert run_to_end(api, "bad", "Failed")[0] == 5


def test_a_deleted_job_is_reported(api: ApiServer) -> None:
    """Deleting the job ends the command that follows it."""
    threading.Thread(target=_delete_job, args=(api, "gone"), daemon=True).start()
    code, _, err = run_envcheck(api.write_kubeconfig(), *SWIFT, "--job-name", "gone")

    assert (code, "job gone was deleted" in err) == (5, True), err


def _delete_job(api: ApiServer, name: str) -> None:
    while api.send_request("GET", f"{JOBS}/{name}") is None or api.send_request("GET", f"{GROUPS}/{name}") is None:
        time.sleep(0.2)
    time.sleep(1)
    api.send_request("DELETE", f"{JOBS}/{name}")
