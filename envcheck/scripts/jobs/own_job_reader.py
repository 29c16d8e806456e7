"""Read the job of a file or a command: the only reader, for doctor, plan, train, recipes and lint."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from envcheck.core.errors import UsageError
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.own_job import COMMAND, LABELS, InstalledFrameworks, JobValue, OwnJob, ValueState
from envcheck.core.lint.script_model import UNKNOWN, ConfigBlock, ShellWord, SourceFile
from envcheck.core.lint.target_machine import TargetMachine
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import NOTHING, Message, _, ngettext
from envcheck.core.secrets import redact_variable
from envcheck.scripts import source_file
from envcheck.scripts.companion_config import NamedConfig, find_broken_configs
from envcheck.scripts.config_files import FAMILIES
from envcheck.scripts.jobs import launch_values, megatron_values, training_values
from envcheck.scripts.jobs.job_options import JobFiles, OptionTable, PlacedOption, gather_options, list_values
from envcheck.scripts.jobs.job_programs import list_programs
from envcheck.scripts.jobs.option_names import EVAL_DATA, FAMILY_KITS, FEWEST_KEYS, KITS, NAMES, SIGNS, UNIQUE
from envcheck.scripts.jobs.read_context import read_context
from envcheck.scripts.jobs.value_reader import ValueReader
from envcheck.scripts.launchers import LAUNCHERS
from envcheck.scripts.made_paths import is_made_by_script, list_makers, runs_only_readers
from envcheck.scripts.programs import find_command, find_packages
from envcheck.scripts.training_jobs import make_config_job

SHELLS = ("bash", "sh", "dash", "zsh")
DATA_FILES = (".jsonl", ".json", ".parquet", ".txt", ".csv", ".tsv", ".arrow", ".bin")
WEIGHT_FILES = (".bin", ".safetensors", ".gguf", ".pt", ".pth", ".ckpt", ".pdparams", ".nemo", ".json", ".yaml")
CONFIG = "config.json"
_PATHS = ("/", "./", "../", "~/")
_GLOB = re.compile(r"[*?\[{]")
# `swift sft --config FILE` until 4.0.4, `swift sft FILE` from 4.1.0 on, which ignores --config.
# Source: swift/cli/main.py of these releases.
SWIFT_WITHOUT_OPTION = Version("4.1.dev0")
SWIFTS = ("ms-swift", "ms-swift megatron")
NO_VARIABLES: Mapping[str, str] = {}
NONE_INSTALLED = InstalledFrameworks()
_FORCED_CPU = ("use_cpu", "no_cuda", "cpu")


@dataclass(frozen=True)
class JobSource:
    """What the user named: `text` is read, `argv` is run; `name` is shown, "" for a command."""

    text: SourceFile
    argv: tuple[str, ...]
    words: tuple[str, ...]
    name: str = ""
    kind: str = ""


def read_file_job(
    file: str,
    more: Sequence[str] = (),
    environment: Mapping[str, str] = NO_VARIABLES,
    installed: InstalledFrameworks = NONE_INSTALLED,
) -> OwnJob:
    """Return the job of a script or a configuration; `more` are further words of its command.

    `environment` and `installed` are the variables and the frameworks that it starts with.
    Raises UsageError for a file that is not readable text, or starts no training.
    """
    source = source_file.read_source(file)
    kind = source_file.detect_kind(source)
    words = (file, *(("--", *more) if more else ()))
    if kind in ("yaml", "json"):
        return _read_job(JobSource(source, (), words, file, kind), tuple(more), environment, installed)
    if kind != "bash":
        raise UsageError(
            _("{file} is neither a shell script nor a training configuration", file=file),
            _("specify the script or the YAML file that starts the training"),
        )
    start = ("./" + file if "/" not in file else file,) if os.access(file, os.X_OK) else ("bash", file)
    if not source.raw.startswith(b"#!"):
        start = ("bash", file)
    return _read_job(JobSource(source, (*start, *more), words, file, kind), (), environment, installed)


def read_command_job(
    argv: Sequence[str],
    environment: Mapping[str, str] = NO_VARIABLES,
    installed: InstalledFrameworks = NONE_INSTALLED,
) -> OwnJob:
    """Return the job of a command; a shell that runs a script is read like the script."""
    words = ("--", *argv)
    script = _find_script(argv)
    if script:
        source = JobSource(source_file.read_source(script), tuple(argv), words, script, "bash")
        return _read_job(source, (), environment, installed)
    text = SourceFile("run.sh", (shlex.join(argv) + "\n").encode("utf-8", "replace"))
    return _read_job(JobSource(text, tuple(argv), words, "", "bash"), (), environment, installed)


def _find_script(argv: Sequence[str]) -> str:
    """The script that a shell of the command runs, "" if it runs none."""
    for at, word in enumerate(argv[:8]):
        if word.rpartition("/")[2] in SHELLS:
            names = [each for each in argv[at + 1 :] if not each.startswith("-")]
            is_inline = any(re.fullmatch(r"-[a-z]*c", each) for each in argv[at + 1 :][:3])
            return names[0] if names and not is_inline and Path(names[0]).is_file() else ""
    first = argv[0] if argv else ""
    return first if first.endswith((".sh", ".bash")) and Path(first).is_file() else ""


def _read_job(
    source: JobSource, more: tuple[str, ...], outside: Mapping[str, str], installed: InstalledFrameworks
) -> OwnJob:
    base = Path(source.name).absolute().parent if source.name else Path.cwd()
    context = _read_context(source, base, outside)
    _refuse_broken_config(source, context)
    trainings = [job for job in context.jobs if job.is_training]
    files = JobFiles(source.text, (Path.cwd(), base), context.configs, source.name)
    job = trainings[0] if trainings else None
    if job is None and (alone := _find_config(context)) is not None:
        job = make_config_job(alone)
    table = gather_options(job, files) if job is not None else OptionTable()
    table.options += _list_overrides(more)
    kit = find_kit(job, table, installed) if job is not None else ""
    argv = source.argv or _make_command(source, kit, more, table, installed)
    if job is not None and kit in SWIFTS:
        job = _add_config_variables(job, table, outside)
    return _describe_job(source, context, job, files, table, kit, argv, outside, trainings)


def _read_context(source: JobSource, base: Path, outside: Mapping[str, str]) -> LintContext:
    """The parsed source; empty without the shell grammar, which envcheck.pyz lacks: then all values are unknown."""
    try:
        machine = TargetMachine(live=True, folder=base, variables=list_readable_variables(outside))
        return read_context(source.text, machine, kind=source.kind)
    except ModuleNotFoundError as err:
        if not (err.name or "").startswith("tree_sitter"):
            raise
        return LintContext(source.text)


def list_readable_variables(outside: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that a job may be read with: no secret becomes a value of it."""
    return {name: text for name, text in outside.items() if redact_variable(name, text) == text}


