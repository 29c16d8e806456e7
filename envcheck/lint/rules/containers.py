"""docker run and its like: image, mounts, shared memory, devices."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from envcheck.lint.model import UNKNOWN, Command, Remark, Script, Word
from envcheck.lint.paper import Paper, bare, unwrapped
from envcheck.lint.rules.common import fail, graded, listed, unknown, warn

_ENGINES = ("docker", "podman", "nerdctl")
_FLAGS = frozenset(
    [
        "-i",
        "-t",
        "-d",
        "-it",
        "-ti",
        "-itd",
        "-dit",
        "-tid",
        "-di",
        "-id",
        "-td",
        "-dt",
        "--rm",
        "--privileged",
        "--init",
        "--interactive",
        "--tty",
        "--detach",
        "--read-only",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--publish-all",
        "-P",
        "--sig-proxy",
        "--quiet",
        "-q",
        "--replace",
    ]
)


@dataclass(frozen=True)
class Run:
    """A container that is started: `options` are (name, value's word)."""

    script: Script
    command: Command
    image: Word | None
    options: tuple[tuple[str, Word], ...]
    inner: tuple[Word, ...]

    def all(self, *names: str) -> list[Word]:
        return [word for name, word in self.options if name in names]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)

    @property
    def mounts(self) -> list[tuple[str, str, Word, bool]]:
        """(source, target, word, the engine refuses a source that is missing)."""
        found = []
        for word in self.all("-v", "--volume"):
            parts = word.text.split(":")
            if len(parts) > 1:
                found.append((parts[0], parts[1], word, False))
        for word in self.all("--mount"):
            pairs = dict(part.partition("=")[::2] for part in word.text.split(","))
            source = pairs.get("source") or pairs.get("src")
            target = pairs.get("target") or pairs.get("dst") or pairs.get("destination")
            if source and target and pairs.get("type") == "bind":
                found.append((source, target, word, True))
        return found

    @property
    def trains(self) -> bool:
        """Cards are given to it."""
        nodes = [w.text for w in self.all("--device")]
        return self.has("--gpus", "--runtime") or any(re.search("davinci|iluvatar|nvidia", n) for n in nodes) or (
            self.has("--privileged") and self.image is not None
        )  # fmt: skip


def runs(paper: Paper) -> Iterator[Run]:
    for script, command in paper.commands(*_ENGINES):
        words = unwrapped(command.words)
        texts = [word.text for word in words]
        at = 2 if texts[1:2] in (["run"], ["create"]) else 3 if texts[1:3] == ["container", "run"] else 0
        if at:
            yield _read(script, command, words[at:])


def _read(script: Script, command: Command, words: tuple[Word, ...]) -> Run:
    options, takes, number = [], "", 0
    for number, word in enumerate(words):
        if takes:
            options.append((takes, word))
            takes = ""
        elif word.text.startswith("-"):
            name, equals, value = word.text.partition("=")
            if equals and name.startswith("-"):
                options.append((name, Word(value, word.start, word.end, raw=word.raw)))
            elif name in _FLAGS or re.fullmatch(r"-[itdP]+", name):
                options.append((name, word))
            else:
                takes = name
        elif word.many:
            continue
        else:
            return Run(script, command, word, tuple(options), words[number + 1 :])
    return Run(script, command, None, tuple(options), ())


def pulled(paper: Paper) -> list[Word]:
    found = []
    for _, command in paper.commands(*_ENGINES):
        words = unwrapped(command.words)
        if len(words) > 2 and words[1].text == "pull":
            found += [word for word in words[2:] if not word.text.startswith("-")]
    return found


def _made(paper: Paper) -> set[str]:
    """Images that the script builds, tags or loads itself."""
    names: set[str] = set()
    for _, command in paper.commands(*_ENGINES):
        texts = [word.text for word in command.words]
        names |= {after for before, after in itertools.pairwise(texts) if before in ("-t", "--tag")}
        if "tag" in texts[1:3] or "load" in texts[1:3] or "commit" in texts[1:3]:
            names.add(texts[-1])
    return names


def image_differs(paper: Paper) -> Iterator[Remark]:
    """The document pulls one image and runs another."""
    refs = [word for word in pulled(paper) if word.known]
    made = _made(paper)
    for run in runs(paper):
        image = run.image
        if (
            image is None
            or not image.known
            or not refs
            or image.text in made
            or any(image.text == r.text for r in refs)
        ):
            continue
        like = max(refs, key=lambda ref: _likeness(ref.text, image.text))
        if _likeness(like.text, image.text) >= 0.6:
            untagged = ":" not in image.text.rpartition("/")[2]
            seen = f"{like.text} is pulled, and this is another one" + (
                ": it has no tag, the name's end is taken for its repository" if untagged else ""
            )
            yield fail(image, seen, f"Run {like.text}.")


def _likeness(one: str, other: str) -> float:
    """Of the names behind the registry."""
    ends = [re.sub(r"^[\w.-]+\.[\w.:-]+/", "", text) for text in (one, other)]
    return difflib.SequenceMatcher(None, ends[0][:200], ends[1][:200]).ratio()


