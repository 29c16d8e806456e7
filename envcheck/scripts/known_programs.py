"""The trainers that scripts start and configurations belong to: how each is recognised, and what parses its options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from envcheck.core.lint.script_model import ConfigBlock, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.lint.wrappers import strip_wrappers
from envcheck.core.messages import mark
from envcheck.scripts.launchers import CARRIERS, LAUNCHERS

# What envcheck does not compare with a program.
OPTIONS = mark("options of {program}")
KEYS = mark("keys of {program}")
OVERRIDES = mark("overrides KEY=VALUE of {program}")
HYDRA = mark("Hydra overrides of {program}")
_HF = "HfArgumentParser"
_OMEGA = f"OmegaConf, {_HF}"
_PADDLE = "YAML, PdArgumentParser"


@dataclass(frozen=True)
class KnownProgram:
    """A trainer: `command` is a pattern of its command and verb, `file` of its file or module; `families` are those of
    its configurations.

    With `switch`, it is meant only if that variable is on; of two rows with the same pattern the first one applies.
    `unchecked` is what envcheck does not compare with the program, of a command; `unchecked_keys` of a configuration.
    """

    name: str
    parser: str
    command: str = ""
    file: str = ""
    families: tuple[str, ...] = ()
    switch: str = ""
    unchecked: tuple[str, ...] = ()
    unchecked_keys: tuple[str, ...] = ()


PROGRAMS = (
    KnownProgram(
        "LLaMA-Factory v1", _OMEGA, r"(?:llamafactory-cli|lmf) \w+", r"llamafactory/v1/launcher\.py$",
        ("llamafactory-v1",), "USE_V1", (KEYS, OVERRIDES), (KEYS,),
    ),
    KnownProgram(
        "LLaMA-Factory with mcore_adapter", _OMEGA, r"(?:llamafactory-cli|lmf) train", "", (), "USE_MCA",
        (KEYS, OVERRIDES),
    ),
    KnownProgram(
        "LLaMA-Factory with Megatron Bridge", _OMEGA, r"(?:llamafactory-cli|lmf) train", "", (),
        "USE_MEGATRON_BRIDGE", (KEYS, OVERRIDES),
    ),
    KnownProgram(
        "LLaMA-Factory", _OMEGA, r"(?:llamafactory-cli|lmf) [\w-]+",
        r"(?:^|[/.])llamafactory[/.]launcher(?:\.py)?$", ("llamafactory",), "", (OVERRIDES,),
    ),
    KnownProgram(
        "Megatron-SWIFT", _HF, r"megatron \w+", r"(?:^|[/.])swift[/.]cli[/.]_megatron[/.]\w+(?:\.py)?$",
        unchecked=(OPTIONS,),
    ),
    KnownProgram(
        "ms-swift", f"PyYAML, {_HF}", r"swift [\w-]+", r"(?:^|[/.])swift[/.]cli[/.]\w+(?:\.py)?$", ("swift",)
    ),
    KnownProgram("ERNIEKit or PaddleFormers", _PADDLE, families=("paddle",)),
    KnownProgram("ERNIEKit", _PADDLE, r"erniekit \w+", families=("paddle",)),
    KnownProgram("PaddleFormers", _PADDLE, r"paddleformers-cli \w+", families=("paddle",)),
    KnownProgram("PaddleNLP", f"JSON, {_PADDLE}", families=("paddlenlp",), unchecked_keys=(KEYS,)),
    KnownProgram(
        "verl", "Hydra", file=r"^(?:verl|recipe)(?:\.\w+){1,8}$|(?:^|/)verl/trainer/\w+\.py$", families=("verl",),
        unchecked=(HYDRA,), unchecked_keys=(KEYS,),
    ),
    KnownProgram(
        "OpenRLHF", "argparse", file=r"^openrlhf(?:\.\w+){1,8}$|(?:^|/)openrlhf/cli/\w+\.py$", unchecked=(OPTIONS,)
    ),
    KnownProgram("axolotl", "PyYAML, pydantic", r"axolotl \w+", r"^axolotl\.cli\.\w+$", ("axolotl",), "",
                 (KEYS, OVERRIDES), (KEYS,)),
    KnownProgram("torchtune", "OmegaConf", r"tune run", families=("torchtune",), unchecked=(KEYS, OVERRIDES),
                 unchecked_keys=(KEYS,)),
    KnownProgram("xtuner", "argparse, mmengine", r"xtuner \w+", r"^xtuner(?:\.\w+){1,8}$|(?:^|/)xtuner/\S{1,80}\.py$",
                 unchecked=(OPTIONS,)),
    KnownProgram("trl", f"PyYAML, {_HF}", r"trl [\w-]+", r"^trl\.scripts\.\w+$|(?:^|/)trl/scripts/\w+\.py$", (), "",
                 (OPTIONS,)),
    KnownProgram(
        "MindSpeed-LLM", "argparse", file=r"(?:^|/)(?:posttrain_gpt|pretrain_\w{1,30}_mindspeed)\.py$",
        unchecked=(OPTIONS,),
    ),
    KnownProgram(
        "Megatron-LM or MindSpeed-LLM", "argparse",
        file=r"(?:^|/)(?:pretrain_(?:gpt|bert|t5|mamba|hybrid|vlm|vision_\w{1,20}|ict|retro)|finetune_gpt)\.py$",
        unchecked=(OPTIONS,),
    ),
    KnownProgram("accelerate", "PyYAML", families=("accelerate",), unchecked_keys=(KEYS,)),
    KnownProgram("DeepSpeed", "JSON", families=("deepspeed",)),
    KnownProgram("HCCL", "JSON", families=("rank_table",)),
    KnownProgram("Hydra", "OmegaConf", families=("hydra",), unchecked_keys=(KEYS,)),
    KnownProgram("Docker Compose", "YAML", families=("compose",)),
    KnownProgram("Kubernetes", "YAML", families=("kubernetes",), unchecked_keys=(KEYS,)),
)  # fmt: skip
# Commands among whose words the program of a training can be.
_STARTERS = CARRIERS | {words[0] for launcher in LAUNCHERS for words in launcher.words} | {"ray", "trl", "xtuner"}
_MOST_WORDS = 80  # of a command that are searched for its program: launchers have fewer options
_SWITCHES = tuple(row.switch for row in PROGRAMS if row.switch)
_ON = ("1", "true", "y", "yes", "on")
_PYTHON = re.compile(r"python[\d.]*")
# Any row: most words of most scripts match none.
_ANY_COMMAND = re.compile("|".join(f"(?:{row.command})" for row in PROGRAMS if row.command))
_ANY_FILE = re.compile("|".join(f"(?:{row.file})" for row in PROGRAMS if row.file))


def find_started_program(words: Sequence[ShellWord], environment: Mapping[str, ShellWord]) -> KnownProgram | None:
    """Return the trainer that a command starts; None if it starts none, or one that is unknown here."""
    own = strip_wrappers(tuple(words))
    name = own[0].text.rpartition("/")[2] if own else ""
    if name not in _STARTERS and not _PYTHON.fullmatch(name):
        return None
    candidates = _list_candidates(tuple(word.text for word in own[:_MOST_WORDS]))
    switches = frozenset(switch for switch in _SWITCHES if is_on(environment, switch)) if candidates else frozenset()
    for line, text in candidates:
        found = next((row for row in PROGRAMS if _is_meant(row, line, text, switches)), None)
        if found is not None:
            return found
    return None


@lru_cache(1 << 14)  # rules ask for the same command, and sweeps repeat one
def _list_candidates(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The words that can name a trainer, each with the next one and alone."""
    lines = ((" ".join((text.rpartition("/")[2], *texts[n + 1 : n + 2])), text) for n, text in enumerate(texts))
    return tuple((line, text) for line, text in lines if _ANY_COMMAND.fullmatch(line) or _ANY_FILE.search(text))


def _is_meant(row: KnownProgram, line: str, text: str, switches: frozenset[str]) -> bool:
    """Whether the word with the next one is the row's command, or the word alone its file or module."""
    named = (row.command and re.fullmatch(row.command, line)) or (row.file and re.search(row.file, text))
    return bool(named) and (not row.switch or row.switch in switches)


def is_on(environment: Mapping[str, ShellWord], name: str) -> bool:
    """Return whether a variable is on, or may be: an unknown value is no proof of the contrary."""
    word = environment.get(name)
    return word is not None and (not word.is_known or word.text.lower() in _ON)


def find_family_read(job: TrainingJob) -> str:
    """Return the kind of configuration that the program of a job reads; "" if it is unknown."""
    row = find_started_program(job.command.words, job.command.environment)
    return row.families[0] if row is not None and row.families else ""


def find_config_program(config: ConfigBlock) -> KnownProgram | None:
    """Return the trainer whose configuration it is, by its keys; None if it is unknown."""
    return next((row for row in PROGRAMS if config.family and config.family in row.families), None)