def _refuse_broken_config(source: JobSource, context: LintContext) -> None:
    """Raise UsageError for a configuration that is not valid YAML or JSON, with the place and the parser's words."""
    broken = next((config for config in context.configs if config.error), None)
    if source.kind in ("yaml", "json") and broken is not None:
        line = source.text.find_position(broken.error_at[0])[0]
        raise UsageError(
            _(
                "{place}: {seen}",
                place=f"{source.name}:{line}",
                seen=_("cannot parse the configuration: {error}", error=broken.error),
            ),
            _("correct the file; `envcheck lint {file}` shows the line", file=source.name),
        )


def _find_config(context: LintContext) -> ConfigBlock | None:
    return next((config for config in context.configs if config.entries), None)


def _list_overrides(more: Sequence[str]) -> list[PlacedOption]:
    found, waiting = [], ""
    for word in more:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            waiting = "" if equals else name.replace("-", "_")
            if equals:
                found.append(PlacedOption(name.replace("-", "_"), (value,), ""))
        elif waiting:
            found.append(PlacedOption(waiting, (word,), ""))
            waiting = ""
        elif "=" in word:
            name, _unused, value = word.partition("=")
            found.append(PlacedOption(name.lstrip("+"), (value,), ""))
    return found


def find_kit(job: TrainingJob, table: OptionTable, installed: InstalledFrameworks = NONE_INSTALLED) -> str:
    """Return the framework of a job, as in KITS: by its command, its file, or the names of its options."""
    packages = find_packages(job)
    names = {option.name for option in table.options}
    if len(packages) > 1:  # ERNIEKit and PaddleFormers have the same keys, but for some names
        return _choose_paddle_kit(names, installed)
    if packages == ("ms-swift",) and job.launcher.name == "" and names & set(NAMES["tp"]):
        return "ms-swift megatron"
    if packages or job.launcher.name == "tune":
        return packages[0] if packages else "torchtune"
    if job.config is not None and job.config.family in FAMILY_KITS:
        return FAMILY_KITS[job.config.family]
    if kit := _match_family(names):
        return kit
    return next((kit for kit, signs in SIGNS if len(signs & names) > 1), "")


