"""`envcheck train --on k8s` by the official client: to the tests' small API server, and to a real one if there is."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.launch.backends.k8s import api_parts, api_small
from tests.launch.backends.k8s.api_parts import EVERY, JOBS, SWIFT, Api, done, ended

pytestmark = pytest.mark.slow

pytest.importorskip("kubernetes", reason="the official client is in the extra `k8s`")
CONFIGS = "/api/v1/namespaces/default/configmaps"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"


@pytest.fixture(scope="module", params=["small", "real"] if api_parts.real_binaries() else ["small"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("api")
    if request.param == "real":
        with api_parts.real_api(folder) as real:
            yield real
    else:
        with api_small.small_api(folder) as (small, _):
            yield small


@pytest.fixture(autouse=True)
def kinds(api: Api) -> None:
    """Each test begins with a cluster that has all kinds."""
    api.has_kinds(*EVERY)


def names(api: Api, where: str) -> set[str]:
    return {item["metadata"]["name"] for item in (api.ask("GET", where) or {"items": ()})["items"]}


def test_a_job_is_made_whole(api: Api) -> None:
    """The cluster holds job, scripts, group and envcheck itself; what belongs to the job is its property."""
    code, out, err = done(api.kubeconfig(), *SWIFT, "--job-name", "whole", "--detach", "--json")
    assert code == 0, err
    job = api.ask("GET", f"{JOBS}/whole")
    owned = [api.ask("GET", f"{where}/whole")["metadata"]["ownerReferences"][0] for where in (CONFIGS, GROUPS)]

    assert json.loads(out)["object"] == {"kind": "PyTorchJob", "name": "whole", "namespace": "default"}
    assert [each["uid"] for each in owned] == [job["metadata"]["uid"]] * 2
    assert [name for name in names(api, CONFIGS) if name.startswith("envcheck-")]
    assert "hf_0123456789" not in json.dumps([job, api.ask("GET", CONFIGS)]) + out + err


def test_a_second_job_of_the_name_is_refused(api: Api) -> None:
    """A name that is taken ends with code 4 and the way out, and the first job stays as it was."""
    first = done(api.kubeconfig(), *SWIFT, "--job-name", "twice", "--detach")
    uid = api.ask("GET", f"{JOBS}/twice")["metadata"]["uid"]
    code, _, err = done(api.kubeconfig(), *SWIFT, "--job-name", "twice", "--detach")

    assert (first[0], code) == (0, 4)
    assert "named twice already" in err
    assert api.ask("GET", f"{JOBS}/twice")["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    ("token", "namespace", "told"),
    [
        ("wrong-token", "default", "does not know who asks"),
        (api_parts.STRANGER, "default", "forbids it"),
        (api_parts.ADMIN, "absent", "no namespace absent"),
    ],
)
def test_refusals_are_one_sentence(api: Api, token: str, namespace: str, told: str) -> None:
    """Who is not known, not allowed, or in no namespace is told so with code 4; the token is in no word of it."""
    code, out, err = done(api.kubeconfig(token, namespace), *SWIFT, "--job-name", "refused", "--detach")

    assert (code, out) == (4, "")
    assert told in err
    assert len(err.splitlines()) == 2
    assert token not in err


@pytest.mark.parametrize(
    ("lacking", "told"),
    [("PyTorchJob", "Kubeflow's training operator"), ("PodGroup", "install Volcano, or say --no-gang")],
)
def test_a_cluster_without_the_kinds_is_told_what_to_install(api: Api, lacking: str, told: str) -> None:
    """What the cluster lacks is named, and nothing of the job stays behind."""
    api.has_kinds(*(kind for kind in EVERY if kind != lacking))
    code, _, err = done(api.kubeconfig(), *SWIFT, "--job-name", "lacking", "--detach")

    assert (code, told in err) == (4, True), err
    assert "lacking" not in names(api, JOBS)


def test_without_a_gang_no_volcano_is_needed(api: Api) -> None:
    """--no-gang makes no group and asks for no scheduler."""
    api.has_kinds("PyTorchJob")
    code, _, err = done(api.kubeconfig(), *SWIFT, "--job-name", "alone", "--no-gang", "--detach")
    pod = api.ask("GET", f"{JOBS}/alone")["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]

    assert (code, "schedulerName" in pod) == (0, False), err


def test_a_job_is_followed_to_its_end(api: Api) -> None:
    """The conditions that the operator writes are told as they come, over watches that end; success is code 0."""
    code, out, err = ended(api, "good", "Succeeded", "--json")

    assert code == 0, err
    assert "succeeded: good is Succeeded." in err
    assert json.loads(out)["state"] == "finished"


def test_a_failed_job_is_code_5(api: Api) -> None:
    """A job whose pods nobody knows any more has failed all the same."""
    assert ended(api, "bad", "Failed")[0] == 5


def test_a_deleted_job_is_told(api: Api) -> None:
    """Who deletes the job meanwhile ends the waiting."""
    threading.Thread(target=_deleted, args=(api, "gone"), daemon=True).start()
    code, _, err = done(api.kubeconfig(), *SWIFT, "--job-name", "gone")

    assert (code, "gone was deleted" in err) == (5, True), err


def _deleted(api: Api, name: str) -> None:
    while api.ask("GET", f"{JOBS}/{name}") is None or api.ask("GET", f"{GROUPS}/{name}") is None:
        time.sleep(0.2)
    time.sleep(1)
    api.ask("DELETE", f"{JOBS}/{name}")
