"""Rules about parallel degrees: compared with the processes, the machine's devices, and the model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from envcheck.core.errors import EnvcheckError
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, locate_option
from envcheck.core.lint.remark_builders import fail, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import REMOTE, program_name
from envcheck.core.messages import _, join
from envcheck.lint.rules.training.hyperparameters import PP, TP, read_whole_number
from envcheck.lint.rules.training.megatron_options import needs_even_stages
from envcheck.scripts import megatron_model, programs
from launch.catalogue import models
from launch.catalogue.architecture import Model
from launch.catalogue.model_fields import parse_model_fields, render_fields

SHARDING = ("sharding_parallel_degree", "sharding_parallel_size")
CP = ("context_parallel_size", "context_parallel_degree")
SEP = ("sep_parallel_degree", "sep_parallel_size", "sequence_parallel_size")
EP = ("expert_parallel_degree", "expert_model_parallel_size")
# Without a number of processes, these launchers use all visible devices.
_TAKE_ALL = ("", "paddle.distributed.launch", "erniekit", "paddleformers-cli", "deepspeed")
_SIZES = ("nodes", "processes", "world")  # roles of launcher values; a default can be replaced from outside
Degree = tuple[GivenOption, int]


def find_wrong_world_size(context: LintContext) -> Iterator[Remark]:
    """Find degrees whose product does not divide the number of processes."""
    for job in context.jobs:
        each = _count_processes_per_node(context, job)
        if each is None or job.open:
            continue
        for degrees in (
            _list_known_degrees(job, TP, PP, *_list_inner_degree_names(job)),
            _list_known_degrees(job, EP, PP),
        ):
            remark = _judge_product(job, degrees, each)
            if remark is not None:
                yield remark
                break


def _list_inner_degree_names(job: TrainingJob) -> list[Sequence[str]]:
    """PaddleFormers from 0.4 takes context parallelism out of the sharding degree, whose names end in _size."""
    within = job.find_given_option("sharding_parallel_size") is not None or "paddleformers" in programs.find_packages(
        job
    )
    return [SHARDING, SEP, *([] if within and job.find_given_option("context_parallel_size") else [CP])]


def _list_known_degrees(job: TrainingJob, *names: Sequence[str]) -> list[Degree]:
    """Degrees above 1; empty if one is unknown."""
    found = [given for each in names if (given := job.find_given_option(*each)) is not None]
    numbers = [read_whole_number(given) for given in found]
    if None in numbers:
        return []
    return [(given, number) for given, number in zip(found, numbers, strict=True) if number is not None and number > 1]


def _judge_product(job: TrainingJob, degrees: list[Degree], each: int) -> Remark | None:
    """Compare the product with `each` processes per node."""
    product, nodes = math.prod(degree for _unused, degree in degrees), _count_nodes(job)
    if product <= 1 or (each * (nodes or 1)) % product == 0:
        return None
    words = " x ".join(f"{given.python_name} {degree}" for given, degree in degrees)
    words += f" ({job.lender.text[-60:]})" if job.lender and degrees[0][0].start == job.lender.start else ""
    if len(degrees) > 1:
        words = _("{product} is {result}", product=words, result=product)
    place = locate_option(degrees[0][0])
    if nodes is not None:
        seen = _(
            "{degrees} does not fit {nodes} x {each} = {processes} processes",
            degrees=words,
            nodes=nodes,
            each=each,
            processes=nodes * each,
        )
        sure = not any(value.soft for role in _SIZES if (value := job.find_launch_value(role)) is not None)
        return warn_or_fail(sure, place, seen, _("Use degrees whose product divides {nodes}.", nodes=nodes * each))
    if product < each:
        seen = _("{degrees} does not divide the {each} devices of this host", degrees=words, each=each)
        return fail(place, seen, _("Use degrees whose product divides {each}.", each=each))
    machines = product // math.gcd(product, each)
    seen = _(
        "{degrees}, but this host has {each} devices: unknown whether there are {machines} such hosts",
        degrees=words,
        each=each,
        machines=machines,
    )
    return unknown(
        place,
        seen,
        _(
            "Start it on {machines} such hosts, or use degrees whose product divides {each}.",
            machines=machines,
            each=each,
        ),
    )


def _count_nodes(job: TrainingJob) -> int | None:
    """The number of nodes; None if a configuration alone, or a host list, does not determine it."""
    if not job.launcher.name or job.find_launcher_option("hostfile", "ips", "deepspeed_hostfile") is not None:
        return None
    return job.node_count


def _count_processes_per_node(context: LintContext, job: TrainingJob) -> int | None:
    """The number of processes per node: from the script, otherwise one for each visible device of the machine."""
    if (
        job.processes_per_node is not None
        or job.find_launch_value("processes") is not None
        or job.find_launch_value("devices") is not None
    ):
        return job.processes_per_node if job.launcher.name and job.node_count else None
    if job.launcher.name not in _TAKE_ALL or job.command.elsewhere or (job.launcher.name and job.node_count is None):
        return None
    if program_name(job.command) in REMOTE or context.is_remote(job) or job.find_launcher_option("exclude") is not None:
        return None
    visible = [word for name, word in job.command.environment.items() if name.endswith("_VISIBLE_DEVICES")]
    if visible:
        return visible[0].text.count(",") + 1 if re.fullmatch(r"\d+(,\d+)*", visible[0].text) else None
    return (
        context.machine.count_devices(context.device)
        if context.is_for_this_machine and context.device not in ("", "cpu")
        else None
    )


def find_model(job: TrainingJob) -> Model | None:
    """Return the model that the options describe, or the catalogue's one of that name; None if neither is known."""
    if fields := megatron_model.read_model_options(lambda name: _read_option(job, name)).fields:
        try:
            return parse_model_fields(render_fields({"vocab_size": 1, **fields}))
        except EnvcheckError:
            return None
    given = job.find_given_option(
        "model_name_or_path", "model", "model_id", "model_path", "pretrained_model_name_or_path"
    )
    if given is None or given.value is None or not given.value.strip("/ "):
        return None
    known = models.find_exact_name(given.value)
    return models.load_model(known) if known else None


