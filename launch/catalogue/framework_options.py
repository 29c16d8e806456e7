"""How a framework spells the options that `envcheck plan` suggests, as data in framework_options.toml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from envcheck.core.toml_file import load_own_table

FILE = Path(__file__).with_name("framework_options.toml")
OF_LAUNCHER = ("--cards",)
JOINT = ("--sharding", "--offload")  # one setting may have both


def find_framework_title(framework: str) -> str:
    """Return the framework's own name, or that of frameworks.toml."""
    return str(load_own_table(FILE).get(framework, {}).get("title", framework))


def list_framework_options(framework: str, options: Mapping[str, str], rank: int, sharding: str) -> list[str]:
    """Return the settings of `framework` that have the effect of these options of plan; some may have none.

    `rank` is that of adapters, `sharding` that of the job with these options.  An option with several values, as
    --offload params+optimizer, has one setting for each, unless the framework has one for all, with the job's sharding:
    the key of the table is "--sharding stage2 --offload optimizer".
    """
    table: Mapping[str, str] = load_own_table(FILE).get(framework, {})
    offload = "+".join(_list_values("--offload", options.get("--offload", "")))
    whole = f"--sharding {options.get('--sharding', sharding)} --offload {offload}"
    if whole in table:
        rest = {name: value for name, value in options.items() if name not in JOINT}
        return [table[whole], *list_framework_options(framework, rest, rank, sharding)]
    parts = ((name, part) for name, value in options.items() for part in _list_values(name, value))
    found = ((_find_setting(table, name, part), part) for name, part in parts)
    return list(dict.fromkeys(setting.format(value=part, rank=rank) for setting, part in found if setting))


def has_settings(framework: str, options: Mapping[str, str]) -> bool:
    """Whether the framework has a setting for every value of these options; True for one without a table.

    The number of cards is no setting: the launcher has it.
    """
    table: Mapping[str, str] = load_own_table(FILE).get(framework, {})
    settings = {name: value for name, value in options.items() if name not in OF_LAUNCHER}
    return not table or all(
        _find_setting(table, name, part) for name, value in settings.items() for part in _list_values(name, value)
    )


def _list_values(name: str, value: str) -> Iterator[str]:
    yield from sorted(part.partition(":")[0] for part in value.split("+")) if name == "--offload" else (value,)


def _find_setting(table: Mapping[str, str], name: str, value: str) -> str:
    tuner = value.rpartition("-")[2].removeprefix("q") if name == "--method" else value  # QLoRA: --quant has the rest
    return table.get(f"{name} {tuner}", table.get(name, ""))