def _choose_paddle_kit(names: set[str], installed: InstalledFrameworks) -> str:
    """ERNIEKit or PaddleFormers: by the names of the degrees, else by the one that is installed."""
    if any("parallel_size" in name for name in names):
        return "paddleformers"
    if any("parallel_degree" in name for name in names):
        return "erniekit"
    return "paddleformers" if installed.commands == {"paddleformers-cli"} else "erniekit"


def _match_family(names: set[str]) -> str:
    scores = [(len(names & signs), family) for family, signs in FAMILIES if family in FAMILY_KITS]
    best, family = max(scores)
    return FAMILY_KITS[family] if best >= FEWEST_KEYS.get(family, 2) or (best and UNIQUE & names) else ""


def _add_config_variables(job: TrainingJob, table: OptionTable, outside: Mapping[str, str]) -> TrainingJob:
    """The job with the variables that ms-swift sets from the key ENV of its file, if the user's environment has none.

    Source: ms-swift 4.1's command line, parse_yaml_args.
    """
    words = {
        option.name.partition(".")[2]: ShellWord(option.text, job.start, job.end)
        for option in table.options
        if option.name.startswith("ENV.")
    }
    more = {name: word for name, word in words.items() if name not in outside}
    environment = {**more, **job.command.environment}
    return replace(job, command=replace(job.command, environment=environment)) if more else job


def _make_command(
    source: JobSource, kit: str, more: tuple[str, ...], table: OptionTable, installed: InstalledFrameworks
) -> tuple[str, ...]:
    """The framework's command for a configuration file."""
    verb = KITS[kit].verb
    if kit == "llamafactory" and table.find("infer_backend", "export_dir") and not table.find(*NAMES["data"]):
        raise UsageError(
            _("{file} chats or exports, and does not train", file=source.name),
            _("specify a configuration that trains"),
        )
    if kit == "ms-swift" and table.find("rlhf_type") is not None:
        verb = ("swift", "rlhf")
    if kit in SWIFTS:
        verb += ("--config",) if installed.swift and installed.swift < SWIFT_WITHOUT_OPTION else ()
    if kit == "torchtune":
        raise UsageError(
            _("{file} does not name its recipe of torchtune", file=source.name),
            _("for example: envcheck train -- tune run lora_finetune_single_device --config {file}", file=source.name),
        )
    if kit and not KITS[kit].planner:
        raise UsageError(
            _(
                "{file} is a configuration of {framework}, which envcheck recognises but cannot plan or start",
                file=source.name,
                framework=KITS[kit].title,
            ),
            _("give the command that uses it: envcheck train -- COMMAND {file}", file=source.name),
        )
    if not verb:
        raise UsageError(
            _("{file} is not a training configuration that envcheck knows", file=source.name),
            _("give the command that uses it: envcheck train -- COMMAND {file}", file=source.name),
        )
    return (*verb, source.name, *more)