def _read_option(job: TrainingJob, name: str) -> str | None:
    given = job.find_given_option(name)
    return None if given is None else given.value or ""


# Options that say themselves which layers the stages have.
_OWN_STAGES = (
    "noop_layers", "num_layer_list", "pipeline_num_transformer_layers", "pipeline_model_parallel_layout",
    "decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
)  # fmt: skip
_UNEVEN_HEADS = "unaligned_linear"  # MindSpeed splits heads that the degree does not divide


def find_indivisible_heads(context: LintContext) -> Iterator[Remark]:
    """Find degrees that do not divide the experts, heads or layers of the model."""
    for job in context.jobs:
        model = find_model(job)
        if model is not None:
            yield from _judge_experts(job, model)
            yield from _judge_heads(job, model)
            yield from _judge_layers(job, model)


def _judge_experts(job: TrainingJob, model: Model) -> Iterator[Remark]:
    ep = job.find_given_option(*EP)
    split = read_whole_number(ep)
    if ep is None or not model.moe or not split or split < 2 or model.moe.experts % split == 0:
        return
    seen = _(
        "{name} has {experts} experts, which is not divisible by {plain} {split}",
        name=model.name,
        experts=model.moe.experts,
        plain=ep.python_name,
        split=split,
    )
    yield fail(locate_option(ep), seen, _("Use a divisor of {experts}.", experts=model.moe.experts))


def _judge_heads(job: TrainingJob, model: Model) -> Iterator[Remark]:
    tp = job.find_given_option(*TP)
    degree = read_whole_number(tp)
    if tp is None or not degree or degree < 2 or job.find_option(_UNEVEN_HEADS) is not None:
        return
    for count, what in ((model.heads, _("attention heads")), (model.kv_heads, _("key/value heads"))):
        if count % degree and degree % count:
            smallest = min(model.heads, model.kv_heads)
            fits = [n for n in range(1, smallest + 1) if model.heads % n == 0 and model.kv_heads % n == 0]
            seen = _(
                "{name} has {count} {what}, which is not divisible by {plain} {degree}",
                name=model.name,
                count=count,
                what=what,
                plain=tp.python_name,
                degree=degree,
            )
            yield fail(locate_option(tp), seen, _("Use one of {fits}.", fits=join(", ", map(str, fits))))
            return


def _judge_layers(job: TrainingJob, model: Model) -> Iterator[Remark]:
    pp = job.find_given_option(*PP)
    stages = read_whole_number(pp)
    if pp is None or not stages:
        return
    if stages > model.layers:
        seen = _(
            "{stages} pipeline stages are more than the {layers} layers of {name}",
            stages=stages,
            layers=model.layers,
            name=model.name,
        )
        yield fail(locate_option(pp), seen, _("Use at most {layers}.", layers=model.layers))
    elif stages > 1 and model.layers % stages and not needs_even_stages(job) and job.find_option(*_OWN_STAGES) is None:
        seen = _(
            "{layers} layers do not divide evenly into {stages} stages: the larger stages slow down the others",
            layers=model.layers,
            stages=stages,
        )
        yield warn(locate_option(pp), seen, _("This works; a divisor of the layers balances the stages."))
