"""A connection to one registry for one repository: bounded responses, tokens, and an error message for each refusal."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from envcheck.core.messages import Message, _
from installers.images.docker_engine import EngineProxies
from installers.images.reference import ImageReference

if TYPE_CHECKING:
    import requests

CONNECT_S, READ_S, ANSWER_S = 10.0, 20.0, 60.0  # ANSWER_S: for a whole response, even if data keeps arriving
TOKEN_LIMIT = 64 << 10  # bytes; the longest known tokens have 4 KiB
CERTIFICATES = Path("/etc/docker/certs.d")  # where the engine looks for the CA certificates of a registry
Credentials = Callable[[str], dict[str, Any]]  # from a registry host to its credentials; {} for none


class RegistryRefusal(Exception):  # noqa: N818 (an expected answer of a registry, not a program error)
    """A failed request; `passing`: a retry may succeed; `final`: the registry itself has answered."""

    def __init__(
        self,
        message: Message,
        next_step: Message,
        *,
        passing: bool = False,
        final: bool = False,
    ) -> None:
        super().__init__(message)
        self.message, self.next_step, self.passing = message, next_step, passing
        self.final = final


@dataclass
class RegistryConnection:
    """A connection to one registry for one repository; `base` and `authorisation` are set during use."""

    session: requests.Session
    host: str
    reference: ImageReference
    credentials: Credentials
    read_s: float
    base: str = ""
    verify: bool | str = True
    authorisation: str = ""
    proxies: EngineProxies = EngineProxies()  # noqa: RUF009 (frozen)

    def get_body(self, path: str, limit: int, accept: str = "*/*") -> tuple[bytes, str]:
        """Return body and content type of a response; raise RegistryRefusal for any status but 200."""
        url = f"{self.base}/v2/{self.reference.repository}/{path}"
        status, body, headers = self.fetch_url(url, limit, accept)
        if status == 401 and not self.authorisation:
            self.authorisation = self._build_authorisation(headers.get("www-authenticate", ""))
            status, body, headers = self.fetch_url(url, limit, accept)
        if status != 200:
            raise self._refusal_for_status(status)
        return body, headers.get("content-type", "").partition(";")[0].strip()

    def fetch_url(self, url: str, limit: int, accept: str = "*/*", **more: Any) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers (lowercase names); raise RegistryRefusal if the body exceeds the limit."""
        import requests

        until = time.monotonic() + ANSWER_S
        try:
            with self._send_request(url, accept, **more) as response:
                body = b"".join(self._read_bounded(response, limit, until))
                return response.status_code, body, {k.lower(): v for k, v in response.headers.items()}
        except requests.RequestException as err:
            raise self._refusal_for_error(err) from None

    def stream_pieces(self, path: str, size: int, start: int = 0) -> Iterator[bytes]:
        """Yield a body of any length from byte `start` on, in pieces of up to `size` bytes; the caller limits it."""
        import requests

        url, renewed = f"{self.base}/v2/{self.reference.repository}/{path}", False
        try:
            while True:
                with self._send_request(url, "*/*", start=start) as response:
                    if response.status_code in (200, 206):
                        skip = 0 if response.status_code == 206 else start
                        yield from _skip_bytes(response.iter_content(size), skip)
                        return
                    if response.status_code != 401 or renewed:
                        raise self._refusal_for_status(response.status_code)
                    self.authorisation, renewed = "", True  # a token is valid for some minutes
                    self.authorisation = self._build_authorisation(response.headers.get("www-authenticate", ""))
        except requests.RequestException as err:
            raise self._refusal_for_error(err) from None

    def _send_request(self, url: str, accept: str, *, start: int = 0, **more: Any) -> requests.Response:
        headers = {"Accept": accept} | ({"Authorization": self.authorisation} if self.authorisation else {})
        headers |= {"Range": f"bytes={start}-"} if start else {}
        more |= {"auth": _keep_request, "verify": self.verify, "stream": True}
        more |= {"proxies": self._select_proxies(url)}
        more |= {"timeout": (min(CONNECT_S, self.read_s), self.read_s)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # urllib3 warns about unverified TLS; the engine does not verify it either
            return self.session.get(url, headers=headers, **more)

    def _select_proxies(self, url: str) -> dict[str, str]:
        """Return the engine's proxies for the URL; without any, requests takes those of the environment."""
        from requests.utils import should_bypass_proxies

        known = {"http": self.proxies.http, "https": self.proxies.https}
        is_usable = not self.proxies.is_masked and any(known.values())
        if not is_usable or should_bypass_proxies(url, no_proxy=self.proxies.excluded):
            return {}
        return {scheme: proxy for scheme, proxy in known.items() if proxy}

    def _read_bounded(self, response: requests.Response, limit: int, until: float) -> Iterator[bytes]:
        got = 0
        for chunk in response.iter_content(1 << 16):
            got += len(chunk)
            if got > limit:
                raise RegistryRefusal(
                    _("the response of {host} exceeds {limit} KiB", host=self.host, limit=limit >> 10),
                    _("choose another registry with --registry"),
                )
            if time.monotonic() > until:
                raise RegistryRefusal(
                    _("{host} did not respond within {answer_s:.0f} s", host=self.host, answer_s=ANSWER_S),
                    _("choose another registry with --registry"),
                )
            yield chunk

    def _build_authorisation(self, challenge: str) -> str:
        """Return the Authorization header for a challenge: a bearer token, or name and password."""
        kind, _unused, rest = challenge.partition(" ")
        fields = {name.lower(): value for name, value in re.findall(r'(\w{1,20})="([^"]{0,2000})"', rest)}
        known = self.credentials(self.reference.host)
        if kind.lower() == "basic":
            return _basic_header(known)
        realm = fields.get("realm", "")
        if kind.lower() != "bearer" or urlsplit(realm).scheme not in ("https", urlsplit(self.base).scheme):
            raise self._refusal_for_status(401)
        self.authorisation = _basic_header(known)
        query = {"service": fields.get("service", ""), "scope": f"repository:{self.reference.repository}:pull"}
        status, body, _headers = self.fetch_url(realm, TOKEN_LIMIT, params={k: v for k, v in query.items() if v})
        self.authorisation = ""
        try:
            answer = json.loads(body) if status == 200 else {}
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, RecursionError, AttributeError):
            token = None
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]{1,60000}", token):
            raise self._refusal_for_status(401 if status in (200, 400, 401, 403) else status)
        return f"Bearer {token}"

    def _refusal_for_status(self, status: int) -> RegistryRefusal:
        if status in (401, 403):
            return RegistryRefusal(
                _("{host} requires credentials", host=self.host),
                _(
                    "run `docker login {host}` with an account that can read {repository}",
                    host=self.reference.host,
                    repository=self.reference.repository,
                ),
                final=True,
            )
        if status == 404:
            what = f"@{self.reference.digest}" if self.reference.digest else _("tag {tag}", tag=self.reference.tag)
            return RegistryRefusal(
                _(
                    "{repository} with {what} not found on {host}",
                    host=self.host,
                    repository=self.reference.repository,
                    what=what,
                ),
                _("choose another registry with --registry, or check the recipe"),
                final=True,
            )
        if status == 429:
            return RegistryRefusal(
                _("rate limit of {host} exceeded", host=self.host),
                _(
                    "wait, or run `docker login {host}` with an account that can read {repository}",
                    host=self.reference.host,
                    repository=self.reference.repository,
                ),
                passing=True,
                final=True,
            )
        broken = _("{host} returned HTTP status {status}", host=self.host, status=status)
        return RegistryRefusal(
            broken, _("try again later, or choose another registry with --registry"), passing=status >= 500
        )

    def _refusal_for_error(self, err: Exception) -> RegistryRefusal:
        import requests

        another = _("check the network and proxy, or choose another registry with --registry")
        if isinstance(err, requests.exceptions.SSLError):
            authority = CERTIFICATES / self.host / "ca.crt"  # any *.crt there is read
            return RegistryRefusal(
                _("the certificate of {host} is not trusted on this machine", host=self.host),
                _("install its CA certificate at {authority}", authority=authority),
            )
        if isinstance(err, requests.ConnectTimeout):
            return RegistryRefusal(
                _("cannot reach {host}: no response within {connect_s:.0f} s", host=self.host, connect_s=CONNECT_S),
                another,
            )
        if isinstance(err, requests.Timeout) or "timed out" in str(err):
            return RegistryRefusal(
                _("{host} did not respond within {read_s:.0f} s", host=self.host, read_s=self.read_s), another
            )
        if "NameResolution" in str(err) or "Name or service" in str(err):
            return RegistryRefusal(_("cannot reach {host}: unknown host name", host=self.host), another)
        if "refused" in str(err):
            return RegistryRefusal(_("cannot reach {host}: connection refused", host=self.host), another)
        if isinstance(err, (requests.exceptions.InvalidSchema, requests.TooManyRedirects, ValueError)):
            return RegistryRefusal(_("{host} redirects to an unsupported address", host=self.host), another)
        return RegistryRefusal(_("{host} closed the connection", host=self.host), another, passing=True)


def _skip_bytes(pieces: Iterable[bytes], start: int) -> Iterator[bytes]:
    """Yield the pieces without the first `start` bytes, for registries that ignore Range."""
    for piece in pieces:
        if piece[start:]:
            yield piece[start:]
        start = max(0, start - len(piece))


def _keep_request(request: Any) -> Any:
    """Replace requests' default authentication, which reads ~/.netrc."""
    return request


def _basic_header(known: dict[str, Any]) -> str:
    import base64

    name, word = known.get("username") or known.get("Username"), known.get("password") or known.get("Password")
    if not name or not word:
        return ""
    return "Basic " + base64.b64encode(f"{name}:{word}".encode()).decode()
