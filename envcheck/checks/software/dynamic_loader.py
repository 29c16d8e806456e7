"""Checks of the dynamic loader: preloaded libraries, libstdc++ and libgomp, which break imports."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, machine_check
from envcheck.core.facts import Facts
from envcheck.core.findings import (
    local_severity,
    ok,
    quote_values,
    report_unanswered,
    requires_fact,
    skip,
    unknown,
    warn,
    warn_or_fail,
)
from envcheck.core.messages import _, mark
from envcheck.core.model import Finding, diagnose, fix
from probes.host import schemas
from probes.host.schemas import LoaderState

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
LIBCUDA = "libcuda.so.1"  # toolkit.preload checks that of Iluvatar


def check_preload(facts: Facts) -> Iterator[Finding]:
    """LD_PRELOAD names a library for this processor; otherwise the loader only warns and continues without it."""
    seen, arch = schemas.read_loader(facts), facts.host and facts.host.architecture
    if seen is None or arch is None:
        yield report_unanswered(facts, "ask loader", "ask host")
        return
    named = {path: one for path, one in seen.preload.items() if not path.endswith(LIBCUDA) or one}
    wrong = [path for path, one in named.items() if one is None or one[0] != arch]
    if wrong:
        one = named[wrong[0]]
        what = _("is built for {one}", one=one[0]) if one else _("does not exist")
        words = _(
            "Correct the path, or remove it: programs start without this library, but fail "
            "later when they need its symbols."
        )
        shown = quote_values("LD_PRELOAD", **{wrong[0]: what})
        yield warn(
            _("{path} {problem}", path=wrong[0], problem=what), diagnose(words, "echo $LD_PRELOAD"), evidence=shown
        )
    elif named:
        yield ok(_("{count} of {arch}", count=len(named), arch=arch))
    else:
        yield skip(_("LD_PRELOAD is not set"))


@requires_fact(schemas.read_loader, "ask loader")
def check_libstdcxx(seen: LoaderState, facts: Facts) -> Iterator[Finding]:
    """The first C++ library on the path has the symbols that the frameworks need."""
    wants = {path: version for path, version in seen.wants.items() if versions.sort_key(version)}
    if not wants:
        yield skip(_("no framework library found"))
    elif seen.standard is None or versions.sort_key(seen.standard[1]) is None:
        yield unknown(_("cannot determine which libstdc++ is loaded first"))
    else:
        path, most = max(wants.items(), key=lambda pair: versions.sort_key(pair[1]) or ())
        yield _compare_glibcxx(facts, path, most, *seen.standard)


def _compare_glibcxx(facts: Facts, path: str, wants: str, standard: str, gives: str) -> Finding:
    if versions.is_at_least(gives, wants):
        return ok(_("GLIBCXX_{gives} found; {wants} needed", gives=gives, wants=wants))
    words = _(
        "Install a newer libstdc++ and place it first on the library path: conda's older copy "
        "precedes the system's, or the system is too old."
    )
    commands = ("conda install -c conda-forge libstdcxx-ng", f"strings {standard} | grep GLIBCXX")
    shown = quote_values(standard, gives=f"GLIBCXX_{gives}")
    seen = _(
        "{library} needs GLIBCXX_{wants}; {standard} provides {gives}",
        library=path.rpartition("/")[2],
        wants=wants,
        standard=standard,
        gives=gives,
    )
    return warn_or_fail(local_severity(facts), seen, fix(words, *commands), evidence=shown)


def check_openmp(facts: Facts) -> Iterator[Finding]:
    """On aarch64, no libgomp of a wheel is loaded late; it would find no thread-local memory."""
    seen, arch = schemas.read_loader(facts), facts.host and facts.host.architecture
    if seen is None or arch is None:
        yield report_unanswered(facts, "ask loader", "ask host")
    elif arch != "aarch64":
        yield ok(_("{arch} does not limit static TLS", arch=arch))
    elif not seen.openmp:
        yield ok(_("no wheel contains its own libgomp"))
    elif any("libgomp" in path for path in seen.preload):
        yield ok(_("libgomp is preloaded"))
    else:
        words = _("Preload libgomp if an import fails with 'cannot allocate memory in static TLS block'.")
        shown = quote_values("libgomp", first=seen.openmp[0], number=len(seen.openmp))
        seen_words = _("{openmp_count} wheels contain libgomp, and none is preloaded", openmp_count=len(seen.openmp))
        yield warn(seen_words, fix(words, f"export LD_PRELOAD={seen.openmp[0]}"), evidence=shown)


CHECKS: tuple[Check, ...] = (
    machine_check(
        "python.preload",
        check_preload,
        reads="LD_PRELOAD, ELF headers of its files",
        source=mark("ERNIE guides for NPU and Iluvatar"),
        rule="WARN if a file is missing or for another processor",
        fix="Correct the path.",
    ),
    machine_check(
        "python.libstdcxx",
        check_libstdcxx,
        reads="version tables of libstdc++ and of the frameworks' libraries",
        source="Paddle#56047, PaddleOCR#11998, pytorch#157709",
        rule="FAIL if a framework needs a newer GLIBCXX; WARN on hosts that run jobs in containers",
        fix="Put a newer libstdc++ first on the library path.",
        frameworks=("paddle", "torch"),
    ),
    machine_check(
        "python.openmp",
        check_openmp,
        reads="libgomp in the directories of wheels, LD_PRELOAD",
        source=mark("PaddleX NPU page, LightGBM#6509, DALI#5519"),
        rule="WARN on aarch64 if wheels contain copies and none is preloaded",
        fix="Preload one with LD_PRELOAD.",
    ),
)
