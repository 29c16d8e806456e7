"""The trainings that a script starts: launcher, what it is told, the program, its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from envcheck.core.lint.given_options import GivenOption
from envcheck.core.lint.launcher import Launcher
from envcheck.core.lint.model import UNKNOWN, Command, Config, Script, Word
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import unwrapped
from envcheck.scripts.launchers import ACCELERATE, ALONE, BEHIND, CARRIERS, LAUNCHERS
from envcheck.scripts.parse_options import options_of_config, parse_options

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


def jobs_of(script: Script, configs: Sequence[Config]) -> list[TrainingJob]:
    return [job for command in script.commands for job in _job(script, command, configs)]


def alone(config: Config) -> TrainingJob:
    """The training that a configuration describes, started from elsewhere."""
    entry = config.entries[0]
    command = Command((), entry.start, entry.end)
    given = tuple(options_of_config(config))
    if config.family == "accelerate":  # the launcher's file: the training stands elsewhere
        return TrainingJob(Script(config.block), command, ACCELERATE, given, None, (), "train", config)
    return TrainingJob(Script(config.block), command, ALONE, (), None, given, "train", config)


def _job(script: Script, command: Command, configs: Sequence[Config]) -> Iterator[TrainingJob]:
    words = unwrapped(command.words)
    found = _launcher(words)
    if found is None and words and words[0].text.rpartition("/")[2] in CARRIERS:
        for at in range(1, len(words)):
            found = _launcher(words[at:], carried=True)
            if found is not None:
                words = words[at:]
                break
    if found is None:
        return
    launcher, length = found
    rest = words[length:]
    if launcher.program:
        job = _programmed(script, command, launcher, rest, words[length - 1])
        yield from [_configured(job, rest, configs)] if job else []
    else:
        verb = rest[0].text if rest and rest[0].text in _VERBS else ""
        if rest and not verb and not rest[0].text.startswith("-") and rest[0].known:
            return  # llamafactory-cli env, swift --version: no training
        yield _configured(TrainingJob(script, command, launcher, (), None, tuple(parse_options(rest)), verb,
                              open=_open(rest), at=words[0]), rest, configs)  # fmt: skip


def _launcher(words: Sequence[Word], carried: bool = False) -> tuple[Launcher, int] | None:
    """Whose command it is, and how many words name it."""
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


def _programmed(
    script: Script, command: Command, launcher: Launcher, rest: Sequence[Word], at: Word
) -> TrainingJob | None:
    """A job whose launcher is told of a program behind its own options."""
    cut, takes = 0, False
    for cut, word in enumerate([*rest, Word("", 0, 0)]):
        if cut == len(rest):
            break
        if takes:
            takes = False
        elif word.text.startswith("-"):
            name = word.text.lstrip("-").partition("=")[0].replace("-", "_")
            flag = launcher.whole(name) in launcher.flags
            takes = "=" not in word.text and not flag and word.text not in launcher.modules
            if launcher.name == "python":
                takes = False
        elif not word.many:
            break
    program = rest[cut] if cut < len(rest) else None
    own = [replace(word, text=launcher.short.get(word.text, word.text)) for word in rest[:cut]]
    after = list(rest[cut + 1 :])
    if launcher.name == "python" and not _looks(program, after):
        return None
    return TrainingJob(
        script,
        command,
        launcher,
        tuple(_whole(launcher, given) for given in parse_options(own)),
        program,
        tuple(parse_options(after)),
        open=_open([*own, *after]),
        at=at,
    )


def _whole(launcher: Launcher, given: GivenOption) -> GivenOption:
    """An option that is abbreviated under its own name."""
    whole = launcher.whole(given.plain)
    return given if whole == given.plain else replace(given, name=whole, written=given.name)


def _looks(program: Word | None, after: Sequence[Word]) -> bool:
    """A plain python is a training by its program's name or by the options that it is given."""
    if program is None or program.text in ("pip", "setup.py") or program.text == UNKNOWN:
        return False
    if any(pattern.search(program.text) for pattern, _ in BEHIND):
        return True
    usual = {each.plain for each in parse_options(after)} & _USUAL
    name = program.text.rpartition("/")[2]
    return (name.endswith((".py",)) and (bool(_TRAINS.search(name)) or len(usual) > 1)) or len(usual) > 2


def _configured(job: TrainingJob, rest: Sequence[Word], configs: Sequence[Config]) -> TrainingJob:
    """With the file of options that it is given, where the same document writes it."""
    names = [word.text.rpartition("/")[2] for word in rest if word.text.endswith((".yaml", ".yml", ".json"))]
    for config in configs:
        if config.file and config.file.rpartition("/")[2] in names and not job.options:
            return replace(job, config=config, options=tuple(options_of_config(config)))
    return job


def _open(words: Sequence[Word]) -> bool:
    """Words that cannot be seen may bring options; the one word behind an option is its value."""
    before = ["", *(word.text for word in words)]
    return any(word.many and not before[n].startswith("--") for n, word in enumerate(words))
