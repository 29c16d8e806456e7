"""Images behind the engine's own proxy, certificates and mirrors: what docker pulls, envcheck resolves and pulls."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import StepError
from installers.images import docker_engine, engine_lookup, local_image, pull
from installers.images import registry as registries
from installers.images.docker_engine import EngineProxies
from installers.images.reference import ImageReference, parse_reference
from installers.images.registry_connection import RegistryConnection
from tests.installers.images.engine_parts import DockerEngine, LocalRegistry, start_engine, start_registry
from tests.installers.images.image_parts import make_layer, push_image
from tests.installers.proxy_parts import LoginProxy, serve_proxy

HOST, DIGEST = "reg.corp.test", f"sha256:{'a' * 64}"
WORD_HASH = "$2b$04$bA3h.y4nN4fcuDRfKtR28eTPvDMJpNrAkDX3sk1gWGKRJix8wbwBq"  # of "geheim"
NAME = parse_reference(f"{HOST}/little/image:1")


@contextmanager
def start_proxied_engine(
    registry_here: LocalRegistry, monkeypatch: pytest.MonkeyPatch, login: str
) -> Iterator[tuple[docker_engine.DockerEngine, docker.DockerClient, LoginProxy]]:
    """An engine that reaches the test's registry only through its proxy, under a name that nobody resolves."""
    with serve_proxy(registry_here.base_url, login) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.base_url)
        with start_engine("--insecure-registry", HOST) as made:
            monkeypatch.delenv("HTTP_PROXY")
            monkeypatch.setenv("DOCKER_HOST", made.docker_host)
            with docker_engine.engine_client() as (seen, client):
                yield seen, client, proxy


