"""Rules about configurations: syntax, unknown keys, and how parsers read values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, note, replace_span, unknown, warn, warn_or_fail
from envcheck.core.lint.script_model import ConfigBlock, ConfigEntry, Remark, ShellWord, SourceFile, TextFix
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import Message, _, join
from envcheck.lint.context import name_tables
from envcheck.lint.rules.training.listed_names import find_unlisted_keys
from envcheck.lint.rules.training.option_schemas import ProgramOptions, find_config_options
from envcheck.lint.rules.training.program_options import PLUGIN_OPTIONS, describe_unlisted_option, find_new_name
from envcheck.scripts.companion_config import find_broken_configs
from envcheck.scripts.config_files import find_json_problem
from envcheck.scripts.known_programs import find_config_program, find_started_program
from launch.catalogue.schedulers import list_kubernetes_resources

# Keys of the command-line wrappers, which remove them before the trainer reads the file.
_ALWAYS = frozenset(
    [
        "config",
        "ray_run_name",
        "ray_storage_path",
        "ray_num_workers",
        "resources_per_worker",
        "placement_strategy",
        "report_to",
        "run_name",
    ]
)


def make_key_place(entry: ConfigEntry) -> ShellWord:
    """Return the place of a key."""
    return ShellWord("", entry.start, entry.end)


_INDENT = _("Indent the keys of one level equally, with spaces.")
_CLOSE_QUOTE = _("Close the quote, or escape the quotes inside the text.")
# Words of PyYAML and of Python's json for a kind of error → its correction; the first that matches.
_CORRECTIONS = (
    (r"character '\\t' that cannot start", _("Indent with spaces, not tabs.")),
    (r"could not find expected ':'", _("Put a colon and a space between the key and its value.")),
    (r"cannot start any token|undefined alias|expected alphabetic", _("Put the value in quotes.")),
    (r"unexpected end of stream|Unterminated string", _CLOSE_QUOTE),
    (r"expected ',' or '\]'", _("Close the square bracket, or put a comma between its items.")),
    (r"expected ',' or '\}'", _("Close the curly bracket, or put a comma between its entries.")),
    (r"<block end>, but found '(?:<scalar>|,)'", _("Put the whole value in quotes, or remove the text after it.")),
    (r"(?:<block end>|node content), but found '[\]},]'", _("Remove the bracket or comma that has nothing to close.")),
    (r"<block end>, but found", _INDENT),
    (r"escape", _("Write a backslash in double quotes as two.")),
    (r"not allowed in|control character", _("Remove the control character, or write it as an escape sequence.")),
    (
        r"property name|trailing comma",
        _("Write each key in double quotes, with no comma after the last entry and no comments."),
    ),
    (r"',' delimiter", _("Put a comma between the entries, or close the bracket.")),
    (r"':' delimiter", _("Put a colon between the key and its value.")),
    (r"Expecting value", _("Write a value of JSON: text in double quotes, a number, true, false or null.")),
    (r"Extra data", _("Remove the text after the last bracket; JSON has no comments.")),
)


def _suggest_correction(config: ConfigBlock, source: SourceFile) -> Message:
    """Return what corrects the kind of error that the parser reports."""
    if "mapping values are not allowed" in config.error:
        line = source.find_position(config.error_at[0])[0]
        return _suggest_for_second_colon(source.read_line(line), source.read_line(line - 1) if line > 1 else "")
    found = (do for words, do in _CORRECTIONS if re.search(words, config.error))
    return next(found, _("Check the quotes, commas and brackets."))


def _suggest_for_second_colon(line: str, before: str) -> Message:
    """Return the correction of a colon that YAML does not allow: its parser has the same words for three errors."""
    if re.search(r":\s.*:(?:\s|$)", line):
        return _("Put a value that contains a colon and a space in quotes.")
    if re.fullmatch(r"\s*[\w.-]+:[^\s:][^:]*", before):
        return _("Put a space after the colon in {line!r}.", line=before.strip()[:60])
    return _INDENT


# Marks of a text from which a program makes the configuration; in JSON, a bare word in capitals is replaced by sed.
_TEMPLATE = re.compile(r"\{\{|\{%|<%|\$\{\w+\}")
_PLACEHOLDER = re.compile(r"[:,\[]\s*(?!TRUE|FALSE|NULL|NONE|NAN)[A-Z][A-Z0-9_]{2,}\s*[,\]}\n]")
# JSON files that trainers read by Python's json, whatever their keys.
_READ_BY_PYTHON = re.compile(r"(?:^|[/_-])(?:dataset_info|config|ds|deepspeed|zero\d?|rank_?table|hccl)[^/]*\.json$")


def _find_doubt(config: ConfigBlock, source: SourceFile) -> Message | None:
    """Why a text that the parser rejects may yet be right; None if nothing suggests it."""
    text = config.block.raw.decode("utf-8", "replace")
    line = source.read_line(source.find_position(config.error_at[0])[0])
    is_text = config.family in ("", "kubernetes")  # Helm's templates are manifests
    searched, is_json = text if is_text else f"{line}\n", config.block.kind == "json"
    if _TEMPLATE.search(searched) or (is_json and _PLACEHOLDER.search(searched)):
        return _("it is a template")
    if not is_json:
        return None
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and not any(find_json_problem(line) for line in lines):
        return _("it is JSON Lines, which only some programs read")
    if not config.family and not _READ_BY_PYTHON.search(config.file or source.name):
        return _("no known program reads it, and some accept comments or more")
    return None


def find_unreadable_configs(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        if config.error:
            place = ShellWord("", *config.error_at)
            if "larger" in config.error or "deeply" in config.error:
                yield unknown(
                    place, _("the configuration is {error}", error=config.error), _("Lint its parts separately.")
                )
            else:
                seen = _("cannot parse the configuration: {error}", error=config.error)
                do = _suggest_correction(config, context.source)
                doubt = _find_doubt(config, context.source)
                yield unknown(place, join(": ", (seen, doubt)), do) if doubt else fail(place, seen, do)
    told: set[str] = set()
    for job in context.jobs:
        for named in find_broken_configs(job, context.configs, context.machine.find_file):
            if not named.is_missing and named.word.text not in told:
                told.add(named.word.text)
                yield fail(named.word, named.seen, _("Correct that file."))


# What reads a configuration of these kinds and rejects a key that it has twice; other parsers take the last one.
_REJECTING = {
    "llamafactory": "OmegaConf",
    "llamafactory-v1": "OmegaConf",
    "torchtune": "OmegaConf",
    "verl": "OmegaConf",
    "compose": "Docker Compose",
    "deepspeed": "DeepSpeed",
}


def find_repeated_keys(context: LintContext) -> Iterator[Remark]:
    for config in context.configs:
        parser = _REJECTING.get(config.family, "")
        for entry in config.doubled:
            if parser:
                seen = _("{name} appears twice: {parser} rejects the file", name=entry.name, parser=parser)
                yield fail(make_key_place(entry), seen, _("Keep only the intended one."))
                continue
            first = next((e for e in config.entries if (e.path, e.name) == (entry.path, entry.name)), entry)
            if first.values == entry.values and entry.kind != "map":
                seen = _("{name} appears twice with the same value", name=entry.name)
            else:
                seen = _(
                    "{name} appears twice: the last value applies, and some parsers reject the file", name=entry.name
                )
            yield warn(make_key_place(entry), seen, _("Keep only the intended one."))


def find_unknown_keys(context: LintContext) -> Iterator[Remark]:
    yield from find_unlisted_keys(context)
    started = {id(job.config) for job in context.jobs if job.config is not None and job.launcher.name}
    for config in context.configs:
        if config.family in _READERS:
            yield from _READERS[config.family](config)
            continue
        foreign = _list_foreign_keys(config)
        if foreign and context.reader is None:  # else the first line says what is not checked
            yield _remark_foreign_keys(foreign)
        elif foreign and context.reader is not None:
            yield from _judge_switch(context.reader, foreign)
        kit = find_config_options(context, config) if config.family and id(config) not in started else None
        if kit is not None:
            own = [each for each in config.entries if each.name and not each.path and each not in foreign]
            yield from _judge_keys(config, kit, [each for each in own if not _is_known_key(each.name, kit)])


def _is_known_key(name: str, kit: ProgramOptions) -> bool:
    return kit.has_option(name) or name in _ALWAYS


def _judge_keys(config: ConfigBlock, kit: ProgramOptions, entries: list[ConfigEntry]) -> Iterator[Remark]:
    """Judge keys that the program does not list; those that only may be missing are one remark."""
    rejects, unlisted = kit.complete and config.family == "llamafactory", []
    for number, entry in enumerate(entries):
        meant = _find_meant_key(entry.name, kit) if number < MOST_SEARCHES else ""
        if rejects and (meant or kit.is_certain):
            yield _remark_rejected_key(kit, entry, meant)
        elif rejects:
            unlisted.append(entry)
        elif meant:
            place = make_key_place(entry)
            seen = _("{program} does not list a key {name}", program=kit.title, name=entry.name)
            yield warn(place, seen, _("Did you mean {meant}?", meant=meant), replace_span(place, meant))
        elif _rejects_unknown_keys(config) and entry.name != _VARIABLES:
            yield unknown(make_key_place(entry), *describe_unlisted_option(kit, entry.name))
    if unlisted:
        names = join(", ", [entry.name for entry in unlisted[:MOST_NAMES]])
        yield unknown(make_key_place(unlisted[0]), *describe_unlisted_option(kit, names))


def _remark_rejected_key(kit: ProgramOptions, entry: ConfigEntry, meant: str) -> Remark:
    place = make_key_place(entry)
    seen = _(
        "{program} has no key {name} in {package} {versions}: it rejects the file",
        program=kit.title,
        name=entry.name,
        package=kit.known[0].package,
        versions=kit.known[0].versions,
    )
    do = _("Did you mean {meant}?", meant=meant) if meant else _("Remove it.")
    return fail(place, seen, do, replace_span(place, meant) if meant else None)


def _find_meant_key(name: str, kit: ProgramOptions) -> str:
    return find_new_name(name, kit) or _find_longer_key(name, kit.names) or find_similar_name(name, kit.names, 0.85)


MOST_SEARCHES = 200  # unknown keys of a file for which a similar one is searched
MOST_NAMES = 5  # of keys or options in one remark
_VARIABLES = "ENV"  # ms-swift's command line sets these variables, and passes on all other keys as options


def _rejects_unknown_keys(config: ConfigBlock) -> bool:
    """Whether the program exits on keys that it has not: ms-swift, unless a plugin of the user adds some."""
    return config.family == "swift" and not any(entry.name in PLUGIN_OPTIONS for entry in config.entries)


@dataclass(frozen=True)
class OtherReader:
    """A reader of the same file of whose keys envcheck has no list: `signs` recognise it, `switch` selects it."""

    name: str
    switch: str
    signs: re.Pattern[str]


_OTHER_READERS = (
    OtherReader(
        "LLaMA-Factory v1 (USE_V1)", "USE_V1",
        re.compile(r"(?:model_class|dist_config|kernel_config|peft_config|sample_backend)$"),
    ),
    OtherReader("KTransformers", "", re.compile(r"(?:use_)?kt_\w+$")),
    OtherReader(
        "mcore_adapter (USE_MCA)", "USE_MCA",
        re.compile(
            r"(?:(?:tensor|pipeline|expert)_model_parallel_size|context_parallel_size|sequence_parallel"
            r"|recompute_granularity|use_distributed_optimizer|overlap_(?:param_gather|grad_reduce)"
            r"|moe_(?:grouped_gemm|token_dispatcher_type)|(?:bias_activation|apply_rope)_fusion|use_packed_sequences"
            r"|export_hf_on_finish|mixed_precision)$"
        ),
    ),
)  # fmt: skip


def _list_foreign_keys(config: ConfigBlock) -> list[ConfigEntry]:
    """The keys of another reader; all top-level keys if the file is wholly its."""
    if not config.family.startswith("llamafactory"):
        return []
    top = [entry for entry in config.entries if not entry.path and entry.name]
    if config.family != "llamafactory":
        return top
    return [entry for entry in top if any(other.signs.match(entry.name) for other in _OTHER_READERS)]


def _find_other_reader(foreign: list[ConfigEntry]) -> tuple[OtherReader, ConfigEntry]:
    """The reader that most keys are of, and the first of them."""
    found = {other.name: [entry for entry in foreign if other.signs.match(entry.name)] for other in _OTHER_READERS}
    reader = max(_OTHER_READERS, key=lambda other: len(found[other.name]))
    return reader, (found[reader.name] or foreign)[0]


def _remark_foreign_keys(foreign: list[ConfigEntry]) -> Remark:
    reader, entry = _find_other_reader(foreign)
    return unknown(
        make_key_place(entry),
        _("{count} keys of {reader} were not checked", count=len(foreign), reader=reader.name),
        _("Compare them with the documentation of {reader}.", reader=reader.name),
    )


def _judge_switch(job: TrainingJob, foreign: list[ConfigEntry]) -> Iterator[Remark]:
    """Keys of a reader that the command does not select: LLaMA-Factory's own one exits on them."""
    reader, entry = _find_other_reader(foreign)
    row = find_started_program(job.command.words, job.command.environment)
    if row is not None and row.name == "LLaMA-Factory" and reader.switch and reader.signs.match(entry.name):
        name, is_off = reader.switch, reader.switch in job.command.environment
        seen = _("{key} needs the variable {name}=1: the program exits without it", key=entry.name, name=name)
        yield warn_or_fail(is_off, make_key_place(entry), seen, _("Set {name}=1 for the command.", name=name))


