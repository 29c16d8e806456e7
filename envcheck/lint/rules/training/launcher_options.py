"""Rules about the launcher: its own options, and the devices that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, find_last_option
from envcheck.core.lint.remark_builders import fail, find_similar_name, note, replace_span, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellScript, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, join, verbatim
from envcheck.lint.rules.environment_variables import find_visible_list
from envcheck.lint.rules.training.option_schemas import find_program_options
from envcheck.lint.rules.training.scheduler import find_unknown_batch_options
from envcheck.scripts.vendor_words import PLUGIN_OPTIONS, find_vendors_of_list
from envcheck.vendors import VENDORS


def find_unknown_launcher_options(context: LintContext) -> Iterator[Remark]:
    """Find misspelt options of the launcher, and of Slurm."""
    yield from find_unknown_batch_options(context)
    for job in context.jobs:
        known = frozenset(job.launcher.all_options)
        yield from _find_single_dashes(job, known)
        for given in job.own:
            if given.written:
                name = ShellWord("", given.start, given.end)
                seen = _(
                    "--{written} is an abbreviation of {launcher}'s --{option}",
                    written=given.written,
                    launcher=job.launcher.name,
                    option=given.name,
                )
                do = _("Write --{name}: in a newer version, the abbreviation may be ambiguous.", name=given.name)
                yield warn(name, seen, do, replace_span(name, f"--{given.name}"))
                continue
            yield from _judge_launcher_choice(job, given)
            if not known or given.python_name in known or job.launcher.name == "python" or given.key:
                continue
            meant = find_similar_name(given.python_name, known, 0.8 if job.launcher.complete else 0.82)
            name = ShellWord("", given.start, given.end)
            if not meant and job.launcher.complete:
                yield warn(
                    name,
                    _(
                        "launcher {launcher} {version} has no option --{option}, and ends with an error",
                        launcher=job.launcher.name,
                        version=job.launcher.complete,
                        option=given.name,
                    ),
                    _("Remove it, or put it after the program if it is the program's."),
                )
            elif meant:
                yield fail(
                    name,
                    _("launcher {launcher} has no option --{option}", launcher=job.launcher.name, option=given.name),
                    _("Write --{meant}.", meant=meant),
                    replace_span(name, f"--{meant}"),
                )


_SINGLE_DASH = re.compile(r"-([A-Za-z]\w*[_-]\w+)(?:=.*)?")


def _find_single_dashes(job: TrainingJob, known: frozenset[str]) -> Iterator[Remark]:
    """Long options of the launcher with one dash, before the program."""
    for word in takewhile(lambda each: each is not job.program, job.command.words) if job.launcher.program else ():
        match = _SINGLE_DASH.fullmatch(word.text)
        if match and match[1].replace("-", "_") in known and word.text not in job.launcher.short:
            name = job.launcher.name
            seen = _("-{option} has one dash: {launcher} does not know it, and exits", option=match[1], launcher=name)
            yield fail(word, seen, _("Write --{name}.", name=match[1]))


def _judge_launcher_choice(job: TrainingJob, given: GivenOption) -> Iterator[Remark]:
    """Yield a remark on a value that the launcher does not accept."""
    choices = job.launcher.choices.get(given.python_name, ())
    if not choices or given.value is None or given.value in choices or given.is_replaceable:
        return
    meant = find_similar_name(given.value, frozenset(choices), 0.6)
    place = given.values[0]
    yield fail(
        place,
        _(
            "--{option} of {launcher}: {value} is not one of {choices}",
            option=given.name,
            launcher=job.launcher.name,
            choices=join(", ", choices),
            value=given.value[:40],
        ),
        _("Write --{option} {meant}.", option=given.name, meant=meant) if meant else _("Use one of these values."),
        replace_span(place, meant) if meant else None,
    )


def find_conflicting_filters(context: LintContext) -> Iterator[Remark]:
    """Find deepspeed's numbers and names of devices together, which it rejects."""
    for job in context.jobs:
        if job.launcher.name != "deepspeed":
            continue
        names = [
            given
            for given in (job.find_launcher_option("include"), job.find_launcher_option("exclude"))
            if given is not None
        ]
        counts = [
            given
            for given in (job.find_launcher_option("num_gpus"), job.find_launcher_option("num_nodes"))
            if given is not None
        ]
        if names and counts:
            seen = _(
                "--{first} and --{second} are mutually exclusive: deepspeed refuses to start",
                first=counts[0].name,
                second=names[0].name,
            )
            yield fail(counts[0], seen, _("Keep only one of them."))
        elif len(names) > 1:
            yield fail(
                names[1],
                _("--include and --exclude are mutually exclusive: deepspeed refuses to start"),
                _("Keep only one of them."),
            )


