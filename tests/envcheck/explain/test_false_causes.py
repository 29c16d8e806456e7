"""Lines that resemble a failure and report none, or one of another program, are no cause."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from envcheck.explain import catalogue, causality, codes, explainer, index, log_findings, scan
from envcheck.explain.diagnosis import CatalogueEntry, ExplainReport
from envcheck.explain.exceptions import api_changes
from envcheck.explain.processes import pods

ENTRIES = catalogue.load_entries()


def explain_text(text: str) -> ExplainReport:
    """Return the report of a log with this text."""
    return explainer.build_report([explainer._scan_lines("log", text.splitlines(), every=True)])


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "Failed to load image from URL https://cdn.example.org/v2/cat.jpg: connect: connection refused",
            "container.pull_network",
        ),
        ("pulled data: i/o timeout on NFS", "container.pull_network"),
        ("Failed to pull weights from registry: unexpected EOF", "container.pull_network"),
        ("Config resolved image size 224 not found in manifest unknown", "container.pull_name"),
        (
            "curl URL https://files.example.org/a/b.json returned error code: 404",
            "container.enroot_import",
        ),
        ("error: Killed by user request", "install.build_memory"),
        ("python: error: Killed 3 idle workers", "install.build_memory"),
        ("RuntimeError: FlashAttention only supports fp16 and bf16 data type", "training.dtypes"),
        ("Node is not ready yet, waiting for workers (attempt 1)", "kubernetes.node_lost"),
        ("Marking for deletion Pod default/old-debug-pod", "kubernetes.node_lost"),
        ("The dataset requires GCC 9 or later", "install.compiler_version"),
        ("requires GCC 7.5 or later (found gcc 11) ok", "install.compiler_version"),
        ("NET/IB : Got completion from peer 10.0.0.2<4> with status=77 opcode=0", "nccl.ib_completion"),
        ("RuntimeError: nvrtc: error: invalid value for --gpu-architecture (-arch)", "options.value"),
        ("RuntimeError: frobStatusUnknownError", "exceptions.choice"),
        ("RuntimeError: Frob part not found at /v/site-packages/frob/libfrob.so", "exceptions.no_such_path"),
        ("sh: 1: cicc: not found", "host.command"),
        ("misc/ibvwrap.cc:7 NCCL WARN Call to ibv_reg_dmabuf_mr failed with error Operation not supported", "nccl.ib"),
        ("ImportError: libcudart.so.77: cannot open shared object file, after import torch_npu", "cuda.library"),
    ],
)
def test_similar_lines_are_of_no_entry(line: str, name: str) -> None:
    """The entry is not found by its words alone: the line has to come from the program that the entry is about."""
    assert name not in [one.name for one in explain_text(line).diagnoses]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            "time=x level=info msg='PullImage \"registry.example.org/a:1\"' error='dial tcp: i/o timeout'",
            "container.pull_network",
        ),
        (
            "pinging container registry registry.example.org: Get x: dial tcp: no such host",
            "container.pull_network",
        ),
        (
            "Error: initializing source docker://a:1: reading manifest 1 in docker.example.org/a: manifest unknown",
            "container.pull_name",
        ),
        ("[ERROR] URL https://auth.example.org/token?a=b returned error code: 401", "container.enroot_import"),
        ("c++: internal compiler error: Killed (program cc1plus)", "install.build_memory"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "install.build_memory"),
        ("g++-12: fatal error: Killed", "install.build_memory"),
        ("RuntimeError: FlashAttention only supports fp16, bf16, and fp8_e4m3 data type", "training.attention_dtype"),
        ("2m  Warning  NodeNotReady  pod/trainer-0  Node is not ready", "kubernetes.node_lost"),
        ("a.h:4:2: error: #error The toolkit requires GCC 9 or later", "install.compiler_version"),
        ("NET/IB : Got completion from peer 10.0.0.2<4> with status=18 opcode=0", "nccl.ib_completion"),
    ],
)
def test_lines_of_the_program_are_found(line: str, name: str) -> None:
    """The forms in which the programs report the failure are still found."""
    assert name in [one.name for one in explain_text(line).diagnoses]


@pytest.mark.parametrize(
    "line",
    [
        "bash: cannot set terminal process group (-1): Inappropriate ioctl for device",
        "bash: no job control in this shell",
        "bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8): No such file or directory",
        "stty: error: standard input: Inappropriate ioctl for device",
    ],
)
def test_harmless_lines_are_not_quoted(line: str) -> None:
    """What a shell without a terminal prints at its start is no last-resort cause."""
    assert not explain_text(f"{line}\nstarting\n").diagnoses


def test_level_is_no_component() -> None:
    """The word for the level, even twice, is not the program that writes."""
    found = explain_text("Error: error: frob 'b' not found\n").diagnoses

    assert [(one.name, one.description) for one in found] == [
        ("components.message", "A program refuses to continue: frob 'b' not found")
    ]


def list_texts(entry: CatalogueEntry) -> list[str]:
    return [causality.fill_placeholders(text, {}) for text in (entry.says, entry.why, entry.do)]


# "for the image" and "its limit" are general words in place of a value that the line does not have.
CLUMSY = re.compile(
    r"\b(?!that\b)(\w+) \1\b|\b(?:the|an?|no|its) (?:the|an?|its)\b"
    r"|(?<![\w-])(\w{3,}) (?:of )?(?:the|its|an?) \2\b|\bmany\b (?:bytes|MiB|GiB|s)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_texts_without_values_are_sentences(entry: CatalogueEntry) -> None:
    """Without the values of a line, no text has a word twice in a row, two articles, or a noun twice."""
    assert not [text for text in list_texts(entry) if CLUMSY.search(text)]


@pytest.mark.parametrize(
    "text",
    [
        "exceeded its limit of its limit",
        "The the object is missing",
        "no image the image",
        "an object of many bytes",
        "uses the node the node",
    ],
)
def test_clumsy_texts_are_seen(text: str) -> None:
    """The check above finds the sentences for which it was made."""
    assert CLUMSY.search(text)


@pytest.mark.parametrize(
    ("text", "values", "filled"),
    [
        ("Lost (step {step}): {what}", {}, "Lost"),
        ("Lost (step {step}): {what}", {"step": "4.0", "what": "full"}, "Lost (step 4.0): full"),
        ("Failed ({code}: {meaning}) on {host}", {}, "Failed on the host"),
        ("Failed ({code}: {meaning})", {"code": "7"}, "Failed (7: see the adjacent text)"),
        ("Failed: {device}, {what}", {"what": "ECC"}, "Failed: ECC"),
        ("Failed: {device}, {what}", {}, "Failed"),
        ("No object: {kind} {name}", {"name": "a"}, "No object: a"),
        ("No object: {kind} {name}", {"kind": "secret", "name": "a"}, "No object: secret a"),
        ("Sizes: {name} differs", {}, "Sizes: the name differs"),
        ("The registry {registry} refuses", {}, "The registry refuses"),
        ("The {kind} is missing", {}, "The object is missing"),
    ],
)
def test_what_a_line_does_not_have_is_left_out(text: str, values: dict[str, str], filled: str) -> None:
    """Optional parts without a value disappear; elsewhere general words are used, without a second article."""
    assert causality.fill_placeholders(text, values) == filled


@pytest.mark.parametrize(
    ("line", "title"),
    [
        (
            "trainer-0   0/1     OOMKilled   0          3m",
            "The container exceeded its memory limit and was killed (OOMKilled)",
        ),
        ("reading manifest 1: manifest unknown", "The registry does not have the image"),
    ],
)
def test_titles_without_values(line: str, title: str) -> None:
    """A line with few values has a title that is true and complete."""
    assert explain_text(line).diagnoses[0].description == title


PROGRAM = re.compile(r"(?:[A-Z_][A-Z0-9_]{0,60}=\S* )*(?:sudo )?(?:[a-z\[][\w.+-]*|[A-Z]+|[./]\S*)(?: |$|;)")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_commands_start_with_a_program(entry: CatalogueEntry) -> None:
    """Each command can be pasted into a shell: none is a comment, an option, or the setting of another program."""
    assert not [command for command in entry.commands if not PROGRAM.match(command)]


def test_kind_of_a_command_is_one_word() -> None:
    """The kind of a missing object is the name that kubectl knows."""
    line = "pods x is forbidden: error looking up service account team-a/trainer: not found yet"
    found = explain_text(line).diagnoses[0]

    assert (found.name, found.commands[0]) == ("kubernetes.missing_object", "kubectl get KIND -A | grep trainer")
    assert found.description == "The pod needs an object that does not exist: trainer"


def test_commands_are_for_the_card_of_the_log() -> None:
    """The card whose memory is at fault is examined, not the first one."""
    log = "device_id=5, stream_id=2\nerrorStr: A multi-bit ECC error occurs when MTE reads UB.\n"
    found = explain_text(log).diagnoses[0]

    assert found.commands == ("npu-smi info -t health -i 5", "npu-smi info -t ecc -i 5")
    assert "(device 5)" in found.description


def test_all_failed_completions_have_a_meaning() -> None:
    """Each status of libibverbs but success and lost packets has a row."""
    assert codes.load_code_tables()["ib_status"].keys() == {str(n) for n in range(1, 24) if n != 12}


PRINTED = """Name: actor
Version: 1.2
Summary: a printed configuration
Home-page: x
ssh: Could not resolve hostname worker-1: Name or service not known
Name: critic
Version: 1.2
Summary: a printed configuration
Home-page: x
ORTE was unable to reliably start one or more daemons.
"""


def test_printed_names_open_no_section() -> None:
    """Names that another program prints do not separate a cause from its consequence."""
    causes = {one.name: one.caused_by for one in explain_text(PRINTED).diagnoses}

    assert causes["network.ssh_name"] == ""
    assert [cause for name, cause in causes.items() if name != "network.ssh_name"] == ["network.ssh_name"]


DESCRIBED = b"Name:         %s\nNamespace:    team-a\nStatus:       Running\n\n"


def test_described_objects_open_sections() -> None:
    """What kubectl describes is a section, also where the block ends after the name."""
    text = DESCRIBED % b"a-0" + DESCRIBED % b"b-0"

    assert pods.list_sections(text, 0) == [(1, "a-0"), (5, "b-0")]
    assert pods.list_sections(text + b"Name:         c-0\n", 0)[2:] == [(9, "c-0")]


def test_lines_after_the_last_kept_section_are_of_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more sections than are kept, the last kept one does not get the lines of the others."""
    monkeypatch.setattr(pods, "MOST", 2)
    some = [(1, "a"), (5, "b"), (9, "c")]
    sections = pods.join_sections(pods.join_sections([], some), [(13, "d")])

    assert [pods.find_object("x", line, sections) for line in (2, 6, 10, 14)] == ["a", "b", "", ""]


