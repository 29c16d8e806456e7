"""The option lists of the upstreams: valid names pass in every version that has them, wrong ones never do."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from envcheck.core.errors import UsageError
from installers.recipes import catalogue
from launch.rendering import option_schema
from launch.rendering.argument_rows import Rows, parse_rows
from launch.rendering.dialects import translate_job
from launch.targets.train_request import TrainRequest
from tests.launch.job_choice import choose_job

SWIFT: dict[str, Any] = {"model": "qwen-7b", "method": "lora", "framework": "swift"}
CHAT: dict[str, Any] = {"model": "qwen-7b", "method": "chat", "framework": "llamafactory"}
INFER: dict[str, Any] = {**SWIFT, "method": "infer"}
RLHF: dict[str, Any] = {**SWIFT, "method": "dpo"}
FACTORY: dict[str, Any] = {**SWIFT, "framework": "llamafactory"}
SFT: dict[str, Any] = {"model": "0.3b", "method": "lora", "device": "nvidia"}
DPO: dict[str, Any] = {**SFT, "method": "dpo"}
PADDLE: dict[str, Any] = {**SFT, "installed": ("paddleformers=1.2.0",)}
KIT: dict[str, Any] = {**SFT, "installed": ("paddleformers=0.3.1", "erniekit=1.5.0")}
# Versions of each upstream whose sources were read: both ends of the range and some between.
READ = (
    *(("ms-swift", text) for text in ("3.0.3", "3.3.1", "3.6.0", "3.9.3", "3.12.6", "4.0.4", "4.3.2", "4.6.0")),
    *(("paddleformers", text) for text in ("0.3.2", "0.4.1", "1.0.0", "1.1.1", "1.2.0")),
    *(("erniekit", text) for text in ("1.4.0", "1.5.0")),
    *(("llamafactory", text) for text in ("0.9.2", "0.9.3", "0.9.4", "0.9.5")),
)


def list_options(which: dict[str, Any], *extra: str, installed: str = "") -> Rows:
    """The options of a job with each NAME=VALUE given by --set and the rest after --."""
    pairs, words = [each for each in extra if not each.startswith("-")], [each for each in extra if each[0] == "-"]
    there = (*which.get("installed", ()), *filter(None, [installed]))
    _, job = choose_job(TrainRequest(**{**which, "installed": there}, settings=tuple(pairs), extra=tuple(words)))
    assert not [text for text in job.caution if "cannot determine" in text]
    return parse_rows(job.arguments)


def expect_refusal(which: dict[str, Any], *extra: str, installed: str = "") -> str:
    with pytest.raises(UsageError) as caught:
        list_options(which, *extra, installed=installed)
    return f"{caught.value.message}; {caught.value.next_step}"


@pytest.mark.parametrize(("package", "version"), READ)
def test_recipes_speak_each_version(package: str, version: str) -> None:
    """Every option of every job, translated for an installed version, exists in that version."""
    wrong, seen = [], 0
    for recipe in catalogue.load_all():
        for own in recipe.jobs:
            job, _ = translate_job(recipe, own, {package: version})
            its = option_schema.find_schema(job.launcher, recipe, {package: version})
            if its and its.package == package:
                seen += 1
                wrong += [
                    name for name in (*parse_rows(job.arguments), *parse_rows(job.own_data)) if not its.has_option(name)
                ]

    assert (wrong, seen > 0) == ([], True)


RIGHT = (
    (SWIFT, "ms-swift=4.6.0", "lora_rank lora_alpha target_modules max_length per_device_train_batch_size packing"),
    (SWIFT, "ms-swift=4.6.0", "gradient_accumulation_steps eval_steps report_to neftune_noise_alpha attn_impl"),
    (SWIFT, "ms-swift=4.6.0", "liger_kernel_config dataloader_num_workers ddp_timeout mrl_dims packing_strategy"),
    (
        SWIFT,
        "ms-swift=4.0.4",
        "truncation_strategy split_dataset_ratio save_total_limit warmup_ratio gradient_checkpointing",
    ),
    (SWIFT, "ms-swift=3.12.6", "lora_rank target_modules torch_dtype max_length warmup_ratio padding_free use_dora"),
    (
        SWIFT,
        "ms-swift=3.0.3",
        "lora_rank target_modules torch_dtype max_length warmup_ratio evaluation_strategy lazy_tokenize",
    ),
    (RLHF, "ms-swift=4.6.0", "beta rpo_alpha ref_model max_completion_length num_generations reward_funcs loss_type"),
    (RLHF, "ms-swift=3.12.6", "beta rpo_alpha ref_model label_smoothing max_completion_length undesirable_weight"),
    (
        INFER,
        "ms-swift=4.6.0",
        "max_new_tokens temperature top_p infer_backend vllm_tensor_parallel_size stream val_dataset",
    ),
    (INFER, "ms-swift=3.12.6", "max_new_tokens temperature top_p infer_backend vllm_max_model_len merge_lora"),
    (
        FACTORY,
        "",
        "lora_rank lora_target cutoff_len template neat_packing flash_attn warmup_ratio ddp_timeout report_to",
    ),
    (FACTORY, "llamafactory=0.9.5", "lora_rank use_asft_loss profiler_output_dir train_sampling_strategy"),
    (
        SFT,
        "",
        "lora_rank lora_alpha max_seq_len recompute sharding amp_master_grad unified_checkpoint save_total_limit",
    ),
    (DPO, "", "beta simpo_gamma loss_type pref_loss_ratio reference_free max_prompt_len label_smoothing num_of_gpus"),
    (DPO, "", "moe_use_aux_free learning_rate weight_decay lr_scheduler_type adam_beta1 seed"),
    (
        PADDLE,
        "",
        "lora_rank learning_rate packing truncation_strategy template max_seq_len save_hf_steps recompute_method",
    ),
    (PADDLE, "", "expert_model_parallel_size fuse_softmax_mask muon_momentum custom_register_path beta"),
)


@pytest.mark.parametrize(("which", "installed", "names"), RIGHT)
def test_right_names_pass(which: dict[str, Any], installed: str, names: str) -> None:
    """An option that the upstream has is passed on without a note."""
    made = list_options(which, *(f"{name}=1" for name in names.split()), installed=installed)

    assert [made[name] for name in names.split()] == [("1",)] * len(names.split())


WRONG = (
    (SWIFT, "", "learning_rat", "swift sft has no option 'learning_rat'", "did you mean learning_rate?"),
    (SWIFT, "", "lora_ranks", "no option", "did you mean lora_rank?"),
    (SWIFT, "", "max_lenght", "no option", "did you mean max_length?"),
    (SWIFT, "", "train_type", "no option", "did you mean tuner_type?"),
    (SWIFT, "", "sft_type", "no option", "did you mean tuner_type?"),
    (SWIFT, "ms-swift=3.12.6", "tuner_type", "no option", "did you mean train_type?"),
    (SWIFT, "ms-swift=3.12.6", "sft_type", "no option", "did you mean train_type?"),
    (SWIFT, "ms-swift=4.0.4", "mrl_dims", "no option", "available in ms-swift >=4.4"),
    (SWIFT, "", "reference_free", "no option", "look up the option in the documentation of this program"),
    (RLHF, "", "max_completion_lenght", "swift rlhf has no option", "did you mean max_completion_length?"),
    (RLHF, "ms-swift=3.6.4", "rpo_alfa", "swift rlhf has no option", "did you mean rpo_alpha?"),
    (INFER, "", "max_new_token", "swift infer has no option", "did you mean max_new_tokens?"),
    (
        INFER,
        "",
        "learning_rate",
        "swift infer has no option",
        "look up the option in the documentation of this program",
    ),
    (FACTORY, "", "lora_rnk", "no option", "did you mean lora_rank?"),
    (FACTORY, "", "use_asft_loss", "no option", "available in llamafactory >=0.9.5; this version has use_dft_loss"),
    (CHAT, "", "temperatur", "llamafactory-cli chat has no option", "did you mean temperature?"),
    (
        CHAT,
        "",
        "num_train_epochs",
        "llamafactory-cli chat has no option",
        "look up the option in the documentation of this program",
    ),
    (DPO, "", "betta", "dpo_train.py has no option 'betta'", "did you mean beta?"),
    (DPO, "", "max_promt_len", "no option", "did you mean max_prompt_len?"),
    (PADDLE, "", "lora_rnk", "paddleformers-cli has no option", "did you mean lora_rank?"),
    (PADDLE, "", "tensor_parallel_degree", "no option", "did you mean tensor_model_parallel_size?"),
    (PADDLE, "", "fuse_rms_norm", "no option", "available in paddleformers <1.0"),
)


@pytest.mark.parametrize(("which", "installed", "name", "message", "step"), WRONG)
def test_wrong_names_are_refused(which: dict[str, Any], installed: str, name: str, message: str, step: str) -> None:
    """An option that the installed version lacks is rejected before anything starts, with the right name."""
    refusal = expect_refusal(which, f"{name}=1", installed=installed)

    assert message in refusal
    assert step in refusal


@pytest.mark.parametrize(
    ("which", "word", "name", "value"),
    (
        (SWIFT, "--learning-rate=1", "learning_rate", ("1",)),
        (SWIFT, "--no_logging_first_step", "logging_first_step", ("false",)),
        (SWIFT, "--no-logging-first-step", "logging_first_step", ("false",)),
        (INFER, "--no_stream", "", ()),
        (FACTORY, "--cutoff-len=9", "cutoff_len", ("9",)),
        (FACTORY, "--no_dataloader_pin_memory", "dataloader_pin_memory", ("false",)),
        (SFT, "--no_use_flash_attention", "use_flash_attention", ("false",)),
        (SFT, "--max-seq-len=9", "", ()),
        (SFT, "--no_recompute_layers=2", "no_recompute_layers", ("2",)),
        (DPO, "--no_normalize_logps", "normalize_logps", ("false",)),
        (DPO, "--no-normalize-logps", "", ()),
        (DPO, "--no_beta", "", ()),
        (PADDLE, "--no_save_to_hf", "save_to_hf", ("false",)),
        (PADDLE, "--no_packing", "", ()),
    ),
)
def test_forms_of_a_name(which: dict[str, Any], word: str, name: str, value: tuple[str, ...]) -> None:
    """Dashes and --no_NAME are accepted where the program's parser accepts them, as one option."""
    if not name:
        assert "has no option" in expect_refusal(which, word)
        return
    made = list_options(which, word)

    assert made[name] == value
    assert [each for each in made if each.replace("-", "_") in (name, f"no_{name}")] == [name]


