"""Proof on the cards: each one multiplies matrices, and all of them together add up vectors; every value is compared.

The program of `envcheck doctor --deep` does it, started as a training is: by the framework's own launcher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from envcheck.core.errors import StepError
from envcheck.deep import drive, judge
from envcheck.deep.interpreter import PythonInterpreter, Said, Sizes
from installers.recipes.recipe import Recipe
from installers.targets.target import Target, seconds
from installers.verify.frameworks import build_interpreter, kit_of

START_S = 120.0  # paddle's import takes 1.2 s warm, 15 s cold on a busy machine
TEST_S = 180.0  # the first kernel of a card is compiled; an all-reduce of 16 fake cards on two cores takes 18 s
Prove = Callable[[Recipe, Target, Mapping[str, str]], str]


def proofs(recipe: Recipe) -> Iterator[tuple[str, Prove]]:
    """What can be tried with this recipe, each with words for the person who waits."""
    kit = kit_of(recipe)
    if kit and recipe.device != "cpu":
        yield f"multiplying matrices on every card, by {kit.name}", cards
    if kit:
        yield f"adding up vectors in several processes, by {kit.module}", collective


def cards(recipe: Recipe, target: Target, env: Mapping[str, str]) -> str:
    """The plugin loaded, as many cards as the recipe wants are there, and each one's product is the processor's."""
    interpreter, sizes = _interpreter(recipe, target, env), _sizes()
    count = count_cards(recipe, interpreter, sizes)
    said: list[Said] = []
    for each in drive.on_cards(interpreter, sizes, ("product",), dict.fromkeys(range(count), 0), _ignore, {}):
        said.append(each)
        if each.hung:
            break
    if broken := [s for s in said if s.error]:
        last, numbers = broken[-1], ", ".join(str(n) for s in broken for n in s.cards)
        how = f"no answer in {sizes.patience_s:.0f} s" if last.hung else last.error
        raise StepError(
            f"a product failed on card {numbers} ({how}):\n{_log(last)}",
            "a card that hangs wants a reset: ask the machine's keeper" if last.hung else _more(recipe),
        )
    if wrong := wrong_products(said, count):
        raise StepError(f"cards multiply wrongly: {wrong} of the largest value", _more(recipe))
    return f"{count} cards of type {interpreter.kind} multiplied rightly"


def count_cards(recipe: Recipe, interpreter: PythonInterpreter, sizes: Sizes) -> int:
    """How many the framework sees; StepError where they are fewer than the recipe wants."""
    seen, wanted = drive.look(interpreter, sizes), recipe.hardware.cards or 1
    if seen.error:
        how = f"no answer in {sizes.start_s:.0f} s" if seen.hung else seen.error
        raise StepError(f"{interpreter.kit} failed to start ({how}):\n{_log(seen)}", _more(recipe))
    count, kind = int(seen.figures["count"]), interpreter.kind
    if not count:
        known = ", ".join(map(str, seen.figures["types"])) or "none"
        raise StepError(
            f"no card of type {kind} is there (types that loaded: {known}): the plugin or the driver did not load",
            _more(recipe),
        )
    if count < wanted:
        raise StepError(f"{count} cards of type {kind} are there, {wanted} are wanted", _more(recipe))
    return count


def wrong_products(said: Sequence[Said], count: int) -> str:
    """The cards whose product is not the processor's, or of which nothing was heard; "" where all are right."""
    errors = {s.cards[0]: float(s.figures["worst"]) for s in said}
    right = {s.cards[0] for s in said if judge.is_right_product(s.figures)}
    return ", ".join(f"{n} by {errors.get(n, float('nan')):.2g}" for n in range(count) if n not in right)


def collective(recipe: Recipe, target: Target, env: Mapping[str, str]) -> str:
    """Processes, started as a training is, sum vectors that only this run knows; on cards one for each of them."""
    interpreter, sizes = _interpreter(recipe, target, env), _sizes()
    count = count_cards(recipe, interpreter, sizes) if recipe.device != "cpu" else 2
    words, logs = f"adding up in {number(count)} processes", f"the logs are in {target.own}/{drive.FOLDER}"
    said = drive.together(interpreter, sizes, count, timed=False)
    if said[0].hung:
        raise StepError(
            f"{words} did not end in {sizes.patience_s:.0f} s:\n{_log(said[0])}",
            f"is the loopback interface up, and no firewall on it?  {logs}",
        )
    if said[0].error:
        raise StepError(f"{words} failed ({said[0].error}):\n{_log(said[0])}", logs)
    for wrong in judge.wrong_sums(said).values():
        raise StepError(f"{words} gave wrong values: {wrong}", logs)
    target.fresh(drive.FOLDER)
    return f"{number(count)} processes added up to the right values"


def number(count: int) -> str:
    return "two" if count == 2 else str(count)


def _interpreter(recipe: Recipe, target: Target, env: Mapping[str, str]) -> PythonInterpreter:
    kit = kit_of(recipe)
    assert kit
    return build_interpreter(recipe.device, kit, recipe, target, env)


def _sizes() -> Sizes:
    return Sizes(start_s=seconds(START_S), patience_s=seconds(TEST_S))


def _more(recipe: Recipe) -> str:
    return f"envcheck doctor --device {recipe.device} tells more about the cards"


def _log(said: Said) -> str:
    return "\n".join(f"    {line}" for line in said.evidence)


def _ignore(text: str) -> None:
    """Nobody is shown each card's test."""
