"""Explain pip's errors: the first pattern that matches its output gives a sentence and a next step.

The order matters: a pip that cannot reach its index also ends with "No matching distribution".  Observed with pip 22
to 25 and test indexes that were down, lacked a package, closed the connection midway or served a corrupt wheel.
"""

from __future__ import annotations

import re

from envcheck.core.messages import NOTHING, Message, _, fill, join, mark
from envcheck.core.secrets import redact_text

AGAIN = _("run the same command again: completed work is kept")
INDEX = _("check the package index: `pip config list`, PIP_INDEX_URL")
SETTING = r"PIP_[A-Z]|_proxy\b"  # matches a next step that names variables
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        r"No space left on device|Errno 28|Disk quota exceeded",
        mark("no space left on the disk"),
        mark("free disk space, then {again}"),
    ),
    (
        "No usable temporary directory found",  # Python's message if no temporary folder is writable
        mark("cannot write temporary files; the disk is probably full"),
        mark("free disk space, then {again}"),
    ),
    (
        r"Permission denied: '([^']*)'|\[Errno 13\]",
        mark("the environment is not writable"),
        mark("check who owns the folder"),
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED",
        mark("the certificate of the package index is not trusted on this host"),
        mark("set PIP_CERT to your CA file"),
    ),
    (
        r"407 Proxy|Tunnel connection failed",
        mark("the proxy refused the connection"),
        mark("check http_proxy, https_proxy and the proxy password"),
    ),
    (
        r"(?:401|403) (?:Client )?Error[^\n]*",
        mark("the package index refused the request: {line}"),
        mark("check the index URL, user and password"),
    ),
    (
        r"IncompleteRead|Connection broken|incomplete-download|Download failed|ChunkedEncodingError"
        r"|ConnectionResetError|RemoteDisconnected|not all .{0,20}bytes",
        mark("the download was interrupted"),
        "{again}",
    ),
    (
        r"Temporary failure in name resolution|Name or service not known|NameResolutionError|getaddrinfo",
        mark("the name of the package index does not resolve: no network, or no proxy configured"),
        mark("{index}, http_proxy; then {again}"),
    ),
    (
        r"Could not fetch URL [^\n]{0,400}\b(5\d\d) Server Error|too many (5\d\d) error responses",
        mark("the package index failed: HTTP status {name}"),
        mark("try again later, or ask who runs the index"),
    ),
    (
        r"Connection refused|Network is unreachable|No route to host|NewConnectionError|Max retries exceeded",
        mark("the package index is unreachable"),
        mark("{index} and make sure that it is running, then {again}"),
    ),
    (
        r"[Rr]ead timed out|ReadTimeoutError|ConnectTimeout",
        mark("the package index does not respond in time"),
        "{again}",
    ),
    (
        r"DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE[^\n]*\n\s{1,9}(\S+) from",
        mark(
            "the file for {name} has an unexpected hash: the download was interrupted, or the index "
            "serves a different file"
        ),
        mark("{again}; if it fails again, try another index"),
    ),
    (
        r"DO NOT MATCH THE HASHES|BadZipFile|is not a zip file|has an invalid wheel|Wheel '?\S+ .{0,400}is invalid",
        mark(
            "a downloaded file is damaged: the download was interrupted, or the index serves a "
            "different file than announced"
        ),
        mark("{again}; if it fails again, try another index"),
    ),
    (
        r"is not a trusted or secure host and is being ignored",
        mark("pip ignores the index because it uses plain http"),
        mark("use its https address, or set PIP_TRUSTED_HOST to its host name"),
    ),
    (
        r"is not a supported wheel on this platform",
        mark("a wheel is for another architecture or Python version"),
        "{index}",
    ),
    (
        r"ResolutionImpossible|conflicting dependencies",
        mark("the packages have conflicting requirements"),
        mark("check {log}"),
    ),
    (
        r"No matching distribution found for ([^\s(]+)[^\n]*",
        mark("the index has no version that satisfies {name}{versions}"),
        mark("{index}; a package without a wheel for this Python version causes the same error"),
    ),
    (r"No module named '?pip", mark("pip is missing in the environment"), mark("run the same command again")),
)


def explain_output(text: str, log: object = "") -> tuple[Message, Message]:
    """Return a sentence and a next step; pip's last error line if no pattern matches.

    `log` is the file with the complete output.
    """
    log = log or _("the log")
    for pattern, sentence, step in MEANINGS:
        if found := re.search(pattern, text):
            named = found[found.lastindex or 0] or ""
            said = {"line": redact_text(found[0]), "name": redact_text(named), "versions": _list_versions(text)}
            return fill(sentence, **said), fill(step, again=AGAIN, index=INDEX, log=log)
    known = [line for line in re.findall(r"^ERROR: (.+)$", text, re.M) if line != "Exception:"]  # a traceback follows
    errors = known or [line for line in text.splitlines() if line.strip()][-1:]
    reason = redact_text(errors[-1][:300]) if errors else _("no output")
    return _("pip failed: {reason}", reason=reason), _("check {log}", log=log)


def _list_versions(text: str) -> Message:
    """Return " (available: 3.0.0, 3.3.1)", the newest versions in the index; empty if it has none."""
    found = re.search(r"from versions: ([^):]*)\)", text)
    names = [] if not found or found[1] == "none" else found[1].split(", ")
    return _(" (available: {versions})", versions=join(", ", names[-5:])) if names else NOTHING