@pytest.mark.parametrize(
    ("which", "extra", "message"),
    (
        (SWIFT, ("--lora-rank=8", "--lora_rank=9"), "lora_rank is set 2 times"),
        (SWIFT, ("lora_rank=8", "--lora-rank=9"), "lora_rank is set 2 times"),
        (SWIFT, ("--no_load_args", "--load_args=true"), "load_args is set 2 times"),
        (SWIFT, ("no_load_args=true",), "use --set load_args=false"),
        (SWIFT, ("--wandb-api-key=abcdefabcdef",), "looks like a secret"),
        (PADDLE, ("--no_save_to_hf", "save_to_hf=true"), "save_to_hf is set 2 times"),
    ),
)
def test_two_spellings_are_one_option(which: dict[str, Any], extra: tuple[str, ...], message: str) -> None:
    """A repeated option is rejected in any spelling, and so is a value for an option without one."""
    assert message in expect_refusal(which, *extra)


def test_what_is_written_to_a_file() -> None:
    """The keys of a YAML file, the user's included, have the spelling of the list."""
    made = list_options(PADDLE, "lora_rank=4", "--no_save_to_hf")

    assert {"lora_rank": ("4",), "save_to_hf": ("false",), "stage": ("SFT",)}.items() <= made.items()


@pytest.mark.parametrize(
    ("which", "installed"),
    ((SWIFT, "ms-swift=4.99.0"), (KIT, ""), (FACTORY, "llamafactory=1.0"), (SWIFT, "ms-swift=5.0")),
)
def test_newer_than_the_list(which: dict[str, Any], installed: str) -> None:
    """For a version whose sources were not read, an unknown option is passed on with a note and a similar name."""
    there = (*which.get("installed", ()), *filter(None, [installed]))
    _, job = choose_job(TrainRequest(**{**which, "installed": there}, settings=("lora_rnk=1",)))

    assert parse_rows(job.arguments)["lora_rnk"] == ("1",)
    assert any(text.endswith("has the option lora_rnk; it has lora_rank") for text in job.caution)


@pytest.mark.parametrize("its", option_schema.load_schemas(), ids=lambda its: f"{its.program} {its.versions}")
def test_lists_hold_together(its: option_schema.OptionSchema) -> None:
    """An option of some versions only is in the list of one version that was read and missing from another."""
    read = [
        text
        for package, text in READ
        if package == its.package and option_schema.matches_versions(text, its.read or its.versions)
    ]
    there = [its.for_version(text) for text in read]

    assert its.off <= its.names
    assert all(Version(text) and each.complete == its.complete for text, each in zip(read, there, strict=True))
    for where, names in its.only.items():
        counts = {len(names & each.names) for each in there}
        assert counts <= {0, len(names)}, where
