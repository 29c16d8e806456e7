"""Parses `docker info --format '{{json .}}'`, which does not need the docker SDK."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import EngineFacts
from envcheck.core.messages import Message, _, verbatim
from envcheck.core.model import Answer, Outcome


def parse_docker_info(answer: Answer) -> EngineFacts | None:
    """Return the engine; None if docker is not installed. An unreachable engine has `error`, its own message."""
    if answer.outcome is Outcome.ABSENT:
        return None
    info = _find_json_object(answer.out)
    version, errors = info.get("ServerVersion"), info.get("ServerErrors")
    runtimes, default = info.get("Runtimes"), info.get("DefaultRuntime")
    root = info.get("DockerRootDir")
    return EngineFacts(
        version=version if isinstance(version, str) and version else None,
        runtimes=tuple(sorted(map(str, runtimes))) if isinstance(runtimes, dict) else (),
        default_runtime=default if isinstance(default, str) and default else None,
        cdi=_cdi_names(info.get("DiscoveredDevices")),
        root_dir=root if isinstance(root, str) and root else None,
        error=_find_engine_error(answer, errors, bool(version)),
    )


def _cdi_names(devices: object) -> tuple[str, ...]:
    """Return the names in [{"Source": "cdi", "ID": "iluvatar.com/gpu=0"}, ...]; engines before 28.2 list none."""
    found = [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    return tuple(sorted(str(each.get("ID")) for each in found if each.get("Source") == "cdi"))


def _find_json_object(text: str) -> dict[str, Any]:
    """Return the JSON object; warnings can surround it."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                info = json.loads(line)
            except (ValueError, RecursionError):
                continue
            return info if isinstance(info, dict) else {}
    return {}


def _find_engine_error(answer: Answer, errors: object, reached: bool) -> Message | None:
    """Return the error: newer clients print ServerErrors and exit with 0, older ones fail with a message."""
    if isinstance(errors, list) and errors:
        return verbatim(str(errors[0]))
    if reached:
        return None
    if answer.outcome is Outcome.HUNG:
        return _("docker info timed out")
    lines = [line.strip() for line in answer.err.splitlines() if line.strip()]
    return verbatim(lines[0]) if lines else _("docker info returned no output")
