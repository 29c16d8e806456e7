"""Rank and host of a process by the names of its log, and ranks that its lines name; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MOST = 64  # named ranks
_OF_RANK = re.compile(
    r"workerlog\.(\d{1,5})|rank[_.-]?(\d{1,5})(?!\d)|(?:^|/)(\d{1,5})/(?:stdout|stderr)\b", re.IGNORECASE
)
# A number that may be of a rank or a pod, not of a host.  That in slurm-12.out, sbatch's own name, is the job's.
_NUMBER = re.compile(
    r"worker[_-](\d{1,5})(?=\.|$)|(?<!slurm)(?<!node)(?<!host)(?<!server)[._-](\d{1,5})(?:\.(?:log|out|err|txt))?$|(?:^|/)(\d{1,5})$",
    re.IGNORECASE,
)
# Ray names the output of a worker by its id, its job and its process: worker-6f..e1-01000000-5001.err.
_OF_RAY = re.compile(r"(?:^|/)(?:python-core-)?(?:worker|driver)-[0-9a-f]{20,64}(?:-[0-9a-f]{8})?[-_]\d{1,8}\.\w{3}$")
_LOCAL = re.compile(r"(?:^|/)(\d{1,5})/std(?:out|err)\b")
_ATTEMPT = re.compile(r"(.{1,4096})/attempt_(\d{1,4})/")
_HOST = re.compile(
    r"(?:^|[/_.])((?:node|host|server|pod|worker)[-_]?[\w-]{0,40}?\d{1,5})(?=[/_.-](?:rank|worker|\d)|/|\.)", re.I
)
# A pod of a training operator: its number counts pods, and each pod may have several processes.
_POD = re.compile(
    r"(?:^|/)(?P<pod>[a-z0-9][a-z0-9.-]{0,60}-(?:master|worker|launcher|leader|chief)-\d{1,5}(?:-\d{1,5})?)(?=[./_-]|$)"
)
# torchrun puts the number on the node before the lines, torch the rank in the job: [default1]:[rank3]:, and pdsh the
# host: node-2: [rank9]:
_PREFIX = re.compile(
    r"^\s{0,8}(?:\[default\d{1,5}\]:\s?(?=\[rank)|[\w.-]{1,60}: (?=\[rank))?\[?(?:default|rank)[_ ]?(\d{1,5})[\]:]"
    # mpirun --tag-output: [1,3]<stderr>:, and horovodrun: [3]<stderr>:, after a time if it is asked for
    r"|^(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} \d{4})?\[(?:\d{1,6},)?(\d{1,5})\]<std(?:out|err)>:",
    re.IGNORECASE,
)
# kubectl logs --prefix and docker compose put the pod or the container: [pod/sft-worker-2/main] and trainer-2  | .
# srun --label puts the number of the task: ` 6: `.
UNIT = (
    r"\[pod/(?:[\w.-]{1,253})/[\w.-]{1,63}\]|(?=[\w.-]{0,59}\d)(?:[a-z][\w.-]{0,60}) {1,12}\|(?: |$)"
    r"| {0,4}\d{1,5}: (?! {0,8}\d)"
)
_UNIT = re.compile(UNIT)
_PDSH = re.compile(r"((?=[\w.-]{0,59}[A-Za-z.])[\w.-]{1,60}): (?=\[rank\d)")
_TASK = re.compile(r"task (\d{1,5})$")
_UNIT_NAME = re.compile(r"(?:\[pod/)?([\w.-]{1,253})")
_OWN = re.compile(
    r"\bRankID:(\d{1,5})\b|\[Rank (\d{1,5})\]|\bglobal rank[ :=]{1,3}\[?(\d{1,5})|\(rank[ :=](\d{1,5})\)", re.I
)
_NAMED = (
    re.compile(r"remote rank:? ?\[(\d{1,5})\]", re.I),
    re.compile(r"\bpair_rank = (\d{1,5})\b"),
    re.compile(r"\b(?:dst|dest|remote|peer)_?[rR]ank(?:Id)?[:=\[ ]{1,3}(\d{1,5})\b"),
    re.compile(
        r"\b[Rr]anks? ((?:\d{1,5}(?:, ?| )){0,40}\d{1,5} ?)"
        r"(?:failed to pass|did not|have not|has not|is missing|are missing)"
    ),
    re.compile(
        r"(?:missing|unconnected|not connected|lost|failed) rank\w{0,6}(?: list)?"
        r"[:= ]{0,3}\[?((?:\d{1,5}[, ]{0,2}){1,40})",
        re.I,
    ),
    re.compile(r"timed out waiting for (?:message from )?rank (\d{1,5})|waiting for rank (\d{1,5})", re.I),
)
_WORK = re.compile(r"Work[NH]CCL\(SeqNum=(\d{1,12}), OpType=(\w{2,30})")
_TAG = re.compile(r"\btag ?\[(All\w{2,30}?|Reduce\w{0,20}?|Broadcast\w{0,10}?|Send\w{0,10}?|Recv\w{0,10}?)_")
_DONE = re.compile(
    r"last enqueued (?:NCCL |HCCL )?work: (-?\d{1,12}), last completed (?:NCCL |HCCL )?work: (-?\d{1,12})"
)


@dataclass(frozen=True)
class PeerReport:
    """What lines say of ranks: the process's own, those that it waits for, the collective, and its last work."""

    own: int | None = None
    named: tuple[int, ...] = ()
    waits: str = ""
    work: int | None = None