def test_surroundings_are_read_for_kept_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many lines of one entry, the lines around are searched for the few that are shown."""
    read, asked = index.read_surroundings, Counter[str]()

    def count(entry: CatalogueEntry, *rest: object) -> dict[str, str]:
        asked[entry.name] += 1
        return read(entry, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(scan, "read_surroundings", count)
    words = (f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(90))
    explain_text("".join(f"-t nfs {'a.' * 50} x mount.nfs: bad {word} option\n" for word in words))

    assert 0 < asked["kubernetes.mount"] <= log_findings.SHOWN


def test_replacements_exist() -> None:
    """What is given in place of a removed name was not removed as well, unless what replaced it is given too."""
    changes = api_changes.load_changes()
    dead = [
        name
        for name, change in changes.items()
        if change.instead
        and (later := changes.get(f"{name.rpartition('.')[0]}.{change.instead}"))
        and later.package == change.package
        and later.removed
    ]

    assert not dead
    assert changes["argv.sft_type"].instead == "train_type, ms-swift>=4.1: tuner_type"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "RuntimeError: Error(s) in loading state_dict for GPTModel:\n"
            '        Missing key(s) in state_dict: "decoder.layers.0.mlp.linear_fc1._extra_state". ',
            ["megatron.extra_state"],
        ),
        (
            "ImportError: /usr/local/corex/lib: libcuda.so.1: cannot open shared object file: No such file",
            ["iluvatar.preload"],
        ),
        (
            "could not load NVML library: libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
            ["container.plugin_nvml"],
        ),
        (
            'Traceback (most recent call last):\n  File "/opt/py/lib/python3.11/multiprocessing/context.py", line 6, '
            "in Lock\n    return Lock(ctx=self.get_context())\n"
            '  File "/opt/conda/lib/python3.11/multiprocessing/synchronize.py", line 57, in __init__\n'
            "    sl = self._semlock = _multiprocessing.SemLock(\nOSError: [Errno 38] Function not implemented",
            ["host.semaphores"],
        ),
        ("[   10.1] Loading of module with unavailable key is rejected", ["host.kernel_module"]),
    ],
)
def test_whole_answer(text: str, names: list[str]) -> None:
    """Of lines that several entries know, the answer has the cause alone."""
    assert [one.name for one in explain_text(text).diagnoses] == names


def test_no_name_is_twice() -> None:
    """Each name of a package has one row, whose releases do not depend on the order of the rows."""
    listed = Counter((change.package, name) for change in api_changes._load_file().changes for name in change.names)

    assert not [name for name, count in listed.items() if count > 1]


@pytest.mark.parametrize(("module", "installs"), [("swift", True), ("torch", False), ("paddle", False)])
def test_mixed_release_keeps_the_build(module: str, installs: bool) -> None:
    """A package is installed again by its name in pip and in its release; a vendor's build is not."""
    site = f"/opt/conda/lib/python3.11/site-packages/{module}"
    text = (
        'Traceback (most recent call last):\n  File "/w/train.py", line 2, in <module>\n    main()\n'
        f'  File "{site}/frob.py", line 7, in <module>\n    from .utils import check_frob\n'
        f"ImportError: cannot import name 'check_frob' from '{module}.utils' ({site}/utils.py)\n"
    )
    found = explain_text(text).diagnoses[0]

    assert (found.name, bool(found.commands)) == ("exceptions.mixed_release", installs)
    assert all("grep -i '^ms-swift==' | xargs" in one for one in found.commands)


