"""A training in a container whose supervisor was killed: find its processes, and end them, through the engine."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from envcheck.core.errors import StepError
from launch.targets.clean_environment import MARK

if TYPE_CHECKING:
    import docker

NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,200}")
# busybox has no grep -z, hence tr.
LIST = """for each in /proc/[0-9]*; do
grep -qsF "$1" "$each/environ" && tr '\\0' '\\n' <"$each/environ" | grep -qxF "$1" && echo "${each##*/}"
done 2>/dev/null; true"""
END = """list() { for each in /proc/[0-9]*; do grep -qs '^State:[[:space:]]*Z' "$each/status" ||
{ grep -qsF "$1" "$each/environ" && tr '\\0' '\\n' <"$each/environ" | grep -qxF "$1" && echo "${each##*/}"; }
done 2>/dev/null; }
for sign in TERM KILL KILL; do left=$(list "$1"); [ -z "$left" ] && exit 0; kill -$sign $left
for second in 1 2 3 4 5 6 7 8; do [ -z "$(list "$1")" ] && exit 0; sleep 1; done; done; list "$1" """


def is_training_alive(run: Path, said: Mapping[str, Any]) -> bool | None:
    """Return whether processes of the run live in its container; None if the engine cannot tell."""
    pids = list_pids(run, said)
    return None if pids is None else bool(pids)


def list_pids(run: Path, said: Mapping[str, Any]) -> tuple[int, ...] | None:
    """Return the pids, as in the container, of the run's processes; None if the engine cannot tell."""
    return _run_script(LIST, run, said)


def end_processes(run: Path, said: Mapping[str, Any]) -> tuple[int, ...] | None:
    """End the run's processes in its container; return the pids that are left, None without an engine."""
    return _run_script(END, run, said)


def find_mark(run: Path, said: Mapping[str, Any]) -> str:
    """Return the mark of the run's processes in the container, "" if the record has no valid one."""
    known = said.get("launcher")
    mark = known.get("mark") if isinstance(known, dict) else None
    return mark if isinstance(mark, str) and PurePosixPath(mark).name == run.name and "\n" not in mark else ""


def _run_script(script: str, run: Path, said: Mapping[str, Any]) -> tuple[int, ...] | None:
    container, mark = str(said.get("container")), find_mark(run, said)
    if not NAME.fullmatch(container) or not mark:
        return None
    with contextlib.suppress(StepError), _connect_engine() as client:
        from installers.targets.container_errors import call_engine

        if not _is_container_running(client, container):
            return ()
        words = ["sh", "-c", script, "sh", f"{MARK}={mark}"]
        made = call_engine(lambda: client.api.exec_create(container, words))
        out = call_engine(lambda: client.api.exec_start(made["Id"]))
        return tuple(int(word) for word in out.decode("ascii", "replace").split() if word.isdigit())
    return None


def _is_container_running(client: docker.DockerClient, container: str) -> bool:
    import docker

    from installers.targets.container_errors import call_engine

    try:
        found: Mapping[str, Any] = call_engine(lambda: client.api.inspect_container(container))
    except StepError as err:
        if isinstance(err.__cause__ or err.__context__, docker.errors.NotFound):
            return False
        raise
    return bool((found.get("State") or {}).get("Running"))


@contextlib.contextmanager
def _connect_engine() -> Iterator[docker.DockerClient]:
    from installers.images import docker_engine

    with docker_engine.engine_client(60.0) as (_engine, client):
        yield client
