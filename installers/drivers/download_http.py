"""Asking a server for a file: by http and https alone, a handful of redirects, its refusals in words."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from envcheck.core.errors import StepError, UsageError
from envcheck.core.secrets import redact

SILENCE_S = 30.0  # in which a server says something
REDIRECTS = 5
SUMS_LIMIT = 64 << 10  # characters of a vendor's list of sums
AGAIN = (408, 425, 429, 500, 502, 503, 504)
MEANINGS = {
    401: "the vendor wants a login: fetch it by hand, then give the file",
    403: "the vendor does not give it to everybody: fetch it by hand, then give the file",
    404: "the vendor has taken it away: look for a newer one",
    407: "your proxy wants a login: see https_proxy",
}


def name_of(url: str) -> str:
    """The last part of the path, if it can be a file's name; UsageError for what is no http address."""
    parsed = urllib.parse.urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise UsageError(f"{shown(url)}: not an http:// or https:// address", "look at the address")
    name = urllib.parse.unquote(parsed.path.rpartition("/")[2])
    return name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+~-]{0,199}", name) else "download"


def shown(url: str) -> str:
    """The address without a password, and short."""
    return redact(url if url.isprintable() else ascii(url))[:200]


def open_url(request: urllib.request.Request, silence_s: float) -> Any:
    """By http and https alone: urllib's own opener also knows file: and ftp:."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    answer = opener.open(request, timeout=silence_s)
    if answer is None:
        raise StepError(f"{shown(request.full_url)}: not an http:// or https:// address", "look at the address")
    return answer


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Only to http and https, never from https down to http, and a handful of times."""

    max_redirections = REDIRECTS
    max_repeats = 2

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise StepError(f"{shown(req.full_url)}: leads to {shown(newurl)}, which is not followed", "ask the vendor")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def mark_of(answer: Any) -> str:
    """A weak ETag (W/) does not promise the same bytes."""
    tag = str(answer.headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(answer.headers.get("Last-Modified", ""))


def short(err: Exception) -> str:
    reason = getattr(err, "reason", None) or err
    text = str(reason) or type(reason).__name__
    return redact(text).splitlines()[0][:200]


def sum_in(text: str, name: str) -> str:
    """The SHA-256 of the file in a vendor's list of sums (`HEX  NAME`, or `HEX` alone); "" where it is not told."""
    for line in text[:SUMS_LIMIT].splitlines():
        found = re.fullmatch(r"([0-9a-fA-F]{64})(?:\s+\*?(\S.*))?", line.strip())
        if found and (found[2] or name).rpartition("/")[2] == name:
            return found[1].lower()
    return ""


def published_sum(url: str, name: str, silence_s: float = SILENCE_S) -> str:
    """The sum of the file in the list at `url`; StepError when it cannot be had."""
    try:
        with open_url(urllib.request.Request(url), silence_s) as answer:
            found = sum_in(answer.read(SUMS_LIMIT).decode("latin-1"), name)
    except (OSError, http.client.HTTPException) as err:
        raise StepError(f"{shown(url)}: {short(err)}", "give the sum yourself, or try later") from None
    if not found:
        raise StepError(f"{shown(url)} holds no SHA-256 sum of {name}", "ask the vendor for the sum")
    return found
