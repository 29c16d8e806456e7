"""All rules, in the order in which they are documented: those for all cards, and those of the vendors' folders.

data/rules.toml has what each of the former says and where it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from envcheck.core.lint.rule import Judge, LintRule
from envcheck.core.model import Status
from envcheck.core.toml_file import own_record
from envcheck.lint.context.tables import FOLDER
from envcheck.lint.rules import (
    containers,
    images,
    mounts,
    packages,
    paths,
    removal,
    secret,
    shell,
    status,
    text,
    unused_variables,
    variables,
    version_conflicts,
)
from envcheck.lint.rules.training import (
    allocator,
    configs,
    degrees,
    kinds,
    launcher_options,
    legal,
    master,
    models,
    options_given,
    ranks,
    room,
    scheduler,
    steps,
    written_script,
)
from envcheck.vendors import load_modules

JUDGES: dict[str, Judge] = {
    "shell.syntax": text.syntax,
    "shell.crlf": text.crlf,
    "shell.backslash_blank": text.blank_behind_backslash,
    "shell.cut_off": text.cut_off,
    "shell.orphan_option": text.orphan,
    "shell.typeset": text.typeset,
    "shell.prompt": shell.prompts,
    "shell.spaced_assignment": shell.spaced_assignment,
    "shell.url_command": shell.url_command,
    "shell.unset_variable": unused_variables.unset,
    "shell.unused_variable": unused_variables.unused,
    "shell.not_exported": unused_variables.not_exported,
    "shell.remove": removal.remove,
    "shell.no_errexit": removal.no_errexit,
    "shell.pipe_status": status.pipe_status,
    "shell.status_ignored": status.status_ignored,
    "shell.redirect_order": shell.redirect_order,
    "shell.fetched_code": shell.fetched_code,
    "shell.chmod_777": shell.destructive,
    "shell.secret": secret.secrets,
    "variables.unknown": variables.unknown_name,
    "variables.allocator": allocator.keys,
    "variables.gone": variables.gone,
    "variables.no_effect": variables.no_effect,
    "variables.visible_list": variables.visible_list,
    "variables.rank_name": variables.rank_name,
    "variables.backend": variables.backend,
    "variables.left_over": variables.left_overs,
    "variables.loud": variables.loud,
    "variables.interface": variables.interfaces,
    "variables.python_path": variables.python_path,
    "launch.rank": ranks.rank_missing,
    "launch.rank_fixed": ranks.rank_fixed,
    "launch.rank_unused": ranks.unused_rank,
    "launch.loopback": master.loopback,
    "launch.master": master.master_missing,
    "launch.master_elsewhere": master.master_elsewhere,
    "launch.port": master.ports,
    "launch.device_list": variables.device_lists,
    "launch.processes": scheduler.processes,
    "launch.cards": launcher_options.cards,
    "launch.device": launcher_options.wrong_device,
    "launch.role": ranks.one_role,
    "launch.option": launcher_options.options_unknown,
    "launch.filters": launcher_options.filters,
    "launch.misplaced": launcher_options.misplaced,
    "launch.deprecated": launcher_options.old_module,
    "launch.force_torchrun": launcher_options.force_torchrun,
    "options.unknown": options_given.unknown_names,
    "options.other_version": options_given.other_version,
    "options.doubled": options_given.doubled,
    "options.abbreviated": options_given.abbreviated,
    "options.value": legal.values,
    "options.old_value": options_given.values,
    "options.conflict": options_given.conflicts,
    "options.without_effect": options_given.without_effect,
    "training.warmup": steps.warmup,
    "training.never": steps.never,
    "training.evaluation": steps.evaluation,
    "training.world": degrees.world,
    "training.batch": steps.batch,
    "training.heads": degrees.heads,
    "training.best": steps.best,
    "training.sequence": steps.sequence,
    "training.bubble": steps.bubble,
    "training.mixture": steps.mixture,
    "training.rate": steps.rates,
    "training.output": steps.output_in_model,
    "training.offload": room.offload,
    "training.disk": room.disk,
    "training.recipe": written_script.recipe_changed,
    "models.name": models.names,
    "paths.clone": paths.clone_name,
    "paths.missing": paths.missing,
    "paths.log_folder": paths.log_folder,
    "paths.sourced": paths.sourced,
    "paths.upwards": paths.upwards,
    "paths.project": paths.project,
    "paths.tool": paths.tool_unknown,
    "packages.unpinned": packages.unpinned,
    "packages.upgrade_all": packages.upgrade_all,
    "packages.gpu_list": packages.gpu_lists,
    "packages.pair": packages.pairs,
    "packages.together": version_conflicts.together,
    "packages.project": version_conflicts.project,
    "packages.index": packages.index_replaced,
    "packages.global": packages.global_config,
    "packages.extra": packages.extras,
    "packages.moved": packages.moved,
    "packages.tracked": packages.tracked,
    "packages.reinstalled": packages.image_reinstalled,
    "packages.architecture": packages.architecture,
    "container.image": images.image_differs,
    "container.latest": images.latest,
    "container.architecture": images.image_architecture,
    "container.shm": containers.shared_memory,
    "container.mount_over": mounts.mount_over,
    "container.mount_source": mounts.mount_source,
    "container.privileges": containers.privileges,
    "container.name": containers.fixed_name,
    "container.ports": containers.open_ports,
    "container.output": mounts.output_lost,
    "container.layer": containers.layers,
    "config.syntax": configs.readable,
    "config.doubled": configs.doubled,
    "config.unknown": configs.unknown_keys,
    "config.kind": kinds.kinds,
    "config.tag": kinds.tags,
    "config.deepspeed": configs.deepspeed_values,
    "config.number": configs.text_numbers,
    "config.template": configs.template,
}


@dataclass(frozen=True)
class _RuleRow:
    name: str
    severity: Status
    says: str
    source: str


@dataclass(frozen=True)
class _RulesFile:
    rules: tuple[_RuleRow, ...]


def _own() -> list[LintRule]:
    return [
        LintRule(row.name, row.severity, row.says, row.source, JUDGES[row.name])
        for row in own_record(_RulesFile, FOLDER / "rules.toml").rules
    ]


def place_rules(rules: Iterable[LintRule], more: Iterable[LintRule]) -> tuple[LintRule, ...]:
    """The rules with more of them: each behind the one that it names, else behind the last of its area."""
    found = list(rules)
    for rule in more:
        behind = [n for n, each in enumerate(found, 1) if each.name == rule.after] or [
            n for n, each in enumerate(found, 1) if each.area == rule.area
        ]
        found.insert(behind[-1] if behind else len(found), rule)
    return tuple(found)


RULES = place_rules(_own(), (rule for _, module in load_modules("lint") for rule in getattr(module, "RULES", ())))
BY_NAME = {rule.name: rule for rule in RULES}
