"""Rules about paths that a script needs: programs, data, models, folders."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, find_similar_name, format_names, unknown_here, warn, warn_or_fail
from envcheck.core.lint.script_model import UNKNOWN, Remark, ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import REMOTE, program_name, strip_wrappers
from envcheck.core.messages import _, verbatim
from envcheck.scripts.companion_config import is_start_folder_known, list_config_words, list_named_configs
from envcheck.scripts.made_paths import is_made_by_script, list_makers
from envcheck.scripts.vendor_words import list_vendor_tools, load_vendor_words

_DATA = (
    "train_dataset_path",
    "eval_dataset_path",
    "dataset_dir",
    "data_path",
    "train_file",
    "validation_file",
    "deepspeed",
    "config_file",
    "tokenizer_model",
)
# A path if the value begins with a slash; otherwise it may be a name on a hub.
_MODELS = ("model_name_or_path", "model", "model_path", "adapter_name_or_path", "resume_from_checkpoint")


def find_wrong_clone_folder(context: LintContext) -> Iterator[Remark]:
    """Find cd into a folder that no clone creates."""
    made: dict[str, str] = {}
    for script in context.scripts:
        for command in script.commands:
            words = strip_wrappers(command.words)
            texts = [word.text for word in words]
            if program_name(command) == "git" and "clone" in texts:
                arguments = [t for t in texts[texts.index("clone") + 1 :] if not t.startswith("-") and t != "--"]
                urls = [t for t in arguments if "/" in t or t.endswith(".git")]
                if urls:
                    at = arguments.index(urls[0])
                    folder = arguments[at + 1] if at + 1 < len(arguments) else urls[0]
                    made[folder.rstrip("/").rpartition("/")[2].removesuffix(".git")] = urls[0]
            elif program_name(command) in ("mkdir", "tar", "unzip", "cp", "mv", "ln", "curl", "wget"):
                made |= {t.rstrip("/").rpartition("/")[2]: "" for t in texts[1:]}
            elif program_name(command) == "cd" and len(words) > 1:
                yield from _judge_entered_folder(context, script, words[-1], command.cwd, made, command.guarded)


def _judge_entered_folder(
    context: LintContext, script: ShellScript, word: ShellWord, cwd: str, made: dict[str, str], guarded: bool
) -> Iterator[Remark]:
    text = word.text
    if not word.is_known or text.startswith(("/", "~", ".", "-")) or not text or guarded:
        return
    first = text.split("/")[0]
    clones = [name for name, url in made.items() if url]
    if first in made:
        return
    meant = next(
        (
            name
            for name in clones
            if name.lower() == first.lower() or find_similar_name(first.lower(), frozenset({name.lower()}), 0.75)
        ),
        "",
    )
    if meant:
        yield fail(
            word,
            _("no clone creates {first}; did you mean {meant}?", first=first, meant=meant),
            verbatim(f"cd {meant}"),
        )
    elif context.document and not cwd and context.machine.path_exists(text) is not True:
        known = find_similar_name(
            first.lower(), frozenset({"erniekit", "ernie", "llama-factory", "ms-swift", "paddleformers"}), 0.75
        )
        if known and known != first.lower():
            seen = _(
                "nothing in the document creates the directory {first}; did you mean {known}?",
                first=first[:60],
                known=known,
            )
        else:
            seen = _("nothing in the document creates the directory {first}", first=first[:60])
        yield warn(word, seen, _("Run git clone first, then cd to the clone."))


def _list_needed_files(context: LintContext, job: TrainingJob) -> Iterator[tuple[str, ShellWord]]:
    if job.launcher.program and job.program is not None and job.program.text.endswith(".py"):
        yield job.program.text, job.program
    for name in _DATA:
        given = job.find_option(name)
        for word in given.values if given else ():
            for part in word.text.split(","):
                if ("/" in part.strip("./") and not re.match(r"[\w.-]+/[\w.-]+$", part)) or part.endswith(
                    (".json", ".jsonl", ".yaml", ".txt")
                ):
                    yield part.strip(), word
    named = {word.text for name in _DATA if (given := job.find_option(name)) for word in given.values}
    for word in list_named_configs(job, context.machine.find_file):
        if word.text not in named and is_start_folder_known(job, word):
            yield word.text, word
    for name in _MODELS:
        given = job.find_option(name)
        yield from ((word.text, word) for word in (given.values if given else ()) if word.text.startswith("/"))
    preload = job.command.environment.get("LD_PRELOAD")
    for part in re.split(r"[ :]", preload.text) if preload else ():
        if part.startswith("/") and preload:
            yield part, preload


_FOLDERS_ABOVE = 7  # of a configuration; those of the frameworks' examples are three folders deep
_FROM_THE_PROJECT = _("cd to the project first, download the data, or use an absolute path.")


def find_missing_files(context: LintContext) -> Iterator[Remark]:
    """Find files of a training that do not exist, except those that the script creates or tests for."""
    makers = {
        id(script): list_makers(script) for script in {id(job.script): job.script for job in context.jobs}.values()
    }
    for job in context.jobs:
        if job.command.elsewhere or (job.command.words and job.command.name in REMOTE):
            continue
        gone: list[tuple[str, ShellWord]] = []
        doubtful: list[tuple[str, ShellWord]] = []
        for path, word in _list_needed_files(context, job):
            if not job.launcher.name and not path.startswith("/") and not _is_absent_config(context, job, path):
                continue  # a configuration alone: the start folder is unknown
            if (
                UNKNOWN in path
                or not path
                or path.startswith(("http", "s3://", "hf://"))
                or is_made_by_script(job.script, makers[id(job.script)], path)
            ):
                continue
            there = context.machine.path_exists(path, job.command.cwd)
            if there is False and context.is_for_this_machine:
                gone.append((path, word))
            elif there is False or (there is None and not context.machine.live):
                doubtful.append((path, word))
        if gone:
            names = format_names(path for path, _unused in gone)
            where = _("under this directory") if not gone[0][0].startswith("/") else _("on this machine")
            yield warn(
                gone[0][1],
                _("not found {where}: {names}", where=where, names=names),
                _FROM_THE_PROJECT,
            )
        if doubtful and context.machine.gather is not None:
            yield _doubt_path(context, doubtful[0][1], format_names(p for p, _unused in doubtful))


def _is_absent_config(context: LintContext, job: TrainingJob, path: str) -> bool:
    """Whether a configuration alone names another one that no folder above it has: the job may start in any of them."""
    if context.machine.folder is None:
        return False  # a text without a place
    named = {word.text for word in list_config_words(job)}
    return path in named and not any(context.machine.path_exists("../" * up + path) for up in range(_FOLDERS_ABOVE))


def _doubt_path(context: LintContext, word: ShellWord, names: str) -> Remark:
    seen = _("cannot check {doubtful}: {unasked}", unasked=context.unknown_reason, doubtful=names)
    return unknown_here(word, seen, _("Run envcheck lint on the machine that runs the script."))


_MAKES = ("mkdir", "install", "cp", "mv", "git", "tar", "unzip", "ln", "rsync")


def find_missing_log_folder(context: LintContext) -> Iterator[Remark]:
    """Find logs in folders that do not exist: the shell cannot open the log and does not start the command."""
    makers: dict[int, tuple[list[ShellCommand], list[ShellCommand]]] = {}
    for job in context.jobs:
        command, script = job.command, job.script
        if (
            not context.is_for_this_machine
            or context.document
            or command.elsewhere
            or script.opaque
            or not script.block.is_script
        ):
            continue
        if id(script) not in makers:  # cached for scripts with a thousand trainings
            makers[id(script)] = (list(_find_commands(script, _MAKES)), list(_find_commands(script, ("tee",))))
        makes, tees = makers[id(script)]
        targets = [(r.target, True) for r in command.redirects if r.target is not None and ">" in r.text]
        piped = (c for c in tees if command.pipeline and c.pipeline == command.pipeline)
        targets += [(word, False) for each in piped for word in each.words[1:] if not word.text.startswith("-")]
        for word, starts in targets:
            folder = word.text.rpartition("/")[0]
            before = (c for c in makes if c.order < command.order)
            made = any(_makes_folder(folder, each.text) for c in before for each in c.words)
            if folder and not made and context.machine.path_exists(folder, command.cwd) is False:
                if starts:
                    seen = _(
                        "{folder} does not exist and is not created here: the shell cannot open the log and does not "
                        "start the command",
                        folder=folder[:80],
                    )
                else:
                    seen = _("{folder} does not exist and is not created here: tee writes no log", folder=folder[:80])
                yield warn_or_fail(starts, word, seen, verbatim(f"mkdir -p {folder[:80]}"))


def _find_commands(script: ShellScript, names: Container[str]) -> Iterator[ShellCommand]:
    return (command for command in script.commands if program_name(command) in names)


def _makes_folder(folder: str, made: str) -> bool:
    """Whether the command creates the folder, or one below it."""
    plain = made.rstrip("/").removeprefix("./")
    return plain == folder.removeprefix("./") or plain.startswith(f"{folder.removeprefix('./')}/")


def find_missing_sourced_file(context: LintContext) -> Iterator[Remark]:
    """Find missing files in `source`: the script ends under set -e, and otherwise continues without them."""
    for script, command in context.find_commands("source", "."):
        if command.elsewhere:
            continue
        word = command.words[1] if len(command.words) > 1 else None
        if (
            word is None
            or not word.is_known
            or "/" not in word.text  # otherwise it is searched on PATH
            or word.text in script.tested
            or command.guarded
            or command.branch
        ):
            continue
        there = context.machine.path_exists(word.text, command.cwd)
        if context.is_for_this_machine is False and word.text.startswith("/"):
            continue  # such as the vendor's own files
        if there is False and word.text.startswith("/"):
            do = _("Install the package that provides it, or correct the path.")
            yield warn_or_fail("errexit" in command.shell, word, _("{path} does not exist", path=word.text[:100]), do)
        elif there is False and not (
            context.document or word.text.startswith("~") or is_made_by_script(script, list_makers(script), word.text)
        ):
            if context.is_for_this_machine is False:
                yield _doubt_path(context, word, word.text[:100])
                continue
            yield warn(word, _("{path} does not exist under this directory", path=word.text[:100]), _FROM_THE_PROJECT)


def find_upward_program_path(context: LintContext) -> Iterator[Remark]:
    """Find program paths relative to parent folders: valid from one folder only."""
    for job in context.jobs:
        word = job.program
        if word is not None and word.text.startswith("../../") and not job.command.cwd:
            yield warn(
                word,
                _(
                    "{path} depends on the directory the script is started from; no cd sets it",
                    path=word.text[:60],
                ),
                _('Run cd "$(dirname "$0")" first, or use an absolute path.'),
            )


def find_missing_project_clone(context: LintContext) -> Iterator[Remark]:
    """Find documents that use a project's files without a step that provides the project."""
    if not context.document or any(
        program_name(c) == "cd" or "clone" in c.list_texts() for _unused, c in context.find_commands()
    ):
        return
    image = any("run" in c.list_texts()[:3] for _unused, c in context.find_commands("docker", "podman"))
    for job in context.jobs:
        word = job.program
        if (
            word is not None
            and re.match(r"(examples|scripts|tools)/", word.text)
            and context.machine.path_exists(word.text) is not True
        ):
            path = word.text[:60]
            if image:
                seen = _("{path} belongs to a project, but the document neither clones it nor enters it", path=path)
            else:
                seen = _("{path} belongs to a project that the document does not clone", path=path)
            yield warn(word, seen, _("Run git clone for the project at a pinned commit, then cd to it."))
            return


def find_unknown_tool(context: LintContext) -> Iterator[Remark]:
    """Find vendor tools with unknown names."""
    tools = frozenset(list_vendor_tools())
    begins = "|".join(prefix for words in load_vendor_words().values() for prefix in words.tool_prefixes)
    for _unused, command in context.find_commands():
        name = program_name(command)
        if name not in tools and re.match(rf"({begins})[-_]", name) and (meant := find_similar_name(name, tools, 0.6)):
            yield warn(
                command.words[0],
                _("{name} is not a tool of the driver or the toolkit", name=name),
                _("Did you mean {meant}?", meant=meant),
            )
