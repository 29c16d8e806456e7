"""What a shell offers behind an option: names that envcheck knows.  Each is looked up when a person presses Tab."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def of(names: Callable[[], Iterable[str]]) -> Complete:
    """Those of the names that begin as what was typed."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return sorted(name for name in names() if name.startswith(incomplete))

    return complete


def devices() -> Iterable[str]:
    from envcheck.vendors.names import device_names

    return device_names()


def checks() -> Iterable[str]:
    from envcheck.checks import CHECKS
    from envcheck.deep import table

    return {name for check in (*CHECKS, *table.checks()) for name in (check.name, check.area)}


def recipes() -> Iterable[str]:
    from installers.recipes import catalogue

    return [recipe.name for recipe in catalogue.load_all()]


def models() -> Iterable[str]:
    from installers.recipes import catalogue

    return {model for recipe in catalogue.load_all() for model in recipe.models}


def methods() -> Iterable[str]:
    from installers.recipes import catalogue

    return {job.method for recipe in catalogue.load_all() for job in recipe.jobs}


def machines() -> Iterable[str]:
    from envcheck.simulate import machine_file

    return machine_file.names()
