"""What a training is told of steps, degrees, precision and data: figures that cannot be, or not be meant."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from envcheck.core.lint.context import LintContext
from envcheck.core.lint.given_options import GivenOption, figure, number, place_of
from envcheck.core.lint.model import Remark
from envcheck.core.lint.remarks import fail, graded, warn
from envcheck.core.lint.training_job import TrainingJob

TP = ("tensor_parallel_degree", "tensor_model_parallel_size")
PP = ("pipeline_parallel_degree", "pipeline_model_parallel_size")
STEPS = ("max_steps", "train_iters", "total_steps", "train_steps")
WARMUP = ("warmup_steps", "lr_warmup_iters", "num_warmup_steps", "warmup_iters", "lr_warmup_steps")


def whole(given: GivenOption | None) -> int | None:
    return number(given.value) if given is not None else None


def warmup(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        most, warm = job.option(*STEPS), job.option(*WARMUP)
        steps, first = whole(most), whole(warm)
        if warm is not None and steps and first and steps > 0 and first >= steps:
            reached = f"{steps / first:.0%}"
            seen = (
                f"a warm-up of {first} steps in a training of {steps}: the learning rate ends at {reached} of its aim"
            )
            yield fail(place_of(warm), seen, f"1 to 10 % of the steps: {max(1, steps // 20) if steps > 1 else 0}.")
        ratio = job.option("warmup_ratio", "lr_warmup_fraction", "warmup_proportion")
        share = figure(ratio.value) if ratio else None
        if ratio is not None and share is not None and not 0 <= share < 1:
            yield fail(place_of(ratio), f"a warm-up of {share:g} times the training", "A share: 0.03 to 0.1.")


_INTERVALS = (
    (("save_steps", "save_interval"), "saved", "save_strategy"),
    (("eval_steps", "eval_interval"), "evaluated", "eval_strategy"),
    (("logging_steps", "log_interval"), "logged", "logging_strategy"),
)


def never(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        steps = whole(job.option(*STEPS))
        for names, deed, strategy in _INTERVALS:
            given, how = job.option(*names), job.option(strategy)
            every = whole(given)
            if given is None or not steps or steps < 0 or every is None or every <= steps:
                continue
            if how is not None and how.value not in (None, "steps"):
                continue
            seen = f"every {every} steps, and there are {steps}: nothing is {deed} before the end"
            yield warn(place_of(given), seen, f"At most {steps}, as {max(1, steps // 2)}.")


def evaluation(context: LintContext) -> Iterator[Remark]:
    """An evaluation that is half asked for (Paddle's trainers)."""
    for job in context.jobs:
        if not (job.option("train_dataset_path") or job.option("train_dataset_type")):
            continue
        do, how = job.option("do_eval"), job.option("evaluation_strategy", "eval_strategy")
        data = job.option("eval_dataset_path")
        if how is not None and how.value not in (None, "no") and (do is None or not do.on):
            seen = "an evaluation strategy without do_eval" + (", and data to evaluate on" if data else "")
            yield warn(place_of(how), seen, "Say do_eval as well, or neither.")
        elif data is not None and do is None and how is None:
            yield warn(place_of(data), "data to evaluate on, and no do_eval", "Say do_eval, or take them away.")


def best(context: LintContext) -> Iterator[Remark]:
    """The best model is known only where a save falls on each evaluation that may be the best."""
    for job in context.jobs:
        keep = job.option("load_best_model_at_end")
        how, when = job.option("save_strategy"), job.option("eval_strategy", "evaluation_strategy")
        given = job.option("save_steps")
        every, looked = whole(given) or 0, whole(job.option("eval_steps")) or 0
        ways = {each.value for each in (how, when) if each is not None}
        if keep is None or not keep.on or None in ways or "best" in ways:
            continue
        if how is not None and when is not None and len(ways) == 2:
            seen = f"evaluated by {when.value}, saved by {how.value}: load_best_model_at_end is refused"
            yield fail(place_of(when), seen, "The same for both.")
        elif given is not None and ways <= {"steps"} and min(every, looked) > 0 and every % looked:
            seen = f"saved every {every} steps, evaluated every {looked}: load_best_model_at_end is refused"
            yield fail(place_of(given), seen, f"A multiple: {-(-every // looked) * looked}.")


def sequence(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        parallel, tp = job.option("sequence_parallel"), whole(job.option(*TP))
        length = job.option("max_seq_len", "seq_length", "max_seq_length")
        count = whole(length)
        if parallel is not None and parallel.on and length is not None and tp and count and tp > 1 and count % tp:
            yield fail(
                place_of(length),
                f"{count} tokens, which tensor parallel {tp} does not divide",
                f"{count // tp * tp or tp}",
            )


def bubble(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        stages, given = whole(job.option(*PP)), job.option("gradient_accumulation_steps")
        rounds = whole(given)
        if given is not None and stages and rounds and stages > 1 and rounds > 0:
            idle = (stages - 1) / (rounds + stages - 1)
            if idle > 0.5:
                seen = f"{stages} stages and {rounds} accumulation steps: each card waits {idle:.0%} of the time"
                yield warn(place_of(given), seen, f"{3 * (stages - 1)} would make it 25 %; the batch grows with it.")


_DATA = (
    ("train_dataset_path", "train_dataset_prob", "train_dataset_type"),
    ("eval_dataset_path", "eval_dataset_prob", "eval_dataset_type"),
)


def mixture(context: LintContext) -> Iterator[Remark]:
    """Data sets, their shares and kinds: as many of each, the shares 1 in sum."""
    for job in context.jobs:
        for names in _DATA:
            paths, probs, kinds = (job.option(name) for name in names)
            parts = [_parts(each) for each in (paths, probs, kinds)]
            if paths is None or not parts[0]:
                continue
            for given, found in ((probs, parts[1]), (kinds, parts[2])):
                if given is not None and found and len(found) != len(parts[0]):
                    yield fail(
                        place_of(given),
                        f"{len(found)} entries for {len(parts[0])} data sets",
                        f"{len(parts[0])} of them.",
                    )
            numbers = [figure(part) for part in parts[1]]
            if probs is not None and numbers and None not in numbers:
                total = sum(n for n in numbers if n is not None)
                if len(numbers) == len(parts[0]) and abs(total - 1) > 0.005:
                    yield warn(place_of(probs), f"the shares are {total:g} in sum", "1 in sum.")


def _parts(given: GivenOption | None) -> list[str]:
    if given is None or not given.values or not all(word.known for word in given.values):
        return []
    return [part.strip() for word in given.values for part in word.text.split(",") if part.strip()]


def batch(context: LintContext) -> Iterator[Remark]:
    """Megatron's global batch is a multiple of micro batch x data parallel; the rest of the processes is these."""
    for job in context.jobs:
        given, micro = job.option("global_batch_size"), job.option("micro_batch_size")
        total, small = whole(given), whole(micro)
        if given is None or not total or not small or total < 0 or small < 0 or job.option("rampup_batch_size"):
            continue
        data = _data_parallel(job)
        if total % (small * data):
            words = f"{small} x {data} data parallel" if data > 1 else f"the micro batch {small}"
            yield fail(
                place_of(given), f"a global batch of {total} is no multiple of {words}: Megatron ends", "A multiple."
            )


def _data_parallel(job: TrainingJob) -> int:
    """How many copies of the model train; 1 where nobody says, of which every number is a multiple."""
    degrees = [job.option(*names) for names in (TP, PP, ("context_parallel_size",))]
    sizes = [whole(given) if given is not None else 1 for given in degrees]
    if job.open or not job.world or not all(size and size > 0 for size in sizes):
        return 1
    model = math.prod(size or 1 for size in sizes)
    return job.world // model if job.world % model == 0 else 1  # told by training.world


def rates(context: LintContext) -> Iterator[Remark]:
    """Learning rates that no fine-tuning has."""
    for job in context.jobs:
        given = job.option("learning_rate", "lr")
        rate = figure(given.value) if given else None
        if given is not None and rate is not None and (rate >= 0.1 or rate <= 0) and given.value:
            sure = rate <= 0
            yield graded(sure, place_of(given), f"a learning rate of {given.value}", "1e-6 to 1e-3 for fine-tuning.")
        least = job.option("min_lr")
        low = figure(least.value) if least else None
        if least is not None and rate is not None and low is not None and low > rate > 0:
            yield warn(
                place_of(least),
                f"the least rate {least.value} is above the rate {given.value if given else ''}",
                "Below it.",
            )


def output_in_model(context: LintContext) -> Iterator[Remark]:
    for job in context.jobs:
        model, out = job.option("model_name_or_path", "model"), job.option("output_dir")
        if model is None or out is None or not model.value or not out.value or not re.search(r"/", model.value):
            continue
        inside = out.value.rstrip("/") == model.value.rstrip("/") or out.value.startswith(model.value.rstrip("/") + "/")
        if inside:
            yield warn(
                place_of(out), "the results are written into the model's own folder", "A folder of the run's own."
            )