def test_accepted_difference_is_of_no_entry() -> None:
    """A line that accepts the difference it found is not shown, whatever fails afterwards."""
    lines = [
        "Installed CUDA version 12.4 does not match the version torch was compiled with 12.1 but since the APIs are "
        "compatible, accepting this combination",
        "frob.h:12:10: fatal error: Python.h: No such file or directory",
        "RuntimeError: Error building extension 'frob_adam'",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses

    assert found[0].name == "install.system_header"
    assert "cuda.toolkit_version" not in {one.name for one in found}


def test_operator_that_nothing_needs() -> None:
    """DeepSpeed's list of operators that it could not build here is no failure of a run that trains."""
    lines = [" [WARNING]  async_io requires the dev libaio .so object and headers but these were not found."]
    lines += [f"{{'loss': 1.{step}, 'learning_rate': 5e-05, 'epoch': 0.0{step}}}" for step in range(1, 5)]

    assert not explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses


def test_hook_without_the_driver_library() -> None:
    """That the hook does not find the driver's library does not mean that the host has no driver."""
    line = "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared"
    found = explainer.diagnose([line])[0]

    assert "load library failed: libnvidia-ml.so.1" in found.description
    assert "docker context ls" in " ".join(found.commands)


PEER = "Cuda failure 217 'peer access is not supported between these two devices'"


GRAPH_WARNING = "w0:3:4 [0] graph/search.cc:7 NCCL WARN XML Import Channel : dev 2 not found."
NCCL_FAILED = "torch.distributed.DistBackendError: NCCL error in: a.cpp:1, unhandled system error"
SYMBOL = ".so: undefined symbol: _ZN2at4_ops4frob4callEv"
NO_SPACE = "OSError: [Errno 28] No space left on device"
MAP_DIED = "RuntimeError: One of the subprocesses has abruptly died during map operation."
TOO_FEW = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
VLLM_FRAME = '  File "/v/vllm/executor/frob_executor.py", line 7, in init'


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ((f"w1:3:7 [2] transport/shm.cc:590 NCCL WARN {PEER}",), "nccl.host_memory"),
        (("unhandled cuda error, NCCL version 2.27.3", "Last error:", PEER), "nccl.host_memory"),
        (("unhandled cuda error, NCCL version 2.21.5", "Last error:", PEER), "nccl.p2p"),
        ((f"w1:3:7 [2] transport/p2p.cc:240 NCCL WARN {PEER}", "NCCL version 2.27.3"), "nccl.p2p"),
        (
            (
                "[W frob.cpp:1] Warning: NPU warning, error code is 507048[Error]:",
                "EI0002: [PID: 7] The wait execution of the Notify register times out.",
                "Cluster Exception Location[IP/ID]:[192.0.2.7/5], Arrival Time:[Fri], ExceptionType:[Stuck Occurred]",
            ),
            "hccl.cluster_exception",
        ),
        (("    self.engine.wake_up()", "CUDA Error: out of memory at /b/csrc/cumem_allocator.cpp:9"), "memory.engine"),
        (("    loss.backward()", "CUDA Error: out of memory at /b/csrc/block.cpp:9"), "memory.card"),
        (("w0:3:4 [1] NCCL WARN NET/IB : Got completion error 12",), "nccl.ib_retry"),
        (
            ("w0:3 [0] NCCL INFO NCCL_TOPO_FILE set by environment to /f/frob.xml", GRAPH_WARNING, NCCL_FAILED),
            "nccl.foreign_file",
        ),
        ((GRAPH_WARNING, NCCL_FAILED), "nccl.warn"),
        (("Loading extension module frob...", f"ImportError: /w/frob/build/frob{SYMBOL}"), "python.stale_extension"),
        (
            ("Loading extension module frob...", f"ImportError: /c/torch_extensions/py310_cu121/frob/frob{SYMBOL}"),
            "python.stale_extension",
        ),
        ((f"ImportError: /w/frob/build/frob{SYMBOL}",), "python.plugin_pair"),
        (("ray::Frob.init()", VLLM_FRAME, "RuntimeError: CUDA error: invalid device ordinal"), "cuda.worker_device"),
        ((VLLM_FRAME, "RuntimeError: CUDA error: invalid device ordinal"), "cuda.device_number"),
        (
            ("ray::Frob.init()", '  File "/w/frob.py"', "RuntimeError: CUDA error: invalid device ordinal"),
            "cuda.device_number",
        ),
        (
            (
                "RuntimeError: Error(s) in loading state_dict for Frob:",
                "  While copying shape [7], an exception occurred : ('Cannot copy out of meta tensor; no data!',)",
            ),
            "model.meta_tensor",
        ),
        (
            ("KeyboardInterrupt: terminated", "Container frob failed liveness probe, will be restarted"),
            "kubernetes.probe",
        ),
        (("KeyboardInterrupt: terminated",), "launcher.ended_by_us"),
        (("KeyboardInterrupt",), "training.interrupted"),
        (('  File "/p/datasets/arrow_writer.py", line 7, in f', NO_SPACE), "host.data_disk"),
        (('  File "/p/torch/serialization.py", line 7, in save', NO_SPACE), "host.disk_full"),
        ((MAP_DIED, "slurmstepd: error: Detected 3 oom_kill events in StepId=7.0."), "scheduler.memory_limit"),
        ((MAP_DIED,), "training.worker_exit"),
        ((TOO_FEW, "factory.go:87] Incompatible strategy detected auto"), "container.plugin_nvml"),
        ((TOO_FEW,), "scheduler.too_few_cards"),
        (("ValueError: bf16 mixed precision requires PyTorch >= 1.10", MISMATCH), "cuda.driver_mismatch"),
        (("frob.InvalidMessageStructureException: Expected last role Assistant but got user",), "model.roles"),
    ],
)
def test_lines_around_choose_the_cause(lines: tuple[str, ...], name: str) -> None:
    """The same words have another cause with another release, in another file or beside an inference engine."""
    assert explain_text("\n".join(lines)).diagnoses[0].name == name


