"""The options of `envcheck provision --hosts`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envcheck.fleet import runner
from envcheck.payload.content import Payload
from envcheck.payload.remote_command import Word


@dataclass(frozen=True)
class HostsRequest:
    """`words` are the arguments for each host, `said` the same as the user typed them; `carried` are the files that
    they name.  `deadline_s` is for the dry run; `forget` removes what was copied to the hosts."""

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
    unfinished: bool = False

    def build_order(self, hosts: Sequence[str], *more: str, deadline_s: float | None = None) -> runner.FleetCommand:
        """Return the command that runs `envcheck provision` with these further arguments on the hosts."""
        words = dict.fromkeys(hosts, ("provision", *more, "--json", *self.words))
        return runner.FleetCommand(words, self.carried, self.fanout, deadline_s, self.forget)