_LAUNCH_ONLY = frozenset(
    (
        *("nproc_per_node", "nnodes", "node_rank", "rdzv_backend", "rdzv_endpoint", "num_machines", "machine_rank"),
        *("num_processes", "main_process_ip", "main_process_port"),
        *PLUGIN_OPTIONS,
    )
)


_OF_ENGINE = re.compile(r"--(gpus|ipc|shm-size|privileged|rm|network|runtime|volume|ulimit)(=|$)")
_ONLY_OF_ENGINE = ("ipc", "shm-size", "privileged", "ulimit")  # programs of images have the others as well


def find_misplaced_options(context: LintContext) -> Iterator[Remark]:
    """Find options of a launcher or an engine that follow the program or image, which then receives them, and those of
    Slurm after its head."""
    for script in context.scripts:
        yield from _find_late_directives(script)
    for container in context.containers:
        words = [word for word in container.command.words if container.image and word.start > container.image.start]
        if words and container.image and not container.service and (found := _OF_ENGINE.match(words[0].text)):
            option, image = f"--{found[1]}", container.image.text[:60]
            seen = _("{option} comes after the image {image}, so its command receives it", option=option, image=image)
            sure = any((each := _OF_ENGINE.match(word.text)) and each[1] in _ONLY_OF_ENGINE for word in words)
            yield warn_or_fail(sure, words[0], seen, _("Put it before the image."))
    for job in context.jobs:
        if not job.launcher.program or job.launcher.name == "python" or job.program is None:
            continue
        if job.launcher.name == _TORCHTUNE:
            yield from _judge_recipe(job, job.program)
            continue
        mine = {name for names in job.launcher.options.values() for name in names} & _LAUNCH_ONLY
        for given in job.options:
            if given.python_name in mine and find_last_option(job.own, given.python_name) is None:
                seen = _(
                    "--{option} comes after {program}, so {program} receives it",
                    option=given.name,
                    program=job.program.text[:60],
                )
                yield warn(
                    given,
                    seen,
                    _("Put it before the program, where {name} reads its own options.", name=job.launcher.name),
                )


_TORCHTUNE = "tune"
_OF_RECIPE = ("config", "help")  # the only options after a recipe; all others are KEY=VALUE


def _judge_recipe(job: TrainingJob, recipe: ShellWord) -> Iterator[Remark]:
    """torchtune's recipes of one device, and options after a recipe.  Source: torchtune/_cli/run.py."""
    if recipe.text.endswith("_single_device") and job.own:
        seen = _("{recipe} runs one process, but torchrun's options are given: tune exits", recipe=recipe.text[:60])
        do = _("Remove the options, or use the recipe that ends with _distributed.")
        yield fail(job.own[0], seen, do)
    for given in job.options:
        if given.python_name not in _OF_RECIPE:
            name, program = given.name, recipe.text[:60]
            seen = _("--{option} comes after {program}, so {program} receives it", option=name, program=program)
            yield fail(given, seen, _("Put torchrun's options before the recipe; write others as KEY=VALUE."))


def _find_late_directives(script: ShellScript) -> Iterator[Remark]:
    """The #SBATCH lines after the first command, which Slurm ignores."""
    if not script.block.is_script or b"#SBATCH" not in script.block.raw:
        return
    starts = [*(each.start for each in script.commands), *(each.start for each in script.assigns)]
    first = min(starts, default=None)
    for start, end, text in script.comments:
        if first is not None and start > first and re.match(r"#SBATCH\s+-", text):
            seen = _("Slurm reads #SBATCH lines only before the first command: it ignores this one")
            yield warn(ShellWord(text, start, end), seen, _("Move it to the top of the script."))