def test_conflict_after_an_installation() -> None:
    """Packages that do not fit are a warning where pip installed them; a program that refuses them failed."""
    said = "ERROR: pip's dependency resolver does not take frob.\nfrob 7 requires quux<5, but you have quux 7 "
    done = f"{said}which is incompatible.\nSuccessfully installed quux-7\n"
    refused = "ImportError: quux<5 is required for a normal functioning of this module.\n"

    assert [one.kind for one in explain_text(done).diagnoses] == ["warning"]
    assert explain_text(done + refused).diagnoses[0].name == "python.requirement"


def test_setting_in_a_union_of_types() -> None:
    """The path of a refused setting has no types of pydantic; numbers of YAML are explained for numbers only."""
    head = "pydantic_core._pydantic_core.ValidationError: 1 validation error for Zero\n"
    enum = "mode.str-enum[Mode]\n  Input should be 'a' or 'b' [type=enum, input_value='c', input_type=str]"
    number = "rate\n  Input should be a valid number [type=float_type, input_value='x', input_type=str]"
    found = [explain_text("\n".join([*make_traceback("")[:-1], head + last])).diagnoses[0] for last in (enum, number)]

    assert found[0].description.endswith(": mode (Zero), Input should be 'a' or 'b' (given: 'c')")
    assert ["1.0e-5" in one.why for one in found] == [False, True]


