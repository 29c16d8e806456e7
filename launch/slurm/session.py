"""`envcheck train --on slurm` from the request to the exit code."""

from __future__ import annotations

from envcheck.engines import Own, Shown
from envcheck.errors import UsageError
from launch.request import Request


def train(request: Request, own: Own, shown: Shown) -> int:
    """Nothing yet."""
    raise UsageError("--on slurm comes with the next change", "leave it out")
