"""The trainings that a script starts: launcher, what it is told, the program, its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from envcheck.core.lint.model import UNKNOWN, Command, Config, Script, Word
from envcheck.scripts import options
from envcheck.scripts.launchers import ACCELERATE, ALONE, BEHIND, CARRIERS, LAUNCHERS, Launcher
from envcheck.scripts.options import Given
from envcheck.scripts.wrappers import unwrapped

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
MSRUN_DEFAULT = "8"  # of both, MindSpore's documentation
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


@dataclass(frozen=True)
class Job:
    """`own` are the launcher's options, `options` the program's, from the command line or, `config`, from a file."""

    script: Script
    command: Command
    launcher: Launcher
    own: tuple[Given, ...]
    program: Word | None
    options: tuple[Given, ...]
    verb: str = ""
    config: Config | None = None
    open: bool = False
    at: Word | None = None  # the launcher's word
    lent: tuple[Given, ...] = ()  # of the file beside the script that `lender` names
    lender: Word | None = None

    @property
    def start(self) -> int:
        return self.at.start if self.at else self.command.start

    @property
    def end(self) -> int:
        return self.at.end if self.at else self.command.end

    @property
    def trains(self) -> bool:
        return self.verb not in ("infer", "chat", "export", "eval", "deploy", "api", "webchat", "web-ui", "server")

    def option(self, *names: str) -> Given | None:
        return options.last(self.options, *names)

    def given(self, *names: str) -> Given | None:
        """As `option`, also of a file that lies beside the script."""
        return self.option(*names) or options.last(self.lent, *names)

    def told(self, role: str) -> Word | None:
        """What the launcher is told: by an option, else by a variable that the script exports."""
        given = options.last(self.own, *self.launcher.options.get(role, ()))
        if given is not None:
            return given.values[-1] if given.values else Word("", given.start, given.end)
        names = self.launcher.variables.get(role, ())
        return next((self.command.environment[name] for name in names if name in self.command.environment), None)

    def says(self, *names: str) -> Given | None:
        return options.last(self.own, *names)

    @property
    def nodes(self) -> int | None:
        """How many, where the script says so; None where it may be any number."""
        if self.launcher.options.get("world"):
            return self._shared_out
        told = self.told("nodes")
        if told is None:
            return None if self.open else 1
        text = told.text.partition(":")[0]
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def _shared_out(self) -> int | None:
        """As `nodes`, by the processes of all nodes and those of one."""
        told = [self.told("world"), self.told("processes")]
        texts = [(each.plain or "") if each else MSRUN_DEFAULT for each in told]
        if self.open or not all(re.fullmatch(r"[0-9]{1,6}", text) for text in texts):
            return None
        world, own = map(int, texts)
        return max(1, world // own) if own else None

    @property
    def devices(self) -> Word | None:
        """The list of devices: of the launcher, else of the variable that it reads."""
        return self.told("devices")

    @property
    def processes(self) -> int | None:
        """On each node, where the script says so."""
        told = self.told("processes")
        if told is not None and told.text.isascii() and told.text.isdigit():
            count, nodes = int(told.text), self.nodes
            if not self.launcher.total_processes:
                return count
            return count // nodes if nodes else None
        listed = self.devices
        if told is None and listed is not None and re.fullmatch(r"\d+(,\d+)*", listed.text):
            return listed.text.count(",") + 1
        return None

    @property
    def world(self) -> int | None:
        nodes, processes = self.nodes, self.processes
        return nodes * processes if nodes and processes else None


def jobs_of(script: Script, configs: Sequence[Config]) -> list[Job]:
    return [job for command in script.commands for job in _job(script, command, configs)]


def alone(config: Config) -> Job:
    """The training that a configuration describes, started from elsewhere."""
    entry = config.entries[0]
    command = Command((), entry.start, entry.end)
    if config.family == "accelerate":  # the launcher's file: the training stands elsewhere
        own = tuple(options.of_config(config))
        return Job(Script(config.block), command, ACCELERATE, own, None, (), "train", config)
    return Job(Script(config.block), command, ALONE, (), None, tuple(options.of_config(config)), "train", config)


def _job(script: Script, command: Command, configs: Sequence[Config]) -> Iterator[Job]:
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
        yield _configured(Job(script, command, launcher, (), None, tuple(options.given(rest)), verb,
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


def _programmed(script: Script, command: Command, launcher: Launcher, rest: Sequence[Word], at: Word) -> Job | None:
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
    return Job(
        script,
        command,
        launcher,
        tuple(_whole(launcher, given) for given in options.given(own)),
        program,
        tuple(options.given(after)),
        open=_open([*own, *after]),
        at=at,
    )


def _whole(launcher: Launcher, given: Given) -> Given:
    """An option that is abbreviated under its own name."""
    whole = launcher.whole(given.plain)
    return given if whole == given.plain else replace(given, name=whole, written=given.name)


def _looks(program: Word | None, after: Sequence[Word]) -> bool:
    """A plain python is a training by its program's name or by the options that it is given."""
    if program is None or program.text in ("pip", "setup.py") or program.text == UNKNOWN:
        return False
    if any(pattern.search(program.text) for pattern, _ in BEHIND):
        return True
    usual = {each.plain for each in options.given(after)} & _USUAL
    name = program.text.rpartition("/")[2]
    return (name.endswith((".py",)) and (bool(_TRAINS.search(name)) or len(usual) > 1)) or len(usual) > 2


def _configured(job: Job, rest: Sequence[Word], configs: Sequence[Config]) -> Job:
    """With the file of options that it is given, where the same document writes it."""
    names = [word.text.rpartition("/")[2] for word in rest if word.text.endswith((".yaml", ".yml", ".json"))]
    for config in configs:
        if config.file and config.file.rpartition("/")[2] in names and not job.options:
            return replace(job, config=config, options=tuple(options.of_config(config)))
    return job


def _open(words: Sequence[Word]) -> bool:
    """Words that cannot be seen may bring options; the one word behind an option is its value."""
    before = ["", *(word.text for word in words)]
    return any(word.many and not before[n].startswith("--") for n, word in enumerate(words))
