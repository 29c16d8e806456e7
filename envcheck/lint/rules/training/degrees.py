"""Parallel degrees: against the processes that are started, the machine's cards, and the model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from envcheck.core.errors import EnvcheckError
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, place_of
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, unknown, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import REMOTE, bare
from envcheck.lint.rules.training.steps import PP, TP, whole
from envcheck.scripts import programs
from launch.catalogue import models
from launch.catalogue.architecture import Model

SHARDING = ("sharding_parallel_degree", "sharding_parallel_size")
CP = ("context_parallel_size", "context_parallel_degree")
SEP = ("sep_parallel_degree", "sep_parallel_size", "sequence_parallel_size")
EP = ("expert_parallel_degree", "expert_model_parallel_size")
# Started without a number of processes, these take all the cards that are visible.
_TAKE_ALL = ("", "paddle.distributed.launch", "erniekit", "paddleformers-cli", "deepspeed")
Degree = tuple[GivenOption, int]


def world(context: LintContext) -> Iterator[Remark]:
    """The degrees multiply to a divisor of the processes; so do those of experts and stages."""
    for job in context.jobs:
        each = _each(context, job)
        if each is None or job.open:
            continue
        for degrees in (_degrees(job, TP, PP, *_inner(job)), _degrees(job, EP, PP)):
            remark = _held(job, degrees, each)
            if remark is not None:
                yield remark
                break


def _inner(job: TrainingJob) -> list[Sequence[str]]:
    """PaddleFormers from 0.4 on takes its context parallel out of the sharding, whose names end in _size."""
    within = job.given("sharding_parallel_size") is not None or "paddleformers" in programs.tools(job)
    return [SHARDING, SEP, *([] if within and job.given("context_parallel_size") else [CP])]


def _degrees(job: TrainingJob, *names: Sequence[str]) -> list[Degree]:
    """Those above 1; none at all where one is not known."""
    found = [given for each in names if (given := job.given(*each)) is not None]
    numbers = [whole(given) for given in found]
    if None in numbers:
        return []
    return [(given, number) for given, number in zip(found, numbers, strict=True) if number is not None and number > 1]


def _held(job: TrainingJob, degrees: list[Degree], each: int) -> Remark | None:
    """Against `each` processes on a node."""
    product, nodes = math.prod(degree for _, degree in degrees), _nodes(job)
    if product <= 1 or (each * (nodes or 1)) % product == 0:
        return None
    words = " x ".join(f"{given.plain} {degree}" for given, degree in degrees)
    words += f" ({job.lender.text[-60:]})" if job.lender and degrees[0][0].start == job.lender.start else ""
    words += f" is {product}" if len(degrees) > 1 else ""
    place = place_of(degrees[0][0])
    if nodes is not None:
        seen = f"{words}, and there are {nodes} x {each} = {nodes * each} processes"
        return fail(place, seen, f"A product that divides {nodes * each}.")
    if product < each:
        seen = f"{words}, which does not divide the {each} cards of this machine"
        return fail(place, seen, f"A product that divides {each}.")
    machines = product // math.gcd(product, each)
    seen = f"{words}, and this machine has {each} cards: nothing says that there are {machines} like it"
    return unknown(place, seen, f"Start it on {machines} such machines, or here with a product that divides {each}.")


def _nodes(job: TrainingJob) -> int | None:
    """None: a configuration alone, or a list of hosts, does not say how many."""
    if not job.launcher.name or job.says("hostfile", "ips", "deepspeed_hostfile") is not None:
        return None
    return job.nodes


def _each(context: LintContext, job: TrainingJob) -> int | None:
    """Processes on each node: as the script says, else one for each visible card of the machine that is meant."""
    if job.processes is not None or job.told("processes") is not None or job.told("devices") is not None:
        return job.processes if job.launcher.name and job.nodes else None
    if job.launcher.name not in _TAKE_ALL or job.command.elsewhere or (job.launcher.name and job.nodes is None):
        return None
    if bare(job.command) in REMOTE or context.away(job) or job.says("exclude") is not None:
        return None
    visible = [word for name, word in job.command.environment.items() if name.endswith("_VISIBLE_DEVICES")]
    if visible:
        return visible[0].text.count(",") + 1 if re.fullmatch(r"\d+(,\d+)*", visible[0].text) else None
    return context.machine.cards(context.device) if context.here and context.device not in ("", "cpu") else None


def model_of(job: TrainingJob) -> Model | None:
    given = job.given("model_name_or_path", "model", "model_id", "model_path", "pretrained_model_name_or_path")
    if given is None or given.value is None or not given.value.strip("/ "):
        return None
    name = given.value.rstrip("/").rpartition("/")[2].lower()
    try:
        hits = [
            n
            for n, t in models.tables().items()
            if models.stem(name) in (n, models.stem(t["hub_id"].rpartition("/")[2].lower()))
        ]
        return models.load(hits[0]) if len(hits) == 1 else None
    except EnvcheckError:
        return None


def heads(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        tp, pp, ep = job.given(*TP), job.given(*PP), job.given(*EP)
        degree, stages, model = whole(tp), whole(pp), model_of(job)
        if model is None:
            continue
        split = whole(ep)
        if ep is not None and model.moe and split and split > 1 and model.moe.experts % split:
            seen = f"{model.name} has {model.moe.experts} experts, which {ep.plain} {split} does not divide"
            yield fail(place_of(ep), seen, f"A divisor of {model.moe.experts}.")
        if tp is not None and degree and degree > 1:
            for count, what in ((model.heads, "attention heads"), (model.kv_heads, "key/value heads")):
                if count % degree and degree % count:
                    fits = [
                        n
                        for n in range(1, min(model.heads, model.kv_heads) + 1)
                        if model.heads % n == 0 and model.kv_heads % n == 0
                    ]
                    yield fail(
                        place_of(tp),
                        f"{model.name} has {count} {what}, which {tp.plain} {degree} does not divide",
                        f"One of {', '.join(map(str, fits))}.",
                    )
                    break
        if pp is not None and stages and stages > model.layers:
            yield fail(
                place_of(pp),
                f"{stages} stages for the {model.layers} layers of {model.name}",
                f"At most {model.layers}.",
            )
        elif pp is not None and stages and stages > 1 and model.layers % stages:
            yield warn(
                place_of(pp),
                f"{model.layers} layers on {stages} stages: some hold more than others, and all wait for these",
                "Allowed; a divisor would be even.",
            )
