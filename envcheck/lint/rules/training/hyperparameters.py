"""Rules about steps, degrees, precision and data: values that are impossible or unlikely."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, locate_option, parse_float, parse_integer
from envcheck.core.lint.remark_builders import fail, warn, warn_or_fail
from envcheck.core.lint.script_model import Remark
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, fill, mark, verbatim
from envcheck.scripts.programs import find_packages, find_switch

TP = ("tensor_parallel_degree", "tensor_model_parallel_size")
PP = ("pipeline_parallel_degree", "pipeline_model_parallel_size")
STEPS = ("max_steps", "train_iters", "total_steps", "train_steps")
WARMUP = ("warmup_steps", "lr_warmup_iters", "num_warmup_steps", "warmup_iters", "lr_warmup_steps")


def read_whole_number(given: GivenOption | None) -> int | None:
    return parse_integer(given.value) if given is not None else None


def find_long_warmup(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        most, warm = job.find_option(*STEPS), job.find_option(*WARMUP)
        steps, first = read_whole_number(most), read_whole_number(warm)
        if warm is not None and steps and first and steps > 0 and first >= steps:
            reached = f"{steps / first:.0%}"
            seen = _(
                "the warm-up takes {first} steps, but the training has only {steps}: the learning "
                "rate reaches {reached} of its target",
                first=first,
                steps=steps,
                reached=reached,
            )
            decay = read_whole_number(job.find_option("lr_decay_iters", "lr_decay_steps"))
            yield warn_or_fail(
                decay is None or decay <= first,  # Megatron rejects only a warm-up that is longer than the decay
                locate_option(warm),
                seen,
                _("Use 1 to 10 % of the steps, for example {steps}.", steps=max(1, steps // 20) if steps > 1 else 0),
            )
        ratio = job.find_option("warmup_ratio", "lr_warmup_fraction", "warmup_proportion")
        share = parse_float(ratio.value) if ratio else None
        if ratio is not None and share is not None and not 0 <= share < 1:
            yield fail(
                locate_option(ratio),
                _("the warm-up ratio is {share:g}: it must be at least 0 and below 1", share=share),
                _("Use a ratio from 0.03 to 0.1."),
            )


_NOT_SAVED = mark("the save interval is {every} steps, but the training has only {steps}: no checkpoint before the end")
_NOT_EVALUATED = mark("the evaluation interval is {every} steps, but the training has only {steps}: no evaluation")
_NOT_LOGGED = mark("the logging interval is {every} steps, but the training has only {steps}: nothing is logged")
_INTERVALS = (
    (("save_steps", "save_interval"), _NOT_SAVED, "save_strategy"),
    (("eval_steps", "eval_interval"), _NOT_EVALUATED, "eval_strategy"),
    (("logging_steps", "log_interval"), _NOT_LOGGED, "logging_strategy"),
)


def find_unreached_intervals(context: LintContext) -> Iterator[Remark]:
    """Find save, evaluation and logging intervals longer than the training."""
    for job in context.jobs:
        steps = read_whole_number(job.find_option(*STEPS))
        for names, template, strategy in _INTERVALS:
            given, how = job.find_option(*names), job.find_option(strategy)
            every = read_whole_number(given)
            if given is None or not steps or steps < 0 or every is None or every <= steps:
                continue
            if how is not None and how.value not in (None, "steps"):
                continue
            yield warn(
                locate_option(given),
                fill(template, every=every, steps=steps),
                _("Use at most {steps}, for example {example}.", steps=steps, example=max(1, steps // 2)),
            )


def find_half_set_evaluation(context: LintContext) -> Iterator[Remark]:
    """Find incomplete evaluation settings: a best checkpoint without one, and Paddle's trainers."""
    for job in context.jobs:
        best, how = job.find_option("load_best_model_at_end"), job.find_option("evaluation_strategy", "eval_strategy")
        never = how.value in ("no", "false") if how is not None else "ms-swift" not in find_packages(job)
        if best is not None and best.is_enabled and not job.open and never:
            yield from _judge_best_without_evaluation(job, best)
            continue
        if "llamafactory" in find_packages(job) and not job.open and not find_switch(job):
            yield from _judge_evaluation_without_data(job, how)
        if not (job.find_option("train_dataset_path") or job.find_option("train_dataset_type")):
            continue
        do, how = job.find_option("do_eval"), job.find_option("evaluation_strategy", "eval_strategy")
        data = job.find_option("eval_dataset_path")
        if how is not None and how.value not in (None, "no") and (do is None or not do.is_enabled):
            if data:
                seen = _("an evaluation strategy and evaluation data are set, but do_eval is not")
            else:
                seen = _("an evaluation strategy is set, but do_eval is not")
            yield warn(locate_option(how), seen, _("Set do_eval, or remove the strategy."))
        elif data is not None and do is None and how is None:
            yield warn(
                locate_option(data),
                _("evaluation data are set, but do_eval is not"),
                _("Set do_eval, or remove the evaluation data."),
            )


