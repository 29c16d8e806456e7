"""The commands of a job's pods in real containers: preflight checks decide, and each node gets its rank."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from envcheck.cli.main import main
from tests.installers.images.engine_parts import DockerEngine, require_engine
from tests.launch.backends.k8s.pod_parts import start_pod

pytestmark = [pytest.mark.usefixtures("engine_is_here")]

RECIPE = """
like = "tiny-cpu"
name = "two-nodes"
title = "a program that prints its arguments"
models = ["two-nodes"]
workdir = { value = "/workspace", source = "the test" }

[[jobs]]
method = "sft"
title = "on two nodes"
source = "the test"
nodes = { value = 2, source = "the test" }
processes = { value = 1, source = "the test" }
port = { value = 4567, source = "the test" }
launcher = ["{python}", "told.py"]
arguments = ["--master", "{master}:{port}", "--rank", "{rank}", "--host", "{host}", "--output_dir", "{output}"]
requires = ["data.jsonl"]
data = ["data.jsonl"]
"""
PROGRAM = "import os, sys; print('told', sys.argv[1:], os.environ.get('PADDLE_MASTER'))"


@pytest.fixture(scope="module")
def engine_is_here() -> None:
    require_engine()


@pytest.fixture
def rendered(tmp_path: Path, python_image_here: str) -> dict[str, Any]:
    """Pod specs and ConfigMaps of a job with two nodes, and the folder that its volume claim provides."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "two.toml").write_text(RECIPE)
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "told.py").write_text(PROGRAM)
    words = ["train", "--on", "k8s", "--recipes", str(tmp_path / "recipes"), "--recipe", "two-nodes", "--method", "sft"]
    words += ["--storage", "claim", "--image", python_image_here, "--job-name", "job", "--write", str(tmp_path / "out")]
    done = CliRunner().invoke(main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    texts = [(tmp_path / "out" / name).read_text() for name in ("job.yaml", "envcheck.yaml")]
    bodies = [body for text in texts for body in yaml.safe_load_all(text)]
    replicas = bodies[0]["spec"]["paddleReplicaSpecs"]
    return {
        "pods": {name: each["template"]["spec"] for name, each in replicas.items()},
        "configs": {body["metadata"]["name"]: body for body in bodies if body["kind"] == "ConfigMap"},
        "storage": tmp_path / "storage",
    }


def test_checks_pass_and_each_node_gets_its_rank(engine: DockerEngine, rendered: dict[str, Any]) -> None:
    """If all checks pass, the init containers exit with 0, and the programs get their ranks and the master address."""
    (rendered["storage"] / "data.jsonl").write_text('{"text": "a"}\n')
    place = (rendered["configs"], rendered["storage"])
    with (
        start_pod(engine, rendered["pods"]["Master"], *place) as first,
        start_pod(engine, rendered["pods"]["Worker"], *place) as second,
    ):
        second.add_host_name("job-master-0", first.ip_address)
        looks = [each.run_init() for each in (first, second)]
        runs = [each.run_main() for each in (first, second)]
        where = [("--rank", str(rank), "--host", each.ip_address) for rank, each in enumerate((first, second))]
        told = [["--master", f"{first.ip_address}:4567", *words, "--output_dir"] for words in where]

    assert [look.returncode for look in looks] == [0, 0], [look.stdout + look.stderr for look in looks]
    assert [run.stdout.strip() for run in runs] == [
        f"told {[*words, f'/workspace/runs/job-node{rank}/output']} None" for rank, words in enumerate(told)
    ], [run.stderr for run in runs]


def test_a_failed_check_stops_the_pod_with_its_report(engine: DockerEngine, rendered: dict[str, Any]) -> None:
    """Without the data the init container exits with 1 and names the check, so the kubelet does not start the
    training."""
    with start_pod(engine, rendered["pods"]["Master"], rendered["configs"], rendered["storage"]) as first:
        look = first.run_init()

    assert look.returncode == 1, look.stdout + look.stderr
    assert "gate.data" in look.stdout
    assert "data.jsonl" in look.stdout
    assert "1 preflight check failed; `envcheck train` would not start the training." in look.stdout


def test_a_wrong_checksum_of_envcheck_is_rejected(engine: DockerEngine, rendered: dict[str, Any]) -> None:
    """The checksum is verified before anything runs."""
    name = next(name for name in rendered["configs"] if name.endswith("-1"))
    rendered["configs"][name]["binaryData"] = {}
    with start_pod(engine, rendered["pods"]["Master"], rendered["configs"], rendered["storage"]) as first:
        look = first.run_init()

    assert (look.returncode, "does not match the job" in look.stderr) == (1, True), look.stderr
