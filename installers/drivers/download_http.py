"""HTTP and HTTPS requests for downloads: limited redirects, readable errors, published checksums."""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from envcheck.core.errors import StepError, UsageError
from envcheck.core.messages import _
from envcheck.core.secrets import redact_text

SILENCE_S = 30.0  # maximum silence of the server
REDIRECTS = 5
SUMS_LIMIT = 64 << 10  # characters of a vendor's checksum file
AGAIN = (408, 425, 429, 500, 502, 503, 504)
MEANINGS = {
    401: _("the vendor requires a login: download the file in a browser, then pass it with --install-driver"),
    403: _("the vendor restricts access: download the file in a browser, then pass it with --install-driver"),
    404: _("the vendor has removed the file: look for a newer version"),
    407: _("your proxy requires a login: check https_proxy"),
}


def parse_file_name(url: str) -> str:
    """Return the last part of the URL's path.  UsageError if the URL is not http(s) or has no usable file name."""
    parsed = urllib.parse.urlsplit(url)
    if parsed.scheme not in ("http", "https") or not parsed.hostname:
        raise UsageError(_("{url}: not an http:// or https:// URL", url=redact_url(url)), _("check the URL"))
    name = urllib.parse.unquote(parsed.path.rpartition("/")[2])
    return name if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+~-]{0,199}", name) else "download"


def redact_url(url: str) -> str:
    """Return the URL without a password, shortened for display."""
    return redact_text(url if url.isprintable() else ascii(url))[:200]


def open_url(request: urllib.request.Request, silence_s: float) -> Any:
    """Open the request over http or https only; urllib's default opener also accepts file: and ftp:."""
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
        raise StepError(
            _("{full_url}: not an http:// or https:// URL", full_url=redact_url(request.full_url)),
            _("check the URL"),
        )
    return answer


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follow a few redirects, to http and https only and never from https to http."""

    max_redirections = REDIRECTS
    max_repeats = 2

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """Return the redirected request; StepError for a target that is not allowed."""
        before, after = (urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl))
        if after not in ("http", "https") or (before, after) == ("https", "http"):
            raise StepError(
                _(
                    "{full_url}: redirects to {newurl}, which envcheck does not follow",
                    full_url=redact_url(req.full_url),
                    newurl=redact_url(newurl),
                ),
                _("ask the vendor"),
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def version_mark(answer: Any) -> str:
    """Return the strong ETag or the date of the answer; a weak ETag (W/) does not promise identical bytes."""
    tag = str(answer.headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(answer.headers.get("Last-Modified", ""))


def shorten_error(err: Exception) -> str:
    """Return the error's reason on one line."""
    reason = getattr(err, "reason", None) or err
    text = str(reason) or type(reason).__name__
    return redact_text(text).splitlines()[0][:200]


def find_sum(text: str, name: str) -> str:
    """Return the file's SHA-256 from a checksum file (`HEX  NAME`, or `HEX` alone); "" if not listed."""
    for line in text[:SUMS_LIMIT].splitlines():
        found = re.fullmatch(r"([0-9a-fA-F]{64})(?:\s+\*?(\S.*))?", line.strip())
        if found and (found[2] or name).rpartition("/")[2] == name:
            return found[1].lower()
    return ""


def fetch_published_sum(url: str, name: str, silence_s: float = SILENCE_S) -> str:
    """Return the file's checksum from the list at `url`.  StepError if the list cannot be fetched or lacks the file."""
    try:
        with open_url(urllib.request.Request(url), silence_s) as answer:
            found = find_sum(answer.read(SUMS_LIMIT).decode("latin-1"), name)
    except (OSError, http.client.HTTPException) as err:
        raise StepError(
            _("{url}: {reason}", url=redact_url(url), reason=shorten_error(err)),
            _("specify the checksum yourself, or try again later"),
        ) from None
    if not found:
        raise StepError(
            _("{url} contains no SHA-256 checksum for {name}", url=redact_url(url), name=name),
            _("ask the vendor for the checksum"),
        )
    return found
