"""Rules about training options: whether the program has them, and whether they are consistent."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.remark_builders import fail, find_similar_name, note, replace_span, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, fill, join, verbatim
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.constraints import find_conflicting_settings, is_switched_on
from envcheck.lint.rules.training.listed_names import find_unlisted_options
from envcheck.lint.rules.training.option_schemas import ProgramOptions, find_program_options
from envcheck.scripts.jobs.option_names import NAMES
from envcheck.scripts.programs import find_command
from launch.rendering import dialects, option_schema

_REPEATED = re.compile(
    r"data_?path|dataset|hook|include|exclude|env|set|override|callback|plugin|define|var|arg|add|file|opts?$"
)


def _make_option_place(given: GivenOption) -> ShellWord:
    return ShellWord("", given.start, given.end)


def _write_option(given: GivenOption, name: str) -> str:
    return name if given.key else f"--{name}"


def find_new_name(plain: str, kit: ProgramOptions) -> str:
    """Return the current name of an old option; "" if the tables have none that the program accepts."""
    for tool in (kit.known[0].package, "transformers"):
        new = name_tables.load_renamed_options(tool).get(f"--{plain}", "").lstrip("-")
        if new and kit.has_option(new):
            return new
    return ""


def _find_dialect_name(given: GivenOption, kit: ProgramOptions) -> str:
    """The new name of an option that a newer upstream version renamed."""
    for dialect in dialects.load_dialects():
        new = dialect.rename.get(given.python_name)
        if new and kit.has_option(new):
            return new
    return ""


def find_unknown_options(context: LintContext) -> Iterator[Remark]:
    yield from find_unlisted_options(context)
    for job in context.jobs:
        kit = find_program_options(context, job)
        for given in job.options if kit else ():
            if kit is None or kit.has_option(given.name) or (not given.key and given.name[:1].isupper()):
                continue
            if len(kit.expand_abbreviation(given.name)) == 1 and not given.key:
                continue  # an abbreviation, reported by its own rule
            new = find_new_name(given.python_name, kit) or _find_dialect_name(given, kit)
            if new:
                yield _remark_old_name(kit, given, new)
                continue
            meant = find_similar_name(given.python_name, kit.names, 0.85)
            written = _write_option(given, given.name)
            adds = job.find_option(*PLUGIN_OPTIONS) is not None
            if kit.complete and not adds and not (meant or kit.is_certain):
                yield unknown(_make_option_place(given), *describe_unlisted_option(kit, written))
            elif kit.complete and not adds:
                if kit.version:
                    seen = _("{program} has no option {option}: it exits", program=kit.title, option=written)
                else:
                    seen = _(
                        "{program} has no option {option} in {package} {versions}: it exits",
                        program=kit.title,
                        option=written,
                        package=kit.known[0].package,
                        versions=kit.known[0].versions,
                    )
                do = (
                    _("Did you mean {meant}?", meant=_write_option(given, meant))
                    if meant
                    else _("Remove it, or look up the name in that version.")
                )
                yield fail(
                    _make_option_place(given),
                    seen,
                    do,
                    replace_span(_make_option_place(given), _write_option(given, meant)) if meant else None,
                )
            elif meant := meant or (
                find_similar_name(given.python_name, kit.names, 0.75) if _rejects_unknown_options(kit, job) else ""
            ):
                yield warn(
                    _make_option_place(given),
                    _("{program} does not list an option {option}", program=kit.title, option=written),
                    _("Did you mean {meant}?", meant=_write_option(given, meant)),
                )
            elif _rejects_unknown_options(kit, job):
                yield warn(_make_option_place(given), *describe_unlisted_option(kit, written))


PLUGIN_OPTIONS = ("external_plugins", "custom_register_path", "custom_dataset_info")


def describe_unlisted_option(kit: ProgramOptions, written: str) -> tuple[Message, Message]:
    """Return what is seen and what to do about an option that the lists do not have, of a program that rejects such."""
    seen = _(
        "{program} {versions} does not list {option}, and exits on unknown options",
        program=kit.title,
        versions=join(_(" and "), dict.fromkeys(each.versions for each in kit.known)),
        option=written,
    )
    return seen, _("Look up the name in the installed version, or remove the option.")


def _rejects_unknown_options(kit: ProgramOptions, job: TrainingJob) -> bool:
    """ms-swift rejects unknown options, unless a plugin of the user adds them."""
    return kit.known[0].package == "ms-swift" and job.find_option(*PLUGIN_OPTIONS) is None


def _remark_old_name(kit: ProgramOptions, given: GivenOption, new: str) -> Remark:
    package = kit.known[0].package
    name, instead = _write_option(given, given.name), _write_option(given, new)
    if kit.version:
        seen = _(
            "{package} {version} has no option {option}; its name in this version is {instead}",
            package=package,
            version=kit.version,
            option=name,
            instead=instead,
        )
    else:
        seen = _(
            "the newest {package} has no option {option}; it was renamed to {instead}",
            package=package,
            option=name,
            instead=instead,
        )
    do = _("Write {instead}, or pin the version that has these options.", instead=instead)
    return fail(_make_option_place(given), seen, do, replace_span(_make_option_place(given), _write_option(given, new)))


def find_options_of_other_version(context: LintContext) -> Iterator[Remark]:
    """Find options of one version in a document that installs the newest one."""
    for job in context.jobs:
        words = {job.program.text for _unused in (0,) if job.program is not None}
        for dialect in dialects.load_dialects():
            if not any(word.endswith(name) for word in words for name in dialect.of):
                continue
            old = [given for given in job.options if given.python_name in (*dialect.rename, *dialect.drop)]
            for package, versions in dialect.needs.items():
                machine = context.machine.packages.get(package)
                if old and machine and option_schema.matches_versions(machine, versions):
                    new = dialect.rename.get(old[0].python_name)
                    do = (
                        verbatim(f"--{new}")
                        if new
                        else _(
                            "{name} reads its options from a file: envcheck train --write shows it", name=dialect.name
                        )
                    )
                    yield fail(
                        _make_option_place(old[0]),
                        _(
                            "{package} {machine} has no option --{name}, and lacks {old_count} more of these options",
                            package=package,
                            machine=machine,
                            name=old[0].name,
                            old_count=len(old) - 1,
                        ),
                        do,
                    )
                for install in context.installs:
                    for name, _unused, specifier, word in install.packages:
                        if old and name == package and not specifier and not machine:
                            limit = versions.replace(">=", "<")
                            first = old[0].name
                            seen = _(
                                "the newest {package} has other options: --{first} and {old_count} more were removed",
                                package=package,
                                first=first,
                                old_count=len(old) - 1,
                            )
                            yield fail(
                                word,
                                seen,
                                verbatim(f"pip install '{package}{limit}'"),
                                replace_span(word, f"'{package}{limit}'"),
                            )


def find_repeated_options(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        kit = find_program_options(context, job)
        for options in (job.own, job.options):
            first: dict[str, GivenOption] = {}
            for given in options:
                if given.key:
                    continue  # from a file: the command line may override it
                before, plain = first.get(given.python_name), given.python_name
                first[plain] = given
                if before is None or (kit is None and _REPEATED.search(plain)):
                    continue
                if kit is not None and not kit.has_option(given.name) and _REPEATED.search(plain):
                    continue
                yield _remark_repeated(job, kit, before, given)


def _remark_repeated(job: TrainingJob, kit: ProgramOptions | None, before: GivenOption, given: GivenOption) -> Remark:
    texts = [[word.text for word in each.values] for each in (before, given)]
    if texts[0] == texts[1]:
        return note(
            _make_option_place(given),
            _("--{name} is given twice with the same value", name=given.name),
            _("Remove one of them."),
        )
    said = [" ".join(text)[:40] or (_("empty") if text else _("without a value, which means true")) for text in texts]
    seen = _(
        "--{name} is given twice: first {first}, then {second}; the last value applies",
        name=given.name,
        first=said[0],
        second=said[1],
    )
    sure = kit is not None or bool(job.launcher.name == "paddle.distributed.launch")
    return warn_or_fail(sure, _make_option_place(given), seen, _("Keep only the intended one."))


def find_abbreviated_options(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        kit = find_program_options(context, job)
        for given in job.options if kit else ():
            if kit is None or given.key or kit.has_option(given.name):
                continue
            whole = kit.expand_abbreviation(given.name)
            if len(whole) == 1:
                other = job.find_option(whole[0])
                if other:
                    seen = _(
                        "--{name} is an abbreviation of --{option}, which is also given here",
                        name=given.name,
                        option=whole[0],
                    )
                else:
                    seen = _("--{name} is an abbreviation of --{option}", name=given.name, option=whole[0])
                yield warn(
                    _make_option_place(given),
                    seen,
                    _("Write --{whole}: in the next version, the abbreviation may be ambiguous.", whole=whole[0]),
                    replace_span(_make_option_place(given), f"--{whole[0]}"),
                )


def find_old_values(context: LintContext) -> Iterator[Remark]:
    """Find values of older versions: first by the tables, then by pattern."""
    for job in context.jobs:
        tool = name_tables.load_projects().tools.get(_name_program(job), "")
        for given in job.options if tool else ():
            for word in given.values:
                yield from _judge_old_value(job, tool, given, word)


def _name_program(job: TrainingJob) -> str:
    """The launcher's name; for a configuration alone, the program by its keys."""
    return find_command(job)[0] or job.launcher.name or (job.config.family if job.config else "")