def _describe_job(
    source: JobSource,
    context: LintContext,
    job: TrainingJob | None,
    files: JobFiles,
    table: OptionTable,
    kit: str,
    argv: tuple[str, ...],
    outside: Mapping[str, str],
    trainings: Sequence[TrainingJob],
) -> OwnJob:
    reader = ValueReader(table, KITS[kit])
    command, verb = find_command(job) if job is not None else ("", "")
    program = job.program.text if job is not None and job.program is not None else ""
    reader.add_read("framework", KITS[kit].title, _name_origin(source, job, files)) if kit else reader.add_unknown(
        "framework"
    )
    accelerate = _read_accelerate_file(job, files)
    model = training_values.read_model(reader, files)
    method = training_values.read_method(reader, kit, verb if command else "", program)
    no_training = _explain_no_training(source, context) if job is None else NOTHING
    launch = (
        launch_values.read_launch(reader, _add_launcher(job, argv), files, outside)
        if job is not None
        else _read_no_launch(reader, no_training or _("no training was found in it"))
    )
    cwd = job.command.cwd if job is not None else ""
    devices = launch.nodes * launch.cards if launch.cards else None
    sharding = training_values.read_sharding(reader, files, accelerate, cwd, devices)
    _read_sizes(reader, launch, has_adapter := "lora" in method or "dora" in method)
    training_values.read_precision(reader, accelerate)
    training_values.read_recompute(reader)
    megatron_values.read_virtual_stages(reader)
    megatron_values.reject_values(reader, is_open=job is not None and job.open)
    data = _read_data(reader, kit)
    output = reader.read_text("output")
    device = _read_device(reader, context, table)
    is_script = bool(source.name) and source.kind == "bash"
    inputs, requires = _list_inputs(data, kit, table, cwd)
    if is_script:
        inputs, requires = _drop_own_files(job, (inputs, requires))
    broken = find_broken_configs(job, context.configs, files.find_path) if job is not None else []
    if not is_script:
        requires += tuple(named.word.text for named in broken if named.is_missing)
    return OwnJob(
        name=_make_name(source, argv),
        source=source.name or COMMAND,
        words=source.words,
        argv=argv,
        values=tuple(_sort_values(reader.values)),
        model=model,
        method=method,
        framework=KITS[kit].planner,
        device=device,
        nodes=launch.nodes,
        cards=launch.cards,
        plan=training_values.list_plan_options(reader, sharding, has_adapter),
        divided_plan=training_values.list_divided_options(reader),
        lean=training_values.list_lean_options(reader, has_adapter),
        steps=_read_steps(table),
        arguments=_list_arguments(table),
        data=inputs,
        requires=requires,
        output=output,
        listed=launch.listed,
        programs=list_programs(argv, trainings, files, outside),
        notes=(*_list_notes(trainings, context, files), *(_describe_config(reader, files, named) for named in broken)),
        no_training=no_training,
    )


def _explain_no_training(source: JobSource, context: LintContext) -> Message:
    """Why the source starts no training that is known; empty if it could not be parsed, which is reported by itself."""
    if not context.scripts:
        return NOTHING
    name = source.name or _("the command")
    if context.launching:
        files = _name_files(context.launching)
        return _(
            "{name} sources {files}, where a training starts: its commands are not followed", name=name, files=files
        )
    if context.unread:
        files = _name_files(context.unread)
        return _("no training was found in {name}, which sources {files}: it was not read", name=name, files=files)
    return _("no training was found in {name}", name=name)


def _name_files(words: Sequence[ShellWord]) -> str:
    """How the script writes the names, each once."""
    return ", ".join(dict.fromkeys(word.known_text or word.raw or "?" for word in words))


def _add_launcher(job: TrainingJob, argv: Sequence[str]) -> TrainingJob:
    """The job of a configuration alone with the launcher of its command, whose variables count."""
    if job.launcher.name or not argv:
        return job
    found = (each for each in LAUNCHERS if any(tuple(argv[: len(words)]) == words for words in each.words))
    return replace(job, launcher=next(found, job.launcher)) if job.config is not None else job