def latest(paper: Paper) -> Iterator[Remark]:
    made = _made(paper)
    told: set[str] = set()
    for word in [*pulled(paper), *(run.image for run in runs(paper) if run.image is not None)]:
        text = word.text
        if (
            not word.known
            or text in made
            or text in told
            or "@sha256:" in text
            or re.fullmatch(r"[0-9a-f]{12,64}", text)
        ):
            continue
        tag = text.rpartition("/")[2].partition(":")[2]
        if tag in ("", "latest"):
            told.add(text)
            yield warn(
                word,
                f"{text[:100]} has {'the tag latest' if tag else 'no tag, that is latest'}: next month it is another",
                "A tag with a version, or the digest.",
            )


def shared_memory(paper: Paper) -> Iterator[Remark]:
    for run in runs(paper):
        ipc = [w.text for w in run.all("--ipc")]
        if not run.trains or "host" in ipc or run.command.open or any(t == "/dev/shm" for _, t, _, _ in run.mounts):
            continue
        sizes = run.all("--shm-size")
        if not sizes:
            seen = "no --shm-size: 64 MB of shared memory, too little for data loaders and collectives"
            yield warn(run.image or run.command, seen, "--shm-size 64g, or --ipc host")
        elif sizes[-1].known and (size := _mib(sizes[-1].text)) is not None and size < 1024:
            yield warn(
                sizes[-1],
                f"{sizes[-1].text} of shared memory is too little for data loaders and collectives",
                "--shm-size 64g",
            )


def _mib(text: str) -> float | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([bkmgt]?)b?", text.lower())
    return (
        float(found[1]) * {"": 2**-20, "b": 2**-20, "k": 2**-10, "m": 1, "g": 1024, "t": 2**20}[found[2]]
        if found
        else None
    )


_NEEDED = (
    (r"/(usr|usr/local|opt|opt/conda|lib|lib64|bin|sbin|etc|root|root/\.local|venv)", r"", "the image's own programs"),
    (
        r"/usr/local/(Ascend|Ascend/ascend-toolkit|Ascend/cann|Ascend/nnal|corex|cuda|python.*)",
        r"",
        "the toolkit of the image",
    ),
    (
        r"/app(/(data|src|examples))?",
        r"llama-?factory",
        "what the image has there: its data sets and dataset_info.json",
    ),
    (r"/(workspace/)?(ms-)?swift", r"swift", "the image's own checkout"),
)


def mount_over(paper: Paper) -> Iterator[Remark]:
    for run in runs(paper):
        image = run.image.text.lower() if run.image else ""
        for source, target, word, _ in run.mounts:
            for path, pattern, what in _NEEDED:
                if (
                    re.fullmatch(path, target.rstrip("/") or "/")
                    and re.search(pattern, image)
                    and source.rstrip("/") != target.rstrip("/")
                ):
                    yield warn(
                        word, f"the mount hides {what} below {target}", "Mount it elsewhere, or fill the folder first."
                    )
                    break


def mount_source(paper: Paper) -> Iterator[Remark]:
    """Sources that the engine would make as empty folders."""
    for run in runs(paper):
        doubtful = []
        for source, _, word, strict in run.mounts:
            if not source.startswith("/") or UNKNOWN in source:
                continue
            there = paper.machine.exists(source)
            if there is False and paper.here is not False:
                do = "Make it first, or mount what is meant; --mount type=bind refuses a missing source."
                npu_smi = source.endswith("/npu-smi")
                seen = f"{source[:100]} is not there" + (
                    "" if strict else ": the engine makes an empty folder of that name"
                )
                yield graded(
                    source.startswith(("/usr", "/etc", "/lib", "/dev")),
                    word,
                    seen,
                    "command -v npu-smi: on some hosts it is in sbin." if npu_smi else do,
                )
            elif not there and not strict:
                doubtful.append((source, word))
        if doubtful and paper.machine.gather is not None:
            yield unknown(
                doubtful[0][1],
                f"not looked up, for that machine is not this one: {listed(s for s, _ in doubtful)}",
                "envcheck lint on the machine itself.",
            )


def privileges(paper: Paper) -> Iterator[Remark]:
    for run in runs(paper):
        wide = [name for name, _ in run.options if name == "--privileged"]
        wide += [f"--cap-add={w.text}" for w in run.all("--cap-add") if w.text.upper() in ("ALL", "SYS_ADMIN")]
        wide += ["-v /dev:/dev" for s, t, _, _ in run.mounts if s.rstrip("/") == "/dev"]
        wide += ["--pid=host" for w in run.all("--pid") if w.text == "host"]
        if wide:
            chosen = [w.text.partition("=")[0] for w in run.all("-e", "--env") if "VISIBLE_DEVICES" in w.text]
            seen = f"{listed(dict.fromkeys(wide))}: the container may do all that the host may"
            seen += f", and has all devices whatever {chosen[0]} says" if chosen and "--privileged" in wide else ""
            place = next((w for n, w in run.options if n in ("--privileged", "--cap-add", "--pid")), run.image)
            yield warn(place or run.command, seen, "--device for each card, and the manager nodes; no more.")


