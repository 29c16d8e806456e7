"""Asking a registry for an image before anything is pulled: HTTP API v2, with bearer tokens, in bounded time and size.

Credentials come from docker's own store and go nowhere else; registries that the engine takes without TLS (those on
loopback, and those of its insecure-registries) are asked as it does it.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck.core.errors import StepError
from installers.images import manifest
from installers.images.engine import Engine
from installers.images.manifest import Bad, ResolvedImage
from installers.images.reference import HUB, Reference
from installers.images.registry_link import CERTIFICATES, READ_S, TOKEN_LIMIT, Credentials, Link, Refusal

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter

ATTEMPTS, PAUSE_S = 3, 1.0


def resolve(
    candidates: Sequence[Reference],
    engine: Engine,
    credentials: Credentials,
    wanted: str = "",
    read_s: float = READ_S,
    attempts: int = ATTEMPTS,
) -> ResolvedImage:
    """The first candidate that its registry has for the engine's architecture; StepError names every one's reason.

    `wanted` is a digest (a lock's) that the image must have.
    """
    refusals: list[tuple[Reference, Refusal]] = []
    for reference in candidates:
        try:
            found = _patiently(reference, engine, credentials, read_s, attempts)
        except Refusal as refusal:
            refusals.append((reference, refusal))
            continue
        if wanted and wanted not in (found.digest, found.list_digest):
            said = f"{reference} is {found.digest} by now, and {wanted} is wanted"
            raise StepError(said, "pull by digest, or make the lock anew")
        return found
    if not refusals:
        raise StepError("no image is named", "see the recipe: envcheck recipes")
    told = "; ".join(f"{reference}: {refusal.message}" for reference, refusal in refusals)
    raise StepError(told, refusals[0][1].next_step)


def _patiently(
    reference: Reference, engine: Engine, credentials: Credentials, read_s: float, attempts: int
) -> ResolvedImage:
    """A connection that is cut, or a registry that is overloaded, gets two more chances; a closed door does not."""
    for attempt in range(1, attempts + 1):
        try:
            return _ask(reference, engine, credentials, read_s)
        except Refusal as refusal:
            if not refusal.passing or attempt == attempts:
                raise
            time.sleep(PAUSE_S * attempt)
    raise AssertionError("not reached")


def _ask(reference: Reference, engine: Engine, credentials: Credentials, read_s: float) -> ResolvedImage:
    *mirrors, own = _hosts(reference, engine)
    for host in mirrors:
        with contextlib.suppress(Refusal):
            return _ask_at(host, reference, engine, credentials, read_s)
    return _ask_at(own, reference, engine, credentials, read_s)


def links(reference: Reference, engine: Engine, credentials: Credentials, read_s: float = READ_S) -> Iterator[Link]:
    """A conversation with each place where the engine would look for the image, to be used before the next is taken.

    One with which nothing can be begun is left out.
    """
    import requests

    for host in _hosts(reference, engine):
        with requests.Session() as session, contextlib.suppress(Refusal):
            link = Link(session, host, reference, credentials, read_s)
            link.base = _base(link, engine)
            yield link


def _hosts(reference: Reference, engine: Engine) -> list[str]:
    """Where the engine will look for it: Docker's own hub has mirrors, and another name."""
    if reference.host != HUB:
        return [reference.host]
    return [*filter(None, (urlsplit(mirror).netloc for mirror in engine.mirrors)), "registry-1.docker.io"]


def _ask_at(host: str, reference: Reference, engine: Engine, credentials: Credentials, read_s: float) -> ResolvedImage:
    import requests

    with requests.Session() as session:
        link = Link(session, host, reference, credentials, read_s)
        link.base = _base(link, engine)
        try:
            return _found(link, reference, engine.architecture)
        except Bad as err:
            raise Refusal(str(err), "see --registry for another one, or the recipe's image") from None


def _found(link: Link, reference: Reference, architecture: str) -> ResolvedImage:
    asked = reference.digest or reference.tag
    kinds = ", ".join((*manifest.SINGLE, *manifest.LISTS))
    body, kind = link.get(f"manifests/{asked}", manifest.SIZE_LIMIT, kinds)
    _same(body, reference.digest)
    list_digest = ""
    if manifest.is_list(manifest.document(body), kind):
        list_digest, chosen = manifest.digest_of(body), manifest.choose(manifest.document(body), architecture)
        body, _ = link.get(f"manifests/{chosen}", manifest.SIZE_LIMIT, ", ".join(manifest.SINGLE))
        _same(body, chosen)
    one = manifest.single(body)
    if one.config.size > manifest.SIZE_LIMIT:
        raise Bad("its configuration is larger than any that an engine takes")
    config, _ = link.get(f"blobs/{one.config.digest}", manifest.SIZE_LIMIT)
    _same(config, one.config.digest)
    diff_ids = manifest.layers(config, architecture, len(one.layers))
    return ResolvedImage(reference, one.digest, architecture, one.config.digest, one.layers, diff_ids, list_digest)


def _same(body: bytes, digest: str) -> None:
    if digest and manifest.digest_of(body) != digest:
        raise Bad(f"its registry gives something else under {digest[:19]}...: its contents were changed")


def _base(link: Link, engine: Engine) -> str:
    """https://HOST; http://HOST where the engine goes without TLS and the registry has none."""
    authority = CERTIFICATES / link.host / "ca.crt"
    link.verify = str(authority) if authority.is_file() else True
    if not insecure(link.host, engine.insecure):
        return f"https://{link.host}"
    link.session.trust_env = not _is_loopback(link.host)  # no proxy leads to our own loopback
    link.verify = False
    link.session.mount("https://", _unverified())
    try:
        link.fetch(f"https://{link.host}/v2/", TOKEN_LIMIT)
    except Refusal as refusal:
        if refusal.no_tls or refusal.passing:
            return f"http://{link.host}"
        raise
    return f"https://{link.host}"


def _unverified() -> HTTPAdapter:
    """TLS without a look at the certificate.  By itself requests reads all of this host's authorities all the same, 30
    ms for a registry that has no TLS."""
    import ssl

    from requests.adapters import HTTPAdapter

    class Unverified(HTTPAdapter):
        def init_poolmanager(self, *args: Any, **more: Any) -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            super().init_poolmanager(*args, **more, ssl_context=context)

    return Unverified()


def insecure(host: str, ranges: Sequence[str]) -> bool:
    """Whether the engine asks this registry without TLS; `ranges` are hosts and networks, loopback is always one."""
    if host in ranges or _is_loopback(host):
        return True
    number = _number(host)
    return number is not None and any(number in net for net in map(_network, ranges) if net is not None)


def _is_loopback(host: str) -> bool:
    number = _number(host)
    return _bare(host) == "localhost" or (number is not None and number.is_loopback)


def _bare(host: str) -> str:
    return host.rpartition(":")[0].strip("[]") if re.search(r":\d+$", host) else host.strip("[]")


def _number(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(_bare(host))
    except ValueError:
        return None


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None