def _find_longer_key(name: str, names: frozenset[str]) -> str:
    """The only key with this prefix: a command line accepts the abbreviation, a file does not."""
    found = [each for each in names if each.startswith(f"{name}_")] if len(name) > 3 else []
    return found[0] if len(found) == 1 else ""


def _judge_deepspeed_keys(config: ConfigBlock) -> Iterator[Remark]:
    for entry in config.entries:
        table = {(): "deepspeed", ("zero_optimization",): "zero_optimization"}.get(entry.path)
        names = name_tables.load_keys(table) if table else frozenset()
        if not names or entry.name in names or not entry.name:
            continue
        meant = find_similar_name(entry.name, names, 0.85)
        if meant:
            yield fail(
                make_key_place(entry),
                _("DeepSpeed does not read {name}: it has no effect", name=entry.name),
                _("Did you mean {meant}?", meant=meant),
                replace_span(make_key_place(entry), meant),
            )


def _judge_compose_keys(config: ConfigBlock) -> Iterator[Remark]:
    for entry in config.entries:
        if len(entry.path) != 2 or entry.path[0] != "services" or entry.name in name_tables.load_keys("service"):
            continue
        meant = find_similar_name(entry.name, name_tables.load_keys("service"), 0.8)
        if meant and not entry.name.startswith("x-"):
            seen = _("compose services have no key {name}: compose rejects the file", name=entry.name)
            yield fail(
                make_key_place(entry),
                seen,
                _("Did you mean {meant}?", meant=meant),
                replace_span(make_key_place(entry), meant),
            )


