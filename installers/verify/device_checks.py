"""Checks on the cards: a matmul on each one, and an all-reduce across all of them; every value is compared.

They use the program of `envcheck doctor --deep`, started like a training job by the framework's own launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from envcheck.core.errors import StepError
from envcheck.core.messages import Message, _, join, ngettext
from envcheck.deep import judge, subprocesses
from envcheck.deep.interpreter import DeepResult, PythonInterpreter, Sizes
from installers.recipes.recipe import Recipe
from installers.targets.target import Target, proof_timeout_s
from installers.verify.frameworks import build_interpreter, find_training_library

START_S = 120.0  # importing paddle takes 1.2 s warm, 15 s cold on a busy machine
TEST_S = 180.0  # the first kernel of a card is compiled; an all-reduce of 16 simulated cards on two cores takes 18 s
Prove = Callable[[Recipe, Target, Mapping[str, str]], Message]


def list_proofs(recipe: Recipe) -> Iterator[tuple[Message, Prove]]:
    """Yield the checks for this recipe, each with a description for display."""
    kit = find_training_library(recipe)
    if kit and recipe.device != "cpu":
        yield _("run a matmul on every card with {library}", library=kit.name), verify_products
    if kit:
        yield _("run an all-reduce across processes with {module}", module=kit.module), verify_allreduce


def verify_products(recipe: Recipe, target: Target, env: Mapping[str, str]) -> Message:
    """Run a matmul on each card and compare it with the CPU's; return the result.

    Raises StepError if the plugin does not load, cards are missing, or a result is wrong.
    """
    interpreter, sizes = _make_interpreter(recipe, target, env), _read_sizes()
    count = count_cards(recipe, interpreter, sizes)
    results: list[DeepResult] = []
    for each in subprocesses.run_card_tests(
        interpreter, sizes, ("product",), dict.fromkeys(range(count), 0), _ignore_text, {}
    ):
        results.append(each)
        if each.hung:
            break
    if failed := [s for s in results if s.error]:
        last, numbers = failed[-1], join(", ", (str(n) for s in failed for n in s.cards))
        reason = _no_response(sizes.patience_s) if last.hung else last.error
        raise StepError(
            _("matmul failed on card {cards} ({reason}):\n{log}", cards=numbers, reason=reason, log=_quote_log(last)),
            _("the card hangs; ask the administrator of this machine to reset it")
            if last.hung
            else _doctor_hint(recipe),
        )
    if wrong := find_wrong_products(results, count):
        raise StepError(_("wrong matmul results on card {cards}", cards=wrong), _doctor_hint(recipe))
    return ngettext(
        "matmul correct on {count} card of type {kind}",
        "matmul correct on {count} cards of type {kind}",
        count,
        kind=interpreter.kind,
    )


def count_cards(recipe: Recipe, interpreter: PythonInterpreter, sizes: Sizes) -> int:
    """Return how many cards the framework finds; raise StepError if the recipe needs more."""
    seen, wanted = subprocesses.query_framework(interpreter, sizes), recipe.hardware.cards or 1
    if seen.error:
        reason = _no_response(sizes.start_s) if seen.hung else seen.error
        raise StepError(
            _("{kit} failed to start ({reason}):\n{log}", kit=interpreter.kit, reason=reason, log=_quote_log(seen)),
            _doctor_hint(recipe),
        )
    count, kind = int(seen.figures["count"]), interpreter.kind
    if not count:
        known = join(", ", map(str, seen.figures["types"])) or _("none")
        raise StepError(
            _(
                "no card of type {kind} found (loaded types: {known}): the plugin or the driver did not load",
                kind=kind,
                known=known,
            ),
            _doctor_hint(recipe),
        )
    if count < wanted:
        raise StepError(
            _(
                "this recipe needs {wanted} cards of type {kind}; {count} found",
                count=count,
                kind=kind,
                wanted=wanted,
            ),
            _doctor_hint(recipe),
        )
    return count


def find_wrong_products(results: Sequence[DeepResult], count: int) -> Message:
    """Return the cards with a wrong or missing result, and the error relative to the largest value; "" if none."""
    errors = {s.cards[0]: float(s.figures["worst"]) for s in results}
    right = {s.cards[0] for s in results if judge.is_right_product(s.figures)}
    wrong = [n for n in range(count) if n not in right]
    return join(
        ", ",
        (_("{card} (relative error {error:.2g})", card=n, error=errors.get(n, float("nan"))) for n in wrong),
    )


def verify_allreduce(recipe: Recipe, target: Target, env: Mapping[str, str]) -> Message:
    """Run an all-reduce of random vectors in one process for each card (two on a CPU); return the result.

    The processes are started like a training job.  Raises StepError if one fails or a sum is wrong.
    """
    interpreter, sizes = _make_interpreter(recipe, target, env), _read_sizes()
    count = count_cards(recipe, interpreter, sizes) if recipe.device != "cpu" else 2
    logs = f"{target.own_folder}/{subprocesses.FOLDER}"
    results = subprocesses.run_allreduce(interpreter, sizes, count, timed=False)
    if results[0].hung:
        raise StepError(
            _(
                "all-reduce in {count} processes did not finish within {limit_s:.0f} s:\n{log}",
                count=count,
                limit_s=sizes.patience_s,
                log=_quote_log(results[0]),
            ),
            _("check that the loopback interface is up and not blocked by a firewall; logs: {logs}", logs=logs),
        )
    if results[0].error:
        raise StepError(
            _(
                "all-reduce in {count} processes failed ({error}):\n{log}",
                count=count,
                error=results[0].error,
                log=_quote_log(results[0]),
            ),
            _("see the logs: {logs}", logs=logs),
        )
    for wrong in judge.find_wrong_sums(results).values():
        raise StepError(
            _("all-reduce in {count} processes returned wrong values: {wrong}", count=count, wrong=wrong),
            _("see the logs: {logs}", logs=logs),
        )
    target.make_empty_folder(subprocesses.FOLDER)
    return ngettext("all-reduce correct in {count} process", "all-reduce correct in {count} processes", count)


def _no_response(limit_s: float) -> Message:
    return _("no response within {limit_s:.0f} s", limit_s=limit_s)


def _make_interpreter(recipe: Recipe, target: Target, env: Mapping[str, str]) -> PythonInterpreter:
    kit = find_training_library(recipe)
    assert kit
    return build_interpreter(recipe.device, kit, recipe, target, env)


def _read_sizes() -> Sizes:
    return Sizes(start_s=proof_timeout_s(START_S), patience_s=proof_timeout_s(TEST_S))


def _doctor_hint(recipe: Recipe) -> Message:
    return _("run `envcheck doctor --device {device}` to check the cards", device=recipe.device)


def _quote_log(result: DeepResult) -> str:
    return "\n".join(f"    {line}" for line in result.evidence)


def _ignore_text(text: str) -> None:
    """Do not report the progress of each card."""
