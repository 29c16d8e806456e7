"""What pip's complaints mean: the first pattern that its output holds, a sentence, the next step.

The order matters: a pip that cannot reach its index ends with "No matching distribution" as well.  Seen with pip 22 to
25 against indexes of our own that were down, lacked a package, closed midway or served a damaged wheel.
"""

from __future__ import annotations

import re

AGAIN = "repeat the same command: what is already there is kept"
INDEX = "look at the index: `pip config list`, PIP_INDEX_URL"
SETTING = r"PIP_[A-Z]|_proxy\b"  # a next step that speaks of variables
MEANINGS: tuple[tuple[str, str, str], ...] = (
    (r"No space left on device|Errno 28|Disk quota exceeded", "the disk is full", "make room, then " + AGAIN),
    (
        "No usable temporary directory found",  # Python's word where it can write to none of them
        "no temporary file can be written: most likely the disk is full",
        "make room, then " + AGAIN,
    ),
    (r"Permission denied: '([^']*)'|\[Errno 13\]", "the environment cannot be written", "look at whose folder it is"),
    (r"CERTIFICATE_VERIFY_FAILED", "the index's certificate is not trusted here", "set PIP_CERT to your CA's file"),
    (r"407 Proxy|Tunnel connection failed", "the proxy refused", "look at http_proxy, https_proxy and its password"),
    (r"(?:401|403) (?:Client )?Error[^\n]*", "the index refused: {0}", "look at the address and its user and password"),
    (
        r"IncompleteRead|Connection broken|incomplete-download|Download failed|ChunkedEncodingError"
        r"|ConnectionResetError|RemoteDisconnected|not all .{0,20}bytes",
        "the download was cut off",
        AGAIN,
    ),
    (
        r"Temporary failure in name resolution|Name or service not known|NameResolutionError|getaddrinfo",
        "the index's name does not resolve: no network, or no proxy set",
        f"{INDEX}, http_proxy; then {AGAIN}",
    ),
    (
        r"Connection refused|Network is unreachable|No route to host|NewConnectionError|Max retries exceeded",
        "the index cannot be reached",
        f"{INDEX}; is it up?  then {AGAIN}",
    ),
    (r"[Rr]ead timed out|ReadTimeoutError|ConnectTimeout", "the index does not answer in time", AGAIN),
    (
        r"DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE[^\n]*\n\s{1,9}(\S+) from",
        "the file of {1} has another hash than it must have: the download was cut off, or the index serves another",
        f"{AGAIN}; if it stays so, try another index",
    ),
    (
        r"DO NOT MATCH THE HASHES|BadZipFile|is not a zip file|has an invalid wheel|Wheel '?\S+ .{0,400}is invalid",
        "a downloaded file is damaged: the download was cut off, or the index serves another file than it announced",
        f"{AGAIN}; if it stays so, try another index",
    ),
    (
        r"is not a trusted or secure host and is being ignored",
        "pip ignores the index, because it is plain http",
        "use its https address, or set PIP_TRUSTED_HOST to its name",
    ),
    (r"is not a supported wheel on this platform", "a wheel is for another machine or Python", INDEX),
    (r"ResolutionImpossible|conflicting dependencies", "the packages contradict each other", "see the log"),
    (
        r"No matching distribution found for ([^\s(]+)[^\n]*",
        "the index has nothing that fits {1}{versions}",
        f"{INDEX}; a package without a wheel for this Python looks the same",
    ),
    (r"No module named '?pip", "there is no pip in the environment", "repeat the same command"),
)


def understood(text: str) -> tuple[str, str]:
    """A sentence and a next step for pip's output; pip's own last error line where nothing is known."""
    for pattern, sentence, step in MEANINGS:
        if found := re.search(pattern, text):
            named = found[found.lastindex or 0] or ""
            return sentence.format(found[0], named, versions=_versions(text)), step
    known = [line for line in re.findall(r"^ERROR: (.+)$", text, re.M) if line != "Exception:"]  # a trace follows that
    errors = known or [line for line in text.splitlines() if line.strip()][-1:]
    return f"pip failed: {errors[-1][:300] if errors else 'it said nothing'}", "see the log"


def _versions(text: str) -> str:
    """' (it has 3.0.0, 3.3.1)' when the package is there in other versions, the newest few of them."""
    found = re.search(r"from versions: ([^)]*)\)", text)
    names = [] if not found or found[1] == "none" else found[1].split(", ")
    return f" (it has {', '.join(names[-5:])})" if names else ""
