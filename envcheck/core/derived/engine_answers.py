"""The answers of the container engine."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import EngineFacts, Facts
from envcheck.core.model import Answer

DOCKER_INFO = "run docker info --format {{json .}}"
KUBELET = "read /var/lib/kubelet/cpu_manager_state"


def get_reachable_engine(facts: Facts) -> EngineFacts | None:
    """Return the engine, None if there is none or it is unreachable."""
    return facts.engine if facts.engine and facts.engine.error is None else None


def parse_json_object(answer: Answer) -> dict[str, Any] | None:
    """Return the JSON object in an answer, None if it is not one."""
    try:
        value = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