PLACED = "ValueError: DeepSpeed Zero-3 is not compatible with passing a `device_map`."


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("ValueError: No file with name: consolidated.00.pth found in /m.", "original/"),
        ("ValueError: No file with name: model-7.safetensors found in /m.", "--ignore-patterns"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_120'", "CUDACXX"),
        ("X with CUDA capability sm_120 is not compatible with this", "(sm_120: python3 -m pip install -U torch"),
        ("X with CUDA capability sm_70 is not compatible with this", "newer CUDA. Is it older"),
        ("ImportError: Using `bitsandbytes` 8-bit quantization requires the latest version", "restart the runtime"),
        (f'  File "/v/unsloth/models/frob.py"\n{PLACED}', "(unsloth/models/frob.py)."),
        (f'  File "/v/frob/models/frob.py"\n{PLACED}', "device_map itself."),
    ],
)
def test_remedy_for_what_the_line_names(line: str, remedy: str) -> None:
    """The remedy is that of the missing file, and not only of torch's builds."""
    assert remedy in explain_text(line).diagnoses[0].do


def test_certificate_hides_the_hub() -> None:
    """A hub whose certificate is refused cannot be reached: the certificate is the only cause."""
    hub = "it looks like team/base is not the path to a directory containing a file named config.json."
    found = explain_text(f"ssl.SSLError: certificate verify failed: frob\nOSError: {hub}").diagnoses

    assert {one.name: one.caused_by for one in found}["network.hub_or_folder"] == "network.tls_certificate"


def test_source_line_is_no_message() -> None:
    """The source line that raises an exception has places for values: only the exception's own line is evidence."""
    found = explain_text(
        "Traceback (most recent call last):\n"
        '  File "/w/a.py", line 7, in load\n'
        '    raise ValueError(f"Can\'t find a valid checkpoint at {folder}")\n'
        "ValueError: Can't find a valid checkpoint at /w/out/checkpoint-7"
    ).diagnoses[0]

    assert (found.name, found.count, [line.line for line in found.evidence]) == ("model.no_checkpoint", 1, [4])
    assert found.description.endswith("/w/out/checkpoint-7")


HTTP_TRACE = (
    'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.10/site-packages/urllib3/response.py", line '
    "444, in _error_catcher\n    yield\nConnectionResetError: [Errno 104] Connection reset by peer\n\n"
    'Traceback (most recent call last):\n  File "/opt/conda/lib/python3.10/site-packages/requests/models.py", line '
    "818, in generate\n    raise ChunkedEncodingError(e)\nrequests.exceptions.ChunkedEncodingError: "
    "(\"Connection broken: ConnectionResetError(104, 'Connection reset by peer')\", ConnectionResetError(104))\n"
)


def test_cut_download_is_not_of_a_rank() -> None:
    """A reset connection in a client of HTTP is no lost rank, though its first line looks like one."""
    assert [one.name for one in explain_text(HTTP_TRACE).diagnoses] == ["network.http_cut"]


OLD_FULL = (
    "NPU out of memory. Tried to allocate 88.00 MiB (NPU 0; 60.96 GiB total capacity; {0} GiB already "
    "allocated; {0} GiB current active; 7.47 MiB free; {0} GiB reserved in total by PyTorch)"
)
FULL = "CUDA out of memory. Tried to allocate 9.00 MiB. GPU {} has a total {} of 23.69 GiB of which 1.75 MiB is free."


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (FULL.format("0", "capacty"), "exceptions.memory_forward"),
        (FULL.format("", "capacity"), "exceptions.memory_forward"),
        (OLD_FULL.format("4.37"), "exceptions.memory_shared"),
        (OLD_FULL.format("58.10"), "exceptions.memory_forward"),
        ("CUDA out of memory. Tried to allocate 258.00 MiB.", "memory.card"),
        ("Allocation on device 0 would exceed allowed memory. (out of memory)", "memory.card"),
    ],
)
def test_full_card_in_all_spellings(text: str, name: str) -> None:
    """A full card is named as such in the texts of all releases of torch, with or without numbers."""
    log = (
        'Traceback (most recent call last):\n  File "/opt/py/lib/python3.11/site-packages/transformers/models/a.py", '
        f"line 173, in forward\n    return self.down(x)\ntorch.cuda.OutOfMemoryError: {text}\n"
    )

    assert explain_text(log).diagnoses[0].name == name


def test_missing_program_is_no_missing_file() -> None:
    """A program that subprocess cannot start is not installed; no path of the training is wrong."""
    log = (
        'Traceback (most recent call last):\n  File "/w/a.py", line 9, in <module>\n    subprocess.run(["ninja"])\n'
        '  File "/opt/conda/lib/python3.10/subprocess.py", line 1863, in _execute_child\n'
        "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'ninja'\n"
    )

    assert [one.name for one in explain_text(log).diagnoses] == ["host.program"]


FINISHED = "{'loss': 0.9932, 'epoch': 1.0}\n{'train_runtime': 1222.12, 'train_loss': 1.09, 'epoch': 1.0}\n"
QUOTED = "\u2502 7 \u2502 Traceback (most recent call last): KeyError: 'text'   \u2502\n"
CLEANED = (
    "Exception ignored in: <function Engine.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    '  File "/opt/conda/lib/python3.10/site-packages/frob/engine.py", line 500, in __del__\n'
    "AttributeError: 'NoneType' object has no attribute 'close'\n"
)


@pytest.mark.parametrize("text", [QUOTED + FINISHED, FINISHED + CLEANED])
def test_quoted_and_ignored_exceptions_are_quiet(text: str) -> None:
    """A row of a table of samples, and an exception in a clean-up, report no failure."""
    found = explain_text(text)

    assert (found.diagnoses, found.raised) == ((), None)


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("\u2502 CUDA error: out of memory       \u2502", ["memory.card"]),
        ("\u2502 7 \u2502 CUDA error: out of memory   \u2502", []),
        ("\u2502    13 raise RuntimeError('CUDA error: out of memory')   \u2502", []),
    ],
)
def test_box_of_an_error_is_no_table(row: str, names: list[str]) -> None:
    """An error in a box of one column is reported; a row of a table and rich's source line report nothing."""
    found = explain_text(f"\u256d\u2500 Error \u2500\u256e\n{row}\n\u2570\u2500\u2500\u256f\n")

    assert [one.name for one in found.diagnoses] == names


