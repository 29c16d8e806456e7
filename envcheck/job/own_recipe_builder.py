"""Turn a job of the user's own into a recipe for one machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace

from envcheck.core.errors import UsageError
from envcheck.core.facts import Facts
from envcheck.core.lint.own_job import UNKNOWN_NAME, JobValue, OwnJob
from envcheck.core.messages import _
from envcheck.job.choose_cards import CardChoice, CardQuery, build_choice, choose_cards, find_listed
from envcheck.job.select import find_local_device
from installers.recipes.own_recipe import OwnRecipe
from installers.recipes.recipe import Hardware, RecipeJob
from launch.catalogue import devices
from launch.catalogue.model_fields import has_fields, parse_model_fields

TITLE_LENGTH = 60
OPTION_WORDS = ("swift", "megatron-swift", "axolotl")  # whose commands take --name value after a file, not name=value
LEAST_GIB = 1.0  # of each card: a runtime's own context takes most of it, so that nothing trains with less


def build_own_recipe(own: OwnJob, facts: Facts, device: str = "auto", count: int | None = None) -> OwnRecipe:
    """Return the recipe of an own job; device and number of cards are those of the machine if the job sets none.

    `count` are the cards that --devices names; UsageError if the job starts another number of processes.
    """
    chosen = device if device != "auto" else own.device or find_local_device(facts)
    if count is not None and own.cards not in (None, count):
        raise UsageError(
            _("--devices names {count} devices, but the job uses {cards}", count=count, cards=own.cards),
            _("name as many devices as the job uses"),
        )
    cards = own.cards or count or count_machine_cards(chosen, facts)
    given = {"device": ("--device", chosen)} if device != "auto" else {}
    given |= {"cards": ("--devices", str(cards))} if count is not None else {}
    settled = own.settle_values(given)
    settled = replace(settled, values=tuple(_fill_value(value, chosen, cards) for value in settled.values))
    method = own.find_value("method")
    title = shlex.join(own.argv)
    return OwnRecipe(
        name=own.name,
        title=title if len(title) <= TITLE_LENGTH else f"{title[: TITLE_LENGTH - 3]}...",
        device=chosen,
        framework=own.framework,
        models=(name_model(own),),
        dimensions=own.model if has_fields(own.model) else "",
        hardware=Hardware(product="", memory_gib=LEAST_GIB),
        jobs=(
            RecipeJob(
                method=own.method or (method.value if method else "") or UNKNOWN_NAME,
                title=_("own job"),
                launcher=own.argv,
                arguments=own.arguments,
                nodes=own.nodes,
                cards=cards,
                processes=cards,
                parallel=_list_degrees(own),
                steps=own.steps,
                requires=own.requires,
                data=own.data,
                outputs=(own.output,) if own.output else (),
                plan=own.plan,
                memory_gib=LEAST_GIB,
            ),
        ),
        own=settled,
    )


def name_model(own: OwnJob) -> str:
    """Return the model's name in the catalogue, its folder or what the job calls it; the size of a nameless one."""
    value = own.find_value("model")
    if has_fields(own.model):
        return parse_model_fields(own.model).name
    return own.model or (value.value if value else "") or UNKNOWN_NAME


def add_settings(own: OwnJob, settings: Sequence[str]) -> OwnJob:
    """Return the job with these NAME=VALUE as further words of its command, such as the checkpoint to resume from.

    UsageError for a script, whose command cannot be extended.
    """
    if not settings:
        return own
    if own.is_script:
        raise UsageError(
            _("{file} is a script: envcheck cannot add {setting} to its command", file=own.source, setting=settings[0]),
            _("set it in the script, or give the command itself after --"),
        )
    if own.is_file and own.framework not in OPTION_WORDS:
        return replace(own, argv=(*own.argv, *settings))
    pairs = (setting.partition("=") for setting in settings)
    return replace(own, argv=(*own.argv, *(word for name, _equals, value in pairs for word in (f"--{name}", value))))


def choose_own_cards(own: OwnJob, query: CardQuery, facts: Facts, device: str) -> CardChoice | None:
    """Return the cards that the job uses: of --devices, of its own list, or of the user's; None: the first ones.

    UsageError for --devices with a job that selects its devices itself.
    """
    if query.requested is not None:
        if own.listed:
            raise UsageError(
                _("--devices: the job selects the devices {listed} itself", listed=own.listed),
                _("change the list in the job, or remove --devices"),
            )
        return choose_cards(query, facts, device)
    v = next((each for each in facts.vendors if each.name == device), None)
    text = own.listed or (facts.environment or {}).get(v.vendor.visible_env if v else "", "")
    places = find_listed(text, v) if v and text else None
    if v is None or places is None or len(places) < query.count:
        return None  # gate.visible and gate.devices report it
    reason = (
        _("selected by the job")
        if own.listed
        else _("selected by {variable}={value}", variable=v.vendor.visible_env, value=text)
    )
    return build_choice(places[: query.count], v, reason)


def count_machine_cards(device: str, facts: Facts) -> int:
    """Return the number of the machine's cards of this device, of its default host without any, 1 for the CPU."""
    if device == "cpu":
        return 1
    found = next((v for v in facts.vendors if v.name == device), None)
    return len(found.devices) if found and found.devices else devices.find_default_device(device).cards_per_node


def _fill_value(value: JobValue, device: str, cards: int) -> JobValue:
    """Return the value with what the machine settles."""
    machine = {"device": device, "cards": str(cards)}
    if value.name not in machine or value.value or value.is_invalid:
        return value
    filled = replace(value, value=machine[value.name])
    if device == "cpu" and value.name == "cards":  # no list of visible devices changes it
        return replace(filled, where=_("the job runs on the CPU"), option="")
    return filled


def _list_degrees(own: OwnJob) -> dict[str, int]:
    """Return the degrees that must divide the processes; none if the number of processes is not known."""
    if own.cards is None or own.list_unsettled("nodes"):
        return {}
    degrees = {"tensor": own.plan.get("tp"), "pipeline": own.plan.get("pp")}
    return {name: degree for name, degree in degrees.items() if isinstance(degree, int) and degree > 1}
