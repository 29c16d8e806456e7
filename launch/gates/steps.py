"""Is there anything to be gained in the steps asked for?"""

from __future__ import annotations

from envcheck.core.model import Finding, Status
from launch.gates.answers import answer, skip
from launch.gates.context import GateContext
from launch.rendering.rows import rows

IDLE_SHARE = 0.5  # of the steps in which a pipeline stage waits; beyond it more than half of the cards' time is lost


def steps(s: GateContext) -> Finding:
    """The warm-up ends before the training does; what would never be saved or evaluated is said."""
    most, warm = s.job.steps.get("max"), s.job.steps.get("warmup")
    if most is None:
        return skip("gate.steps", "the job counts epochs, not steps")
    if warm is not None and warm >= most:
        seen = f"a warm-up of {warm} steps in a training of {most}: the learning rate never gets to its aim"
        words = (
            f"Take 1 to 10 % of the steps: --set warmup_steps={max(1, most // 20) if most > 1 else 0}, or more steps."
        )
        return answer("gate.steps", False, seen, words)
    never = [_NEVER[name] for name in _NEVER if s.job.steps.get(name, 0) > most]
    parts = [f"{most} steps"] + [f"{name} {n}" for name, n in s.job.steps.items() if name != "max"]
    seen = f"{', '.join(parts)}{': ' if never else ''}{' and '.join(never)}"
    words = "If that is not meant: --set save_steps=N, --set eval_steps=N."
    return answer("gate.steps", not never, seen, words, bad=Status.WARN)


_NEVER = {"save": "never saved before the end", "eval": "never evaluated"}


def bubble(s: GateContext) -> Finding:
    """Told, never closed: for (PP - 1) / (GA + PP - 1) of the time the stages of a pipeline wait for each other."""
    stages = s.job.parallel.get("pipeline", 1)
    if stages < 2:
        return skip("gate.bubble", "the job has no pipeline")
    said = next(iter(rows(s.job.arguments).get("gradient_accumulation_steps", ("1",))), "")
    if not (said.isascii() and said.isdecimal() and 0 < int(said) < 1 << 20):
        words = "See what gradient_accumulation_steps is."
        return answer("gate.bubble", None, "the accumulation steps could not be told", words)
    accumulated = int(said)
    idle = (stages - 1) / (accumulated + stages - 1)
    seen = f"{stages} stages and {accumulated} accumulation steps: each card waits {idle:.0%} of the time"
    words = f"With --set gradient_accumulation_steps={3 * (stages - 1)} they would wait 25 %; the batch grows with it."
    return answer("gate.bubble", idle <= IDLE_SHARE, seen, words, bad=Status.WARN)
