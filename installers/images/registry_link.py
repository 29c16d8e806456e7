"""A conversation with one registry about one repository: bounded answers, tokens, and every no as a sentence."""

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

from installers.images.reference import Reference

if TYPE_CHECKING:
    import requests

CONNECT_S, READ_S, ANSWER_S = 10.0, 20.0, 60.0  # ANSWER_S: for a whole answer, however steadily it drips
TOKEN_LIMIT = 64 << 10  # bytes; the longest seen have 4 KiB
CERTIFICATES = Path("/etc/docker/certs.d")  # where the engine has a registry's own authority
Credentials = Callable[[str], dict[str, Any]]  # of a host; {} for none


class Refusal(Exception):  # noqa: N818 (a registry's no, not an accident)
    """One registry's no; `passing`: it may be otherwise in a moment; `no_tls`: it talks, but not TLS that we trust."""

    def __init__(self, message: str, next_step: str, *, passing: bool = False, no_tls: bool = False) -> None:
        super().__init__(message)
        self.message, self.next_step, self.passing, self.no_tls = message, next_step, passing, no_tls


@dataclass
class Link:
    """A conversation with one registry about one repository; `base` and the authorisation come as it goes on."""

    session: requests.Session
    host: str
    reference: Reference
    credentials: Credentials
    read_s: float
    base: str = ""
    verify: bool | str = True
    authorisation: str = ""

    def get(self, path: str, limit: int, accept: str = "*/*") -> tuple[bytes, str]:
        """Body and kind of an answer; Refusal for all but a good one."""
        url = f"{self.base}/v2/{self.reference.repository}/{path}"
        status, body, headers = self.fetch(url, limit, accept)
        if status == 401 and not self.authorisation:
            self.authorisation = self._authorised(headers.get("www-authenticate", ""))
            status, body, headers = self.fetch(url, limit, accept)
        if status != 200:
            raise self._no(status)
        return body, headers.get("content-type", "").partition(";")[0].strip()

    def fetch(self, url: str, limit: int, accept: str = "*/*", **more: Any) -> tuple[int, bytes, dict[str, str]]:
        """Status, at most `limit` bytes, headers in small letters."""
        import requests

        until = time.monotonic() + ANSWER_S
        try:
            with self._ask(url, accept, **more) as said:
                body = b"".join(self._bounded(said, limit, until))
                return said.status_code, body, {k.lower(): v for k, v in said.headers.items()}
        except requests.RequestException as err:
            raise self._cut(err) from None

    def pieces(self, path: str, size: int, start: int = 0) -> Iterator[bytes]:
        """A good answer of any length from a byte on, in pieces of at most `size`; who takes them bounds them."""
        import requests

        url, renewed = f"{self.base}/v2/{self.reference.repository}/{path}", False
        try:
            while True:
                with self._ask(url, "*/*", start=start) as said:
                    if said.status_code in (200, 206):
                        yield from _from(said.iter_content(size), 0 if said.status_code == 206 else start)
                        return
                    if said.status_code != 401 or renewed:
                        raise self._no(said.status_code)
                    self.authorisation, renewed = "", True  # a token lasts some minutes
                    self.authorisation = self._authorised(said.headers.get("www-authenticate", ""))
        except requests.RequestException as err:
            raise self._cut(err) from None

    def _ask(self, url: str, accept: str, *, start: int = 0, **more: Any) -> requests.Response:
        headers = {"Accept": accept} | ({"Authorization": self.authorisation} if self.authorisation else {})
        headers |= {"Range": f"bytes={start}-"} if start else {}
        more |= {"auth": _as_it_is, "verify": self.verify, "stream": True}
        more |= {"timeout": (min(CONNECT_S, self.read_s), self.read_s)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # urllib3's about the TLS that the engine does not verify, either
            return self.session.get(url, headers=headers, **more)

    def _bounded(self, said: requests.Response, limit: int, until: float) -> Iterator[bytes]:
        got = 0
        for chunk in said.iter_content(1 << 16):
            got += len(chunk)
            if got > limit:
                raise Refusal(f"{self.host} answers with more than {limit >> 10} KiB", "see --registry for another one")
            if time.monotonic() > until:
                raise Refusal(f"{self.host} did not answer within {ANSWER_S:.0f} s", "see --registry for another one")
            yield chunk

    def _authorised(self, challenge: str) -> str:
        """The header that the registry's challenge wants: a token's, or name and password."""
        kind, _, rest = challenge.partition(" ")
        fields = {name.lower(): value for name, value in re.findall(r'(\w{1,20})="([^"]{0,2000})"', rest)}
        known = self.credentials(self.reference.host)
        if kind.lower() == "basic":
            return _basic(known)
        realm = fields.get("realm", "")
        if kind.lower() != "bearer" or urlsplit(realm).scheme not in ("https", urlsplit(self.base).scheme):
            raise self._no(401)
        self.authorisation = _basic(known)
        query = {"service": fields.get("service", ""), "scope": f"repository:{self.reference.repository}:pull"}
        status, body, _ = self.fetch(realm, TOKEN_LIMIT, params={k: v for k, v in query.items() if v})
        self.authorisation = ""
        try:
            said = json.loads(body) if status == 200 else {}
            token = said.get("token") or said.get("access_token")
        except (ValueError, RecursionError, AttributeError):
            token = None
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]{1,60000}", token):
            raise self._no(401 if status in (200, 400, 401, 403) else status)
        return f"Bearer {token}"

    def _no(self, status: int) -> Refusal:
        login = f"docker login {self.reference.host}, with an account that may read {self.reference.repository}"
        if status in (401, 403):
            return Refusal(f"{self.host} wants credentials for it", login)
        if status == 404:
            what = f"@{self.reference.digest}" if self.reference.digest else f"tag {self.reference.tag}"
            return Refusal(
                f"{self.host} has no {self.reference.repository} with {what}", "see --registry, or the recipe"
            )
        if status == 429:
            return Refusal(f"{self.host} has had too many requests from here", f"wait, or {login}", passing=True)
        broken = f"{self.host} answers with HTTP status {status}"
        return Refusal(broken, "repeat later, or see --registry for another one", passing=status >= 500)

    def _cut(self, err: Exception) -> Refusal:
        import requests

        another = "look at network and proxy, or see --registry for another one"
        if isinstance(err, requests.exceptions.SSLError):
            authority = CERTIFICATES / self.host / "ca.crt"
            said = f"{self.host} has a certificate that is not trusted here"
            return Refusal(said, f"put its authority at {authority}", no_tls=True)
        if isinstance(err, requests.ConnectTimeout):
            return Refusal(f"{self.host} cannot be reached: no answer within {CONNECT_S:.0f} s", another)
        if isinstance(err, requests.Timeout) or "timed out" in str(err):
            return Refusal(f"{self.host} did not answer within {self.read_s:.0f} s", another)
        if "NameResolution" in str(err) or "Name or service" in str(err):
            return Refusal(f"{self.host} cannot be reached: no such host", another)
        if "refused" in str(err):
            return Refusal(f"{self.host} cannot be reached: it refuses connections", another)
        if isinstance(err, (requests.exceptions.InvalidSchema, requests.TooManyRedirects, ValueError)):
            return Refusal(f"{self.host} sends us to an address that cannot be followed", another)
        return Refusal(f"{self.host} cut the connection", another, passing=True)


def _from(pieces: Iterable[bytes], start: int) -> Iterator[bytes]:
    """Without the first bytes, which a registry that knows no ranges sends all the same."""
    for piece in pieces:
        if piece[start:]:
            yield piece[start:]
        start = max(0, start - len(piece))


def _as_it_is(request: Any) -> Any:
    """In the place of requests' own habit to look for credentials in ~/.netrc."""
    return request


def _basic(known: dict[str, Any]) -> str:
    import base64

    name, word = known.get("username") or known.get("Username"), known.get("password") or known.get("Password")
    if not name or not word:
        return ""
    return "Basic " + base64.b64encode(f"{name}:{word}".encode()).decode()
