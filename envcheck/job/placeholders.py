"""Options that fill tokens of the command: node rank, addresses, port, data."""

from __future__ import annotations

import re

from envcheck.core.errors import UsageError
from envcheck.core.messages import _
from envcheck.job.request import JobRequest
from installers.recipes.recipe import Recipe, RecipeJob

_LOOPBACK = re.compile(r"localhost|127\.[\d.]+|\[?::1\]?")
_HOST = re.compile(r"[\w:\[](?:[\w.:%\[\]-]{0,253}[\w\]])?\.?")  # a name, IPv4, IPv6 with and without brackets
FILLED = ("port", "rank", "master", "host")  # option and token have the same name


def check_placeholders(request: JobRequest, recipe: Recipe, job: RecipeJob) -> None:
    """Raise UsageError for an invalid address, and for an option without effect: it might train on the wrong data."""
    texts = (*job.launcher, *job.arguments, *job.environment.values())
    asked = {"data": request.data, **{option: getattr(request, option) for option in FILLED}}
    for option, value in asked.items():
        tokens = ("{host}", "{interfaces}") if option == "host" else (f"{{{option}}}",)  # its address has an interface
        takes = any(token in text for token in tokens for text in texts) or (option == "data" and job.own_data)
        if value is not None and not takes:
            words = _(
                "the command of {name}, {method}, does not use --{option}",
                name=recipe.name,
                method=job.method,
                option=option,
            )
            raise UsageError(words, _("remove --{option}, or provide your own recipe with --recipes", option=option))
    for option in ("master", "host"):
        where = _check_address(option, getattr(request, option))
        if job.nodes > 1 and _LOOPBACK.fullmatch(where):
            raise UsageError(
                _("--{option} {where} is a loopback address", option=option, where=where),
                _("set an address that the other nodes can reach"),
            )
    joined = split_address(request.master or "")[1]
    if joined is not None and request.port is not None and joined != request.port:
        raise UsageError(
            _("--master {master} and --port {port} name different ports", master=request.master, port=request.port),
            _("use only one of them"),
        )
    if request.rank is not None and (request.rank >= job.nodes or job.rank not in (None, request.rank)):
        raise UsageError(
            _("invalid --rank {rank}: expected 0 to {last}", rank=request.rank, last=job.nodes - 1)
            if job.rank is None
            else _("invalid --rank {rank}: expected {own}", rank=request.rank, own=job.rank),
            _("use each number once; the master is 0"),
        )


def _check_address(option: str, text: str | None) -> str:
    """Return the host part of an address; UsageError for an invalid host or port."""
    host, port = split_address(text or "")
    if text is not None and not _HOST.fullmatch(host):
        raise UsageError(
            _("--{option} {address!r} is not an address", option=option, address=text[:80]),
            _("for example --{option} 192.0.2.1, or a host name", option=option),
        )
    if port is not None and not (option == "master" and 1 <= port <= 65535):
        words = (
            _("--{option} {address} contains a port", option=option, address=text)
            if option == "host"
            else _("--master {address}: expected a port from 1 to 65535", address=text)
        )
        raise UsageError(
            words,
            _("use the address without a port") if option == "host" else _("for example --master 192.0.2.1:29500"),
        )
    return host


def fill_placeholders(request: JobRequest) -> dict[str, str]:
    """Return token → value for the options that the request sets."""
    master, port = split_address(request.master or "")
    own = {"rank": request.rank, "master": master, "host": request.host, "port": request.port or port}
    own["interfaces"] = request.interfaces
    return {token: str(value) for token, value in own.items() if value not in (None, "")}


def split_address(text: str) -> tuple[str, int | None]:
    """Split HOST or HOST:PORT into (host, port or None); an IPv6 address with a port needs brackets."""
    host, colon, port = text.rpartition(":")
    if colon and port.isdecimal() and (":" not in host or host.startswith("[")):
        return host, int(port[:6])
    return text, None