@pytest.mark.real
@pytest.mark.parametrize("login", ("me:geheim", pytest.param("", marks=pytest.mark.extended)))
def test_an_engine_with_a_proxy(login: str, registry: LocalRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon has a proxy, the shell has none: the image is resolved and pulled; an unknown tag is refused."""
    pushed = push_image(f"{registry.address}/little/image:1", [make_layer({"a": b"1"})])

    with start_proxied_engine(registry, monkeypatch, login) as (seen, client, proxy):
        ask = engine_lookup.make_lookup(client, seen)
        found = resolve(NAME, seen, ask)
        there = pull.pull_image(client, found, lambda event: None)

        assert seen.proxies.is_masked == bool(login)
        assert (found.digest, bool(found.layers)) == (pushed, not login)
        assert there.digest == pushed
        assert there.names == (str(NAME), str(found.pinned_reference))
        assert not proxy.refused
        with pytest.raises(StepError):
            resolve(parse_reference(f"{HOST}/little/image:2"), seen, ask)


@pytest.mark.real
def test_a_mirror_of_docker_hub(registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """daemon.json names a mirror: an image of Docker Hub is resolved and pulled from there, under its own name."""
    pushed = push_image(f"{registry.address}/envcheck/mirrored:1", [make_layer({"a": b"mirrored"})])
    settings = tmp_path / "daemon.json"
    settings.write_text(json.dumps({"registry-mirrors": [registry.base_url]}))
    with start_engine("--config-file", str(settings)) as made:
        monkeypatch.setenv("DOCKER_HOST", made.docker_host)
        with docker_engine.engine_client() as (seen, client):
            found = resolve(parse_reference("docker.io/envcheck/mirrored:1"), seen)
            there = pull.pull_image(client, found, lambda event: None)

    assert (found.digest, bool(found.layers)) == (pushed, True)
    assert there.names[0] == "envcheck/mirrored:1"  # as the engine writes names of Docker Hub


@dataclass(frozen=True)
class ClosedRegistry:
    """A registry with TLS and a login, whose private CA the engine knows; `certificates` is a certs.d with it."""

    engine: DockerEngine
    address: str
    certificates: Path


@pytest.fixture
def closed(registry: LocalRegistry, tmp_path: Path) -> Iterator[ClosedRegistry]:
    """It serves the images of the plain registry, into which tests push."""
    (tmp_path / "htpasswd").write_text(f"someone:{WORD_HASH}\n")
    with start_engine() as engine:
        bridge = "{{(index .IPAM.Config 0).Gateway}}"
        host = engine.run_docker("network", "inspect", "-f", bridge, "bridge").stdout.strip()
        make_certificate(host, tmp_path)
        tls = f"  tls: {{certificate: {tmp_path}/ca.crt, key: {tmp_path}/key.pem}}\n"
        login = f"auth: {{htpasswd: {{realm: here, path: {tmp_path}/htpasswd}}}}\n"
        with start_registry(host, registry.folder / "data", tls + login) as served:
            place = f"certs.d/{served.address}"
            (tmp_path / place).mkdir(parents=True)
            shutil.copy(tmp_path / "ca.crt", tmp_path / place / "site.crt")
            into = f"mkdir -p /etc/docker/certs.d && cp -r {tmp_path}/{place} /etc/docker/certs.d/"
            subprocess.run(["nsenter", f"--mount=/proc/{engine.pid}/ns/mnt", "sh", "-c", into], check=True)
            yield ClosedRegistry(engine, served.address, tmp_path / "certs.d")


def make_certificate(address: str, folder: Path) -> None:
    """Write ca.crt, valid for this address and its own authority, and key.pem."""
    words = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=site"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.crt")]
    names = ["-addext", f"subjectAltName=IP:{address}"]
    subprocess.run(["openssl", "req", "-x509", *words, *files, *names], check=True, capture_output=True)


@pytest.mark.real
@pytest.mark.parametrize("is_readable", (True, False))
def test_a_private_ca_and_a_login(
    is_readable: bool, closed: ClosedRegistry, registry: LocalRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's certificates and docker's login are used; where only the engine can read the former, it is asked."""
    pushed = push_image(f"{registry.address}/envcheck/closed:1", [make_layer({"a": b"closed"})])
    name = parse_reference(f"{closed.address}/envcheck/closed:1")
    own = tmp_path / "docker"
    own.mkdir()
    monkeypatch.setattr(registries, "CERTIFICATES", closed.certificates if is_readable else own)
    monkeypatch.setenv("DOCKER_HOST", closed.engine.docker_host)
    monkeypatch.setenv("DOCKER_CONFIG", str(own))
    word = base64.b64encode(b"someone:geheim").decode()
    with docker_engine.engine_client() as (seen, client), pytest.raises(StepError):
        find_closed(name, seen, client)
    (own / "config.json").write_text(json.dumps({"auths": {closed.address: {"auth": word}}}))
    with docker_engine.engine_client() as (seen, client):
        found = find_closed(name, seen, client)
        there = pull.pull_image(client, found, lambda event: None)

    assert (found.digest, bool(found.layers)) == (pushed, is_readable)
    assert there.digest == pushed


def find_closed(
    name: ImageReference, engine: docker_engine.DockerEngine, client: docker.DockerClient
) -> registries.ResolvedImage:
    credentials, ask = local_image.registry_credentials(client), engine_lookup.make_lookup(client, engine)
    return registries.resolve_image([name], engine, credentials, attempts=1, ask=ask)


def resolve(
    name: ImageReference, engine: docker_engine.DockerEngine, ask: registries.AskEngine | None = None
) -> registries.ResolvedImage:
    return registries.resolve_image([name], engine, lambda host: {}, attempts=1, ask=ask)


def test_what_the_engine_answers() -> None:
    """The digest is taken over; another architecture and nonsense are not."""
    lists = {"Descriptor": {"digest": DIGEST, "size": 5}, "Platforms": [{"architecture": "arm64", "os": "linux"}]}
    found = engine_lookup.parse_answer(lists, NAME, "aarch64")

    assert found and (found.digest, found.layers, str(found.pinned_reference)) == (
        DIGEST,
        (),
        f"{HOST}/little/image@{DIGEST}",
    )
    assert engine_lookup.parse_answer(lists, NAME, "x86_64") is None
    for odd in ({}, [], None, {"Descriptor": []}, {"Descriptor": {"digest": "sha256:1"}}, {"Platforms": 7}):
        assert engine_lookup.parse_answer(odd, NAME, "x86_64") is None


@pytest.mark.parametrize(
    ("proxies", "url", "wanted"),
    (
        (EngineProxies(), "https://a.test/v2/", {}),
        (
            EngineProxies("http://p:1", "http://q:2"),
            "https://a.test/v2/",
            {"http": "http://p:1", "https": "http://q:2"},
        ),
        (EngineProxies("", "http://q:2", "localhost,.test"), "https://a.test/v2/", {}),
        (EngineProxies("", "http://xxxxx:xxxxx@q:2"), "https://a.test/v2/", {}),
    ),
)
def test_the_engines_proxies(proxies: EngineProxies, url: str, wanted: dict[str, str]) -> None:
    """They are used unless the host is excluded, or their login is masked."""
    link = RegistryConnection(None, "a.test", NAME, lambda host: {}, 5.0, proxies=proxies)  # type: ignore[arg-type]

    assert link._select_proxies(url) == wanted


def test_all_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any *.crt in certs.d/HOST is trusted, and one that cannot be read does no harm; without any, the system's are."""
    (tmp_path / "own.crt").write_text("no certificate")

    assert registries._own_certificates(tmp_path) is not None
    assert registries._own_certificates(tmp_path / "absent") is None