def find_rank(name: str) -> int | None:
    """Return the rank in the name of a log, or a number that may be one (`is_of_one_rank`)."""
    if _OF_RAY.search(name):
        return None
    # the last one of each: folders above may have such names too
    for pattern in (_OF_RANK, _NUMBER):
        if found := [int(part) for match in pattern.finditer(name) for part in match.groups() if part]:
            return found[-1]
    return None


def is_of_one_rank(name: str) -> bool:
    """Return whether the name of a log says that it is of one rank; other numbers may be of a node or a pod."""
    return bool(_OF_RANK.search(name))


def names_pod(name: str) -> bool:
    """Return whether the number in the name of a log counts pods, each of which may have several ranks."""
    return bool(_POD.search(name))


def find_series(name: str) -> str:
    """Return what the logs have in common whose names differ in a number that may be of a rank or a pod."""
    found = list(_NUMBER.finditer(name))
    if not found:
        return ""
    folder = name.rpartition("/")[0]
    return f"{folder}/worker" if found[-1][1] else f"{name[: found[-1].start()]}#"


def find_attempt(name: str) -> tuple[str, int]:
    """Return the folder of a run and the number of its attempt, if torchrun named the log so; ("", 0) otherwise."""
    found = _ATTEMPT.match(name)
    return (found[1], int(found[2])) if found else ("", 0)


def find_local_rank(name: str) -> int | None:
    """Return the number on its node of a process, if the name of its log is one of torchrun's --log-dir."""
    found = _LOCAL.search(name)
    return int(found[1]) if found else None


def find_host(name: str) -> str:
    """Return the host, or the pod, in the name of a log or its folders; "" for none."""
    if _OF_RAY.search(name):
        return ""
    found = [match["pod"] for match in _POD.finditer(name)] or _HOST.findall(name)
    return str(found[-1]) if found else ""


def find_prefix_rank(text: str) -> int | None:
    """Return the rank that a launcher put before a line, also behind the pod or container."""
    unit = _UNIT.match(text)
    found = _PREFIX.match(text) or (_PREFIX.match(text[unit.end() :]) if unit else None)
    return int(found[1] or found[2]) if found else None


def read_peers(lines: Iterable[str]) -> PeerReport:
    """Return what the lines say of ranks."""
    own: int | None = None
    named: dict[int, None] = {}
    waits, work = "", None
    for line in lines:
        if own is None:
            own = find_prefix_rank(line)
        if own is None and (found := _OWN.search(line)):
            own = next(int(part) for part in found.groups() if part)
        named |= dict.fromkeys(_list_named_ranks(line))
        if not waits and (found := _WORK.search(line)):
            waits = f"{found[2]} (SeqNum {found[1]})"
        if not waits and (found := _TAG.search(line)):
            waits = found[1]
        if found := _DONE.search(line):
            work = int(found[1])
    named.pop(own if own is not None else -1, None)
    return PeerReport(own, tuple(named)[:MOST], waits, work)


def _list_named_ranks(line: str) -> list[int]:
    said = [part for pattern in _NAMED for found in pattern.finditer(line) for part in found.groups() if part]
    ranks = [int(number) for part in said for number in re.findall(r"\d{1,5}", part)]
    return [rank for rank in ranks if rank < 100_000]


def find_prefix_host(text: str) -> str:
    """Return the host that pdsh put before the rank of a line; "" for none."""
    found = _PDSH.match(text)
    return found[1] if found else ""


def drop_prefix_rank(text: str) -> str:
    """Return the line without the rank that a launcher put before it."""
    found = _PREFIX.match(text)
    return text[found.end() :].removeprefix(":").removeprefix(" ") if found else text


def find_prefix_unit(text: str) -> str:
    """Return the pod, the container of compose or the task of srun that its tool put before a line; "" for none."""
    found = _UNIT.match(text)
    name = _UNIT_NAME.match(found[0].lstrip()) if found else None
    return "" if name is None else f"task {name[1]}" if name[1].isdigit() else name[1]


def find_task(unit: str) -> int | None:
    """Return the number of a task of srun; None for a pod or a container."""
    found = _TASK.match(unit)
    return int(found[1]) if found else None