def test_closed_session_is_one_cause() -> None:
    """The output that a closed terminal does not take is a consequence of the hangup."""
    log = (
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 1\n"
        'Traceback (most recent call last):\n  File "/w/run.py", line 2, in main\n    print(step)\n'
        "OSError: [Errno 5] Input/output error\n"
    )

    found = {one.name: one for one in explain_text(log).diagnoses}

    assert found["host.output_lost"].caused_by == "exit.hangup"


def test_steps_passed_on_by_ray_are_in_order() -> None:
    """An alarm of Ray before many steps of its worker ended nothing."""
    alarm = (
        "(raylet) [2026-02-03 04:05:06,213 E 11 11] (raylet) file_system_monitor.cc:111: /tmp/ray/s is over 95% full, "
        "available space: 21474836480; capacity: 536870912000.\n"
    )
    steps = "".join(f"(TaskRunner pid=991) step:{step} - actor/pg_loss:0.002 - score:0.3\n" for step in range(1, 6))

    assert [one.kind for one in explain_text(alarm + steps).diagnoses] == ["warning"]
    assert explain_text(alarm + steps).verdict == "running"


@pytest.mark.parametrize(
    ("frame", "last", "name"),
    [
        (
            '/opt/py/site-packages/tqdm/std.py", line 452, in fp_write\n    fp.write(str(s))',
            "OSError: [Errno 5] Input/output error",
            "host.output_lost",
        ),
        (
            '/w/train.py", line 4, in <module>\n    sys.stdout.write(text)\n    ~~~~~~~~~~~~~~~~^^^^^^',
            "OSError: [Errno 5] Input/output error",
            "host.output_lost",
        ),
        (
            '/w/train.py", line 4, in <module>\n    print(f"loss {loss.item():.3f}", flush=True)',
            "OSError: [Errno 5] Input/output error",
            "host.output_lost",
        ),
        (
            '/w/train.py", line 4, in <module>\n    print(open("x").read())',
            "OSError: [Errno 5] Input/output error",
            "host.io",
        ),
        (
            '/w/train.py", line 4, in <module>\n    print(step, file=results)',
            "OSError: [Errno 5] Input/output error",
            "host.io",
        ),
        (
            '/opt/py/json/__init__.py", line 180, in dump\n    fp.write(chunk)',
            "OSError: [Errno 5] Input/output error",
            "host.io",
        ),
        (
            '/opt/py/logging/__init__.py", line 1114, in emit\n    stream.write(msg + self.terminator)',
            "OSError: [Errno 5] Input/output error",
            "host.io",
        ),
        (
            '/w/train.py", line 4, in <module>\n    print(step)',
            "BrokenPipeError: [Errno 32] Broken pipe",
            "host.output_lost",
        ),
        (
            '/opt/py/multiprocessing/connection.py", line 629, in SocketClient\n    s.connect(address)',
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "training.worker_lost",
        ),
        (
            '/opt/py/site-packages/wandb/sdk/lib/frob.py", line 4, in send\n    self.sock.send(data)',
            "BrokenPipeError: [Errno 32] Broken pipe",
            "training.tracker_process",
        ),
    ],
)
def test_lost_reader_or_worker_is_no_rank(frame: str, last: str, name: str) -> None:
    """Where the frames show a terminal, a pipe or a worker of this machine, no disk and no other rank is at fault."""
    log = (
        f'Traceback (most recent call last):\n  File "/w/run.py", line 2, in main\n    go()\n  File "{frame}\n{last}\n'
    )

    assert [one.name for one in explain_text(log).diagnoses] == [name]


def test_consequence_names_a_shown_cause() -> None:
    """A consequence of a consequence that is left out names the cause of that one, and is printed as a consequence."""
    line = "nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown."
    found = explain_text(f"error running hook #0: error running hook: exit status 1, stdout: x\n{line}").diagnoses

    assert {one.caused_by for one in found[1:]} <= {one.name for one in found}


FULL = "RuntimeError: CUDA out of memory. Tried to allocate 7.00 GiB"
BEFORE_THE_START = [
    "fatal: destination path 'frob' already exists and is not an empty directory.",
    "E: Unable to locate package frob",
    "start.sh: line 7: [: -eq: unary operator expected",
    "EnvironmentNameNotFound: Could not find conda environment: frob",
    "sudo: a terminal is required to read the password",
    "Error response from daemon: No such container: frob-old",
    'Error from server (NotFound): jobs.batch "frob-old" not found',
    'Error from server (AlreadyExists): error when creating "frob.yaml": jobs.batch "frob" already exists',
    'Error from server (Conflict): error when applying patch to jobs.batch "frob"',
    "openai.BadRequestError: Error code: 400 - {'message': 'The model does not support Embeddings API'}",
]


@pytest.mark.parametrize("line", BEFORE_THE_START)
def test_script_that_went_on_names_the_later_failure(line: str) -> None:
    """What a script survives is shown, and is not the cause of what the program reports later; alone it is shown."""
    alone = explain_text(line).diagnoses
    both = explain_text(f"{line}\n{FULL}\n").diagnoses

    assert [one.kind for one in alone] == ["symptom"]
    assert both[0].kind == "cause"
    assert both[0].name != alone[0].name
    assert alone[0].name in [one.name for one in both]


