"""What `docker info --format '{{json .}}'` says; the docker SDK is not needed to ask."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import Engine
from envcheck.core.model import Answer, Outcome


def parse(answer: Answer) -> Engine | None:
    """The engine; None when docker is not there at all.  An engine out of reach has `error`, its own sentence."""
    if answer.outcome is Outcome.ABSENT:
        return None
    said = _object(answer.out)
    version, errors = said.get("ServerVersion"), said.get("ServerErrors")
    runtimes = said.get("Runtimes")
    root = said.get("DockerRootDir")
    return Engine(
        version=version if isinstance(version, str) and version else None,
        runtimes=tuple(sorted(map(str, runtimes))) if isinstance(runtimes, dict) else (),
        cdi=_cdi_names(said.get("DiscoveredDevices")),
        root_dir=root if isinstance(root, str) and root else None,
        error=_error(answer, errors, bool(version)),
    )


def _cdi_names(devices: object) -> tuple[str, ...]:
    """[{"Source": "cdi", "ID": "iluvatar.com/gpu=0"}, ...]; engines before 28.2 list none."""
    found = [each for each in devices if isinstance(each, dict)] if isinstance(devices, list) else []
    return tuple(sorted(str(each.get("ID")) for each in found if each.get("Source") == "cdi"))


def _object(text: str) -> dict[str, Any]:
    """The JSON object; warnings may stand around it."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                said = json.loads(line)
            except (ValueError, RecursionError):
                continue
            return said if isinstance(said, dict) else {}
    return {}


def _error(answer: Answer, errors: object, reached: bool) -> str | None:
    """Newer clients print ServerErrors and end well; older ones end badly with a sentence."""
    if isinstance(errors, list) and errors:
        return str(errors[0])
    if reached:
        return None
    if answer.outcome is Outcome.HUNG:
        return "docker info did not answer in time"
    return next((line.strip() for line in answer.err.splitlines() if line.strip()), "docker info said nothing")
