"""Completion of option values: names that envcheck knows, looked up when the user presses Tab."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def complete_from(names: Callable[[], Iterable[str]]) -> Complete:
    """Return the names that begin with the typed text."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return sorted(name for name in names() if name.startswith(incomplete))

    return complete


def list_devices() -> Iterable[str]:
    from envcheck.vendors.names import device_names

    return device_names()


def list_checks() -> Iterable[str]:
    from envcheck.checks import CHECKS
    from envcheck.deep import check_table

    return {name for check in (*CHECKS, *check_table.make_checks()) for name in (check.name, check.area)}


def list_recipes() -> Iterable[str]:
    from installers.recipes import catalogue

    return [recipe.name for recipe in catalogue.load_all()]


def list_models() -> Iterable[str]:
    from installers.recipes import catalogue

    return {model for recipe in catalogue.load_all() for model in recipe.models}


def list_methods() -> Iterable[str]:
    from installers.recipes import catalogue

    return {job.method for recipe in catalogue.load_all() for job in recipe.jobs}


def faults() -> Iterable[str]:
    from envcheck.simulate.faults import load_faults

    return load_faults()


def list_machines() -> Iterable[str]:
    from envcheck.simulate import machine_file

    return machine_file.list_machines()
