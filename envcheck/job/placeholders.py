"""The options that fill a place in the command: the node's number, the addresses, the port, the data."""

from __future__ import annotations

import re

from envcheck.core.errors import UsageError
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe, RecipeJob

_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?")
_HOST = re.compile(r"[\w:\[](?:[\w.:%\[\]-]{0,253}[\w\]])?\.?")  # a name, IPv4, IPv6 with and without brackets
FILLED = ("port", "rank", "master", "host")  # each is the token of its name


def check_placeholders(request: JobRequest, recipe: Recipe, job: RecipeJob) -> None:
    """UsageError for an option that would change nothing in this job: silence would train on other data than meant."""
    texts = (*job.launcher, *job.arguments, *job.environment.values())
    asked = {"data": request.data, **{option: getattr(request, option) for option in FILLED}}
    for option, value in asked.items():
        takes = any(f"{{{option}}}" in text for text in texts) or (option == "data" and job.own_data)
        if value is not None and not takes:
            words = f"the command of {recipe.name}, {job.method}, has no place for --{option}"
            raise UsageError(words, f"leave --{option} out, or give a recipe of your own by --recipes")
    for option in ("master", "host"):
        where = _sound(option, getattr(request, option))
        if job.nodes > 1 and _LOOPBACK.fullmatch(where):
            raise UsageError(f"--{option} {where} means each node itself", "give the address by which others reach it")
    if request.rank is not None and (request.rank >= job.nodes or job.rank not in (None, request.rank)):
        may = f"rank {job.rank}" if job.rank is not None else f"one of 0 to {job.nodes - 1}"
        raise UsageError(f"--rank {request.rank}: this node is {may}", "every number is given once, 0 to the master")


def _sound(option: str, text: str | None) -> str:
    """The host of what was said; UsageError where it can be none, or its port."""
    host, port = split_address(text or "")
    if text is not None and not _HOST.fullmatch(host):
        raise UsageError(f"--{option} {text[:80]!r} is no address", f"for instance --{option} 192.0.2.1, or a name")
    if port is not None and not (option == "master" and 1 <= port <= 65535):
        words = f"--{option} {text} names a port" if option == "host" else f"--master {text}: ports are 1 to 65535"
        raise UsageError(
            words, "give the address alone" if option == "host" else "for instance --master 192.0.2.1:29500"
        )
    return host


def fill_placeholders(request: JobRequest) -> dict[str, str]:
    """The tokens that were said."""
    master, port = split_address(request.master or "")
    own = {"rank": request.rank, "master": master, "host": request.host, "port": request.port or port}
    own["interfaces"] = request.interfaces
    return {token: str(value) for token, value in own.items() if value not in (None, "")}


def split_address(text: str) -> tuple[str, int | None]:
    """HOST or HOST:PORT; an IPv6 address with a port has brackets."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.startswith("[")):
        return host, int(port[:6])
    return text, None
