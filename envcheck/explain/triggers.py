"""Which lines are worth a look: the words, one of which stands in every line that the catalogue knows.

Reading must cost about as much as reading the file.  Lines that differ in figures only are looked at once (a training
prints one line a thousand times); what is new is searched for all these words in one pass, not by patterns.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from envcheck.explain.words import Words

DIGITS = b"0123456789"
# Lower case and without digits.  Short, so that few are enough; the tests see that each entry is reached through one.
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
    "backoff", "errimage", "emfile", "eacces", "eaddr", "enospc", "different", "without", "_e_", "synchron",
    "resolution", "sigint", "etimedout", " vs hf", "= inf", "externally",
)  # fmt: skip
# Messages of the C library and of the vendors' tools in a Chinese locale.
CHINESE = (
    "失败", "错误", "异常", "超时", "不足", "杀死", "终止", "拒绝", "没有", "无法", "占用", "过多", "权限",
    "不存在", "不支持", "不匹配", "不一致", "找不到", "未找到", "溢出", "空间", "使用", "吐核", "转储", "重置",
    "重设", "不可达", "是一个", "放弃",
)  # fmt: skip
_WIDE = tuple({word.encode(code) for word in CHINESE for code in ("utf-8", "gb18030")})


@functools.cache
def _all() -> Words:
    return Words([*(word.encode() for word in WORDS), *_WIDE], swift=True)


def has_trigger(text: str) -> bool:
    """Whether a line that holds this text, lower case, is looked at."""
    bare = "".join(c for c in text if not ("0" <= c <= "9"))
    return any(word in bare for word in (*WORDS, *CHINESE))


def hot(keys: Iterable[bytes]) -> list[bytes]:
    """Those of the keys (lines without their digits) in which one of the words stands, in whatever case."""
    return list(_all().lines(list(keys)))
