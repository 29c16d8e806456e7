"""What became of the processes, in sentences; no decisions here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from envcheck.core.messages import Message, _, join, ngettext, verbatim
from envcheck.explain.processes.line_prefix import find_own_text
from envcheck.explain.processes.process_end import EndKind, FirstFailedProcess, ProcessEnd, join_ranks, list_followers

REASON, BRACKET = 120, 24  # characters of a log's text, and how many more if a bracket ends there
ALIKE = 80  # characters of the reason, without the prefix of a launcher, that are equal for like ends
_CLOSED = re.compile(r"[)\]}>]")
VERDICTS: dict[str, Message] = {
    "finished": _("finished: the log has the trainer's mark of a regular end"),
    "failed": _("failed"),
    "running": _("no end found: still running, or the log was cut off"),
    "no_failure": _("no failure found: no line reports an error, and the log has no mark of an end"),
    "unknown": _("unknown: the log has no known end"),
}
_HOW: dict[EndKind, Message] = {
    "exception": _("exception"),
    "signal": _("killed by a signal"),
    "error": _("error"),
    "waited": _("timed out waiting for others"),
    "stopped": _("stopped, or lost its peers"),
    "finished": _("finished"),
    "running": _("no end found"),
}


def describe_first_failure(ends: Sequence[ProcessEnd], first: FirstFailedProcess | None) -> Message | None:
    """Return one sentence on the first failure and what it did to the others; None if there is nothing to tell."""
    if first is None or len(ends) < 2:
        return None
    waited = list_followers(ends, first, "waited")
    told = [_describe_first(first, waited), *_describe_waiting(first, waited)]
    stopped = list_followers(ends, first, "stopped")
    if stopped:
        told.append(_("{processes} stopped after it", processes=_name_processes(stopped)))
    return join("; ", told)


def _describe_first(first: FirstFailedProcess, waited: Sequence[ProcessEnd]) -> Message:
    if first.end is None:
        return _(
            "{others} waited for rank {rank}, whose log was not read: look there",
            others=_name_processes(waited),
            rank=first.rank,
        )
    if first.end.how in ("running", "finished", "waited", "stopped"):
        return _(
            "{process} was missing first ({details})", process=name_process(first.end), details=_detail_end(first.end)
        )
    return _("{process} failed first ({details})", process=name_process(first.end), details=_detail_end(first.end))


def _describe_waiting(first: FirstFailedProcess, waited: Sequence[ProcessEnd]) -> list[Message]:
    if not waited or first.end is None:
        return []
    names = _name_processes(waited)
    clocks = sorted({end.clock for end in waited if end.clock})
    if not clocks:
        return [_("{processes} waited for it and timed out", processes=names)]
    return [_("{processes} waited for it and timed out at {clock}", processes=names, clock=clocks[0])]


def name_process(end: ProcessEnd) -> Message:
    """Return `rank 24 on node-3`, or the name of the pod or of the log."""
    if end.rank is None:
        return verbatim(end.unit or end.log)
    if end.host:
        return _("rank {rank} on {host}", rank=end.rank, host=end.host)
    return _("rank {rank}", rank=end.rank)


def _name_processes(ends: Sequence[ProcessEnd]) -> Message:
    if len(ends) == 1:
        return name_process(ends[0])
    if all(end.rank is not None for end in ends):
        ranks = sorted({end.rank for end in ends if end.rank is not None})  # a rank may have several logs
        return ngettext("rank {ranks}", "ranks {ranks}", len(ranks), ranks=join_ranks(ranks))
    return ngettext("{count} process", "{count} processes", len(ends))


def _detail_end(end: ProcessEnd) -> Message:
    parts: list[Message] = [verbatim(part) for part in (end.clock,) if part]
    if end.reason and end.place:
        parts.append(_("{reason} at {place}", reason=shorten_reason(end.reason), place=end.place))
    elif end.reason:
        parts.append(verbatim(shorten_reason(end.reason)))
    else:
        parts.append(_HOW[end.how])
    if end.waits:
        parts.append(_("in {operation}", operation=end.waits))
    if end.step is not None:
        parts.append(_("last step {step}", step=end.step))
    return join(", ", parts)


def shorten_reason(text: str) -> str:
    """Return a log's text cut at a blank, with an ellipsis; a bracket near the end is kept or left out whole."""
    if len(text) <= REASON:
        return text
    cut = text[: REASON + 1].rpartition(" ")[0] or text[:REASON]
    opened = max(map(cut.rfind, "([{<"))
    if opened > REASON // 2 and not _CLOSED.search(cut, opened):
        closed = _CLOSED.search(text, opened, REASON + BRACKET)
        cut = text[: closed.end()] if closed else cut[:opened]
    return cut.rstrip(" ,;:.") + ("" if cut == text else " ...")


def list_end_rows(ends: Sequence[ProcessEnd]) -> list[tuple[Message, Message]]:
    """Return process and end, with alike ends in one row."""
    groups: dict[tuple[str, str], list[ProcessEnd]] = {}
    for end in ends:
        text = find_own_text(end.reason) or end.reason
        alike = "".join(c for c in text[:ALIKE] if not c.isdigit())
        groups.setdefault((end.how, alike), []).append(end)
    return [
        (_name_processes(some) if len(some) > 1 else name_process(some[0]), _describe_row(some))
        for some in groups.values()
    ]


def _describe_row(some: Sequence[ProcessEnd]) -> Message:
    end = some[0]
    parts: list[Message] = [_HOW[end.how]]
    if end.reason:
        parts.append(verbatim(shorten_reason(end.reason)))
    if end.waits:
        parts.append(_("in {operation}", operation=end.waits))
    if end.named:
        parts.append(_("names rank {ranks}", ranks=join_ranks(end.named)))
    steps = sorted({one.step for one in some if one.step is not None})
    if steps:
        parts.append(_("last step {step}", step=str(steps[0]) if len(steps) == 1 else f"{steps[0]}-{steps[-1]}"))
    if end.clock:
        parts.append(verbatim(end.clock))
    return join(", ", parts)