_READERS = {"deepspeed": _judge_deepspeed_keys, "compose": _judge_compose_keys}

_REQUEST = re.compile(
    rb"""(?m)^[ \t]*["']?([a-z0-9.-]+\.[a-z]+/[\w.-]+)["']?[ \t]*:[ \t]*["']?\d{1,4}["']?,?[ \t\r]*$"""
)
_PARENT = re.compile(rb"""([ \t-]*)["']?([\w./-]+)["']?[ \t]*:""")
_REACH = 200  # lines above a key in which those that contain it are searched


def find_unknown_resources(context: LintContext) -> Iterator[Remark]:
    """Find requests for cards under a name that no device plugin has: the pod stays pending."""
    usual, others = list_kubernetes_resources()
    known = usual | others
    for config in context.configs:
        for match in _REQUEST.finditer(config.block.raw) if config.family == "kubernetes" else ():
            name = match[1].decode()
            meant = "" if name in known else find_similar_name(name, usual, 0.9)
            if not meant or _list_parents(config.block.raw, match.start(1)) not in _REQUESTS:
                continue
            start, end = (config.block.map_to_file(at) for at in match.span(1))
            place = ShellWord(name, start, end)
            do = _("Did you mean {meant}?", meant=meant)
            if _fold_name(name) == _fold_name(meant):
                seen = _("no node offers the resource {name}: the pod stays pending", name=name)
                yield fail(place, seen, do, replace_span(place, meant))
            else:
                yield unknown(place, _("cannot determine whether a node offers the resource {name}", name=name), do)