def _judge_old_value(job: TrainingJob, tool: str, given: GivenOption, word: ShellWord) -> Iterator[Remark]:
    new = name_tables.load_renamed_options(tool).get(f"--{given.python_name} {word.text}", "")
    if new:
        same, value = new.startswith(f"--{given.python_name} "), new.rpartition(" ")[2]
        seen = _("{option} is an old name: the newest {tool} expects {new}", option=word.text, tool=tool, new=new)
        yield warn(
            word,
            seen,
            _("Write {new}.", new=new),
            replace_span(word, value) if same and word.raw in ("", word.text) else None,
        )
        return
    for row in name_tables.load_projects().values:
        if (row.program, row.option) != (_name_program(job), given.python_name) or not word.is_known:
            continue
        if re.search(row.pattern, word.text):
            seen = _("{option} is {meaning}", option=word.text[:60], meaning=fill(row.says))
            yield warn(word, seen, _("Look up the name in the installed version."))


_PAIRS = (
    (
        "use_fused_head_and_loss_fn",
        "use_sparse_head_and_loss_fn",
        _("the fused head and the sparse head are alternatives, but both are enabled"),
    ),
    ("fp16", "bf16", _("fp16 and bf16 are both enabled: the trainer rejects this")),
    ("deepspeed", "fsdp", _("DeepSpeed and FSDP are both enabled")),
    (
        "warmup_ratio",
        "warmup_steps",
        _("a warm-up ratio and a number of warm-up steps are both set: the number of steps applies"),
    ),
    ("load_in_8bit", "load_in_4bit", _("8-bit and 4-bit loading are both enabled")),
)


