"""provision --hosts --seed-node over real ssh, with an engine on each host: the image comes from outside once."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

from envcheck import schemas
from tests.envcheck.fleet import fleet_parts
from tests.envcheck.fleet.fleet_parts import Fleet, Host
from tests.installers.images import engine_parts, image_parts
from tests.installers.images.engine_parts import Engine, Registry
from tests.installers.images.registry_faults import PIECE, Fault, Front, front
from tests.installers.provision_helpers import until

pytestmark = pytest.mark.real

RECIPE = """
name = "seeded"
title = "A small recipe in a container"
device = "cpu"
framework = "envcheck"
models = ["seeded"]
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
name = "envcheck-test-seeded"
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


class Site:
    """Two hosts with an engine each, and a registry outside that counts what it gives."""

    def __init__(self, fleet: Fleet, engines: list[Engine], outside: Front, folder: Path) -> None:
        self.fleet, self.engines, self.outside, self.recipes = fleet, engines, outside, folder / "recipes"
        self.recipes.mkdir()

    def words(self, *more: str) -> tuple[str, ...]:
        return ("provision", "--recipe", "seeded", "--recipes", str(self.recipes), "--hosts", HOSTS, *more)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return self.fleet.run(*self.words(*more))

    def start(self, *more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "envcheck", *self.words(*more)]
        return subprocess.Popen(
            argv, cwd=fleet_parts.ROOT, env=self.fleet.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def fetched(self) -> Counter[str]:
        """Bytes that came from outside, of each part of an image."""
        return Counter({path[-64:]: count for path, count in self.outside.sent.items() if "/blobs/" in path})

    def done(self, host: Host) -> list[str]:
        """The steps that ended well there."""
        path = host.home / "data" / "environments" / "seeded" / ".envcheck" / "journal.jsonl"
        events = map(json.loads, path.read_text().splitlines())
        return [event["step"] for event in events if event["event"] == "done"]

    def seeds(self) -> list[int]:
        """Processes of the first host that hold its extra port."""
        return [pid for pid in self.fleet.hosts[0].running() if b"seeding" in _line(pid) and b"--yes" not in _line(pid)]

    def serves(self) -> bool:
        """Somebody listens on the first host but its sshd and its engine."""
        return any(not local.endswith(":22") for local, _ in self._sockets("-ltn"))

    def asked(self) -> bool:
        """The second host is connected with the first, and not with its sshd."""
        second = f"{self.fleet.hosts[1].address}:"
        pairs = self._sockets("-tn", "state", "established")
        return any(not local.endswith(":22") and peer.startswith(second) for local, peer in pairs)

    def _sockets(self, *which: str) -> list[list[str]]:
        """The first host's, each with its own end and the other."""
        argv = ["ip", "netns", "exec", self.fleet.hosts[0].space, "ss", "-H", *which]
        lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
        return [re.findall(r"\S+:(?:\d+|\*)", line) for line in lines]


def _line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("seeded")
    with contextlib.ExitStack() as stack:
        fleet = stack.enter_context(fleet_parts.fleet(folder / "fleet", 2, "cpu"))
        engines = [stack.enter_context(_engine(fleet, host)) for host in fleet.hosts]
        outside = stack.enter_context(front(registry.url, host=f"{fleet.net}.254"))
        yield Site(fleet, engines, outside, folder)


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
    """An image by the name that it has for the hosts; `layer` is the digest of its large one, `size` that one's."""

    name: str
    digest: str
    layer: str
    size: int


@pytest.fixture
def small(site: Site, registry: Registry) -> Small:
    """An image that nobody has yet.  There is nothing in it to start: the step after its pull fails on every host."""
    path = f"envcheck/seeded:{secrets.token_hex(4)}"
    layers = image_parts.random_layers(1, 6 << 20)
    digest = image_parts.push(f"{registry.address}/{path}", layers)
    site.outside.faults.clear()
    for engine in site.engines:
        engine.docker("image", "prune", "--all", "--force")
    for host in site.fleet.hosts:
        shutil.rmtree(host.home / "data", ignore_errors=True)
    name = f"{site.outside.address}/{path}"
    (site.recipes / "seeded.toml").write_text(RECIPE.format(image=name))
    return Small(name, digest, hashlib.sha256(layers[0].data).hexdigest(), len(layers[0].data))


def test_once_from_outside(site: Site, small: Small) -> None:
    """Both hosts have the image, by its own name alone; its layer came from outside once although the connection was
    cut in the middle; nobody listens afterwards, and who has the image fetches nothing."""
    site.outside.faults[:] = [Fault(small.layer, times=1, cut_after=2 << 20)]
    done = site.run("--yes", "--seed-node", "node01")
    first, listens = site.fetched()[small.layer], site.serves()
    there = [e.docker("image", "ls", "--digests", "--format", "{{.Repository}}:{{.Tag}} {{.Digest}}").stdout.split()
             for e in site.engines]  # fmt: skip
    again = site.run("--dry-run", "--json", "--seed-node", "node02:7777")
    said = json.loads(again.stdout)

    assert "node01 fetches the image from outside, once, and passes it on: node02" in done.stdout
    assert "node02:    from node01, at " in done.stderr
    assert [site.done(host) for host in site.fleet.hosts] == [["image"]] * 2, done.stdout + done.stderr
    assert 0 <= first - small.size < PIECE
    assert there == [[small.name, small.digest]] * 2
    assert not listens
    assert said["seed_node"] == "node02"
    assert [one["document"]["steps"][0]["name"] for one in said["hosts"].values()] == ["container"] * 2
    jsonschema.validate(said, schemas.schema("provision-hosts"))
    assert site.fetched()[small.layer] == first


def test_it_dies_in_the_middle(site: Site, small: Small) -> None:
    """Both hosts say who passes the image on no more, and what to do; nothing comes from outside in another way."""
    site.outside.faults[:] = [Fault(small.layer, cut_after=1 << 20, hang=True)]
    child = site.start("--yes", "--json", "--seed-node", "node01")
    until(lambda: site.fetched()[small.layer] > 0 and site.asked())
    killed = site.seeds()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    out, err = child.communicate(timeout=120)
    said = json.loads(out)["hosts"]

    assert killed
    assert child.returncode == 4, err
    assert "node01 passes the image on no more" in said["node02"]["seen"]
    assert "without --seed-node each host pulls for itself" in str(said["node02"]["document"]["error"])
    assert site.fetched()[small.layer] <= 1 << 20


def test_the_controller_dies(site: Site, small: Small) -> None:
    """Whoever loses the run's connection passes on nothing more, and leaves nothing on the disk."""
    site.outside.faults[:] = [Fault(small.layer, cut_after=1 << 20, hang=True)]
    child = site.start("--yes", "--seed-node", "node01")
    until(lambda: site.fetched()[small.layer] > 0)
    served = site.serves()
    child.kill()
    child.communicate()
    until(lambda: not site.serves())
    left = [path.name for path in (site.fleet.hosts[0].home / "data").iterdir()]

    assert served
    assert set(left) <= {"environments", "fleet"}


def test_a_closed_way_and_a_full_disk(site: Site, small: Small) -> None:
    """A host that does not reach the other says at which port, and pulls nothing from outside; where there is no room
    to pass the image on, nobody begins."""
    first, second = site.fleet.hosts
    closed = ["ip", "-n", second.space, "route"]
    subprocess.run([*closed, "add", "unreachable", first.address], check=True)
    shut = json.loads(site.run("--yes", "--json", "--seed-node", "node01:7501").stdout)["hosts"]["node02"]
    subprocess.run([*closed, "delete", "unreachable", first.address], check=True)
    came = site.fetched()[small.layer]
    assert first.child
    mount = ["mount", "-t", "tmpfs", "-o", "size=200m", "none", str(first.home / "data")]
    subprocess.run(["nsenter", "-t", str(first.child.pid), "-m", *mount], check=True)
    full = site.run("--yes", "--seed-node", "node01")

    assert f"node01 is not reached at {first.address}:7501: no route to host" in shut["seen"]
    assert "--seed-node node01:PORT" in shut["document"]["next"]
    assert came <= 7 << 20
    assert full.returncode == 4, full.stdout
    assert "not-begun   node" in full.stdout
    assert "node01 does not pass the image on: 0.3 GiB are needed at" in full.stdout
