"""Images behind the engine's own proxy, certificates and mirrors: what docker pulls, envcheck resolves and pulls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from envcheck.core.errors import StepError
from installers.images import docker_engine, engine_lookup, pull, registry
from installers.images.docker_engine import EngineProxies
from installers.images.reference import ImageReference, parse_reference
from installers.images.registry_connection import RegistryConnection
from tests.installers.images.engine_parts import LocalRegistry, start_engine
from tests.installers.images.image_parts import make_layer, push_image
from tests.installers.proxy_parts import LoginProxy, serve_proxy

HOST, DIGEST = "reg.corp.test", f"sha256:{'a' * 64}"
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


def resolve(
    name: ImageReference, engine: docker_engine.DockerEngine, ask: registry.AskEngine | None = None
) -> registry.ResolvedImage:
    return registry.resolve_image([name], engine, lambda host: {}, attempts=1, ask=ask)


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

    assert registry._own_certificates(tmp_path) is not None
    assert registry._own_certificates(tmp_path / "absent") is None