_NPU_NODES = ("/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc")
_NPU_MOUNTS = ("/usr/local/Ascend/driver", "/usr/local/dcmi", "/etc/ascend_install.info")


def npu_parts(paper: Paper) -> Iterator[Remark]:
    """A container with NPUs has the manager nodes and the driver's folders."""
    for run in runs(paper):
        nodes = [w.text.partition(":")[0] for w in run.all("--device")]
        targets = [target.rstrip("/") for _, target, _, _ in run.mounts]
        davinci = [n for n in nodes if re.match(r"/dev/davinci(\d|" + UNKNOWN + ")", n)]
        runtime = any(w.text == "ascend" for w in run.all("--runtime"))
        if (
            runtime
            or run.command.open
            or not (davinci or (paper.device == "npu" and any("Ascend/driver" in t for t in targets)))
        ):
            continue
        place = next((w for w in run.all("--device")), None) or run.image or run.command
        lacking = [n for n in _NPU_NODES if n not in nodes] if davinci and not run.has("--privileged") else []
        if lacking:
            yield fail(
                place,
                f"without {listed(lacking)} no NPU can be opened",
                "".join(f"--device {n} " for n in lacking).strip(),
            )
        files = [
            p for p in _NPU_MOUNTS if not any(p == t or p.startswith(f"{t}/") or t.startswith(f"{p}/") for t in targets)
        ]
        if files and any("Ascend" in t for t in targets):
            yield warn(
                place,
                f"not mounted: {listed(files)}; tools and libraries look there for the driver",
                " ".join(f"-v {p}:{p}" for p in files),
            )
        elif files and davinci:
            yield warn(
                place,
                f"not mounted: {listed(files)}: the driver's libraries are not in the image",
                " ".join(f"-v {p}:{p}" for p in files),
            )


def fixed_name(paper: Paper) -> Iterator[Remark]:
    """A second start fails on the name."""
    for run in runs(paper):
        names = run.all("--name")
        if not names or not names[-1].known or run.has("--rm", "--replace") or "errexit" in run.command.shell:
            continue
        freed = any(
            bare(c) in _ENGINES and {"rm", "rename", "inspect", "ps"} & set(c.texts()[1:3])
            for _, c in paper.commands(*_ENGINES)
        )
        if not freed and not run.command.guarded:
            yield warn(
                names[-1],
                f"the name {names[-1].text[:60]} is fixed, and no --rm: a second start fails",
                "--rm, or docker rm first.",
            )


def open_ports(paper: Paper) -> Iterator[Remark]:
    for run in runs(paper):
        wide = [
            w for w in run.all("-p", "--publish") if w.known and re.fullmatch(r"\d+(-\d+)?:\d+(-\d+)?(/\w+)?", w.text)
        ]
        if wide:
            yield warn(
                wide[0],
                f"{listed(w.text for w in wide)}: open to everybody who reaches this host",
                f"-p 127.0.0.1:{wide[0].text}",
            )


def image_architecture(paper: Paper) -> Iterator[Remark]:
    told: set[str] = set()
    for word in [*pulled(paper), *(run.image for run in runs(paper) if run.image is not None)]:
        found = re.search(r"[:_-](x86_64|amd64|x86|aarch64|arm64|arm)([_.-]|$)", word.text)
        if not found or word.text in told:
            continue
        told.add(word.text)
        named = "aarch64" if found[1].startswith(("arm", "aarch")) else "x86_64"
        there = paper.machine.architecture
        if there is None or paper.here is False:
            yield unknown(
                word,
                f"an image for {named}; what that machine is was not looked up",
                "uname -m; the other one has its own tag.",
            )
        elif there != named:
            yield fail(
                word, f"an image for {named}, and this machine is {there}: exec format error", f"The tag for {there}."
            )


def output_lost(paper: Paper) -> Iterator[Remark]:
    """Results that are written beside the folder that is mounted for them."""
    targets = [t.rstrip("/") for run in runs(paper) for _, t, _, _ in run.mounts]
    outs = [t for t in targets if re.search(r"/(outputs?|saves?|checkpoints?|results?)$", t)]
    if not outs:
        return
    for job in paper.jobs:
        given = job.option("output_dir", "save", "output")
        if given is None or not given.value or not job.trains:
            continue
        path = given.value
        first = path.split("/")[0]
        inside = (
            any(path == t or path.startswith(f"{t}/") for t in targets)
            if path.startswith("/")
            else any(t.endswith(f"/{first}") for t in targets)
        )
        if not inside:
            yield warn(
                given.values[0],
                f"{path[:80]} is not below {listed(outs)}, which is mounted: it is lost with the container",
                f"{outs[0]}/...",
            )
