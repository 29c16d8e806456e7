"""Which option lists apply to a job's program, by the installed or possible versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.script_model import ConfigBlock
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, join, verbatim
from envcheck.lint.context.package_versions import find_installed_version
from envcheck.scripts.companion_config import list_config_words
from envcheck.scripts.programs import find_command, find_switch
from launch.rendering import option_schema
from launch.rendering.option_schema import OptionSchema

# Options that every program has, whatever its list: those of the parser itself.
_ALWAYS = frozenset(("help", "h", "local_rank", "local-rank", "config"))
_NO_CONFIG = "llamafactory"  # takes the file as its first argument, and exits on an option --config


@dataclass(frozen=True)
class ProgramOptions:
    """The option lists that may apply; `version` is the installed one, if known.

    `declared` are the words in the sources of the checkout that the file lies in: a fork has options of its own.
    """

    known: tuple[OptionSchema, ...]
    version: str | None
    declared: frozenset[str] = frozenset()

    @property
    def complete(self) -> bool:
        return all(each.complete for each in self.known)

    @property
    def is_certain(self) -> bool:
        """Whether the version is known, or the lists are those of several versions."""
        return self.version is not None or len({each.versions for each in self.known}) > 1

    @property
    def names(self) -> frozenset[str]:
        return frozenset().union(*(each.names for each in self.known))

    def has_option(self, name: str) -> bool:
        is_own = name == "config" and any(each.package == _NO_CONFIG for each in self.known)
        return (
            (name.replace("-", "_") in _ALWAYS and not is_own)
            or any(each.has_option(name) for each in self.known)
            or name in self.declared
        )

    def expand_abbreviation(self, name: str) -> list[str]:
        """Return the names with this prefix: the parsers accept an unambiguous abbreviation."""
        plain = name.replace("-", "_") if any(each.dashes for each in self.known) else name
        return [each for each in self.names if each.startswith(plain)]

    @property
    def title(self) -> Message:
        """The names of the programs, joined by "or"; of several programs of one package, its name."""
        titles, packages = (
            {each.title or each.program: 0 for each in self.known},
            {each.package for each in self.known},
        )
        return verbatim(*packages) if len(titles) > len(packages) == 1 else join(_(" or "), titles)


def find_program_options(context: LintContext, job: TrainingJob) -> ProgramOptions | None:
    """Return the option lists of a job's program; None if envcheck has none, or none for its mode."""
    words = _list_program_names(job)
    if not words or find_switch(job):
        return None
    found = [each for each in option_schema.load_schemas() if any(_names_program(word, each.program) for word in words)]
    if not found:
        return None
    version = find_installed_version(context, found[0].package)
    fitting = (
        [each.for_version(version) for each in found if option_schema.matches_versions(version, each.versions)]
        if version
        else found
    )
    declared = find_checkout_words(context.machine.folder, found[0].package)
    return ProgramOptions(tuple(fitting), version, declared) if fitting else None


# Where the checkouts of a package declare their options.
_SOURCES = {
    "llamafactory": ("src/llamafactory/hparams",),
    "ms-swift": ("swift/arguments", "swift/llm/argument"),
    "verl": ("verl/trainer/config",),
}
_SUFFIXES = (".py", ".yaml")
_LEVELS = 8  # folders above a file that are searched
_LARGEST = 1 << 20  # bytes of the sources


@lru_cache(64)
def find_checkout_words(folder: Path | None, package: str) -> frozenset[str]:
    """Return the words of the sources that declare a package's options, of the checkout around a folder."""
    around = [folder.absolute(), *folder.absolute().parents][:_LEVELS] if folder is not None else []
    found: set[str] = set()
    size = 0
    try:
        places = [above / name for above in around for name in _SOURCES.get(package, ()) if (above / name).is_dir()]
        for path in sorted(places[0].rglob("*")) if places else ():
            if path.suffix not in _SUFFIXES:
                continue
            size += path.stat().st_size
            if size > _LARGEST:
                break
            found.update(re.findall(r"[A-Za-z_]\w+", path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return frozenset()
    return frozenset(found)


# Programs that read a configuration of a family; the file does not name the one that it is for.
FAMILY_PROGRAMS = {
    "llamafactory": ("src/train.py",),
    "paddle": ("erniekit", "paddleformers-cli"),
    "swift": ("swift sft", "swift rlhf", "swift infer"),
}
# Of ms-swift: the command is swift rlhf by its own key, and megatron, of whose options there is no list, if the file
# has more keys of Megatron than of transformers' Trainer.
_MEGATRON_KEYS = re.compile(
    r"(tensor|pipeline|expert)_model_parallel_size|(micro|global)_batch_size|mcore_\w+|train_iters"
)
_TRAINER_KEYS = re.compile(
    r"per_device_\w+_batch_size|gradient_accumulation_steps|learning_rate|lr_scheduler_type|warmup_ratio|deepspeed|fsdp"
)
_RLHF_KEY = "rlhf_type"


def find_config_options(context: LintContext, config: ConfigBlock) -> ProgramOptions | None:
    """As `find_program_options`, for a configuration: of the command that reads it here, else by its keys."""
    job = find_reading_job(context, config)
    if job is not None and config.family in FAMILY_PROGRAMS:
        return find_program_options(context, job)
    programs = _list_swift_programs(config) if config.family == "swift" else FAMILY_PROGRAMS.get(config.family, ())
    found = tuple(each for each in option_schema.load_schemas() if each.program in programs)
    if not found:
        return None
    package = found[0].package
    declared = find_checkout_words(context.machine.folder, package)
    return ProgramOptions(found, find_installed_version(context, package), declared)


def find_reading_job(context: LintContext, config: ConfigBlock) -> TrainingJob | None:
    """The job with a known command that names this file, of the script that writes it or of another file."""
    if context.reader is not None and not config.file and find_command(context.reader)[0]:
        return context.reader
    name = config.file.rpartition("/")[2]
    return next(
        (
            job
            for job in context.jobs
            if name and find_command(job)[0]
            for word in list_config_words(job)
            if word.text.rpartition("/")[2] == name
        ),
        None,
    )


def _list_swift_programs(config: ConfigBlock) -> tuple[str, ...]:
    keys = [entry.name for entry in config.entries if not entry.path]
    megatron, trainer = (sum(bool(sign.fullmatch(key)) for key in keys) for sign in (_MEGATRON_KEYS, _TRAINER_KEYS))
    if megatron > trainer:
        return ()
    return ("swift rlhf",) if _RLHF_KEY in keys else FAMILY_PROGRAMS["swift"]


def _list_program_names(job: TrainingJob) -> list[str]:
    """The program's names in the lists."""
    name, verb = find_command(job)
    if name == "megatron":
        return []
    if name == "llamafactory-cli":
        return ["src/train.py"] if verb == "train" else [f"{name} {verb}"]
    if name:
        return [f"{name} {verb}", *([name] if verb == "train" else [])]
    return [job.program.text] if job.program is not None and job.program.is_known and _is_certain_program(job) else []


def _is_certain_program(job: TrainingJob) -> bool:
    """src/train.py is a common name: LLaMA-Factory's is recognised by its options."""
    if job.program is None or not re.search(r"(^|/)src/train\.py$", job.program.text):
        return True
    names = {each.python_name for each in job.options}
    return bool(names & {"finetuning_type", "stage", "cutoff_len"}) or (not job.options and job.config is not None)


def _names_program(word: str, program: str) -> bool:
    return word == program or word.endswith(f"/{program}")
