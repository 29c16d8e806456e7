"""provision --hosts --registry over real ssh, with an engine on each host: the image comes from the site's mirror."""

from __future__ import annotations

import contextlib
import json
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from envcheck.cli import schemas
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet, Host
from tests.installers.images import engine_parts, image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.images.registry_faults import Front, front

pytestmark = pytest.mark.real

RECIPE = """
name = "mirrored"
title = "A small recipe in a container"
device = "cpu"
framework = "envcheck"
models = ["mirrored"]
source = "a test"
interpreter = "python3"
python = ">=3.9"
workdir = "/root"
verify = [["{{python}}", "-c", "import json"]]
[hardware]
product = "any"
source = "a test"
[image.references]
x86_64 = "{image}"
[container]
name = "envcheck-test-mirrored"
workdir = "/root"
network = "host"
shm_size = "64m"
source = "a test"
[[jobs]]
method = "lora"
title = "none"
source = "a test"
launcher = ["true"]
"""
HOSTS = "node[01-02]"


@dataclass(frozen=True)
class Site:
    """Two hosts with an engine each; the registry `outside`, and a `mirror` of it that the hosts reach, too."""

    fleet: Fleet
    engines: list[Engine]
    outside: Front
    mirror: Front
    recipes: Path

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        words = ("--recipe", "mirrored", "--recipes", str(self.recipes), "--hosts", HOSTS, *more)
        return self.fleet.run("provision", *words)

    def done(self, host: Host) -> list[str]:
        """The steps that ended well there."""
        path = host.home / "data" / "environments" / "mirrored" / ".envcheck" / "journal.jsonl"
        events = map(json.loads, path.read_text().splitlines())
        return [event["step"] for event in events if event["event"] == "done"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("mirrored")
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(fleet_parts.fleet(folder / "fleet", 2, "cpu"))
        engines = [stack.enter_context(_engine(fleet, host)) for host in fleet.hosts]
        fronts = [stack.enter_context(front(registry.url, host=f"{fleet.net}.254")) for _ in range(2)]
        (folder / "recipes").mkdir()
        yield Site(fleet, engines, *fronts, folder / "recipes")


@contextlib.contextmanager
def _engine(fleet: Fleet, host: Host) -> Iterator[Engine]:
    """In the host's own network; its sshd, started anew, knows of it."""
    host.stop()
    options = ("--insecure-registry", f"{fleet.net}.0/24")
    with engine_parts.running_engine(*options, space=host.space) as engine:
        host.variables = {"ENVCHECK_SYSROOT": "", "ENVCHECK_HOME": str(host.home / "data"), "DOCKER_HOST": engine.url,
                          "DOCKER_CONFIG": str(engine.folder)}  # fmt: skip
        host.start(fleet.key)
        fleet.wait(host)
        yield engine


@dataclass(frozen=True)
class Small:
    """An image by the name that it has outside."""

    name: str
    digest: str


@pytest.fixture
def small(site: Site, registry: Registry) -> Small:
    """An image that nobody has yet.  There is nothing in it to start: the step after its pull fails on every host."""
    path = f"envcheck/mirrored:{secrets.token_hex(4)}"
    digest = image_parts.push(f"{registry.address}/{path}", image_parts.random_layers(1, 1 << 20))
    name = f"{site.outside.address}/{path}"
    (site.recipes / "mirrored.toml").write_text(RECIPE.format(image=name))
    return Small(name, digest)


def test_all_pull_from_the_mirror(site: Site, small: Small) -> None:
    """With --registry both hosts have the image from the site's mirror, under the recipe's digest; nothing of it comes
    from outside, and a second run finds it there."""
    done = site.run("--yes", "--registry", site.mirror.address)
    there = [e.docker("image", "ls", "--digests", "--format", "{{.Digest}}").stdout.split() for e in site.engines]
    again = json.loads(site.run("--dry-run", "--json", "--registry", site.mirror.address).stdout)

    assert [site.done(host) for host in site.fleet.hosts] == [["image"]] * 2, done.stdout + done.stderr
    assert [set(digests) for digests in there] == [{small.digest}] * 2
    assert not any("/blobs/" in path for path in site.outside.sent)
    assert [one["document"]["steps"][0]["name"] for one in again["hosts"].values()] == ["container"] * 2
    jsonschema.validate(again, schemas.schema("provision-hosts"))