_REQUESTS = ([b"limits", b"resources"], [b"requests", b"resources"])


def _list_parents(raw: bytes, at: int) -> list[bytes]:
    """The two keys that contain the one at `at`, the nearest first, by the indentation of the lines above it."""
    end = raw.rfind(b"\n", 0, at) + 1
    indent, keys = at - end, list[bytes]()
    for _unused in range(_REACH):
        start = raw.rfind(b"\n", 0, max(0, end - 1)) + 1
        above = _PARENT.match(raw, start, end)
        if above and len(above[1]) < indent:
            keys.append(above[2])
            indent = len(above[1])
        if len(keys) == 2 or start == 0:
            break
        end = start
    return keys


def _fold_name(name: str) -> str:
    """The name without what typists add: capitals, doubled letters, a plural."""
    return re.sub(r"([a-z])\1+", r"\1", name.lower().removesuffix("s"))


def find_numbers_read_as_text(context: LintContext) -> Iterator[Remark]:
    """Find numbers such as 1e-5, which YAML 1.1 reads as text because the point is missing.

    OmegaConf, pydantic and ms-swift's command line read them as numbers; LLaMA-Factory only since it has OmegaConf.
    """
    for config in context.configs:
        row = find_config_program(config)
        reads = config.family == "swift" or (row is not None and bool(_NUMERIC_PARSERS.search(row.parser)))
        if config.block.kind != "yaml" or (reads and config.family != "llamafactory"):
            continue
        for entry in config.entries:
            if entry.kind == "str" and entry.values and re.fullmatch(r"[-+]?\d+[eE][-+]?\d+", entry.values[0]):
                if entry.value_end - entry.value_start != len(entry.values[0]):
                    continue  # quoted: text is intended
                mantissa, _unused, exponent = entry.values[0].lower().partition("e")
                signed = exponent if exponent[:1] in "+-" else f"+{exponent}"
                fixed = f"{mantissa}.0e{signed}"
                place = ShellWord("", entry.value_start, entry.value_end)
                seen = _(
                    "PyYAML reads {values} as text because the decimal point is missing; some trainers reject it",
                    values=entry.values[0],
                )
                fix = TextFix(((entry.value_start, entry.value_end, fixed),))
                build = note if row is None or reads else warn
                yield build(place, seen, _("Write {fixed}.", fixed=fixed), fix)


