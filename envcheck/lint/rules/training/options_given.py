"""The options of a training: whether its program has them, and whether they say one thing."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.model import Remark, Word
from envcheck.core.lint.remarks import fail, graded, near, swap, warn
from envcheck.core.lint.training_job import TrainingJob
from envcheck.lint.context import tables
from envcheck.lint.rules.training.option_schemas import Kit, kit_of
from envcheck.scripts.programs import command_of
from launch.rendering import dialects, schema

_REPEATED = re.compile(
    r"data_?path|dataset|hook|include|exclude|env|set|override|callback|plugin|define|var|arg|add|file|opts?$"
)


def _name(given: GivenOption) -> Word:
    return Word("", given.start, given.end)


def _written(given: GivenOption, name: str) -> str:
    return name if given.key else f"--{name}"


def renamed(plain: str, kit: Kit) -> str:
    """What an option of older versions is called today; "" where the tables name none that the program has."""
    for tool in (kit.known[0].package, "transformers"):
        new = tables.renamed(tool).get(f"--{plain}", "").lstrip("-")
        if new and kit.has(new):
            return new
    return ""


def _dialect(given: GivenOption, kit: Kit) -> str:
    """The new name of one that a newer upstream renamed."""
    for dialect in dialects.dialects():
        new = dialect.rename.get(given.plain)
        if new and kit.has(new):
            return new
    return ""


def unknown_names(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        kit = kit_of(context, job)
        for given in job.options if kit else ():
            if kit is None or kit.has(given.name) or (not given.key and given.name[:1].isupper()):
                continue
            if len(kit.begun(given.name)) == 1 and not given.key:
                continue  # an abbreviation, told by that rule
            new = renamed(given.plain, kit) or _dialect(given, kit)
            if new:
                yield _old(kit, given, new)
                continue
            meant = near(given.plain, kit.names, 0.85)
            seen = f"{kit.title} has no {_written(given, given.name)}"
            if kit.complete and job.option(*_OWN) is None:
                seen += "" if kit.version else f" (lists of {kit.known[0].package} {kit.known[0].versions})"
                do = (
                    f"{_written(given, meant)} is one."
                    if meant
                    else "Take it away, or look the name up in that version."
                )
                yield fail(
                    _name(given),
                    f"{seen}: it ends there",
                    do,
                    swap(_name(given), _written(given, meant)) if meant else None,
                )
            elif meant := meant or (near(given.plain, kit.names, 0.75) if _strict(kit, job) else ""):
                yield warn(_name(given), f"{seen} in its lists", f"{_written(given, meant)} is one.")
            elif _strict(kit, job):
                read = " and ".join(dict.fromkeys(each.versions for each in kit.known))
                do = "Look the name up in the version that is installed, or take it away."
                name = _written(given, given.name)
                far = f"{kit.title} has no {name} in its lists of {read}, and ends at what it does not know"
                yield warn(_name(given), far, do)


_OWN = ("external_plugins", "custom_register_path", "custom_dataset_info")


def _strict(kit: Kit, job: TrainingJob) -> bool:
    """ms-swift ends at what its parser leaves over, unless a plugin of the user's own brings it."""
    return kit.known[0].package == "ms-swift" and job.option(*_OWN) is None


def _old(kit: Kit, given: GivenOption, new: str) -> Remark:
    package = kit.known[0].package
    there = f"{package} {kit.version}" if kit.version else f"today's {package}"
    name, instead = _written(given, given.name), _written(given, new)
    seen = f"{name} is a name of older versions: {there} calls it {instead}"
    if kit.version:
        seen = f"{name} is a name of other versions: {there} calls it {instead}"
    do = f"Write {_written(given, new)}, or pin the version that these options are of."
    return fail(_name(given), seen, do, swap(_name(given), _written(given, new)))


def other_version(context: LintContext) -> Iterator[Remark]:
    """Right for one version of the package, and the document installs whichever is newest."""
    for job in context.jobs:
        words = {job.program.text for _ in (0,) if job.program is not None}
        for dialect in dialects.dialects():
            if not any(word.endswith(name) for word in words for name in dialect.of):
                continue
            old = [given for given in job.options if given.plain in (*dialect.rename, *dialect.drop)]
            for package, versions in dialect.needs.items():
                machine = context.machine.packages.get(package)
                if old and machine and schema.fits(machine, versions):
                    new = dialect.rename.get(old[0].plain)
                    do = (
                        f"--{new}"
                        if new
                        else f"{dialect.name} takes its options from a file: envcheck train --write shows it"
                    )
                    yield fail(
                        _name(old[0]),
                        f"{package} {machine} has no --{old[0].name}, nor {len(old) - 1} others of these options",
                        do,
                    )
                for install in context.installs:
                    for name, _, specifier, word in install.packages:
                        if old and name == package and not specifier and not machine:
                            limit = versions.replace(">=", "<")
                            first = old[0].name
                            seen = f"the newest {package} has other options: --{first} and {len(old) - 1} others go"
                            yield fail(word, seen, f"pip install '{package}{limit}'", swap(word, f"'{package}{limit}'"))


