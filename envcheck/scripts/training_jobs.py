"""The training jobs that a script starts: launcher and its options, program and its options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.launcher import Launcher
from envcheck.core.lint.script_model import CONFIG_SUFFIXES, UNKNOWN, ConfigBlock, ShellCommand, ShellScript, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import strip_wrappers
from envcheck.scripts.launchers import ACCELERATE, CARRIERS, KIT_PROGRAMS, LAUNCHERS, NO_LAUNCHER
from envcheck.scripts.parse_options import parse_options, read_config_options

_PYTHON = re.compile(r"python(\d(\.\d+)?)?")
_TRAINS = re.compile(
    r"(^|[_/.-])(pre)?train|finetun|fine_tun|_sft|_dpo|^sft|^dpo|run_clm|pretrain_|posttrain|rlhf|_lora"
)
_USUAL = frozenset(
    [
        "max_steps",
        "num_train_epochs",
        "learning_rate",
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "model_name_or_path",
        "output_dir",
        "save_steps",
        "lr",
        "train_iters",
        "micro_batch_size",
        "tensor_model_parallel_size",
        "deepspeed",
    ]
)
_VERBS = (
    "sft",
    "pt",
    "rlhf",
    "infer",
    "train",
    "chat",
    "export",
    "eval",
    "deploy",
    "api",
    "webchat",
    "web-ui",
    "server",
)


def find_jobs(script: ShellScript, configs: Sequence[ConfigBlock]) -> list[TrainingJob]:
    """Return the training jobs that the commands of a script start."""
    return [job for command in script.commands for job in _read_jobs(script, command, configs)]


def find_first_jobs(
    scripts: Iterable[ShellScript], configs: Sequence[ConfigBlock], most: int
) -> tuple[list[TrainingJob], int]:
    """Return the first jobs that scripts start, and how many more there are, which costs less than to read them."""
    found: list[TrainingJob] = []
    left = 0
    for script, command in ((each, command) for each in scripts for command in each.commands):
        if len(found) < most:
            found += _read_jobs(script, command, configs)
        else:
            left += _starts_job(script, command)
    return found, left


def _starts_job(script: ShellScript, command: ShellCommand) -> bool:
    started = _find_launcher(command)
    if started is None:
        return False
    launcher = started[0]
    return bool(launcher.program and launcher.name != "python") or any(_read_jobs(script, command, ()))


def make_config_job(config: ConfigBlock) -> TrainingJob:
    """Return the job that a configuration alone describes."""
    entry = config.entries[0]
    command = ShellCommand((), entry.start, entry.end)
    given = tuple(read_config_options(config))
    if config.family == "accelerate":  # the launcher's file: the training is defined elsewhere
        return TrainingJob(ShellScript(config.block), command, ACCELERATE, given, None, (), "train", config)
    return TrainingJob(ShellScript(config.block), command, NO_LAUNCHER, (), None, given, "train", config)


def _find_launcher(command: ShellCommand) -> tuple[Launcher, int, Sequence[ShellWord]] | None:
    """The launcher of a command, how many words name it, and the words from there on."""
    words = strip_wrappers(command.words)
    found = _match_launcher(words)
    if found is None and words and words[0].text.rpartition("/")[2] in CARRIERS:
        for at in range(1, len(words)):
            found = _match_launcher(words[at:], carried=True)
            if found is not None:
                words = words[at:]
                break
    return None if found is None else (*found, words)


def _read_jobs(script: ShellScript, command: ShellCommand, configs: Sequence[ConfigBlock]) -> Iterator[TrainingJob]:
    started = _find_launcher(command)
    if started is None:
        return
    launcher, length, words = started
    rest = words[length:]
    if launcher.program:
        job = _read_program_job(script, command, launcher, rest, words[length - 1])
        yield from [_add_config(job, rest, configs)] if job else []
    else:
        verb = rest[0].text if rest and rest[0].text in _VERBS else ""
        if rest and not verb and not rest[0].text.startswith("-") and rest[0].is_known:
            return  # llamafactory-cli env, swift --version: not a training
        yield _add_config(TrainingJob(script, command, launcher, (), None, tuple(parse_options(rest)), verb,
                              open=_has_unknown_words(rest), at=words[0]), rest, configs)  # fmt: skip


def _match_launcher(words: Sequence[ShellWord], carried: bool = False) -> tuple[Launcher, int] | None:
    """The launcher of a command, and how many words name it."""
    shift = 0
    texts = [
        _PYTHON.sub("python", word.text.rpartition("/")[2]) if i == 0 else word.text for i, word in enumerate(words[:4])
    ]
    if texts and _PYTHON.fullmatch(words[0].text.rpartition("/")[2]):
        while len(texts) > 1 and texts[1] in ("-u", "-B", "-O", "-s", "-E", "-I"):  # python -u -m ...
            texts.pop(1)
            shift += 1
    for launcher in LAUNCHERS:
        for names in launcher.words:
            if tuple(texts[: len(names)]) == names and not (carried and launcher.name == "python"):
                return launcher, len(names) + shift
    return None


def _read_program_job(
    script: ShellScript, command: ShellCommand, launcher: Launcher, rest: Sequence[ShellWord], at: ShellWord
) -> TrainingJob | None:
    """A job whose program is named by an option of the launcher, or after its options."""
    cut, takes = 0, False
    for cut, word in enumerate([*rest, ShellWord("", 0, 0)]):
        if cut == len(rest):
            break
        if takes:
            takes = False
        elif word.text.startswith("-"):
            name = launcher.short.get(word.text, word.text).lstrip("-").partition("=")[0].replace("-", "_")
            flag = launcher.expand_abbreviation(name) in launcher.flags
            takes = "=" not in word.text and not flag and word.text not in launcher.modules
            if launcher.name == "python":
                takes = False
        elif not word.many and not _is_rest_of_value(rest, cut):
            break
    program = rest[cut] if cut < len(rest) else None
    short = launcher.short
    own = [replace(word, text=short[word.text]) if word.text in short else word for word in rest[:cut]]
    after = list(rest[cut + 1 :])
    if launcher.name == "python" and not _looks_like_training(program, after):
        return None
    return TrainingJob(
        script,
        command,
        launcher,
        tuple(_expand_abbreviation(launcher, given) for given in parse_options(own)),
        program,
        tuple(parse_options(after)),
        open=_has_unknown_words([*own, *after]),
        at=at,
    )


_BARE = re.compile(r"[A-Za-z_]+")


def _is_rest_of_value(rest: Sequence[ShellWord], at: int) -> bool:
    """Whether a word is the rest of an option's value with blanks, as in templates: --master_addr the master's address.

    A launcher's options end at its program, so that a bare word would be the program.  It is not if a Python file comes
    later, after further options: these would be the program's own, and a program has no other program as an argument
    between its options.
    """
    if not _BARE.fullmatch(rest[at].text) or at == 0 or rest[at - 1].text in ("-m", "--module"):
        return False
    later = [word.text for word in rest[at + 1 :]]
    program = next((n for n, text in enumerate(later) if text.endswith(".py")), 0)
    return any(text.startswith("--") for text in later[:program])


def _expand_abbreviation(launcher: Launcher, given: GivenOption) -> GivenOption:
    """An abbreviated option under its full name."""
    whole = launcher.expand_abbreviation(given.python_name)
    return given if whole == given.python_name else replace(given, name=whole, written=given.name)


def _looks_like_training(program: ShellWord | None, after: Sequence[ShellWord]) -> bool:
    """A plain python command is a training by its program's name or its options."""
    if program is None or program.text in ("pip", "setup.py") or program.text == UNKNOWN:
        return False
    if any(pattern.search(program.text) for pattern, _ in KIT_PROGRAMS):
        return True
    usual = {each.python_name for each in parse_options(after)} & _USUAL
    name = program.text.rpartition("/")[2]
    return (name.endswith((".py",)) and (bool(_TRAINS.search(name)) or len(usual) > 1)) or len(usual) > 2


def _add_config(job: TrainingJob, rest: Sequence[ShellWord], configs: Sequence[ConfigBlock]) -> TrainingJob:
    """Add the options file, if the same document writes it."""
    names = [word.text.rpartition("/")[2] for word in rest if word.text.endswith(CONFIG_SUFFIXES)]
    for config in configs:
        if config.file and config.file.rpartition("/")[2] in names and not job.options:
            return replace(job, config=config, options=tuple(read_config_options(config)))
    return job


def _has_unknown_words(words: Sequence[ShellWord]) -> bool:
    """Unknown words may contain options; the word after an option is its value."""
    before = ["", *(word.text for word in words)]
    return any(word.many and not before[n].startswith("--") for n, word in enumerate(words))
