"""Options of `--on k8s` for pods: where they may run, as whom, and with which network cards."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envcheck.core.errors import UsageError
from envcheck.core.messages import Message, _
from envcheck.core.secrets import redact_text, redact_variable

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OBJECT = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_KEY = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?/)?[a-zA-Z0-9](?:[\w.-]{0,61}[a-zA-Z0-9])?"
_VALUE = r"(?:[a-zA-Z0-9](?:[\w.-]{0,61}[a-zA-Z0-9])?)?"
_LABEL = re.compile(rf"({_KEY})=({_VALUE})", re.ASCII)
_ANNOTATION = re.compile(rf"({_KEY})=([^\x00-\x1f\x7f-\x9f]{{0,4096}})", re.ASCII)
_TOLERATION = re.compile(rf"({_KEY})(?:=({_VALUE}))?(?::({'|'.join(EFFECTS)}))?", re.ASCII)
_RESOURCE = re.compile(r"([a-zA-Z0-9.-]{1,200}/[\w.-]{1,63})(?::([1-9]\d{0,3}))?", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,9}")
NAME_FORM = _("use lowercase letters, digits, dots and hyphens")


@dataclass(frozen=True)
class PodPlacement:
    """`rdma` is a resource of network cards and their number in each pod, ("", 0) for none; `ttl_s` is how long an
    ended job is kept, None for the cluster's default."""

    pull_secrets: tuple[str, ...] = ()
    tolerations: tuple[Mapping[str, str], ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""
    service_account: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    rdma: tuple[str, int] = ("", 0)
    ttl_s: int | None = None
    has_host_folders: bool = True


def parse_placement(own: Mapping[str, Any]) -> PodPlacement:
    """Return the options; UsageError for values that Kubernetes would reject."""
    secrets, account, priority = own.get("pull_secret") or (), own.get("service_account"), own.get("priority_class")
    ttl = own.get("ttl")
    for option, names in (("--pull-secret", secrets), ("--service-account", account), ("--priority-class", priority)):
        for name in (names,) if isinstance(names, str) else names or ():
            _match_form(_OBJECT, name, option, NAME_FORM)
    annotations = _parse_pairs(_ANNOTATION, own.get("annotation") or (), "--annotation")
    for name, value in annotations.items():
        if redact_variable(name, value) != value:
            _refuse_value("--annotation", name, _("remove it and use a Kubernetes Secret"))
    return PodPlacement(
        pull_secrets=tuple(secrets),
        tolerations=tuple(map(_parse_toleration, own.get("toleration") or ())),
        node_selector=_parse_pairs(_LABEL, own.get("node_selector") or (), "--node-selector"),
        priority_class=priority or "",
        service_account=account or "",
        annotations=annotations,
        rdma=_parse_rdma(own.get("rdma") or ""),
        ttl_s=int(_match_form(_SECONDS, ttl, "--ttl", _("use a number of seconds"))[0]) if ttl else None,
        has_host_folders=not own.get("no_host_folders"),
    )


def _parse_pairs(form: re.Pattern[str], texts: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        matched = _match_form(form, text, option, _("use KEY=VALUE, as Kubernetes allows them"))
        found[matched[1]] = matched[2]
    return found


def _parse_toleration(text: str) -> dict[str, str]:
    """Return a toleration of KEY[=VALUE][:EFFECT]; without a value any value is tolerated, without an effect all."""
    like = _("use KEY[=VALUE][:EFFECT], with EFFECT one of {effects}", effects=", ".join(EFFECTS))
    key, value, effect = _match_form(_TOLERATION, text, "--toleration", like).groups()
    found = {"key": key, "operator": "Exists"} if value is None else {"key": key, "operator": "Equal", "value": value}
    return {**found, "effect": effect} if effect else found


def _parse_rdma(text: str) -> tuple[str, int]:
    if not text:
        return ("", 0)
    found = _match_form(_RESOURCE, text, "--rdma", _("use NAME or NAME:COUNT, for example rdma/hca_shared_devices_a:1"))
    return found[1], int(found[2] or 1)


def _match_form(form: re.Pattern[str], text: str, option: str, like: Message) -> re.Match[str]:
    found = form.fullmatch(text)
    if found is None:
        _refuse_value(option, text, like)
    assert found
    return found


def _refuse_value(option: str, text: str, like: Message) -> None:
    raise UsageError(_("invalid value for {option}: {value!r}", option=option, value=redact_text(text)[:80]), like)