def _name_origin(source: JobSource, job: TrainingJob | None, files: JobFiles) -> Message:
    if job is None or not source.name:
        return _("command line")
    return Message(files.locate(job.start)) if job.launcher.name else Message(source.name)


def _read_no_launch(reader: ValueReader, why: Message) -> launch_values.LaunchValues:
    reader.add_unknown("nodes", why)
    reader.add_unknown("cards", why)
    return launch_values.LaunchValues()


def _read_accelerate_file(job: TrainingJob | None, files: JobFiles) -> OptionTable:
    """The launcher's own options of accelerate, those of its file first."""
    if job is None or job.launcher.name != "accelerate":
        return OptionTable()
    given = job.find_launcher_option("config_file")
    table = OptionTable(files.read_options(given.value or "", job.command.cwd) if given is not None else [])
    own = (option for option in job.own if not option.key)
    table.options += [PlacedOption(o.python_name, tuple(w.text for w in o.values), files.locate(o.start)) for o in own]
    return table


def _read_sizes(reader: ValueReader, launch: launch_values.LaunchValues, has_adapter: bool) -> None:
    micro = reader.read_number("micro_batch")
    whole, given = reader.find_number("global_batch"), reader.table.find(*NAMES["global_batch"])
    if given is not None and (reason := reader.explain_invalid("global_batch", given)):
        reader.add_invalid("grad_accum", reason)
    elif whole is not None and micro and launch.cards and reader.table.find(*NAMES["grad_accum"]) is None:
        degrees = [reader.find_number(name) for name in ("tp", "pp", "cp")]
        split = 1
        for degree in degrees:
            split *= degree[0] if degree else 1
        share = max(1, launch.nodes * launch.cards // split)
        reader.add_read("grad_accum", str(max(1, whole[0] // (micro * share))), whole[1].where)
    else:
        reader.read_number("grad_accum")
    reader.read_number("seq_len")
    if has_adapter:
        reader.read_number("lora_rank")
    for name in ("tp", "pp", "ep", "cp"):
        if reader.table.find(*NAMES[name]) is not None:
            reader.read_number(name)


def _read_data(reader: ValueReader, kit: str) -> tuple[str, ...]:
    found = reader.table.find(*NAMES["data"])
    names = list_values(found)
    if found is None or not names:
        reader.add_unknown("data", reader.explain_unknown(found) if found is not None else NOTHING)
        return ()
    reader.add_read("data", " ".join(names), found.where)
    return names


def _read_device(reader: ValueReader, context: LintContext, table: OptionTable) -> str:
    """The vendor by the words of the source; "" if the machine decides."""
    if any(table.is_enabled(name) for name in _FORCED_CPU) or table.read_text("device") == "cpu":
        reader.add_read("device", "cpu", _("an option of the program"))
        return "cpu"
    if context.device:
        reader.add_read("device", context.device, _("variables and options of the vendor"))
        return context.device
    reader.values.append(JobValue("device", "", ValueState.ASSUMED, _("the devices of the machine"), "--device"))
    return ""


def _list_inputs(
    names: tuple[str, ...], kit: str, table: OptionTable, cwd: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Data sets and required files: the registry of LLaMA-Factory, and a local model's config.json.

    None for a program that envcheck does not know, whose options may mean something else, and for Megatron-LM, which
    reads prefixes of files and starts without the checkpoint to load.
    """
    if kit in ("", "megatron"):
        return (), ()
    more = tuple(name for option in EVAL_DATA for name in list_values(table.find(option)) if _is_path(name))
    data = tuple(re.sub(r"#\d+$", "", name) for name in dict.fromkeys((*names, *more)) if not _GLOB.search(name))
    requires = []
    if kit == "llamafactory":
        registry = Path(table.read_text("dataset_dir") or "data", "dataset_info.json")
        place = _place(str(registry), cwd)
        requires = [str(registry)] if place and Path(place).is_file() else []
        data = data if requires else tuple(name for name in data if name.endswith(DATA_FILES))
    model = table.read_text(*(name for name in NAMES["model"] if name != "load"))
    if model.startswith(_PATHS) and not model.endswith(WEIGHT_FILES) and UNKNOWN not in model:
        requires.append(str(Path(model, CONFIG)))
    data, needed = (tuple(_place(path, cwd) for path in paths) for paths in (data, requires))
    return tuple(filter(None, data)), tuple(filter(None, needed))


def _is_path(name: str) -> bool:
    """Whether the value is a path, not the name of a data set or a model that the framework resolves."""
    return name.startswith(_PATHS) or name.endswith(DATA_FILES)


def _place(name: str, cwd: str) -> str:
    """The path in the folder of the command; "" if it is relative to a folder that only the script knows."""
    if name.startswith("~/"):
        return str(Path(name).expanduser())
    if not _is_path(name) or name.startswith("/") or not cwd:
        return name
    return "" if UNKNOWN in cwd else str(Path(cwd, name))


def _drop_own_files(
    job: TrainingJob | None, lists: tuple[tuple[str, ...], tuple[str, ...]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The inputs without those that the script may create before its training: all of them if it runs programs."""
    if job is None or not runs_only_readers(job.script, job.command):
        return (), ()
    made = list_makers(job.script)
    data, requires = (tuple(path for path in paths if not is_made_by_script(job.script, made, path)) for paths in lists)
    folders = (path.removesuffix(f"/{CONFIG}") for path in requires)
    named = {folder for folder in folders if is_made_by_script(job.script, made, folder)}
    return data, tuple(path for path in requires if path.removesuffix(f"/{CONFIG}") not in named)


def _read_steps(table: OptionTable) -> dict[str, int]:
    found = {}
    for key, name in (("max", "max_steps"), ("warmup", "warmup"), ("save", "save"), ("eval", "eval")):
        text = table.read_text(*NAMES[name])
        if re.fullmatch(r"[1-9]\d{0,8}", text):
            found[key] = int(text)
    return found if "max" in found else {}


def _list_arguments(table: OptionTable) -> tuple[str, ...]:
    """The options as words, for rules that look at one of them; values of several words stay together."""
    rows: dict[str, tuple[str, ...]] = {}
    for option in table.options:
        rows[option.name] = option.values
    return tuple(word for name, values in rows.items() for word in (f"--{name}", *values))


def _list_notes(trainings: Sequence[TrainingJob], context: LintContext, files: JobFiles) -> Iterator[Message]:
    if len(trainings) > 1:
        yield ngettext(
            "it starts {count} training; the first one is judged",
            "it starts {count} trainings; the first one is judged",
            len(trainings),
        )
    if trainings and context.launching:
        yield _("the training in {files}, which it sources, is not judged", files=_name_files(context.launching))
    for word in context.unread if files.own and trainings else ():
        place, name = files.locate(word.start), _name_files([word])
        yield _("{place}: {file}, which it sources, was not read: its variables are unknown", place=place, file=name)


def _describe_config(reader: ValueReader, files: JobFiles, named: NamedConfig) -> Message:
    """Where the job names a file with options, and why its values are not known."""
    place = reader.place(files.locate(named.word.start))
    return _("{place}: {seen}; its options are unknown", place=place, seen=named.seen)


def _make_name(source: JobSource, argv: tuple[str, ...]) -> str:
    """A name for the run folder: of the file, or of the program."""
    stem = Path(source.name).stem if source.name else _name_program(argv)
    return re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).strip("-._")[:40] or "job"


def _name_program(argv: tuple[str, ...]) -> str:
    scripts = [Path(word).stem for word in argv if word.endswith(".py")]
    return scripts[0] if scripts else Path(argv[0]).stem if argv else "job"


def _sort_values(values: list[JobValue]) -> list[JobValue]:
    order = list(LABELS)
    return sorted(values, key=lambda value: order.index(value.name))