def test_environment_that_is_not_active_causes_a_missing_module() -> None:
    """A module is missing because conda did not activate the environment."""
    lines = "CondaError: Run 'conda init' before 'conda activate'\nModuleNotFoundError: No module named 'frob'\n"
    first, second = explain_text(lines).diagnoses

    assert (first.name, second.name, second.caused_by) == ("install.conda_fault", "python.module", first.name)
    assert "source $(conda info --base)" in first.do


@pytest.mark.parametrize("ahead", ["#7 1.234 ", "[pod/frob-worker-7-with-a-long-name-0a1b2c/main-container-of-it] "])
def test_steps_of_an_image_and_pods_are_read(ahead: str) -> None:
    """A line of a step of BuildKit is no comment, and what is put before a line does not hide its beginning."""
    line = "python3: No module named frob"

    assert [one.name for one in explain_text(ahead + line).diagnoses] == [
        one.name for one in explain_text(line).diagnoses
    ]


def test_duration_is_no_code() -> None:
    """A number of milliseconds after an error is no code of a library."""
    assert "acl.resource" not in {
        one.name for one in explain_text("frob failed: wait timeout after 300000ms, error").diagnoses
    }


@pytest.mark.parametrize(
    "line",
    [
        "jsonschema.exceptions.ValidationError: Additional properties are not allowed ('frob' was unexpected)",
        "WARNING: could not open image /data/7.jpg, skipped",
        'level=error msg="the object has been modified; please apply your changes to the latest version"',
        "yaml.parser.ParserError: while parsing a flow sequence: did not find expected ',' or ']'",
    ],
)
def test_messages_of_other_programs_are_of_no_tool(line: str) -> None:
    """Words that programs share with kubectl and container engines are no message of these."""
    assert {one.name for one in explain_text(line).diagnoses}.isdisjoint({"kubernetes.fault", "container.fault"})


def test_cuda_refusal_is_no_file_permission() -> None:
    """A call of CUDA that is not permitted concerns no file."""
    found = explain_text("frob.cc:7 NCCL WARN Cuda failure 800 'operation not permitted'\nOSError: frob")

    assert "host.permission" not in [one.name for one in found.diagnoses]


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("RuntimeError: Launch kernel failed: Bprop/Reshape-op7", "acl.aicpu"),
        (
            "RuntimeError: Ascend kernel runtime initialization failed. The details refer to 'Frob Error Message'.",
            "acl.aicpu",
        ),
        ("RuntimeError: reshape failed for frob", "exceptions"),
    ],
)
def test_vendor_report_below_an_exception_is_its_cause(message: str, cause: str) -> None:
    """Where the message refers to the vendor's report, the report has the cause."""
    lines = ["Traceback (most recent call last):", '  File "/w/train.py", line 7, in <module>', "    run()", message]
    found = explain_text("\n".join([*lines, "", "-----", "E39999: Kernel task happen error, [aicpu exception]"]))

    assert found.diagnoses[0].name.startswith(cause)


def test_parts_that_leave_after_the_end_are_no_failure() -> None:
    """After the trainer's mark of a regular end, a part that lost the others only ends as well."""
    orphan = "[ERROR] TBE Subprocess[task_distribute] raise error[], main process disappeared!"
    step = "{'loss': 0.8, 'epoch': 2.9}"
    end = f"{step}\n{{'train_runtime': 7.7, 'train_samples_per_second': 7.7, 'train_loss': 0.9, 'epoch': 3.0}}"
    after = explain_text(f"{end}\n{orphan}")

    assert (after.verdict, after.has_cause) == ("finished", False)
    assert explain_text(orphan).has_cause


def make_traceback(last: str, head: str = "", path: str = "/w/a.py") -> list[str]:
    source = f'  File "{path}", line 9, in step\n    run()'
    return [*filter(None, [head]), "Traceback (most recent call last):", *source.splitlines(), last]


STEPS = ["step 7/400 loss 0.31", "step 8/400 loss 0.30"]
MISSING, OTHER = "ModuleNotFoundError: No module named 'quux'", "RuntimeError: no frobs left for rank 5"
THREAD, SAMPLE = "Exception in thread frob-2:", "2026-11-24 11:00:40 WARNING sandbox: sample 17 failed:"
IN_USE = "exporter: OSError: [Errno 98] Address already in use, metrics disabled"
HANDLING = "During handling of the above exception, another exception occurred:"
NO_RUN = "AttributeError: 'NoneType' object has no attribute 'finish'"
QUEUE = "SystemError: (Fatal) Blocking queue is killed because the data reader raises an exception."
DETAILS = "RuntimeError: initialization failed. The details refer to 'Ascend Error Message'."
PROXY = "AssertionError: res=<Response [502]>, res.text=''"
RESET = "ConnectionResetError: [Errno 104] Connection reset by peer"
REFUSED = "ERROR [serving_chat.py:201] tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set"
ANSWER = 'INFO:     192.0.2.5:40114 - "POST /v1/chat/completions HTTP/1.1" {} Bad Request'
KILLED = "./serve.sh: line 12:  4121 Killed                  vllm serve /m"