def find_deprecated_launcher(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        if job.at is not None and job.at.text == "torch.distributed.launch":
            if job.find_launcher_option("use_env") is not None:
                yield note(job.at, _("torch.distributed.launch is deprecated"), verbatim("torchrun"))
                continue
            seen = _("torch.distributed.launch is deprecated and passes --local-rank to the program")
            yield warn(job.at, seen, verbatim("torchrun"))


def find_too_few_cards(context: LintContext) -> Iterator[Remark]:
    """Find more processes than the machine has devices."""
    for job in context.jobs:
        if not job.is_training or not context.device or context.device == "cpu" or not context.is_for_this_machine:
            continue
        there, wanted = context.machine.count_devices(context.device), job.processes_per_node
        listed = job.device_list
        numbers = (
            [int(n) for n in listed.text.split(",")]
            if listed and re.fullmatch(r"\d{1,4}(,\d{1,4})*", listed.text)
            else []
        )
        if there and (wanted or 0) > there:
            place = job.find_launch_value("processes") or listed or job
            if context.is_remote(job):
                seen = _(
                    "the job starts {wanted} processes, but this host has {there} devices; the job "
                    "starts on another host",
                    wanted=wanted,
                    there=there,
                )
                yield unknown(place, seen, _("Run envcheck lint on the machine that runs the script."))
            else:
                seen = _(
                    "the job starts {wanted} processes, but this host has {there} devices", wanted=wanted, there=there
                )
                yield fail(place, seen, _("Use at most {there}.", there=there))
        elif there and numbers and max(numbers) >= there and not context.is_remote(job):
            yield fail(
                listed or job,
                _(
                    "device {numbers} does not exist: this host has devices 0 to {there}",
                    numbers=max(numbers),
                    there=there - 1,
                ),
                _("Use 0 to {last}.", last=there - 1),
            )


def find_wrong_device(context: LintContext) -> Iterator[Remark]:
    """Find --device with devices that the machine does not have."""
    types = {vendor.device_type: name for name, vendor in VENDORS.items()}
    for job in context.jobs:
        option = job.find_option("device")
        vendor = types.get(option.value or "") if option else None
        found = context.machine.vendors
        if option is None or vendor in (None, "cpu") or found is None or not found or not option.values:
            continue
        if vendor not in found and not context.is_remote(job):
            yield fail(
                option.values[0],
                _(
                    "the script uses --device {device}, but this host has {found} devices",
                    device=option.value,
                    found=join(_(" and "), found),
                ),
                verbatim(f"--device {VENDORS[found[0]].device_type}"),
            )


def _judge_single_process(context: LintContext, job: TrainingJob) -> Iterator[Remark]:
    """LLaMA-Factory's program exits without a launcher on several devices, and with DeepSpeed.  Source: parser.py."""
    kit = find_program_options(context, job)
    if kit is None or kit.known[0].package != "llamafactory" or not job.is_training:
        return
    name, count, _unused = find_visible_list(job, context.device) or ("", 0, None)
    shared = count > 1 and any(VENDORS[vendor].torch_device == "cuda" for vendor in find_vendors_of_list(name))
    do = _("Start it with llamafactory-cli or torchrun.")
    if shared or job.find_option("deepspeed") is not None:
        what = _("several visible devices") if shared else verbatim("DeepSpeed")
        seen = _("the program starts without a launcher, but with {what}: it exits", what=what)
        yield fail(job.program or job, seen, do)
    elif count > 1:  # transformers counts the devices of one process only for CUDA
        seen = _("the program starts without a launcher: it uses one of the {count} visible devices", count=count)
        yield warn(job.program or job, seen, do)


def find_missing_force_torchrun(context: LintContext) -> Iterator[Remark]:
    """Find DeepSpeed in LLaMA-Factory on one device, which starts without torchrun and exits."""
    for job in context.jobs:
        if job.launcher.name == "python" and "LOCAL_RANK" not in job.command.environment:
            yield from _judge_single_process(context, job)
        if job.launcher.name != "llamafactory-cli" or job.verb != "train" or job.find_option("deepspeed") is None:
            continue
        env = job.command.environment
        visible = next(
            (w for n, w in env.items() if n.endswith("_VISIBLE_DEVICES") and re.fullmatch(r"\d+", w.text)), None
        )
        if visible is not None and "FORCE_TORCHRUN" not in env:
            yield fail(
                job,
                _("DeepSpeed with one visible device: LLaMA-Factory starts one process without torchrun, then exits"),
                verbatim("FORCE_TORCHRUN=1"),
            )
