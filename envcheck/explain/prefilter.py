"""Select lines and patterns worth a closer look: plain words are searched before any pattern.

Triggers: reading must cost about as much as reading the file.  Lines that differ only in figures are examined once (a
training prints one line a thousand times); new lines are searched, in one pass, for the triggers, one of which occurs
in every line that the catalogue knows.

Needles: a pattern costs a microsecond per few characters; testing whether a required word occurs in a text costs next
to nothing.  Each digit is replaced by 0: that figures are adjacent is a strong hint, even if the pattern does not fix
them.  To a case-insensitive pattern, the long s and the dotless i are s and i; here they are not.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from envcheck.explain.word_search import WordSearch

DIGITS = b"0123456789"
# Triggers, lower case and without digits.  Short, so that few suffice; tests verify that each entry has one.
WORDS = (
    "rror", "fail", "xcept", "can't", "meout", "ed out", "es out", "out of", "kill", "signal", "sigterm", "sigsegv",
    "sigabrt", "sigbus", "undefined", "denied", "refused", "reset", "closed", "not ", "no such", "no space",
    "no module", "no kernel", "nvalid", "glibc", "nan", "xid", "nccl warn", "mismatch", "nsufficient", "xceed",
    "orrupt", "runcat", "too ", "abort", "dump", "fault", "nrecogn", "nexpect", "nknown", "nsupport", "missing",
    "unable", "exit", "raceback", "gated", "fatal", "hint:", "ret is", "lost", "nreach", "ncomplete", "llegal",
    "overflow", "nconsistent", "no route", "broken", "lready", "falling back", "non-zero", "uncorrect", "must be",
    "should be", "has no", ": inf", "=inf", "hang", "stuck", "dead", "conflict", "ncompatib", "requir", "oom",
    "watchdog", "unhandled", "not.", "not,", "n't", "terminat", "fragment", "no device", "fallen", "longer than",
    "is a dir", "no gpu", "nterrupt", "no cuda", "uplicate", "misalign", "ivisib", "at most", "only ", "nauthor",
    "forbid", "restricted", "awaiting", "bad ", "is empty", "no matching", "no valid", "no user", "no file",
    "no address", "no nvidia", "no npu", "no socket", "ancdata", "retry", "read-only", "force stop", "assert",
    "low on", "argv", "at least", "ready twice", "please ", "partially", "compareframe", "maybe ", "nsatisf",
    "able to be opened", "mca param", "iteration across", "the ppr", "has died", "by subset",
    "backoff", "errimage", "emfile", "eacces", "eaddr", "enospc", "different", "without", "_e_", "synchron",
    "resolution", "sigint", "etimedout", " vs hf", "= inf", "externally", "dont support", "wrong value",
    "xclusive", "unsched", "wpr", "total available", "no available", "cannot", "incompat", "templateerr",
    "what()", "unbound ", "neither af", " pd ", "pending", "cannotrun", "sandbox", "taint", "preempt",
    "as root", "evict", "pressure", "n''t", "unavailable key",
    "no solution", "nothing prov", "agenotfound", "could be f",
    "same columns", "reported lower", "low realmemory", "low socket", "differs", "overused", "no makefile",
    "expected", "removed from", "blocked for", "lockup", "panic: ",
    "waiting to start", "is expired", "compromised",
    "installable", "no rule", "provided by", "also in pack", "changed sign",
    "no parser", "[pid: ]", "no mig", "in use by", "ore other proc", "status: down", "strict repo", "must meet",
    "+corex",
)  # fmt: skip
# Messages of the C library and of the vendors' tools in a Chinese locale.
CHINESE = (
    "失败", "错误", "异常", "超时", "不足", "杀死", "终止", "拒绝", "没有", "无法", "占用", "过多", "权限",
    "不存在", "不支持", "不匹配", "不一致", "找不到", "未找到", "溢出", "空间", "使用", "吐核", "转储", "重置",
    "重设", "不可达", "是一个", "放弃",
)  # fmt: skip
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})
# The standard library's parser of patterns; before Python 3.11 it had another name.
_parser = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
MOST = 24  # words in one set: more would cost as much as the pattern
_DIGIT = re.compile(r"\d")
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)


@functools.cache
def _load_trigger_search() -> WordSearch:
    return WordSearch([*(word.encode() for word in WORDS), *_WIDE], swift=True)


def select_lines(keys: Iterable[bytes]) -> list[bytes]:
    """Return the keys (lines without their digits) that contain one of the words, in any case."""
    return list(_load_trigger_search().find_lines(list(keys)))


def mask_digits(low: str) -> str:
    """Return the text with 0 for each digit."""
    return low.encode("ascii").translate(_ZEROS).decode("ascii") if low.isascii() else _DIGIT.sub("0", low)


def may_match(pattern: re.Pattern[str], low: str) -> bool:
    """Return whether a case-insensitive pattern may match a text; `low` is the text in lower case, with zeros."""
    for some in find_needles(pattern):
        for word in some:  # any() and all() would cost three times as much as the words
            if word in low:
                break
        else:
            return False
    return True


@functools.cache
def find_needles(pattern: re.Pattern[str]) -> tuple[frozenset[str], ...]:
    """Return sets of lower-case words, rare ones first: every text that matches contains one word of each set."""
    found = {some for some in _collect_needles(_parser.parse(pattern.pattern, pattern.flags)) if len(some) <= MOST}
    return tuple(sorted(found, key=rate_rarity, reverse=True))


def rate_rarity(some: frozenset[str]) -> tuple[int, int]:
    """Rate words: long ones, figures and short sets are rare in text."""
    return min(len(word) + word.count("0") for word in some), -len(some)


def _collect_needles(parts: Iterable[Any]) -> Iterator[frozenset[str]]:
    """Of consecutive parts: each run of plain characters, and the needles of groups."""
    row = ""
    for kind, said in parts:
        plain, ends = _read_literal(str(kind), said)
        row += plain
        if ends:
            yield from _make_needle(row)
            row = ""
            yield from _collect_group_needles(str(kind), said)
    yield from _make_needle(row)


def _read_literal(kind: str, said: Any) -> tuple[str, bool]:
    """The characters that a part certainly is, and whether the next part may not be adjacent to them."""
    if kind == "LITERAL":
        return mask_digits(chr(said).lower()), False
    if kind == "IN" and all(_is_digit(str(of), which) for of, which in said):
        return "0", False
    if kind in ("MAX_REPEAT", "MIN_REPEAT") and len(said[-1]) == 1:
        plain, ends = _read_literal(*_split_part(said[-1][0]))
        return plain * said[0], ends or said[0] != said[1]
    return "", kind != "AT"  # a position, not a character: \b does not split a word


def _split_part(part: Any) -> tuple[str, Any]:
    return str(part[0]), part[1]


def _is_digit(kind: str, said: Any) -> bool:
    if kind == "RANGE":
        return bool(said[0] >= 48 and said[1] <= 57)
    return (kind == "LITERAL" and 48 <= said <= 57) or (kind == "CATEGORY" and str(said) == "CATEGORY_DIGIT")


def _make_needle(row: str) -> Iterator[frozenset[str]]:
    if row.strip():
        yield frozenset((row,))


def _collect_group_needles(kind: str, said: Any) -> Iterator[frozenset[str]]:
    """Of a part that contains others; nothing for unknown kinds."""
    if kind == "SUBPATTERN" or (kind in ("MAX_REPEAT", "MIN_REPEAT") and said[0] > 0):
        yield from _collect_needles(said[-1])
    elif kind == "BRANCH":
        ways = [max(_collect_needles(way), key=rate_rarity, default=None) for way in said[1]]
        if None not in ways:
            yield frozenset().union(*(way for way in ways if way))
