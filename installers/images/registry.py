"""Resolve an image in a registry before anything is pulled: HTTP API v2 with bearer tokens, bounded in time and size.

Credentials come from docker's own store and are sent to their registry only.  Registries that the engine accesses
without TLS (on loopback, and its insecure-registries) are accessed the same way.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck.core.errors import StepError
from envcheck.core.messages import _, join
from installers.images import manifest
from installers.images.docker_engine import DockerEngine
from installers.images.manifest import InvalidManifest, ResolvedImage
from installers.images.reference import HUB, ImageReference
from installers.images.registry_connection import (
    CERTIFICATES,
    READ_S,
    TOKEN_LIMIT,
    Credentials,
    RegistryConnection,
    RegistryRefusal,
)

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter

ATTEMPTS, PAUSE_S = 3, 1.0
AskEngine = Callable[[ImageReference], "ResolvedImage | None"]


def resolve_image(
    candidates: Sequence[ImageReference],
    engine: DockerEngine,
    credentials: Credentials,
    wanted: str = "",
    read_s: float = READ_S,
    attempts: int = ATTEMPTS,
    ask: AskEngine | None = None,
) -> ResolvedImage:
    """Return the first candidate that its registry has for the engine's architecture.

    If this process does not get through to a registry, `ask` asks the engine: it may have a proxy with a login, or
    certificates and mirrors that only it can read.  `wanted` is the digest that the image must have (from a lock file),
    "" for any.  Raises StepError with the reason of every candidate.
    """
    refusals: list[tuple[ImageReference, RegistryRefusal]] = []
    for reference in candidates:
        try:
            found = _resolve_with_retries(reference, engine, credentials, read_s, attempts)
        except RegistryRefusal as refusal:
            asked = None if refusal.final or ask is None else ask(reference)
            if asked is None:
                refusals.append((reference, refusal))
                continue
            found = asked
        if wanted and wanted not in (found.digest, found.list_digest):
            raise StepError(
                _(
                    "{reference} now has digest {digest}; expected {wanted}",
                    reference=reference,
                    digest=found.digest,
                    wanted=wanted,
                ),
                _("pull by digest, or recreate the lock file"),
            )
        return found
    if not refusals:
        raise StepError(_("no image specified"), _("check the recipe: `envcheck recipes`"))
    reasons = (_("{reference}: {message}", reference=ref, message=refusal.message) for ref, refusal in refusals)
    raise StepError(join("; ", reasons), refusals[0][1].next_step)


def _resolve_with_retries(
    reference: ImageReference, engine: DockerEngine, credentials: Credentials, read_s: float, attempts: int
) -> ResolvedImage:
    """Retry after a lost connection or if the registry is overloaded, but not after a definite refusal."""
    for attempt in range(1, attempts + 1):
        try:
            return _resolve_from_hosts(reference, engine, credentials, read_s)
        except RegistryRefusal as refusal:
            if not refusal.passing or attempt == attempts:
                raise
            time.sleep(PAUSE_S * attempt)
    raise AssertionError("not reached")


def _resolve_from_hosts(
    reference: ImageReference, engine: DockerEngine, credentials: Credentials, read_s: float
) -> ResolvedImage:
    *mirrors, own = _registry_hosts(reference, engine)
    for host in mirrors:
        with contextlib.suppress(RegistryRefusal):
            return _resolve_at(host, reference, engine, credentials, read_s)
    return _resolve_at(own, reference, engine, credentials, read_s)


def open_connections(
    reference: ImageReference, engine: DockerEngine, credentials: Credentials, read_s: float = READ_S
) -> Iterator[RegistryConnection]:
    """Yield a connection to each host where the engine would look for the image; each is closed before the next.

    Hosts that refuse the connection are skipped.
    """
    import requests

    for host in _registry_hosts(reference, engine):
        with requests.Session() as session, contextlib.suppress(RegistryRefusal):
            link = RegistryConnection(session, host, reference, credentials, read_s, proxies=engine.proxies)
            link.base = _find_base_url(link, engine)
            yield link


def _registry_hosts(reference: ImageReference, engine: DockerEngine) -> list[str]:
    """Return the hosts where the engine looks for the image: for Docker Hub its mirrors first, then its API host."""
    if reference.host != HUB:
        return [reference.host]
    return [*filter(None, (urlsplit(mirror).netloc for mirror in engine.mirrors)), "registry-1.docker.io"]


def _resolve_at(
    host: str, reference: ImageReference, engine: DockerEngine, credentials: Credentials, read_s: float
) -> ResolvedImage:
    import requests

    with requests.Session() as session:
        link = RegistryConnection(session, host, reference, credentials, read_s, proxies=engine.proxies)
        link.base = _find_base_url(link, engine)
        try:
            return _fetch_image(link, reference, engine.architecture)
        except InvalidManifest as err:
            raise RegistryRefusal(
                err.why, _("choose another registry with --registry, or check the recipe's image")
            ) from None


def _fetch_image(link: RegistryConnection, reference: ImageReference, architecture: str) -> ResolvedImage:
    asked = reference.digest or reference.tag
    kinds = ", ".join((*manifest.SINGLE, *manifest.LISTS))
    body, kind = link.get_body(f"manifests/{asked}", manifest.SIZE_LIMIT, kinds)
    _check_digest(body, reference.digest)
    list_digest = ""
    if manifest.is_list(manifest.parse_document(body), kind):
        list_digest, chosen = (
            manifest.compute_digest(body),
            manifest.choose_digest(manifest.parse_document(body), architecture),
        )
        body, _unused = link.get_body(f"manifests/{chosen}", manifest.SIZE_LIMIT, ", ".join(manifest.SINGLE))
        _check_digest(body, chosen)
    one = manifest.parse_manifest(body)
    if one.config.size > manifest.SIZE_LIMIT:
        raise InvalidManifest(_("the image configuration exceeds the size limit of container engines"))
    config, _unused = link.get_body(f"blobs/{one.config.digest}", manifest.SIZE_LIMIT)
    _check_digest(config, one.config.digest)
    diff_ids = manifest.parse_diff_ids(config, architecture, len(one.layers))
    return ResolvedImage(reference, one.digest, architecture, one.config.digest, one.layers, diff_ids, list_digest)


def _check_digest(body: bytes, digest: str) -> None:
    if digest and manifest.compute_digest(body) != digest:
        raise InvalidManifest(_("the registry returned content that does not match {digest}...", digest=digest[:19]))


def _find_base_url(link: RegistryConnection, engine: DockerEngine) -> str:
    """Return https://HOST, or http://HOST if the engine accepts it without TLS and https fails, as the engine does.

    Behind a proxy for http alone, https fails before the registry is reached.
    """
    if own := _own_certificates(CERTIFICATES / link.host):
        link.session.mount("https://", own)
    if not is_insecure(link.host, engine.insecure):
        return f"https://{link.host}"
    link.session.trust_env = not _is_loopback(link.host)  # never use a proxy for loopback
    link.verify = False
    link.session.mount("https://", _unverified_adapter())
    try:
        link.fetch_url(f"https://{link.host}/v2/", TOKEN_LIMIT)
    except RegistryRefusal:
        return f"http://{link.host}"
    return f"https://{link.host}"


def _own_certificates(folder: Path) -> HTTPAdapter | None:
    """Return an adapter with the engine's certificates for a host: CAs (*.crt) and its own (*.cert with *.key);
    None without any.  Unreadable files are the engine's to complain about."""
    import ssl

    from requests.adapters import HTTPAdapter

    authorities, clients = sorted(folder.glob("*.crt")), sorted(folder.glob("*.cert"))
    if not authorities and not clients:
        return None
    context = ssl.create_default_context()
    for file in (*authorities, *clients):
        with contextlib.suppress(OSError, ssl.SSLError):
            if file.suffix == ".crt":
                context.load_verify_locations(str(file))
            else:
                context.load_cert_chain(str(file), str(file.with_suffix(".key")))

    class OwnCertificates(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **more: Any) -> None:
            super().init_poolmanager(*args, **more, ssl_context=context)

    return OwnCertificates()


def _unverified_adapter() -> HTTPAdapter:
    """Return an adapter that does not verify certificates.

    With verify=False alone, requests still loads all CA certificates of the host: 30 ms for a registry without TLS.
    """
    import ssl

    from requests.adapters import HTTPAdapter

    class Unverified(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **more: Any) -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            super().init_poolmanager(*args, **more, ssl_context=context)

    return Unverified()


def is_insecure(host: str, ranges: Sequence[str]) -> bool:
    """Return whether the engine accepts this registry without TLS: loopback, and the hosts and networks in `ranges`."""
    if host in ranges or _is_loopback(host):
        return True
    number = _parse_address(host)
    return number is not None and any(number in net for net in map(_parse_network, ranges) if net is not None)


def _is_loopback(host: str) -> bool:
    number = _parse_address(host)
    return _strip_port(host) == "localhost" or (number is not None and number.is_loopback)


def _strip_port(host: str) -> str:
    return host.rpartition(":")[0].strip("[]") if re.search(r":\d+$", host) else host.strip("[]")


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(_strip_port(host))
    except ValueError:
        return None


def _parse_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None
