"""All rules, in the order of the documentation: the common ones, and those in the vendors' folders.

data/rules.toml contains description and source of the common rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from envcheck.core.lint.rule import Judge, LintRule
from envcheck.core.model import Status
from envcheck.core.toml_file import load_own_record
from envcheck.lint.context.name_tables import FOLDER
from envcheck.lint.rules import (
    containers,
    environment_variables,
    exit_status,
    images,
    manifests,
    mounts,
    paths,
    pip_installs,
    placeholders,
    pods,
    removal,
    script_text,
    secret,
    shell,
    unused_variables,
    variable_ranges,
    version_conflicts,
)
from envcheck.lint.rules.training import (
    allocator,
    allowed_values,
    backend,
    config_keys,
    constraints,
    deepspeed_config,
    hyperparameters,
    launcher_options,
    master_address,
    megatron_options,
    memory_and_disk,
    model_names,
    parallel_degrees,
    program_options,
    rank_table,
    ranks,
    scheduler,
    value_ranges,
    value_types,
    written_script,
)
from envcheck.vendors import load_modules


def _join(*judges: Judge) -> Judge:
    return lambda context: chain.from_iterable(judge(context) for judge in judges)


JUDGES: dict[str, Judge] = {
    "shell.syntax": script_text.find_syntax_errors,
    "shell.crlf": script_text.find_crlf,
    "shell.backslash_blank": script_text.find_blank_behind_backslash,
    "shell.cut_off": script_text.find_cut_off_command,
    "shell.orphan_option": script_text.find_orphan_option,
    "shell.typeset": script_text.find_typeset_characters,
    "shell.byte_order_mark": script_text.find_byte_order_mark,
    "shell.prompt": shell.find_prompts,
    "shell.spaced_assignment": shell.find_spaced_assignment,
    "shell.url_command": shell.find_url_as_command,
    "shell.unset_variable": unused_variables.find_unset_variables,
    "shell.unused_variable": unused_variables.find_unused_variables,
    "shell.not_exported": unused_variables.find_unexported_variables,
    "shell.remove": removal.find_dangerous_removal,
    "shell.no_errexit": removal.find_unchecked_cd,
    "shell.pipe_status": exit_status.find_hidden_pipe_status,
    "shell.status_ignored": exit_status.find_ignored_status,
    "shell.redirect_order": shell.find_wrong_redirect_order,
    "shell.fetched_code": shell.find_unverified_code,
    "shell.chmod_777": shell.find_open_permissions,
    "shell.secret": secret.find_secrets,
    "shell.placeholder": placeholders.find_placeholders,
    "variables.unknown": environment_variables.find_unknown_names,
    "variables.allocator": allocator.find_wrong_allocator_keys,
    "variables.gone": environment_variables.find_removed_variables,
    "variables.no_effect": environment_variables.find_foreign_variables,
    "variables.sudo": environment_variables.find_lost_variables,
    "variables.visible_list": environment_variables.find_wrong_visible_lists,
    "variables.rank_name": environment_variables.find_wrong_rank_name,
    "variables.range": variable_ranges.find_values_out_of_range,
    "variables.backend": environment_variables.find_missing_xccl_backend,
    "variables.doubled": environment_variables.find_repeated_exports,
    "variables.left_over": environment_variables.find_leftover_variables,
    "variables.loud": environment_variables.find_debug_logging,
    "variables.interface": environment_variables.find_unknown_interfaces,
    "variables.python_path": environment_variables.find_relative_python_path,
    "launch.rank": ranks.find_missing_rank,
    "launch.rank_fixed": ranks.find_fixed_rank,
    "launch.rank_unused": ranks.find_unused_rank,
    "launch.loopback": master_address.find_loopback_master,
    "launch.master": master_address.find_missing_master,
    "launch.master_elsewhere": master_address.find_foreign_master,
    "launch.port": master_address.find_wrong_ports,
    "launch.address": master_address.find_url_as_master,
    "launch.device_list": environment_variables.find_wrong_device_lists,
    "launch.processes": scheduler.find_too_many_processes,
    "launch.cards": launcher_options.find_too_few_cards,
    "launch.device": launcher_options.find_wrong_device,
    "launch.role": ranks.find_single_flagcx_role,
    "launch.rank_table": rank_table.find_stale_rank_tables,
    "launch.option": launcher_options.find_unknown_launcher_options,
    "launch.filters": launcher_options.find_conflicting_filters,
    "launch.misplaced": launcher_options.find_misplaced_options,
    "launch.deprecated": launcher_options.find_deprecated_launcher,
    "launch.force_torchrun": launcher_options.find_missing_force_torchrun,
    "options.unknown": program_options.find_unknown_options,
    "options.other_version": program_options.find_options_of_other_version,
    "options.doubled": program_options.find_repeated_options,
    "options.abbreviated": program_options.find_abbreviated_options,
    "options.value": allowed_values.find_unknown_values,
    "options.quotes": allowed_values.find_wrong_quotes,
    "options.old_value": program_options.find_old_values,
    "options.conflict": program_options.find_conflicting_options,
    "options.without_effect": program_options.find_options_without_effect,
    "training.warmup": hyperparameters.find_long_warmup,
    "training.never": hyperparameters.find_unreached_intervals,
    "training.evaluation": hyperparameters.find_half_set_evaluation,
    "training.world": parallel_degrees.find_wrong_world_size,
    "training.batch": hyperparameters.find_indivisible_batch,
    "training.mini_batch": hyperparameters.find_small_verl_batch,
    "training.multiple": constraints.find_indivisible_numbers,
    "training.heads": parallel_degrees.find_indivisible_heads,
    "training.shape": megatron_options.find_rejected_shapes,
    "training.best": hyperparameters.find_mismatched_best_model,
    "training.sequence": hyperparameters.find_indivisible_sequence,
    "training.bubble": hyperparameters.find_large_pipeline_bubble,
    "training.mixture": hyperparameters.find_wrong_data_mixture,
    "training.rate": hyperparameters.find_unusual_learning_rates,
    "training.range": _join(value_ranges.find_impossible_numbers, hyperparameters.find_long_verl_answers),
    "training.output": hyperparameters.find_output_in_model_folder,
    "training.backend": backend.find_foreign_backends,
    "training.offload": memory_and_disk.find_offload_to_host,
    "training.disk": memory_and_disk.find_full_disk,
    "training.recipe": written_script.find_changed_recipe,
    "models.name": model_names.find_unknown_model_names,
    "paths.clone": paths.find_wrong_clone_folder,
    "paths.missing": paths.find_missing_files,
    "paths.log_folder": paths.find_missing_log_folder,
    "paths.sourced": paths.find_missing_sourced_file,
    "paths.upwards": paths.find_upward_program_path,
    "paths.project": paths.find_missing_project_clone,
    "paths.tool": paths.find_unknown_tool,
    "packages.unpinned": pip_installs.find_unpinned_packages,
    "packages.upgrade_all": pip_installs.find_upgrade_of_all_packages,
    "packages.gpu_list": pip_installs.find_gpu_package_lists,
    "packages.pair": pip_installs.find_mismatched_plugins,
    "packages.together": version_conflicts.find_conflicting_versions,
    "packages.project": version_conflicts.find_incomplete_project,
    "packages.index": pip_installs.find_replaced_index,
    "packages.global": pip_installs.find_global_pip_config,
    "packages.extra": pip_installs.find_unknown_extras,
    "packages.moved": pip_installs.find_moved_repositories,
    "packages.tracked": pip_installs.find_unpinned_clone,
    "packages.reinstalled": pip_installs.find_reinstall_over_image,
    "packages.architecture": pip_installs.find_wrong_package_architecture,
    "container.image": images.find_other_image,
    "container.latest": images.find_moving_tags,
    "container.architecture": images.find_wrong_image_architecture,
    "container.devices": _join(containers.find_containers_without_devices, pods.find_missing_devices),
    "container.shm": pods.find_small_shared_memory,
    "container.mount_over": mounts.find_hiding_mounts,
    "container.mount_source": mounts.find_missing_mount_sources,
    "container.privileges": containers.find_wide_privileges,
    "container.name": containers.find_fixed_name,
    "container.ports": containers.find_open_ports,
    "container.output": mounts.find_lost_output,
    "container.layer": containers.find_lost_layer_state,
    "container.source": containers.find_source_in_sh,
    "config.syntax": config_keys.find_unreadable_configs,
    "config.doubled": config_keys.find_repeated_keys,
    "config.unknown": config_keys.find_unknown_keys,
    "config.resource": config_keys.find_unknown_resources,
    "config.kind": value_types.find_wrong_value_types,
    "config.tag": value_types.find_python_tags,
    "config.deepspeed": deepspeed_config.find_wrong_deepspeed_values,
    "config.rejected": manifests.find_rejected_manifests,
    "config.number": config_keys.find_numbers_read_as_text,
    "config.template": config_keys.find_wrong_template,
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


def _load_own_rules() -> list[LintRule]:
    return [
        LintRule(row.name, row.severity, row.says, row.source, JUDGES[row.name])
        for row in load_own_record(_RulesFile, FOLDER / "rules.toml").rules
    ]


def place_rules(rules: Iterable[LintRule], more: Iterable[LintRule]) -> tuple[LintRule, ...]:
    """Insert rules: each after the one that it names, otherwise at the end of its area."""
    found = list(rules)
    for rule in more:
        behind = [n for n, each in enumerate(found, 1) if each.name == rule.after] or [
            n for n, each in enumerate(found, 1) if each.area == rule.area
        ]
        found.insert(behind[-1] if behind else len(found), rule)
    return tuple(found)


RULES = place_rules(
    _load_own_rules(), (rule for _, module in load_modules("lint") for rule in getattr(module, "RULES", ()))
)
RULES_BY_NAME = {rule.name: rule for rule in RULES}
