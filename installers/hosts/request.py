"""What `envcheck provision --hosts` is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.fleet import runner
from envcheck.payload.content import Payload
from envcheck.payload.remote_command import Word


@dataclass(frozen=True)
class HostsRequest:
    """`words` go to each host, `said` is how a person wrote them; `carried` are files that they name."""

    hosts: tuple[str, ...]
    words: tuple[Word, ...]
    said: str
    carried: Payload | None = None
    fanout: int = 64
    deadline_s: float = 120.0
    forget: bool = False
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False
    resume: bool = False

    def order(self, hosts: Sequence[str], *more: str, deadline_s: float | None = None) -> runner.Order:
        words = dict.fromkeys(hosts, ("provision", *more, "--json", *self.words))
        return runner.Order(words, self.carried, self.fanout, deadline_s, self.forget)
