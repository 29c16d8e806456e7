"""train --hosts if a host does not meet the requirements of the job: the finding is reported, and no host starts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import pytest

from envcheck.cli import schemas
from installers.recipes.loader import load_recipe
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import SshFleet
from tests.launch.gates.test_gates_command import make_environment

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
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshFleet]:
    """An aarch64 machine with 8 devices, which fits the recipe, and an x86_64 one, both with the software of the
    recipe."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "recipes").mkdir()
    program = folder / "program.sh"
    program.write_text(f"touch {folder}/started-$(hostname)\n")
    (folder / "recipes" / "light.toml").write_text(RECIPE.format(program=program))
    make_environment(load_recipe(folder / "recipes" / "light.toml"), folder / "home" / "environments" / "light")
    with fleet_parts.start_fleet(folder / "fleet", 2, "atlas-800t-a2") as fleet:
        fleet_parts.simulate_host(fleet.hosts[1], "atlas-200t-a2-box16")
        for host in fleet.hosts:
            host.stop_sshd()
            host.variables = {"ENVCHECK_HOME": str(folder / "home"), "NO_COLOR": "1"}
            host.start_sshd(fleet.key)
            fleet.wait_for_sshd(host)
        yield fleet


def test_the_host_that_blocks_is_named_first(pair: SshFleet) -> None:
    """The first lines name the host, its requirement and the remedy; nothing starts on the other host either, and the
    document has the same findings."""
    folder = pair.folder.parent
    words = ["train", "--recipe", "light", "--recipes", str(folder / "recipes"), "--runs", str(folder / "runs")]
    words += ["--hosts", "node[01-02]", "--gather", "60", "--waive", "disk", "--because", "a small disk"]
    done, as_json = pair.run_envcheck(*words), pair.run_envcheck(*words, "--json")
    assert done.returncode == 1, done.stderr
    document = json.loads(as_json.stdout)
    first, second, third, *_ = done.stderr.splitlines()

    assert first.startswith("failed   node02: gate.doctor: "), done.stderr
    assert second.startswith("         job.architecture: recipe light supports aarch64 only; this host is x86_64")
    assert "failed   node[01-02]" not in done.stderr and "failed   node01" not in done.stderr, done.stderr
    assert done.stderr.endswith("the training was not started on any host\n")
    assert third.startswith("         next: ")
    assert not list(folder.glob("started-*")) and not list(folder.glob("runs/*/*-light-*"))
    jsonschema.validate(document, schemas.build_schema("train-hosts"))
    assert {gate["name"] for gate in document["gates"]["node02"] if gate["status"] == "FAIL"} == {"gate.doctor"}


def test_a_dry_run_says_that_a_host_has_too_few_cards(pair: SshFleet) -> None:
    """A recipe for 16 cards on a node with 8: the commands are shown, then what blocks the host; nothing starts."""
    folder = pair.folder.parent
    (folder / "wide").mkdir()
    wide = RECIPE.replace("cards = 8", "cards = 16").replace("processes = 8", "processes = 16")
    wide = wide.replace("data = 16", "data = 32").replace('architectures = ["aarch64"]\n', "")
    (folder / "wide" / "light.toml").write_text(wide.format(program=folder / "program.sh"))
    words = ["train", "--recipe", "light", "--recipes", str(folder / "wide"), "--runs", str(folder / "dry")]
    done = pair.run_envcheck(*words, "--hosts", "node[01-02]", "--dry-run", timeout_s=200)

    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("node01: envcheck train --nnodes 2 --rank 0"), done.stdout
    assert "failed   node01: gate." in done.stderr and "16" in done.stderr, done.stderr
    assert not list(folder.glob("started-*")) and not list(folder.glob("dry/*/*-light"))