@pytest.mark.parametrize(
    ("lines", "name"),
    [
        ([*make_traceback("ZeroDivisionError: division by zero", THREAD), *make_traceback("_queue.Empty")], "empty"),
        ([*make_traceback(OTHER), *make_traceback(RESET, THREAD)], "unknown"),
        ([*make_traceback(OTHER, THREAD), *make_traceback(QUEUE)], "unknown"),
        ([*make_traceback(MISSING, SAMPLE), *STEPS, *make_traceback(OTHER)], "unknown"),
        ([*make_traceback(MISSING, SAMPLE), *make_traceback(OTHER), *STEPS], "module"),
        ([IN_USE, *STEPS, *make_traceback(OTHER)], "unknown"),
        ([IN_USE, *make_traceback(OTHER), *STEPS], "port_in_use"),
        ([*make_traceback("KeyError: 'lr_max'"), "build op model failed, result = 500001"], "missing_key"),
        (["build op model failed, result = 500001", *make_traceback(OTHER)], "internal_init"),
        ([*make_traceback(DETAILS), "", "EL0004: Failed to allocate memory."], "out_of_memory"),
        ([*make_traceback(PROXY), "Killed"], "proxy"),
        ([REFUSED, ANSWER.format(400), KILLED], "killed"),
        ([REFUSED, KILLED], "request_message"),
        (make_traceback("KeyError: 'eval_frob'"), "missing_key"),
        ([*make_traceback("KeyError: 'lr_max'"), "", HANDLING, "", *make_traceback(NO_RUN)], "missing_key"),
        ([*make_traceback("KeyError: 'lr_max'"), "", HANDLING, "", *make_traceback(OTHER)], "unknown"),
        (
            [f"[rank0]: {line}" for line in (*make_traceback("KeyError: 'x'"), HANDLING, "", *make_traceback(NO_RUN))],
            "missing_key",
        ),
        (["./a.sh: line 9: frob: command not found", *make_traceback("AssertionError: frob is 3")], "assertion"),
        (["./a.sh: line 9: frob: command not found", *make_traceback(OTHER)], "command"),
        (["./a.sh: line 9: frob: command not found", *["frobbing"] * 40, *make_traceback(OTHER)], "unknown"),
        (make_traceback("KeyError: 'eval_frob'", path="/opt/python3/site-packages/transformers/x.py"), "best_metric"),
        (["NPU function error: aclrtSetDevice, error code is 507033", "E39007: open device 6 failed"], "device_setup"),
    ],
)
def test_what_the_program_survived_is_no_cause(lines: list[str], name: str) -> None:
    """What a program survived comes after what ended it: it made steps, answered, or only a thread ended."""
    found = [one for one in explain_text("\n".join([*lines, ""])).diagnoses if one.kind != "warning"]

    assert [one.name.rpartition(".")[2] for one in found if not one.caused_by] == [name]


@pytest.mark.parametrize(
    ("last", "headline"),
    [
        (
            [
                "triton.compiler.errors.CompilationError: at 14:11:",
                "    x = tl.arange(0, N)",
                'ValueError("frob must be 2")',
            ],
            "outside of what the program accepts: frob must be 2",
        ),
        (
            [
                "openai.BadRequestError: Error code: 400 - {'object': 'error', 'message': \"[{'type': 'literal_error', "
                "'loc': ('body', 2, 'role'), 'msg': \\\"Input should be 'system' or 'tool'\\\", 'input': 'bot'}]\"}"
            ],
            "Input should be 'system' or 'tool' ('body', 2, 'role')",
        ),
        (["AssertionError: length 4097 exceeds block 4096"], "accepts: length 4097 exceeds block 4096"),
        (
            ["terminate called after throwing an instance of 'frob::parse_error'", "  what():  parse error at line 3"],
            "A worker aborted (SIGABRT): frob::parse_error, parse error at line 3",
        ),
    ],
)
def test_message_that_another_part_wraps(last: list[str], headline: str) -> None:
    """The headline has the innermost message, whatever puts it into an own one."""
    head = make_traceback("")[:-1] if "terminate" not in last[0] else []

    assert headline in explain_text("\n".join([*head, *last, ""])).diagnoses[0].description


def test_model_card_after_the_training() -> None:
    """What a trainer could not write into the card of the model is no failure of the training."""
    line = "Could not retrieve model info for '/data/m': Repo id must be in the form 'repo_name': '/data/m'."
    found = explain_text(f"{FINISHED}{line}\n")

    assert (found.verdict, [one.kind for one in found.diagnoses]) == ("running", ["warning"])


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Frob: Could not import vLLM, fast_frob will be disabled (No module named 'frob._C').", "warning"),
        ("ERROR frob: Failed to import frob_x: No module named 'frob._C'. Sleep mode will be disabled.", "warning"),
        ("Unable to load frob_x (No module named 'frob._C'): its kernels will not be available", "warning"),
        ("ERROR frob: Failed to import frob_x: No module named 'frob._C'.", "cause"),
        ("ImportError: Cannot import frob_x, No module named 'frob._C': frob will be disabled", "cause"),
    ],
)
def test_optional_import_is_no_cause(line: str, kind: str) -> None:
    """A program that names the part that it leaves out continues without it; an exception does not."""
    assert [one.kind for one in explain_text(line).diagnoses][:1] == [kind]


def test_refused_repository_is_only_of_the_token() -> None:
    """A server that fails does not refuse the token."""
    url = "for url: https://huggingface.co/api/repos/create"
    refused, failed = (
        f"requests.exceptions.HTTPError: 403 Client Error: Forbidden {url}",
        f"HTTPError: 503 Server Error: Service Unavailable {url}",
    )

    assert "may not create" in explain_text(refused).diagnoses[0].description
    assert all("may not create" not in one.description for one in explain_text(failed).diagnoses)