def _judge_evaluation_without_data(job: TrainingJob, how: GivenOption | None) -> Iterator[Remark]:
    """transformers' Trainer exits if there is a strategy, but no data."""
    size = job.find_option("val_size")
    has_data = job.find_option("eval_dataset") is not None or (size is not None and parse_float(size.value) != 0)
    if how is not None and how.value in ("steps", "epoch") and not has_data:
        seen = _("an evaluation strategy is set, but neither val_size nor eval_dataset: the trainer exits")
        yield fail(locate_option(how), seen, _("Set one of them, or remove the strategy."))


def _judge_best_without_evaluation(job: TrainingJob, best: GivenOption) -> Iterator[Remark]:
    """transformers compares the strategies: without evaluation it accepts only a training that saves nothing."""
    saved = job.find_option("save_strategy")
    if saved is not None and saved.value in ("no", "false"):
        return
    yield warn_or_fail(
        "llamafactory" in find_packages(job) and not find_switch(job),
        locate_option(best),
        _("load_best_model_at_end is set, but no evaluation: there is nothing to choose the best model by"),
        _("Set eval_strategy and save_strategy to the same value, or remove it."),
    )


def find_mismatched_best_model(context: LintContext) -> Iterator[Remark]:
    """Find load_best_model_at_end with evaluations that are not saved."""
    for job in context.jobs:
        keep = job.find_option("load_best_model_at_end")
        how, when = job.find_option("save_strategy"), job.find_option("eval_strategy", "evaluation_strategy")
        given = job.find_option("save_steps")
        every, looked = read_whole_number(given) or 0, read_whole_number(job.find_option("eval_steps")) or 0
        ways = {each.value for each in (how, when) if each is not None}
        if keep is None or not keep.is_enabled or None in ways or "best" in ways:
            continue
        if how is not None and when is not None and len(ways) == 2:
            seen = _(
                "the evaluation strategy is {evaluated}, but the save strategy is {saved}: "
                "load_best_model_at_end is rejected",
                evaluated=when.value,
                saved=how.value,
            )
            yield fail(locate_option(when), seen, _("Use the same strategy for both."))
        elif given is not None and ways <= {"steps"} and min(every, looked) > 0 and every % looked:
            seen = _(
                "saved every {every} steps but evaluated every {looked} steps: load_best_model_at_end is rejected",
                every=every,
                looked=looked,
            )
            yield fail(
                locate_option(given),
                seen,
                _("Use a multiple, for example {every}.", every=-(-every // looked) * looked),
            )


def find_indivisible_sequence(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        parallel, tp = job.find_option("sequence_parallel"), read_whole_number(job.find_option(*TP))
        length = job.find_option("max_seq_len", "seq_length", "max_seq_length")
        count = read_whole_number(length)
        if (
            parallel is not None
            and parallel.is_enabled
            and length is not None
            and tp
            and count
            and tp > 1
            and count % tp
        ):
            yield fail(
                locate_option(length),
                _("the sequence length {count} is not divisible by tensor parallel degree {tp}", count=count, tp=tp),
                verbatim(f"{count // tp * tp or tp}"),
            )


def find_large_pipeline_bubble(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        stages, given = read_whole_number(job.find_option(*PP)), job.find_option("gradient_accumulation_steps")
        rounds = read_whole_number(given)
        if given is not None and stages and rounds and stages > 1 and rounds > 0:
            idle = (stages - 1) / (rounds + stages - 1)
            if idle > 0.5:
                seen = _(
                    "{stages} pipeline stages with {rounds} accumulation steps: each device idles "
                    "{idle:.0%} of the time",
                    stages=stages,
                    rounds=rounds,
                    idle=idle,
                )
                yield warn(
                    locate_option(given),
                    seen,
                    _(
                        "Use {stages} accumulation steps for 25 % idle time. The batch size grows accordingly.",
                        stages=3 * (stages - 1),
                    ),
                )


_DATA = (
    ("train_dataset_path", "train_dataset_prob", "train_dataset_type"),
    ("eval_dataset_path", "eval_dataset_prob", "eval_dataset_type"),
)


def find_wrong_data_mixture(context: LintContext) -> Iterator[Remark]:
    """Find data set lists, ratios and types of different lengths, and ratios that do not add up to 1."""
    for job in context.jobs:
        for names in _DATA:
            paths, probs, kinds = (job.find_option(name) for name in names)
            parts = [_split_values(each) for each in (paths, probs, kinds)]
            if paths is None or not parts[0]:
                continue
            for given, found in ((probs, parts[1]), (kinds, parts[2])):
                if given is not None and found and len(found) != len(parts[0]):
                    yield fail(
                        locate_option(given),
                        _(
                            "{found_count} entries for {parts_count} data sets",
                            found_count=len(found),
                            parts_count=len(parts[0]),
                        ),
                        _("Give {parts_count} entries.", parts_count=len(parts[0])),
                    )
            numbers = [parse_float(part) for part in parts[1]]
            if probs is not None and numbers and None not in numbers:
                total = sum(n for n in numbers if n is not None)
                if len(numbers) == len(parts[0]) and abs(total - 1) > 0.005:
                    yield warn(
                        locate_option(probs),
                        _("the data set ratios add up to {total:g}", total=total),
                        _("Make the ratios add up to 1."),
                    )


def _split_values(given: GivenOption | None) -> list[str]:
    if given is None or not given.values or not all(word.is_known for word in given.values):
        return []
    return [part.strip() for word in given.values for part in word.text.split(",") if part.strip()]


_NO_TRAINING = re.compile(r"(?:^|/)(?:inference|evaluat\w{1,4}|generat\w{1,4}|convert\w{0,20}|chat)\w{0,20}\.py$")


_VERL_MAIN = "verl.trainer.main_ppo"
_VERL_PROMPT, _VERL_ANSWER = "data.max_prompt_length", "data.max_response_length"
_VERL_LENGTH = "actor_rollout_ref.rollout.max_model_len"
_VERL_BATCH, _VERL_MINI = "data.train_batch_size", "actor_rollout_ref.actor.ppo_mini_batch_size"


def find_small_verl_batch(context: LintContext) -> Iterator[Remark]:
    """verl exits if the batch is smaller than the mini batch of the update.  Source: verl/workers/config/actor.py."""
    for _script, command in context.find_commands():
        parts = [(word, *word.text.partition("=")[::2]) for word in command.words]
        found = {name: (word, value) for word, name, value in parts if name in (_VERL_BATCH, _VERL_MINI)}
        texts = command.list_texts()
        if len(found) < 2 or _VERL_MAIN not in texts or any("use_dynamic_bsz=True" in text for text in texts):
            continue
        (word, total), (_unused, mini) = found[_VERL_BATCH], found[_VERL_MINI]
        if total.isdecimal() and mini.isdecimal() and int(total) < int(mini):
            seen = _("{name} {total} is smaller than {other} {mini}: current releases of verl exit", name=_VERL_BATCH,
                     total=total, other=_VERL_MINI, mini=mini)  # fmt: skip
            yield warn(word, seen, _("Use a multiple of {mini}.", mini=mini))


def find_long_verl_answers(context: LintContext) -> Iterator[Remark]:
    """Find lengths of verl that the rollout's model cannot hold: vLLM rejects the prompts or cuts the answers off."""
    for _script, command in context.find_commands():
        if _VERL_MAIN not in command.list_texts():
            continue
        given = {name: (word, value) for word in command.words for name, _equals, value in [word.text.partition("=")]}
        found = [given[name] for name in (_VERL_LENGTH, _VERL_PROMPT, _VERL_ANSWER) if name in given]
        numbers = [int(value) for _word, value in found if value.isdecimal()]
        if len(numbers) == 3 and numbers[1] + numbers[2] > numbers[0]:
            seen = _(
                "prompts of up to {prompt} and answers of up to {answer} tokens exceed max_model_len {length}",
                prompt=numbers[1], answer=numbers[2], length=numbers[0],
            )  # fmt: skip
            yield warn(found[0][0], seen, _("Use at least {length}.", length=numbers[1] + numbers[2]))


def find_indivisible_batch(context: LintContext) -> Iterator[Remark]:
    """Find global batch sizes that are not a multiple of micro batch size × data parallel degree (Megatron)."""
    for job in context.jobs:
        given, micro = job.find_option("global_batch_size"), job.find_option("micro_batch_size")
        total, small = read_whole_number(given), read_whole_number(micro)
        if given is None or not total or not small or total < 0 or small < 0 or job.find_option("rampup_batch_size"):
            continue
        if job.program is not None and _NO_TRAINING.search(job.program.text):
            continue
        data = _count_model_copies(job)
        if total % (small * data):
            words = (
                _("micro batch size {small} x data parallel degree {data}", small=small, data=data)
                if data > 1
                else _("micro batch size {small}", small=small)
            )
            yield fail(
                locate_option(given),
                _(
                    "the global batch size {total} is not a multiple of {factors}: Megatron exits",
                    total=total,
                    factors=words,
                ),
                _("Use a multiple."),
            )


def _count_model_copies(job: TrainingJob) -> int:
    """The number of model copies that train; 1 if unknown, since every number is a multiple of it."""
    degrees = [job.find_option(*names) for names in (TP, PP, ("context_parallel_size",))]
    sizes = [read_whole_number(given) if given is not None else 1 for given in degrees]
    if job.open or not job.world_size or not all(size and size > 0 for size in sizes):
        return 1
    model = math.prod(size or 1 for size in sizes)
    return job.world_size // model if job.world_size % model == 0 else 1  # reported by training.world


def find_unusual_learning_rates(context: LintContext) -> Iterator[Remark]:
    """Find learning rates outside the range of fine-tuning."""
    for job in context.jobs:
        given = job.find_option("learning_rate", "lr")
        rate = parse_float(given.value) if given else None
        if given is not None and rate is not None and (rate >= 0.1 or rate <= 0) and given.value:
            sure = rate <= 0
            yield warn_or_fail(
                sure,
                locate_option(given),
                _("the learning rate is {rate}", rate=given.value),
                _("Use 1e-6 to 1e-3 for fine-tuning."),
            )
        least = job.find_option("min_lr")
        low = parse_float(least.value) if least else None
        if least is not None and rate is not None and low is not None and low > rate > 0:
            yield warn(
                locate_option(least),
                _(
                    "the minimum learning rate {least} is above the learning rate {rate}",
                    least=least.value,
                    rate=given.value if given else "",
                ),
                _("Use a smaller minimum."),
            )


def find_output_in_model_folder(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        model, out = job.find_option("model_name_or_path", "model"), job.find_option("output_dir")
        if model is None or out is None or not model.value or not out.value or not re.search(r"/", model.value):
            continue
        inside = out.value.rstrip("/") == model.value.rstrip("/") or out.value.startswith(model.value.rstrip("/") + "/")
        if inside:
            yield warn(
                locate_option(out),
                _("the results are written to the model's directory"),
                _("Use a separate directory for this run."),
            )
