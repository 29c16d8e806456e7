"""Whether a line calls itself a warning, or reports a retry after which its program continues; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from envcheck.explain.processes.line_prefix import find_own_text

# A line that calls itself a warning is no cause; NCCL, and Kunlunxin's runtime and BKCL, call their errors so.
_MILD = re.compile(
    r"^(?!.{0,120}(?:NCCL WARN|\[WARN\]\[(?:XPURT|BKCL|XCCL)\]))"
    r".{0,160}?(?:\bWARN(?:ING)?\b|\w{0,40}Warning: |(?:^|[\s:])\[?W\d{4} |\[W(?:\d{3,4})? )"
)
# Nor are messages without a level after which the program continues: retries of the hub and the tracker, TensorFlow
# next to another framework, pip about earlier packages, NumPy about a module that may still load, DeepSpeed's search
# for a compiler, a program about an optional import, a trainer about what it could not write into a model's card.
_TRIED = re.compile(
    r"thrown while requesting [A-Z]{3,4} |Retry attempt failed"
    r"|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{1,9}: [EW] (?:tensorflow|external|\S{0,80}stream_executor|\S{0,20}cuda_)"
    r"|pip's dependency resolver|which is incompatible\.$"
    r"|A module that was compiled using NumPy 1\.x cannot be run|\bnvcc: (?:command )?not found"
    # a client that left, and a request that a server's check refused
    r"|\bPost \S{0,3}http://127\.0\.0\.1:\d{1,5}/\S{1,40}: context canceled\b"
    r"|\bInput validation error: |:(?:validate|schedule): text_generation_router\b"
    r"|\bwhen fetching new request: |\b[Cc]heck request failed|\brequest\[[\w-]{1,80}\] generator error"
    # apt tries the next mirror, and ends with `E:` otherwise; xformers and git go on without the other part
    r"|^(?:#\d{1,4} [\d.]{1,12} )?(?:Err:\d| {1,3}Connection timed out \[IP: )|^Error caught was: No module"
    r"|^Waiting for cache lock: |^Error while downloading from http"
    r"|\bfatal: not a git repository"
    # the end of a program that has done its work
    r"|\bTask was destroyed but it is pending|\bError in atexit\._run_exitfuncs|\bUnable to unlink domain socket"
    r"|\[Proxy Service \d{1,3}\] Failed to execute operation Close"
)
# The same, unless the line is that of an exception.
_GOES_ON = re.compile(
    # an optional part, without which the program continues
    r"^.{0,120}?\b(?:[Cc]ould not|[Ff]ailed to|[Cc]annot|[Uu]nable to) (?:import|load)\b"
    r".{0,300}\bwill (?:be (?:disabled|unavailable|turned off)|not be (?:available|used|enabled))\b"
    # what a tracker of experiments could not send: it keeps the data, and the training goes on
    r"|^(?!\s).{0,60}?(?i:\b(?:wandb|comet(?:_ml)?|swanlab|mlflow|clearml|neptune"
    r"|aim|tensorboard)(?: \w{4,7})?[:/\].][^()\n]{0,60}?(?:\b(?:error|fail(?:ed|ure)|could not)\b|[\w/]{1,40}\.py:))"
    # a line that tells how the program goes on
    r"|^.{0,600}?(?:\b[Rr]etrying(?: in\b|\.{1,3}|$)|\bwill (?:retry|be retried)\b"
    r"|\b[Rr]etry \d{1,3} of \d|[-,;(] ?(?:skipp|ignor)(?:ed|ing)\b)|\bcreation will fail if\b"
    r"|\b[Cc]lient (?:has )?(?:disconnect|clos|cancel)"
    # the card of a model, which is written after the training
    r"|^.{0,120}?(?:\b(?:[Mm]odel|[Rr]epo) ?cards?\b|[Cc]ould not (?:retrieve|fetch|get|load) (?:\w{1,20} )?info\b)"
)
_RAISED = re.compile(r"(?:\S{1,80}\] )?[\w.]{0,80}(?:Error|Exception)(?::|$)")
# The access log of a server that answered a request with a refusal: what it reported before is about that request.
_REFUSED = re.compile(rb"\"(?:POST|GET|PUT) /\S{0,200} HTTP/1\.[01]\" 4\d\d\b|^Trying to resume download")
ANSWERED = 3  # lines after a report in which its answer follows
# A program that found a difference and judged it to be none.
_ACCEPTED = re.compile(
    r"\b(?:since|as|because) .{0,60}\b(?:are|is) compatible\b|\baccepting this (?:combination|version)"
)


def is_note(text: str) -> bool:
    """Return whether the line says that what it found is accepted: it is of no entry."""
    return bool(_ACCEPTED.search(text))


def is_mild(text: str) -> bool:
    """Return whether the line is not a cause, whatever entry it matches."""
    return bool(_MILD.search(text)) or is_tried(text)


def is_tried(text: str) -> bool:
    """Return whether the line reports what the program tried without success, and then goes on."""
    if _TRIED.search(text):
        return True
    return bool(_GOES_ON.search(text)) and not any(map(_RAISED.match, (text, find_own_text(text) or "")))


def is_refusal(following: Iterable[bytes]) -> bool:
    """Return whether the lines after a report are of a server that refused a request for it, and went on."""
    return any(_REFUSED.search(line[:400]) for line in following)
