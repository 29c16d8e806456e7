"""train --hosts where a host does not meet the job's requirements: told in the judge's words, and no host starts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import pytest

from envcheck.cli import schemas
from installers.recipes.recipes_file import load
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet
from tests.launch.gates.test_gates_command import provisioned

pytestmark = pytest.mark.real

RECIPE = """
name = "light"
title = "Steps without a framework"
device = "npu"
framework = "envcheck"
models = ["light"]
source = "a test"
[hardware]
product = "any"
cards = 8
architectures = ["aarch64"]
source = "a test"
[[packages]]
name = "light"
specifier = "==1.0"
[[jobs]]
method = "lora"
title = "steps on two nodes"
source = "a test"
nodes = 2
processes = 8
port = 29777
parallel = {{ data = 16 }}
launcher = ["/bin/sh", "{program}", "--master", "{{master}}:{{port}}", "--rank", "{{rank}}", "--host", "{{host}}"]
steps = {{ max = 5 }}
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An aarch64 machine with 8 cards, which fits the recipe, and one of x86_64; the recipe's software is on both."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "recipes").mkdir()
    program = folder / "program.sh"
    program.write_text(f"touch {folder}/started-$(hostname)\n")
    (folder / "recipes" / "light.toml").write_text(RECIPE.format(program=program))
    provisioned(load(folder / "recipes" / "light.toml"), folder / "home" / "environments" / "light")
    with fleet_parts.fleet(folder / "fleet", 2, "atlas-800t-a2") as fleet:
        fleet_parts.simulate(fleet.hosts[1], "atlas-200t-a2-box16")
        for host in fleet.hosts:
            host.stop()
            host.variables = {"ENVCHECK_HOME": str(folder / "home"), "NO_COLOR": "1"}
            host.start(fleet.key)
            fleet.wait(host)
        yield fleet


def test_the_host_that_blocks_is_named_first(pair: Fleet) -> None:
    """The first lines name the host, its requirement and the remedy in the judge's words; nothing starts on the other
    host either, and the document has the same."""
    folder = pair.folder.parent
    words = ("train", "--recipe", "light", "--recipes", str(folder / "recipes"), "--runs", str(folder / "runs"))
    words = (*words, "--hosts", "node[01-02]", "--gather", "60", "--waive", "disk", "--because", "a small disk")
    done, told = pair.run(*words), pair.run(*words, "--json")
    assert done.returncode == 1, done.stderr
    said = json.loads(told.stdout)
    first, second, third, *_ = done.stderr.splitlines()

    assert first.startswith("fail    node02: gate.doctor: "), done.stderr
    assert second.startswith("        job.architecture: recipe light supports aarch64 only; this host is x86_64")
    assert "fail    node[01-02]" not in done.stderr and "fail    node01" not in done.stderr, done.stderr
    assert done.stderr.endswith("nothing was started on any host\n")
    assert third.startswith("        next: ")
    assert not list(folder.glob("started-*")) and not list(folder.glob("runs/*/*-light"))
    jsonschema.validate(said, schemas.schema("train-hosts"))
    assert {gate["name"] for gate in said["gates"]["node02"] if gate["status"] == "FAIL"} == {"gate.doctor"}
