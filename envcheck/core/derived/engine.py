"""The container engine, as far as it answers."""

from __future__ import annotations

import json
from typing import Any

from envcheck.core.facts import Engine, Facts
from envcheck.core.model import Answer

DOCKER_INFO = "run docker info --format {{json .}}"
KUBELET = "read /var/lib/kubelet/cpu_manager_state"


def reached_engine(facts: Facts) -> Engine | None:
    return facts.engine if facts.engine and facts.engine.error is None else None


def json_object(answer: Answer) -> dict[str, Any] | None:
    try:
        said = json.loads(answer.out)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None
