"""Gates for the number of steps and the pipeline bubble."""

from __future__ import annotations

from envcheck.core.messages import _, join, ngettext
from envcheck.core.model import Finding, Status, manual
from installers.recipes.own_recipe import find_own_job
from launch.gates.context import GateContext
from launch.gates.results import build_finding, build_not_applicable
from launch.rendering.argument_rows import parse_rows

IDLE_SHARE = 0.5  # largest accepted share of time in which a pipeline stage is idle


def check_steps(s: GateContext) -> Finding:
    """The warm-up ends before the training; warns if no checkpoint or evaluation happens before the end."""
    most, warm = s.job.steps.get("max"), s.job.steps.get("warmup")
    is_own = find_own_job(s.recipe) is not None  # whose command takes no --set
    if most is None:
        return build_not_applicable("gate.steps", _("the job is limited by epochs, not by steps"))
    if warm is not None and warm >= most:
        seen = _(
            "{warm} warm-up steps, but only {most} training steps: the learning rate never reaches its peak",
            warm=warm,
            most=most,
        )
        steps = max(1, most // 20) if most > 1 else 0
        words = _(
            "Use 1 to 10 % of the steps for the warm-up (--set warmup_steps={steps}), or train for more steps.",
            steps=steps,
        )
        if is_own:
            words = _("Set {steps} warm-up steps in the job (1 to 10 % of all), or train for more steps.", steps=steps)
        return build_finding("gate.steps", False, seen, manual(words))
    never = [_NEVER[name] for name in _NEVER if s.job.steps.get(name, 0) > most]
    total = ngettext("{count} step", "{count} steps", most)
    parts = [total, *(f"{name} {n}" for name, n in s.job.steps.items() if name != "max")]
    seen = join(", ", parts)
    if never:
        seen = _("{steps}: {never}", steps=seen, never=join(" and ", never))
    words = _("Use --set save_steps=N or --set eval_steps=N if this is not intended.")
    if is_own:
        words = _("Set a smaller interval in the job if this is not intended.")
    return build_finding("gate.steps", not never, seen, manual(words), bad=Status.WARN)


_NEVER = {"save": _("no checkpoint before the end"), "eval": _("no evaluation")}


def check_pipeline_bubble(s: GateContext) -> Finding:
    """Always; warns if pipeline stages are idle for more than half of the time, (PP - 1) / (GA + PP - 1)."""
    stages = s.job.parallel.get("pipeline", 1)
    if stages < 2:
        return build_not_applicable("gate.bubble", _("the job uses no pipeline parallelism"))
    said = next(iter(parse_rows(s.job.arguments).get("gradient_accumulation_steps", ("1",))), "")
    if not (said.isascii() and said.isdecimal() and 0 < int(said) < 1 << 20):
        words = _("Check the value of gradient_accumulation_steps.")
        return build_finding("gate.bubble", None, _("cannot determine the number of accumulation steps"), manual(words))
    accumulated = int(said)
    idle = (stages - 1) / (accumulated + stages - 1)
    seen = _(
        "{stages} pipeline stages and {accumulated} accumulation steps: each card is idle {percent:.0f} % of the time",
        stages=stages,
        accumulated=accumulated,
        percent=idle * 100,
    )
    words = _(
        "Use --set gradient_accumulation_steps={stages} to reduce the idle time to 25 %; the global "
        "batch grows accordingly.",
        stages=3 * (stages - 1),
    )
    if find_own_job(s.recipe) is not None:
        words = _("Set {count} gradient accumulation steps in the job: idle time 25 %.", count=3 * (stages - 1))
    return build_finding("gate.bubble", idle <= IDLE_SHARE, seen, manual(words), bad=Status.WARN)
