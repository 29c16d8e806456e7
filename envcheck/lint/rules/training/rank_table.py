"""Rules about the rank table of a job: a table of another cluster, or of an earlier one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import ip_address

from envcheck.collect.host import hccl_rank_table
from envcheck.core.lint.context import LintContext
from envcheck.core.lint.remark_builders import fail, format_names, warn
from envcheck.core.lint.script_model import UNKNOWN, ConfigBlock, Remark, ShellWord
from envcheck.core.lint.training_job import TrainingJob
from envcheck.core.messages import _, fill, join
from envcheck.scripts.vendor_words import find_vendor_words, load_vendor_words
from probes.host.network_schemas import RankTable, decode_rank_table
from probes.host.rank_table_flaws import find_rank_table_errors


def find_stale_rank_tables(context: LintContext) -> Iterator[Remark]:
    """Find errors in rank tables; compare the one that a job uses with its processes, and with this host."""
    for config in context.configs:
        if config.family == "rank_table" and not config.error and UNKNOWN.encode() not in config.block.raw:
            yield from _judge_content(config)
    names = [find_vendor_words(context.device).rank_table] if context.device else _list_variables()
    for job in context.jobs if any(names) else ():
        for name in filter(None, names):
            word = job.command.environment.get(name) or _find_option_word(job)
            if word is not None and word.is_known and word.text and job.is_training:
                yield from _judge_table(context, job, name, word)


def _judge_content(config: ConfigBlock) -> Iterator[Remark]:
    table = decode_rank_table(hccl_rank_table.parse_rank_table(config.block.raw))
    flaws = list(find_rank_table_errors(table)) if table is not None and not table.error else []
    if flaws:
        start, end = _find_second_rank(config.block.raw) or _find_list(config.block.raw)
        place = ShellWord("", config.block.map_to_file(start), config.block.map_to_file(end))
        seen = _("the rank table is wrong: {flaws}", flaws=join("; ", flaws[:3]))
        yield fail(place, seen, _("Generate the table again for the hosts of this job."))


_RANK = re.compile(rb'"rank_id"\s*:\s*"?(\d+)"?')


def _find_second_rank(raw: bytes) -> tuple[int, int] | None:
    """The place of a rank that was there before."""
    seen: set[bytes] = set()
    for match in _RANK.finditer(raw):
        if match[1] in seen:
            return match.span()
        seen.add(match[1])
    return None


def _find_list(raw: bytes) -> tuple[int, int]:
    at = max(0, raw.find(b'"server_list"'))
    return at, at + 1


def _list_variables() -> list[str]:
    return [words.rank_table for words in load_vendor_words().values()]


def _find_option_word(job: TrainingJob) -> ShellWord | None:
    given = job.find_launcher_option("rank_table_file")
    return given.values[0] if given is not None and given.values else None


def _judge_table(context: LintContext, job: TrainingJob, name: str, word: ShellWord) -> Iterator[Remark]:
    do = _("Generate the table again for the hosts of this job, or unset {variable}.", variable=name)
    path = context.machine.find_file(word.text, job.command.cwd)
    if path is None:
        if context.machine.path_exists(word.text, job.command.cwd) is False and not _is_made(job, word):
            yield warn(word, _("the rank table {path} does not exist", path=word.text[:100]), do)
        return
    table = decode_rank_table(hccl_rank_table.read_rank_table(str(path)))
    if table is None or _is_made(job, word):
        return
    flaws = [fill(table.error)] if table.error else list(find_rank_table_errors(table))
    if flaws:
        yield fail(word, _("the rank table is wrong: {flaws}", flaws=join("; ", flaws[:3])), do)
    elif job.world_size and job.world_size != len(table.cards):
        seen = _(
            "the rank table lists {listed} ranks, but the job starts {processes} processes: it is for another job",
            listed=len(table.cards),
            processes=job.world_size,
        )
        yield fail(word, seen, do)
    elif context.machine.live and not context.is_remote(job) and _lacks_host(context, table):
        seen = _("the rank table is for {servers}, and not for this host", servers=format_names(table.servers))
        yield warn(word, seen, do)


def _is_made(job: TrainingJob, word: ShellWord) -> bool:
    """Whether the script writes the table, by a redirection or as an argument of another command."""
    name = word.text.rpartition("/")[2]
    return any(
        any(each.target is not None and each.target.text.endswith(name) for each in command.redirects)
        or any(each.text.endswith(name) for each in command.words[1:])
        for command in job.script.commands
        if command is not job.command and command.name not in ("export", "echo", "cat", "ls")
    )


def _lacks_host(context: LintContext, table: RankTable) -> bool:
    """Whether no server of the table has an address of this host; False if its addresses are unknown."""
    own = {address.partition("/")[0] for each in (context.machine.interfaces or {}).values() for address in each}
    return bool(own) and all(map(_is_address, table.servers)) and not own & set(table.servers)


def _is_address(text: str) -> bool:
    try:
        return bool(ip_address(text))
    except ValueError:
        return False
