"""Number options with a message such as: expected a number of seconds from 1 to 3600, got 'abc'."""

from __future__ import annotations

from typing import Any

import click

from envcheck.core.messages import Message, fill, mark


class NotInRangeError(click.BadParameter):
    """`reason`: what was expected, and the actual value."""

    def __init__(self, reason: Message, ctx: click.Context | None, param: click.Parameter | None) -> None:
        super().__init__(reason, ctx, param)
        self.reason = reason


class NumberType(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no type arguments
    """A number from `minimum` to `maximum`, inclusive; the two templates describe the expected value."""

    name = "number"
    least = mark("expected a number >= {minimum:.10g}, got {value!r}")
    between = mark("expected a number from {minimum:.10g} to {maximum:.10g}, got {value!r}")

    def __init__(self, minimum: float, maximum: float | None = None) -> None:
        self.minimum, self.maximum = minimum, maximum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            number = self.read_number(value)
        except (ValueError, OverflowError):
            number = None
        if number is None or not self.minimum <= number <= (number if self.maximum is None else self.maximum):
            template = self.least if self.maximum is None else self.between
            reason = fill(template, minimum=self.minimum, maximum=self.maximum, value=str(value)[:80])
            raise NotInRangeError(reason, ctx, param)
        return number

    def read_number(self, value: Any) -> float:
        return float(value)


class WholeNumber(NumberType):
    name = "whole number"
    least = mark("expected a whole number >= {minimum:.10g}, got {value!r}")
    between = mark("expected a whole number from {minimum:.10g} to {maximum:.10g}, got {value!r}")

    def read_number(self, value: Any) -> float:
        return int(value)


class Seconds(NumberType):
    name = "seconds"
    least = mark("expected a number of seconds >= {minimum:.10g}, got {value!r}")
    between = mark("expected a number of seconds from {minimum:.10g} to {maximum:.10g}, got {value!r}")


class WholeSeconds(WholeNumber):
    name = "whole seconds"
    least = mark("expected a whole number of seconds >= {minimum:.10g}, got {value!r}")
    between = mark("expected a whole number of seconds from {minimum:.10g} to {maximum:.10g}, got {value!r}")


class Gib(NumberType):
    name = "GiB"
    least = mark("expected a number of GiB >= {minimum:.10g}, got {value!r}")
    between = mark("expected a number of GiB from {minimum:.10g} to {maximum:.10g}, got {value!r}")