def doubled(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        kit = kit_of(context, job)
        for options in (job.own, job.options):
            first: dict[str, GivenOption] = {}
            for given in options:
                if given.key:
                    continue  # a file's: the command line is there to say otherwise
                before, plain = first.get(given.plain), given.plain
                first[plain] = given
                if before is None or (kit is None and _REPEATED.search(plain)):
                    continue
                if kit is not None and not kit.has(given.name) and _REPEATED.search(plain):
                    continue
                yield _twice(job, kit, before, given)


def _twice(job: TrainingJob, kit: Kit | None, before: GivenOption, given: GivenOption) -> Remark:
    texts = [[word.text for word in each.values] for each in (before, given)]
    if texts[0] == texts[1]:
        return warn(_name(given), f"--{given.name} stands twice, alike", "Once is enough.")
    said = [" ".join(text)[:40] or ("empty" if text else "alone, which means true") for text in texts]
    seen = f"--{given.name} stands twice: first {said[0]}, then {said[1]}; the last one counts"
    sure = kit is not None or bool(job.launcher.name == "paddle.distributed.launch")
    return graded(sure, _name(given), seen, "Keep the one that is meant.")


def abbreviated(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        kit = kit_of(context, job)
        for given in job.options if kit else ():
            if kit is None or given.key or kit.has(given.name):
                continue
            whole = kit.begun(given.name)
            if len(whole) == 1:
                other = job.option(whole[0])
                seen = f"--{given.name} is an abbreviation of --{whole[0]}" + (
                    ", which stands here as well" if other else ""
                )
                yield warn(
                    _name(given),
                    seen,
                    f"Write --{whole[0]}: the next version may know two that begin so.",
                    swap(_name(given), f"--{whole[0]}"),
                )


def values(context: LintContext) -> Iterator[Remark]:
    """Words that a program's older version had: those of the tables, then by their pattern."""
    for job in context.jobs:
        tool = tables.projects().tools.get(_program(job), "")
        for given in job.options if tool else ():
            for word in given.values:
                yield from _older(job, tool, given, word)


def _program(job: TrainingJob) -> str:
    """The launcher's name; of a configuration that stands alone, whose it is by its keys."""
    return command_of(job)[0] or job.launcher.name or (job.config.family if job.config else "")


def _older(job: TrainingJob, tool: str, given: GivenOption, word: Word) -> Iterator[Remark]:
    new = tables.renamed(tool).get(f"--{given.plain} {word.text}", "")
    if new:
        same, value = new.startswith(f"--{given.plain} "), new.rpartition(" ")[2]
        seen = f"{word.text} is a name of older versions: today's {tool} wants {new}"
        yield warn(word, seen, f"Write {new}.", swap(word, value) if same and word.raw in ("", word.text) else None)
        return
    for row in tables.projects().values:
        if (row.program, row.option) != (_program(job), given.plain) or not word.known:
            continue
        if re.search(row.pattern, word.text):
            seen = f"{word.text[:60]} is {row.says}"
            yield warn(word, seen, "Look the name up in the version that is installed.")


_PAIRS = (
    (
        "use_fused_head_and_loss_fn",
        "use_sparse_head_and_loss_fn",
        "the fused and the sparse head are two ways to do one thing",
    ),
    ("fp16", "bf16", "fp16 and bf16 are both on: the trainer refuses"),
    ("deepspeed", "fsdp", "DeepSpeed and FSDP are both asked for"),
    ("warmup_ratio", "warmup_steps", "a share and a number of warm-up steps: the number wins"),
    ("load_in_8bit", "load_in_4bit", "8 bit and 4 bit are both asked for"),
)


def conflicts(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        for one, other, says in _PAIRS:
            a, b = job.option(one), job.option(other)
            if a is None or b is None or not (_on(a) and _on(b)):
                continue
            later = max(a, b, key=lambda each: each.start)
            yield graded(one == "fp16", _name(later), says, f"Keep {_written(a, one)} or {_written(b, other)}.")


def _on(given: GivenOption) -> bool:
    return given.on and given.value not in ("0.0", "0")


def without_effect(context: LintContext) -> Iterator[Remark]:
    """Options that others leave without effect."""
    for job in context.jobs:
        recompute, how = job.option("recompute"), job.option("recompute_granularity")
        if recompute is not None and how is not None and not recompute.on:
            yield warn(_name(how), "recomputation is off, so how fine it is has no effect", "Take it away.")
        steps, epochs = job.option("max_steps"), job.option("num_train_epochs")
        if steps is not None and epochs is not None and (steps.value or "").isdigit() and int(steps.value or 0) > 0:
            yield warn(
                _name(epochs), f"max_steps {steps.value} wins: the epochs have no effect", "Keep one of the two."
            )
        if steps is not None and steps.value == "0":
            yield fail(_name(steps), "no step at all is trained", "A number above 0, or -1 for whole epochs.")