def find_conflicting_options(context: LintContext) -> Iterator[Remark]:
    yield from find_conflicting_settings(context)
    for job in context.jobs:
        for one, other, says in _PAIRS:
            a, b = job.find_option(one), job.find_option(other)
            if a is None or b is None or not (is_switched_on(a) and is_switched_on(b)):
                continue
            later = max(a, b, key=lambda each: each.start)
            yield warn_or_fail(
                one == "fp16",
                _make_option_place(later),
                says,
                _("Keep either {a} or {b}.", a=_write_option(a, one), b=_write_option(b, other)),
            )


def find_options_without_effect(context: LintContext) -> Iterator[Remark]:
    """Find options that others override."""
    for job in context.jobs:
        tuner = job.find_option(*NAMES["tuner"])
        lora = [each for each in job.options if each.python_name.startswith("lora_")]
        if tuner is not None and tuner.value == "full" and lora and job.is_training:
            seen = _("{tuner} is full: {option} has no effect", tuner=tuner.python_name, option=lora[0].python_name)
            yield warn(_make_option_place(lora[0]), seen, _("Remove it, or train with LoRA."))
        recompute, how = job.find_option("recompute"), job.find_option("recompute_granularity")
        if recompute is not None and how is not None and not recompute.is_enabled:
            yield warn(
                _make_option_place(how), _("recomputation is off, so its granularity has no effect"), _("Remove it.")
            )
        steps, epochs = job.find_option("max_steps"), job.find_option("num_train_epochs")
        if steps is not None and epochs is not None and (steps.value or "").isdigit() and int(steps.value or 0) > 0:
            yield warn(
                _make_option_place(epochs),
                _("max_steps {steps} takes precedence: the number of epochs has no effect", steps=steps.value),
                _("Keep only one of them."),
            )
        if steps is not None and steps.value == "0":
            yield fail(
                _make_option_place(steps),
                _("max_steps is 0: no training step runs"),
                _("Use a number above 0, or -1 to train by epochs."),
            )