_NUMERIC_PARSERS = re.compile("OmegaConf|Hydra|pydantic")
_TEMPLATES = (("llama-3", ("llama3", "mllama")), ("qwen", ("qwen",)), ("gemma", ("gemma",)), ("glm-4", ("glm",)))
_ANY = ("default", "empty", "alpaca", "chatml", "vanilla", "fewshot", "intern")


def find_wrong_template(context: LintContext) -> Iterator[Remark]:
    """Find chat templates of LLaMA-Factory that belong to another model family."""
    for model, chosen in _list_templates(context):
        name, style = model.lower(), chosen.text.lower()
        for family, styles in _TEMPLATES:
            if (
                family in name.rpartition("/")[2]
                and not style.startswith((*styles, *_ANY))
                and not re.search(r"deepseek|distill", name)
            ):
                seen = _("template {style} does not fit a model of the {family} family", style=style, family=family)
                yield warn(
                    chosen, seen, _("Use {styles}, or the template in the model's documentation.", styles=styles[0])
                )
                break


def _list_templates(context: LintContext) -> Iterator[tuple[str, ShellWord]]:
    """Model and template of each configuration and command line."""
    for config in context.configs:
        model, chosen = config.find_entry("model_name_or_path"), config.find_entry("template")
        if config.family == "llamafactory" and model and chosen and model.values and chosen.values:
            yield model.values[0], ShellWord(chosen.values[0], chosen.value_start, chosen.value_end)
    for job in context.jobs:
        given, style = job.find_option("model_name_or_path"), job.find_option("template")
        if job.launcher.name == "llamafactory-cli" and given and style and given.value and style.values:
            yield given.value, style.values[0]
