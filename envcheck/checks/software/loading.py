"""What the dynamic loader does to a framework before its first line runs."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.core import versions
from envcheck.core.check import Check, of_machine
from envcheck.core.facts import Facts
from envcheck.core.findings import figures, graded, here, not_told, ok, reading, skip, unknown, warn
from envcheck.core.model import Finding
from probes.host import schemas
from probes.host.schemas import Loader

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
LIBCUDA = "libcuda.so.1"  # toolkit.preload tells what is wrong with Iluvatar's


def preload(facts: Facts) -> Iterator[Finding]:
    """What LD_PRELOAD names is a library for this processor: the loader only warns, and goes on without."""
    seen, arch = schemas.loader(facts), facts.host and facts.host.architecture
    if seen is None or arch is None:
        yield not_told(facts, "ask loader", "ask host")
        return
    named = {path: one for path, one in seen.preload.items() if not path.endswith(LIBCUDA) or one}
    wrong = [path for path, one in named.items() if one is None or one[0] != arch]
    if wrong:
        one = named[wrong[0]]
        what = f"is for {one[0]}" if one else "is not there"
        words = "Correct the path, or take it out: programs start without it, and lack its symbols later."
        shown = figures("LD_PRELOAD", **{wrong[0]: what})
        yield warn(f"{wrong[0]} {what}", words, "echo $LD_PRELOAD", evidence=shown)
    elif named:
        yield ok(f"{len(named)} of {arch}")
    else:
        yield skip("LD_PRELOAD names nothing here")


@reading(schemas.loader, "ask loader")
def standard(seen: Loader, facts: Facts) -> Iterator[Finding]:
    """The C++ library that is found first has what the frameworks want of it."""
    wants = {path: version for path, version in seen.wants.items() if versions.key(version)}
    if not wants:
        yield skip("no framework's library is here")
    elif seen.standard is None or versions.key(seen.standard[1]) is None:
        yield unknown("which libstdc++ comes first could not be told")
    else:
        path, most = max(wants.items(), key=lambda pair: versions.key(pair[1]) or ())
        yield _judged(facts, path, most, *seen.standard)


def _judged(facts: Facts, path: str, wants: str, standard: str, gives: str) -> Finding:
    if versions.at_least(gives, wants):
        return ok(f"GLIBCXX_{gives}, {wants} wanted")
    words = "Put a newer one first: conda's old libstdc++ stands before the system's, or the system is too old."
    fix = ("conda install -c conda-forge libstdcxx-ng", f"strings {standard} | grep GLIBCXX")
    shown = figures(standard, gives=f"GLIBCXX_{gives}")
    seen = f"{path.rpartition('/')[2]} wants GLIBCXX_{wants}, {standard} gives {gives}"
    return graded(here(facts), seen, words, *fix, evidence=shown)


def openmp(facts: Facts) -> Iterator[Finding]:
    """On aarch64 no wheel's own libgomp comes late: it finds no room for its thread-local memory."""
    seen, arch = schemas.loader(facts), facts.host and facts.host.architecture
    if seen is None or arch is None:
        yield not_told(facts, "ask loader", "ask host")
    elif arch != "aarch64":
        yield ok(f"{arch} has room for libraries that come late")
    elif not seen.openmp:
        yield ok("no wheel brought a libgomp of its own")
    elif any("libgomp" in path for path in seen.preload):
        yield ok("libgomp is preloaded")
    else:
        words = "Preload it, where an import ends in 'cannot allocate memory in static TLS block'."
        shown = figures("libgomp", first=seen.openmp[0], number=len(seen.openmp))
        seen_words = f"{len(seen.openmp)} copies of libgomp in wheels, none preloaded"
        yield warn(seen_words, words, f"export LD_PRELOAD={seen.openmp[0]}", evidence=shown)


CHECKS: tuple[Check, ...] = (
    of_machine(
        "python.preload",
        preload,
        reads="LD_PRELOAD, the ELF heads of what it names",
        source="ERNIE's NPU and Iluvatar pages",
        rule="WARN when something is missing, or for another processor",
        fix="Correct the path.",
    ),
    of_machine(
        "python.libstdcxx",
        standard,
        reads="the version tables of libstdc++ and of the frameworks' libraries",
        source="Paddle#56047, PaddleOCR#11998, pytorch#157709",
        rule="FAIL when a framework wants a newer GLIBCXX; WARN where containers can be started",
        fix="A newer libstdc++ in front.",
        frameworks=("paddle", "torch"),
    ),
    of_machine(
        "python.openmp",
        openmp,
        reads="libgomp in the folders of wheels, LD_PRELOAD",
        source="PaddleX's NPU page, LightGBM#6509, DALI#5519",
        rule="WARN on aarch64 when wheels brought copies and none is preloaded",
        fix="LD_PRELOAD of one.",
    ),
)
