"""Exceptions that no entry knows: the form, the place and the packages, from whole tracebacks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from envcheck.core import toml_file
from envcheck.explain import catalogue, causality, exception_forms, explainer
from envcheck.explain.diagnosis import Diagnosis, RaisedException
from envcheck.explain.exceptions import (
    api_changes,
    installed_versions,
    known_bugs,
    out_of_memory,
    raised_place,
    torch_releases,
)

SITE = "/opt/conda/lib/python3.11/site-packages"


def explain_traceback(path: str, source: str, last: str, caller: str = "/w/train.py") -> Diagnosis:
    """Return the first diagnosis of a log with this exception, raised at line 7 of a file."""
    lines = [
        "[2025-10-11 15:00:01,000] [INFO] loading",
        "Traceback (most recent call last):",
        f'  File "{caller}", line 45, in <module>',
        "    main()",
        f'  File "{path}", line 7, in run',
        f"    {source}",
        *last.split("\n"),
        "  0%|          | 0/3 [00:00<?, ?it/s]",
    ]
    return explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]


FORMS = toml_file.load_own_table(Path(__file__).with_name("exception_forms.toml"))["forms"]


@pytest.mark.parametrize("case", FORMS, ids=lambda case: case["form"])
def test_form(case: dict[str, str]) -> None:
    """The form of the exception is recognised, and its text has the place and what the message names."""
    found = explain_traceback(case["path"], case["source"], case["last"])

    assert found.name == f"exceptions.{case['form']}"
    assert case["said"] in found.description
    assert not re.search(r"\{\w*\}", f"{found.description} {found.why} {found.do} {found.commands}")


def test_versions_to_compare() -> None:
    """The command lists the packages that have to fit: those of the package that raised it."""
    last = "TypeError: f() got an unexpected keyword argument 'x'"
    found = explain_traceback(f"{SITE}/trl/trainer/dpo_trainer.py", "super().__init__(", last)

    assert "trl|transformers|accelerate|peft" in found.commands[0]


@pytest.mark.parametrize(
    ("call", "name", "said"),
    [
        (
            "self.heads = divide(config.num_query_groups, world_size)",
            "numbers_not_divisible",
            "(num_query_groups / world_size)",
        ),
        ("size = divide(global_vocab_size, world_size)", "vocabulary_degree", "vocabulary of 30"),
        ("n = divide(experts, expert_parallel_size)", "expert_degree", "expert parallel degree 4"),
    ],
)
def test_call_that_divides(call: str, name: str, said: str) -> None:
    """Where a function compares two numbers, the line that calls it tells of what they are."""
    frames = ['  File "/w/megatron/core/a.py", line 9, in __init__', f"    {call}"]
    frames += [
        '  File "/w/megatron/core/utils.py", line 7, in divide',
        "    ensure_divisibility(numerator, denominator)",
    ]
    frames += [
        '  File "/w/megatron/core/utils.py", line 5, in ensure_divisibility',
        "    assert numerator % denominator == 0",
    ]
    found = explain_lines("Traceback (most recent call last):", *frames, "AssertionError: 30 is not divisible by 4")

    assert found.name == f"exceptions.{name}"
    assert said in found.description


def test_count_of_workers() -> None:
    """Ray's count of the workers that print a line is no part of the exception."""
    ahead, count = "(WorkerDict pid=17) ", " [repeated 7x across cluster]"
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/data.py", line 7, in load',
        '    return sample["images"]',
    ]
    found = explain_lines(*(f"{ahead}{line}{count}" for line in (*lines, "KeyError: 'images'")))

    assert found.name == "exceptions.missing_column"
    assert "no field images" in found.description


@pytest.mark.parametrize(
    ("last", "install"),
    [
        ("ImportError: cannot import name 'log' from 'torch.distributed.elastic.agent.server.api'", "torch<2.4"),
        ("ImportError: cannot import name 'fully_shard' from 'torch.distributed.fsdp'", "torch>=2.6"),
        ("AttributeError: module 'torch' has no attribute 'float8_e8m0fnu'", "torch>=2.7"),
        ("AttributeError: 'LLMEngine' object has no attribute 'model_executor'", "vllm<0.8"),
    ],
)
def test_names_of_engines(last: str, install: str) -> None:
    """Names that torch and vllm added or removed tell which release the program needs."""
    found = explain_traceback(f"{SITE}/frob/engine.py", "x = y", last)

    assert found.commands[0] == f"python3 -m pip install '{install}'"


def test_copy_without_indentation() -> None:
    """A traceback that lost its indentation, as copies in issues do, is read all the same."""
    lines = ["Traceback (most recent call last):", 'File "/w/train.py", line 4, in <module>', "main()", "^^^^^^"]
    lines += ['File "/w/data.py", line 7, in load', 'return sample["images"]', "KeyError: 'images'"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.raised is not None
    assert found.raised.sources[-1] == 'return sample["images"]'
    assert found.diagnoses[0].name == "exceptions.missing_column"


def test_exception_without_a_head() -> None:
    """Where the log begins within a traceback, or a logger prefixes its lines, the frames are read all the same."""
    ahead = "(EngineCore_0 pid=17) ERROR 06-30 16:45:20 [core.py:650] "
    lines = [f'{ahead}  File "/w/data.py", line 7, in load', f'{ahead}    return sample["images"]']
    found = explainer.build_report([explainer._scan_lines("log", [*lines, f"{ahead}KeyError: 'images'"])])

    assert found.diagnoses[0].name == "exceptions.missing_column"
    assert found.ends[0].place == "data.py:7"


def test_exception_whose_message_follows() -> None:
    """A message that begins on the lines after the exception's name belongs to it."""
    lines = ["RuntimeError:", "      The frob of this machine (12) differs from that of the quux (11)."]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert "frob of this machine" in found.diagnoses[0].description


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        ("ValueError: bad value 3\nCleaning up temporary files", ""),
        ("ValueError: bad value 3\n    of frob\nCleaning up temporary files", "of frob"),
        ("ValueError:\nbad value 3\nCleaning up temporary files", "bad value 3"),
        (
            "pydantic.ValidationError: 2 validation errors for F\na\n  bad a\nb\n  bad b\nCleaning up temporary files",
            "bad b",
        ),
    ],
)
def test_output_after_an_exception_is_not_its_message(last: str, shown: str) -> None:
    """The shown message goes on only with indented lines, or with what its first line demands."""
    found = explain_traceback("/w/train.py", "check(frob)", last)

    assert shown in found.description
    assert "Cleaning up" not in f"{found.description} {found.why} {found.do}"


def test_output_after_an_exception_without_a_head_is_not_its_message() -> None:
    """Where the traceback's head is missing, the message ends as well before ordinary output."""
    found = explain_lines('  File "/w/a.py", line 7, in f', "    run()", "ValueError: bad value 3", "Cleaning up files")

    assert "bad value 3" in found.description
    assert "Cleaning up" not in found.description


def test_whole_traceback_before_a_cut_one() -> None:
    """The traceback that another process began, and the log cut off, does not hide the whole one."""
    cut = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "    run()"]
    found = explainer.build_report([explainer._scan_lines("log", [*cut, "frob.QuuxError: the frob broke", *cut])])

    assert "QuuxError" in found.diagnoses[0].description
    assert found.ends[0].reason == "frob.QuuxError: the frob broke"


def test_source_line_is_no_printed_sample() -> None:
    """A source line that assigns to a name of a sample's caption does not begin a sample."""
    lines = ["    prompt = self.tokenizer.apply_chat_template(", '  File "/w/a.py", line 7, in f', "    run()"]
    found = explainer.build_report([explainer._scan_lines("log", [*lines, "frob.QuuxError: the frob broke"])])

    assert "QuuxError" in found.diagnoses[0].description


def test_launchers_exception_is_not_the_cause() -> None:
    """What the launcher raises after a worker failed only reports it."""
    lines = ["Traceback (most recent call last):", '  File "/w/a.py", line 7, in f', "frob.QuuxError: the frob broke"]
    lines += ["Traceback (most recent call last):", f'  File "{SITE}/torch/distributed/launcher/api.py", line 2, in x']
    lines += ["torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "train.py FAILED"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert "QuuxError" in found.diagnoses[0].description
    assert found.ends[0].place == "a.py:7"


@pytest.mark.parametrize("form", [entry.name for entry in catalogue.load_forms()])
def test_texts_without_values(form: str) -> None:
    """Texts are complete even if the traceback gives none of their values."""
    entry = next(entry for entry in catalogue.load_forms() if entry.name == form)
    made = causality.make_diagnosis(entry, {}, (), 1)

    assert not re.search(r"\{\w*\}|: $|\(\)", f"{made.description}\n{made.why}\n{made.do}")
    assert entry.source


def test_packages_are_whole() -> None:
    """Each package has what has to fit, itself included by its name on the index, and where its failures come from."""
    for name, said in raised_place.load_packages().items():
        assert said.keys() - {"classes", "pairs"} == {"fits", "hint"}, name


def test_remedy_without_the_place_of_the_check() -> None:
    """A hint in brackets is quoted without the bracket that closes it and without the place in paddle's sources."""
    last = "OSError: Frob failed. [Hint: Please check FROB_IFNAME] (at /paddle/paddle/fluid/frob.cc:105)"
    found = explain_traceback("/w/train.py", "dist.init()", last)

    assert found.do == "Check FROB_IFNAME"


def test_command_installs_what_the_name_needs() -> None:
    """The release that has the name is in a command to be pasted, also for a notebook's traceback without frames."""
    last = "TypeError: SFTTrainer.__init__() got an unexpected keyword argument 'max_seq_length'"
    lines = ["TypeError                                 Traceback (most recent call last)", "Cell In[18], line 3", last]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.commands[0] == "python3 -m pip install 'trl<0.13'"


def test_no_shell_in_a_quoted_value() -> None:
    """A requirement goes into a command between quotes; a text that could end them does not."""
    entry = explainer.load_index().entries["python.requirement"]
    harmless = causality.make_diagnosis(entry, {"requirement": "torch>=2.1,<2.9"}, (), 1)
    hostile = causality.make_diagnosis(entry, {"requirement": "torch>=2'; reboot; '"}, (), 1)

    assert harmless.commands[-1] == "python3 -m pip install 'torch>=2.1,<2.9'"
    assert hostile.commands[-1] == "python3 -m pip install 'REQUIREMENT'"


def test_report_after_an_exception_that_has_only_its_number() -> None:
    """An exception that passes on a library's number is explained by the library's report in the next lines."""
    lines = ["[rank1]: Traceback (most recent call last):", f'[rank1]:   File "{SITE}/torch/frob.py", line 7, in run']
    lines += ["[rank1]: RuntimeError: OPS function error: HcclAllreduce, error code is 6"]
    lines += ["[rank1]: EI0006: [PID: 7] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: x"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.diagnoses[0].name == "hccl.connect_timeout"


def test_report_below_a_drawn_line() -> None:
    """An exception whose message begins with a drawn line is explained by the report of a compiler below it."""
    lines = ["Traceback (most recent call last):", f'  File "{SITE}/triton/compiler/compiler.py", line 7, in compile']
    lines += [
        "    raise MLIRCompilationError(stage_name, error_detail)",
        "triton.compiler.errors.MLIRCompilationError: ",
    ]
    lines += ["///------------------[ERROR][Triton][BEG]----", "[StageOne] encounters error:"]
    lines += ["bishengir-compile: Unknown command line argument '--width=7'.  Try: 'bishengir-compile --help'"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.diagnoses[0].name == "cann.bisheng"


def test_library_that_a_listed_attempt_names() -> None:
    """An exception that lists its attempts to load a compiled part is explained by the library that one names."""
    lines = ["Traceback (most recent call last):", f'  File "{SITE}/frob_kernel/load.py", line 7, in load']
    lines += [
        "    raise ImportError(message)",
        "ImportError: ",
        "[frob_kernel] Could not load any frob_ops library!",
        "",
    ]
    lines += ["Attempted locations:", *(f"{at}. /opt/frob/{at}: no files" for at in range(1, 9))]
    lines += ["Details:", "- ImportError: libfrob.so.7: cannot open shared object file: No such file or directory"]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert [one.name for one in found.diagnoses] == ["python.library"]


def test_package_by_its_own_name_in_pip() -> None:
    """A package that has to fit others is named itself, not the first of those."""
    assert [raised_place.name_pip_package(one) for one in ("torch_npu", "mindspeed_llm", "megatron.core")] == [
        "torch_npu",
        "mindspeed-llm",
        "megatron-core",
    ]


def test_releases_with_their_torch() -> None:
    """Of a package whose wheels are for one torch, the first release for each torch is named; of others nothing."""
    line = f"ImportError: {SITE}/vllm/_C.abi3.so: undefined symbol: _ZN3c104cuda9FrobnicateEi"
    found = explainer.build_report([explainer._scan_lines("log", [line])]).diagnoses[0]

    assert "0.8.0: 2.6.0, 0.9.0: 2.7.0" in found.do
    assert torch_releases.describe_torch_releases("sglang").count("2.8.0") == 1
    assert torch_releases.describe_torch_releases("frobnet") == ""


UNDEFINED = "undefined symbol: _ZN3c104cuda9FrobnicateEi"


NMS = "RuntimeError: operator torchvision::nms does not exist"


@pytest.mark.parametrize(
    ("versions", "line", "needed"),
    [
        ("torch==2.12.0 torch_npu==2.8.0.post2", f"{SITE}/torch_npu/lib/libtorch_npu.so: {UNDEFINED}", "torch==2.8.0"),
        ("torch==2.4.0+cu121 torchvision==0.20.1", NMS, "torchvision==0.19.0"),
        ("torch==2.0.1+cu118 torchvision==0.15.1", NMS, "torchvision==0.15.2"),
        ("torch==2.14.1 torchvision==0.29.0", NMS, "torchvision==0.29.1"),
        ("torch==2.15.0 torchvision==0.29.2", NMS, ""),  # newer than the newest release for one torch
        ("torch==2.11.0 torchaudio==2.10.0", f"{SITE}/torchaudio/_C.so: {UNDEFINED}", "torchaudio==2.11.0"),
        ("torch==2.12.0 torchaudio==2.11.0", f"{SITE}/torchaudio/_C.so: {UNDEFINED}", ""),
        ("torch==2.5.1 vllm==0.8.5", f"ImportError: {SITE}/vllm/_C.abi3.so: {UNDEFINED}", "torch==2.6.0"),
        ("torch==2.5.1 triton==3.2.0", "ImportError: cannot import name 'X' from 'triton.compiler'", "triton==3.1.0"),
        ("torch==2.4.0 torchvision==0.19.0", NMS, ""),  # they belong together
        ("torch==2.4.0+frob.4.3 torchvision==0.20.1", NMS, ""),  # a vendor's build
        ("torch==2.4.0 torch==2.5.1 torchvision==0.20.1", NMS, ""),  # of two environments
    ],
)
def test_pair_of_printed_versions(versions: str, line: str, needed: str) -> None:
    """The command installs what a printed package and torch lack, and keeps the other; nothing where it is unknown."""
    found = explainer.build_report([explainer._scan_lines("log", [*versions.split(), line])]).diagnoses[0]

    commands = [one for one in found.commands if "==" in one]
    kept = "'torch==2" if not needed.startswith("torch==") else f"'{versions.split()[1].replace('_', '-')}'"
    assert [one.startswith(f"python3 -m pip install '{needed}' {kept}") for one in commands] == [True] * bool(needed)


def test_extension_is_built_again_in_its_release() -> None:
    """The package of a compiled module is built again in the release that the log prints."""
    lines = ["torch 2.5.1", "mamba-ssm 2.2.2", f"ImportError: {SITE}/selective_scan_cuda.abi3.so: {UNDEFINED}"]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.commands[0].endswith(" --force-reinstall --no-deps mamba-ssm==2.2.2")


def test_component_of_a_printed_version() -> None:
    """What the printed plugin needs of its vendor's toolkit is named, and nothing without its version."""
    line = f"ImportError: {SITE}/torch_npu/lib/libtorch_npu.so: undefined symbol: aclrtFrobnicate"
    lines = ["Name: torch-npu", "Version: 2.1.0.post10", line]
    found, without = (explainer.build_report([explainer._scan_lines("log", some)]) for some in (lines, lines[2:]))

    assert "torch-npu 2.1.0.post10 needs CANN 8.0.0" in found.diagnoses[0].do
    assert "needs" not in without.diagnoses[0].do


@pytest.mark.parametrize(
    ("module", "form", "said"),
    [
        ("transformers.modeling_rope_utils", "added_name", "transformers 4.43"),
        ("transformers.models.qwen3.modeling_qwen3", "added_name", "transformers 4.51"),
        ("vllm.worker", "removed_name", "vllm 0.11.1"),
        ("transformers.frob_utils", "submodule", "transformers.frob_utils"),
        ("paddle.frob", "submodule", "paddle.frob"),
    ],
)
def test_missing_module_by_its_release(module: str, form: str, said: str) -> None:
    """The release that added or removed a module is named, also one of a model; of others no release."""
    found = explain_traceback("/w/patch.py", f"import {module}", f"ModuleNotFoundError: No module named '{module}'")

    assert found.name.endswith(f".{form}")
    assert said in found.description


def test_function_in_place_of_a_part() -> None:
    """A function that replaces a part of a model is named, and the library that calls it, not the frames of torch."""
    torch = f'  File "{SITE}/torch/nn/modules/module.py", line 1532, in _wrapped_call_impl'
    model = f"{SITE}/transformers/models/llama/modeling_llama.py"
    last = "TypeError: forward_fast() got an unexpected keyword argument 'cache_position'"
    found = explain_traceback(
        model, "hidden_states, weights = self.self_attn(", f"{torch}\n    return call(*args)\n{last}"
    )

    assert found.name == "exceptions.own_override"
    assert "python3 -m pip install 'transformers<4.38'" in found.commands


def test_model_of_a_printed_version() -> None:
    """A printed release that has the model is no older one: another environment ran, and nothing is to be upgraded."""
    line = "ValueError: The checkpoint has model type `qwen3` but Transformers does not recognize this architecture."
    found, old = (
        explainer.build_report([explainer._scan_lines("log", [f"transformers version: {one}", line])]).diagnoses[0]
        for one in ("4.52.3", "4.45.2")
    )

    assert "transformers 4.52.3 knows the model" in found.why
    assert not any(" -U " in one for one in found.commands)
    assert "python3 -m pip install -U 'transformers>=4.51'" in old.commands


def test_model_of_a_printed_engine() -> None:
    """A class that an engine does not know needs a release of the engine; without its version, of transformers."""
    line = "ValueError: Model architectures ['Qwen3ForCausalLM'] are not supported for now. Supported architectures: x"
    found, without = (
        explainer.build_report([explainer._scan_lines("log", some)]).diagnoses[0]
        for some in (["vLLM API server version 0.8.2", line], [line])
    )

    assert "python3 -m pip install -U 'vllm>=0.8.5'" in found.commands
    assert "python3 -m pip install -U 'transformers>=4.51'" in without.commands


def test_changes_are_whole() -> None:
    """Each change has the release that removed or added its names, and no name is given twice."""
    listed = [name for change in api_changes.load_changes().values() for name in change.names]

    assert len(set(listed)) == len(api_changes.load_changes())
    for change in api_changes.load_changes().values():
        assert change.removed or change.added, change
        assert re.fullmatch(r"[\w-]+(?:(?:<|>=|(?<=\d),<)\d+(?:\.\d+)*){1,2}", change.requirement)


@pytest.mark.parametrize(
    "last",
    [
        "ImportError: cannot import name 'AdamW' from 'apex.optimizers' (/x/apex/optimizers/__init__.py)",
        "AttributeError: module 'frob' has no attribute 'GRPOTrainer'",
    ],
)
def test_name_of_another_package(last: str) -> None:
    """A name of a known change in a module of another package is not that change."""
    assert not explain_traceback("/w/train.py", "import x", last).name.endswith(("removed_name", "added_name"))


def test_name_that_is_only_in_some_releases() -> None:
    """A name that was added and later removed: the remedy has both bounds, and no side is claimed."""
    last = "ImportError: cannot import name 'check_model_inputs' from 'transformers.utils.generic' (/x/generic.py)"
    found = explain_traceback("/w/train.py", "from transformers.utils.generic import check_model_inputs", last)

    assert found.name == "exceptions.bounded_name"
    assert found.commands[0] == "python3 -m pip install 'transformers>=4.54,<5.2'"
    assert "older or newer" in found.why


def test_half_open_interval_is_quoted_whole() -> None:
    """The bracket at the end of [0, 1) belongs to the sentence; one that closes nothing does not."""
    last = "ValueError: frob should be a float in [0, 1)"

    assert "[0, 1)" in explain_traceback("/w/train.py", "check(frob)", last).description


def test_data_written_by_another_release() -> None:
    """An error while the types of columns are read is one of releases, whatever the exception is."""
    at = f'  File "{SITE}/datasets/features/features.py", line 7, in generate_from_dict'
    last = "TypeError: must be called with a dataclass type or instance"
    found = explain_lines("Traceback (most recent call last):", at, "    names = fields(kind)", last)

    assert found.name == "exceptions.feature_release"
    assert found.commands[0].endswith("-U datasets")


@pytest.mark.parametrize(("function", "form"), [("my_collate", "removed_column"), ("__getitem__", "missing_column")])
def test_column_that_a_collator_misses(function: str, form: str) -> None:
    """Only for a collator, the trainer may have dropped the column."""
    found = explain_lines(
        "Traceback (most recent call last):",
        f'  File "{SITE}/torch/utils/data/_utils/fetch.py", line 55, in fetch',
        "    return self.collate_fn(data)",
        f'  File "/w/data/train.py", line 7, in {function}',
        '    texts = [row["frobs"] for row in rows]',
        "KeyError: 'frobs'",
    )

    assert found.name == f"exceptions.{form}"
    assert "frobs" in found.description


def explain_lines(*lines: str) -> Diagnosis:
    return explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]


def test_frames_in_boxes() -> None:
    """A traceback that rich draws in a box has frames and source lines like others."""
    found = explain_lines(
        "╭──────────────── Traceback (most recent call last) ────────────────╮",
        "│ /w/train.py:14 in main                                            │",
        "│                                                                   │",
        "│   13 def main():                                                  │",
        "│ ❱ 14 │   load(sample)                                             │",
        f"│ {SITE}/peft/config.py:106 in load       │",
        "│ ❱ 106 │   │   return cls(**kwargs)                                │",
        "╰───────────────────────────────────────────────────────────────────╯",
        "TypeError: LoraConfig.__init__() got an unexpected keyword argument 'frob'",
    )

    assert found.name == "exceptions.saved_by_newer"
    assert "created from all its entries (config.py:106)" in found.why


def test_entry_that_knows_the_text_of_an_exception() -> None:
    """An entry explains an exception whose line has a mark before it, so that it was not read as a line of a log."""
    found = explain_lines(
        "#Traceback (most recent call last):",
        '#  File "<string>", line 1, in <module>',
        "#ImportError: /x/site-packages/flash_attn_2_cuda.cpython-310.so: undefined symbol: _ZN3c105ErrorC2ENS_14Sour",
    )

    assert found.name == "python.plugin_pair"


def test_traceback_of_a_clean_up() -> None:
    """A traceback below `Exception ignored in` ended nothing."""
    found = explain_lines(
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 4, in <module>',
        "Exception: the frob is broken",
        "Exception ignored in: <function Frob.__del__ at 0x7f>",
        "Traceback (most recent call last):",
        '  File "/w/frob.py", line 9, in __del__',
        "AttributeError: 'Frob' object has no attribute 'quux'",
    )

    assert "the frob is broken" in found.description


def test_cut_traceback_next_to_a_known_line() -> None:
    """What an entry knows says more than a traceback without its exception's line."""
    found = explain_lines(
        "host:1:2 [3] transport/nvls.cc:246 NCCL WARN Cuda failure 3 'initialization error'",
        "Traceback (most recent call last):",
        '  File "/w/train.py", line 8, in <module>',
        "    dist.all_reduce(data)",
    )

    assert found.name == "nccl.nvls"


@pytest.mark.parametrize(("model", "requirement"), [
    ("qwen3", "transformers>=4.51"),
    ("qwen2_5_vl", "transformers>=4.49"),
    ("frob", "the release that the model's page names"),
])  # fmt: skip
def test_release_that_a_model_needs(model: str, requirement: str) -> None:
    """The release of transformers that has the model's type is in the headline and the remedy."""
    text = f"ValueError: The checkpoint you are trying to load has model type `{model}` but Transformers does"
    found = explain_lines(f"{text} not recognize this architecture.")

    assert found.description == f"The installed version does not know the model: {model}; it needs {requirement}"
    assert requirement in found.do


def test_model_without_a_known_release() -> None:
    """No command installs a package whose release is not known, and a folder is no type of a model."""
    found = explain_lines(
        "ValueError: Unrecognized configuration class for this kind of AutoModel: AutoModelForCausalLM."
    )
    no_type = explain_lines(
        "ValueError: Unrecognized model in /data/m. Should have a `model_type` key in its config.json"
    )

    assert (found.name, found.description[:21]) == ("model.auto_class", "AutoModelForCausalLM ")
    assert not any("install" in command for command in found.commands)
    assert (no_type.name, no_type.commands[0]) == ("model.no_type", "ls -l /data/m")


@pytest.mark.parametrize(("last", "is_layout"), [
    ("ValueError: image has 4 channels, but only 3 channels are supported", False),
    ("ValueError: sample 5 on device 0 has 4 columns, only 3 found", False),
    ("RuntimeError: only 2 GPUs are visible, 8 are required", True),
    ("ValueError: 8 GPUs are requested, but only 4 are available", True),
])  # fmt: skip
def test_too_few_needs_a_noun_of_the_layout(last: str, *, is_layout: bool) -> None:
    """A number that is too low is explained by the layout only if it counts cards, processes or nodes."""
    found = explain_traceback("/w/train.py", "check(frob)", last)

    assert (found.name == "exceptions.too_few") == is_layout


@pytest.mark.parametrize(
    ("source", "is_vocabulary"),
    [("return torch.embedding(weight, input)", True), ("x = x.index_select(0, kept)", False)],
)
def test_index_of_an_embedding(source: str, *, is_vocabulary: bool) -> None:
    """torch's text for an index is about the vocabulary where an embedding is looked up, or without frames."""
    text = "IndexError: index out of range in self"

    assert explain_traceback("/w/m.py", source, text).name.endswith("beyond_vocabulary") == is_vocabulary
    assert explain_lines(text).name == "exceptions.beyond_vocabulary"


def test_attribute_of_any_class() -> None:
    """A row for every class does not explain the same attribute of None."""
    text = "AttributeError: '{}' object has no attribute 'all_special_tokens_extended'"
    frames = ("Traceback (most recent call last):", '  File "/w/train.py", line 4, in <module>')

    assert explain_lines(*frames, text.format("FrobTokenizer")).commands[0] == "python3 -m pip install 'transformers<5'"
    assert explain_lines(*frames, text.format("NoneType")).name == "exceptions.none_value"


def test_notebook_traceback() -> None:
    """The frames that a notebook prints have their file, and their source line is the one with the arrow."""
    new = ["IndexError      Traceback (most recent call last)", "Cell In[3], line 1", "----> 1 run()"]
    new += ["File ~/lib/trl/data.py:7, in load(rows, count)", "      6 rows = []", "----> 7 return rows[0]", ""]
    old = ["IndexError      Traceback (most recent call last)", "/x/trl/data.py in load(rows)", "      6 rows = []"]
    old += ["----> 7 return rows[0]", ""]
    own = [*new[:-1], "Cell In[2], line 7, in score(rows)", "      6 rows = []", "----> 7 return rows[0]", ""]
    cell = "[<ipython-input-9-a1b2>](https://localhost:8080/#) in score(rows)"
    colab = [*old[:2], cell, *old[-2:]]
    places = ("data.py:7", "data.py", "Cell In[2]:7", "<ipython-input-9-a1b2>")
    for lines, place in zip((new, old, own, colab), places, strict=True):
        found = explainer.build_report([explainer._scan_lines("log", [*lines, "IndexError: list index out of range"])])

        assert found.raised is not None
        assert raised_place.shorten_place(found.raised.frames[-1]) == place
        assert found.raised.sources[-1] == "return rows[0]"


@pytest.mark.parametrize(
    "after",
    [
        "[ERROR:frob] There are errors in the encoding, and another piece of data will be randomly selected.",
        "WARNING - skipping this sample",
        "Retrying in 5 s [attempt 1 of 3].",
    ],
)
def test_exception_that_the_program_handled(after: str) -> None:
    """A traceback after which the program says that it goes on is no failure."""
    lines = ["Traceback (most recent call last):", '  File "/w/data.py", line 7, in encode', "    f(x)"]
    step = "{'loss': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}"
    report = explainer.build_report([explainer._scan_lines("log", [step, *lines, "ValueError: frob", "", after, step])])

    assert report.verdict == "running"
    assert not report.diagnoses


@pytest.mark.parametrize(
    "after",
    [
        "[rank1]: Falling back to slow tokenizer",  # another rank
        "WARNING: connection pool will retry later",
        "ERROR: giving up after 5 attempts, will retry no more",
        "torchrun: node failed, retrying in 5 s",
        "skipping this sample",
    ],
)
@pytest.mark.parametrize("has_head", [True, False])
def test_exception_after_which_nothing_continued(after: str, *, has_head: bool) -> None:
    """An exception counts, whatever is announced after it, if no step follows."""
    head = ["Traceback (most recent call last):"] if has_head else []
    lines = [*head, '  File "/w/m.py", line 7, in load', "    f(x)", "RuntimeError: model file is damaged 42", after]
    report = explainer.build_report([explainer._scan_lines("log", lines)])

    assert report.verdict == "failed"
    assert "model file is damaged 42" in report.diagnoses[0].description


@pytest.mark.parametrize("after", ["[rank1]: Falling back to slow tokenizer", "ERROR: no node left, will retry later"])
def test_exception_that_another_rank_or_an_error_follows(after: str) -> None:
    """An announcement of another rank, or in an error, is none of the process, even if steps of others follow."""
    lines = ["Traceback (most recent call last):", '  File "/w/m.py", line 7, in load', "    f(x)"]
    step = "[rank1]: {'loss': 1.2, 'learning_rate': 1e-05, 'epoch': 0.1}"
    log = explainer._scan_lines("log", [*lines, "RuntimeError: frob 42", after, step])

    assert [one.text for one in log.raised] == ["RuntimeError: frob 42"]


def test_other_cause_after_an_exception_that_was_to_be_handled() -> None:
    """Where the program was to continue, a later exception ended it."""
    lines = ["Traceback (most recent call last):", '  File "/w/m.py", line 7, in load', "    f(x)"]
    report = explainer.build_report(
        [
            explainer._scan_lines(
                "log",
                [*lines, "RuntimeError: frob 42", "Retrying in 5 s", *lines, "ValueError: quux 7", "exit"],
            )
        ]
    )

    assert "quux 7" in report.diagnoses[0].description


def test_first_exception_of_a_chain_that_only_lacks_a_name() -> None:
    """An exception that wraps a missing name is explained by that name, not by the module to install."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/x/site-packages/frob/a.py", line 7, in <module>',
        "    t.Unpack",
    ]
    lines += ["AttributeError: module 'typing' has no attribute 'Unpack'", ""]
    lines += ["During handling of the above exception, another exception occurred:", ""]
    lines += [
        "Traceback (most recent call last):",
        '  File "/x/site-packages/frob/a.py", line 9, in <module>',
        "    raise X",
    ]
    found = explain_lines(*lines, "RuntimeError: frob has been moved")

    assert found.name == "exceptions.python_version"


@pytest.mark.parametrize(
    ("own", "reserved", "words"),
    [
        ("20.80", "0.10", "This process holds only 20.8 GiB"),
        ("77.80", "0.10", "hold 18.3 GiB"),
    ],
)
def test_memory_that_is_held(own: str, reserved: str, words: str) -> None:
    """The text of the allocator says whose memory is missing."""
    text = (
        f"GPU 0 has a total capacity of 79.11 GiB of which 1.20 GiB is free. this process has {own} GiB memory in use. "
    )
    text += "Of the allocated memory 18.30 GiB is allocated by PyTorch, "
    text += f"and {reserved} GiB is reserved by PyTorch but unallocated."

    assert words in str(out_of_memory.describe_held_memory(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
            "0.50 GiB is free. 9.00 GiB is reserved by PyTorch but unallocated.",
            {"unused": "9.0 GiB", "allocator": "PYTORCH_CUDA_ALLOC_CONF"},
        ),
        (
            "NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.00 GiB total capacity; 40.00 GiB already "
            "allocated; 1.00 GiB free; 59.00 GiB reserved in total by PyTorch)",
            {"unused": "19.0 GiB", "allocator": "PYTORCH_NPU_ALLOC_CONF"},
        ),
        (
            "CUDA out of memory. Tried to allocate 12.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which "
            "0.50 GiB is free. 9.00 GiB is reserved by PyTorch but unallocated.",
            {},
        ),
        (
            "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which "
            "0.50 GiB is free. 300.00 MiB is reserved by PyTorch but unallocated.",
            {},
        ),
    ],
)
def test_memory_that_is_fragmented(text: str, expected: dict[str, str]) -> None:
    """Expandable segments help where much is reserved without use and the request would fit, by the device's option."""
    assert out_of_memory.find_fragmented(text) == expected


def test_fragmented_memory_without_frames() -> None:
    """The line of the exception alone tells that its card is fragmented."""
    found = explain_lines(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of "
        "79.11 GiB of which 0.50 GiB is free. 9.00 GiB is reserved by PyTorch but unallocated."
    )

    assert found.name == "exceptions.memory_fragmented"
    assert found.commands == ("export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",)


@pytest.mark.parametrize(
    ("total", "free", "own", "is_held"),
    [
        (79.15, 50.50, 28.00, False),
        (79.15, 1.20, 20.80, True),
        (79.15, 10.00, 35.00, False),
        (79.15, 0.50, 78.00, False),
    ],
)
def test_memory_that_others_hold(total: float, free: float, own: float, *, is_held: bool) -> None:
    """Others hold what is neither free nor held by this process."""
    text = f"GPU 0 has a total capacity of {total:.2f} GiB of which {free:.2f} GiB is free. Including "

    assert out_of_memory.is_held_by_others(f"{text}this process has {own:.2f} GiB memory in use.") == is_held


OUT_OF_MEMORY = (
    "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 60.97 GiB total capacity; 58.90 GiB already "
    "allocated; 1.10 GiB free; 59.40 GiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize("folder", ["rollout-exp", "loss", "optim", "evaluation_loop"])
def test_folder_tells_no_phase(folder: str) -> None:
    """Out of memory: a folder of the user tells no phase of the training; functions and packages do."""
    own = explain_traceback(f"/home/u/{folder}/train.py", "y = f(x)", OUT_OF_MEMORY, f"/home/u/{folder}/main.py")
    phase = explain_traceback(f"/home/u/{folder}{SITE}/torch/optim/adam.py", "y = f(x)", OUT_OF_MEMORY)

    assert own.name == "exceptions.memory_plain"
    assert phase.name == "exceptions.memory_optimizer"


@pytest.mark.parametrize(
    ("frame", "related"),
    [
        (f"{SITE}/torch/optim/adam.py:7, in step", "/site-packages/torch/optim/adam.py:7, in step"),
        ("/home/u/loss/megatron/core/utils.py:7, in divide", "/megatron/core/utils.py:7, in divide"),
        ("/home/u/loss/train.py:7, in main", "in main"),
        ("C:\\loss\\site-packages\\frob\\x.py:7, in f", "/site-packages/frob/x.py:7, in f"),
    ],
)
def test_frame_within_its_package(frame: str, related: str) -> None:
    """The folders above a package, and those of the user's code, are dropped."""
    assert raised_place.relate_frame(frame) == related


def test_size_that_is_no_number() -> None:
    """What only looks like a size is none."""
    text = "total capacity of 79.11 GiB. this process has 1.2.3 GiB memory in use. 1.5.5 GiB is allocated by PyTorch"

    assert out_of_memory.describe_held_memory(text) is None


@pytest.mark.parametrize(
    ("message", "names"),
    [
        ("bad max_length, use trainer.max_new_tokens.", ["max_length", "trainer.max_new_tokens"]),
        ("`frob` and 'quux', or --frob-size; qwen2_vl", ["frob", "quux", "--frob-size", "qwen2_vl"]),
        ("read_file(x) of data/my_file, a_b.c and my_file.py", []),
        ("bad " + "acgt" * 36, []),
    ],
)
def test_names_in_a_message(message: str, names: list[str]) -> None:
    """Settings are quoted, or have an underscore; calls and files are no settings."""
    assert exception_forms._list_quoted_names(message) == names


def test_argument_that_a_release_passes() -> None:
    """For an argument whose first release is known, the remedy names the releases before it."""
    last = "TypeError: OwnTrainer.compute_loss() got an unexpected keyword argument 'num_items_in_batch'"
    found = explain_traceback(f"{SITE}/transformers/trainer.py", "loss = self.compute_loss(", last)

    assert found.commands[0] == "python3 -m pip install 'transformers<4.46'"


def test_class_that_an_older_package_lacks() -> None:
    """A name that a library uses without having it names the package that has it since a known release."""
    last = "NameError: name 'ParallelismConfig' is not defined. Did you mean: 'parallelism_config'?"
    found = explain_traceback(f"{SITE}/transformers/training_args.py", "x: ParallelismConfig = None", last)

    assert found.name == "exceptions.added_name"
    assert found.commands[0] == "python3 -m pip install 'accelerate>=1.10'"


def test_what_is_none() -> None:
    """The remedy names what is None in the source line."""
    last = "TypeError: 'NoneType' object is not iterable"

    assert "this is None: load(rows)" in explain_traceback("/w/x.py", "for row in load(rows):", last).do


CHECK = ['  File "/w/loader.py", line 162, in check_parts', "    assert len(self.ckpt_list) > 0"]


@pytest.mark.parametrize(
    ("after", "name"),
    [
        (["        x = load(x)x = load(x)", *CHECK], "exceptions.checkpoint_parts"),
        (['  File "/w/loader.py", line 162, in check_parts', "    run(parts)"], ""),
        (["Traceback (most recent call last):", *CHECK], ""),
        (["saved"], ""),
    ],
)
def test_assertion_before_its_frames(after: list[str], name: str) -> None:
    """Of processes that write at once, a bare AssertionError has the assertion that follows, not another's lines."""
    found = explainer.build_report([explainer._scan_lines("log", ["AssertionError", *after])]).diagnoses

    assert [one.name for one in found if one.evidence[0].line == 1] == ([name] if name else [])


IMPORT = "ImportError: cannot import name 'Dataset' from '{}' ({})"


@pytest.mark.parametrize(
    ("module", "path"),
    [
        ("datasets", f"{SITE}/datasets/__init__.py"),
        ("datasets", "/home/me/.local/lib/python3.11/site-packages/datasets/__init__.py"),
        ("transformers", "/w/transformers/src/transformers/__init__.py"),
        ("trl", "/w/trl-0.12/trl/__init__.py"),
        ("verl", "/w/code/verl/__init__.py"),
        ("models", "/w/job/models/__init__.py"),
        ("datasets", "unknown location"),
    ],
)
def test_package_that_is_not_hidden(module: str, path: str) -> None:
    """Installed packages, checkouts of a package, trainers and the job's own modules hide nothing."""
    found = explain_traceback(f"{SITE}/openrlhf/utils.py", "from datasets import Dataset", IMPORT.format(module, path))

    assert found.name != "exceptions.hidden_package"


def test_attribute_of_another_package() -> None:
    """A class of one package that another one reads is no mistake of a release: their versions do not fit."""
    last = "AttributeError: 'TrainingArguments' object has no attribute 'use_frob'"
    found = explain_traceback(f"{SITE}/peft/tuners/lora/model.py", "if args.use_frob:", last)

    assert found.name == "exceptions.no_attribute"


def test_argument_outside_of_the_configuration() -> None:
    """The same exception of another class is not about the configuration file of accelerate."""
    last = "TypeError: __init__() got an unexpected keyword argument 'frob_ids'"
    found = explain_traceback(f"{SITE}/accelerate/accelerator.py", "plugin = Plugin(**values)", last)

    assert found.name != "exceptions.config_key"


@pytest.mark.parametrize(
    ("last", "name", "said"),
    [
        ("Trainer.__init__() got an unexpected keyword argument 'processing_class'", "added_name", "transformers 4.46"),
        ("DPOTrainer.__init__() got an unexpected keyword argument 'loss_type'", "bounded_name", "from 0.7.4"),
        ("SFTTrainer.__init__() got an unexpected keyword argument 'max_seq_length'", "removed_name", "trl 0.13"),
    ],
)
def test_released_name_without_frames(last: str, name: str, said: str) -> None:
    """The table of releases decides, even if only the last lines of the traceback are left."""
    found = explainer.build_report([explainer._scan_lines("log", ["    super().__init__(", f"TypeError: {last}"])])

    assert found.diagnoses[0].name == f"exceptions.{name}"
    assert said in found.diagnoses[0].description


def test_unknown_name_without_frames() -> None:
    """What the table does not know stays with the general entry."""
    last = "TypeError: Frob.__init__() got an unexpected keyword argument 'size'"
    found = explainer.build_report([explainer._scan_lines("log", ["    super().__init__(", last])])

    assert found.diagnoses[0].name == "python.call_changed"


POOL = [
    "Traceback (most recent call last):",
    '  File "/usr/lib/python3.10/multiprocessing/pool.py", line 125, in worker',
    "    result = (True, func(*args, **kwds))",
    '  File "/w/tools/preprocess_data.py", line 71, in encode',
    "    text = row[key]",
    "KeyError: '{key}'",
    '"""',
    "",
    "The above exception was the direct cause of the following exception:",
    "",
    "Traceback (most recent call last):",
    '  File "/w/tools/preprocess_data.py", line 201, in <module>',
    "    main()",
    '  File "/usr/lib/python3.10/multiprocessing/pool.py", line 873, in next',
    "    raise value",
    "KeyError: '{key}'",
]


@pytest.mark.parametrize(
    ("lines", "key", "name", "said"),
    [
        (POOL, "text", "missing_column", "no field text (in preprocess_data.py:71)"),
        (POOL[10:], "text", "missing_column", "no field text (in preprocess_data.py:201)"),
        (POOL[10:11] + POOL[13:], "messages", "missing_column", "no field messages"),
        (POOL[10:11] + POOL[13:], "frob", "missing_key", "frob"),
    ],
)
def test_exception_of_another_process(lines: list[str], key: str, name: str, said: str) -> None:
    """Frames that only pass an exception on are no place: the process that raised it is, if the log has it."""
    found = explainer.build_report([explainer._scan_lines("log", [line.format(key=key) for line in lines])])

    assert found.diagnoses[0].name == f"exceptions.{name}"
    assert said in found.diagnoses[0].description
    assert "pool.py" not in found.diagnoses[0].description


def test_message_of_a_late_import() -> None:
    """The message that transformers repeats is explained, and the whole exception is quoted."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "{SITE}/transformers/utils/import_utils.py", line 1101, in _get_module',
        "    raise RuntimeError(",
        "RuntimeError: Failed to import transformers.trainer because of the following error (look up to see its "
        "traceback):",
        f"cannot import name 'Frob' from 'accelerate.utils' ({SITE}/accelerate/utils/__init__.py)",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert (found.name, "accelerate.utils has no Frob" in found.description) == ("exceptions.import_name", True)
    assert found.evidence[0].text.startswith("RuntimeError: Failed to import transformers.trainer")


@pytest.mark.parametrize(
    ("folder", "last", "said"),
    [
        (
            "pydantic/dataclasses.py",
            (
                "pydantic_core.ValidationError: 1 validation error for FrobConfig",
                "  Value error, frob_size (7) must be at least frob_min (9) [type=value_error, input_value=3]",
            ),
            "frob_size is 7, below frob_min, which is 9",
        ),
        (
            "openai/client.py",
            ("openai.BadRequestError: Error code: 400 - {'message': 'frob_size (7) must be at least frob_min (9)'}",),
            "frob_size is 7, below frob_min, which is 9",
        ),
        (
            "torch/_dynamo/utils.py",
            (
                "torch._dynamo.exc.TorchRuntimeError: Dynamo failed to run FX node: call_function frob(*(7,)): got "
                "ValueError('frob_size (7) must be at least frob_min (9)')",
            ),
            "frob_size is 7, below frob_min, which is 9",
        ),
        (
            "xoscar/pool.py",
            ("ValueError: [address=192.0.2.7:4567, pid=77] frob_size (7) must be at least frob_min (9)",),
            "frob_size is 7, below frob_min, which is 9",
        ),
    ],
)
def test_wrapped_message(folder: str, last: tuple[str, ...], said: str) -> None:
    """The message that a check, a server or another process wraps is explained, at the wrapper's caller."""
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/start.py", line 7, in build',
        "    engine = make(7)",
        f'  File "{SITE}/{folder}", line 77, in __init__',
        "    raise error",
        *last,
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.description.endswith(said)
    assert "start.py:7" in found.why
    assert found.evidence[0].text.startswith(last[0])


@pytest.mark.parametrize(
    ("file", "name"), [("tokenization_utils_base.py", "encoding_expected"), ("frob_utils.py", "in_library")]
)
def test_dictionary_in_place_of_a_tensor(file: str, name: str) -> None:
    """What a tokenizer returns has no attributes of a tensor, and its exception has no message."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "{SITE}/transformers/generation/utils.py", line 7, in generate',
        "    size = ids.shape[0]",
        f'  File "{SITE}/transformers/{file}", line 9, in __getattr__',
        "    raise AttributeError",
        "AttributeError",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.name == f"exceptions.{name}"
    assert "utils.py:7" in found.description


def test_output_of_a_tool_in_a_message() -> None:
    """An exception whose message announces the output of a tool is explained by what the tool reports below it."""
    lines = [
        "Traceback (most recent call last):",
        f'  File "{SITE}/flashinfer/jit/frob.py", line 7, in build',
        "    raise RuntimeError(text)",
        "RuntimeError: Frob build failed. Frob output:",
        "[1/2] nvcc -c frob.cu",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert found.name == "cuda.toolkit_arch"


def test_passed_on_import_names_the_importing_package() -> None:
    """What several late imports repeat is explained where it was raised: the package that imports has to change."""
    name = f"cannot import name 'shard_checkpoint' from 'transformers.modeling_utils' ({SITE}/transformers/m.py)"
    late = "Failed to import {} because of the following error (look up to see its traceback):"
    lines = [
        "Traceback (most recent call last):",
        f'  File "{SITE}/awq/models/base.py", line 13, in <module>',
        "    from transformers.modeling_utils import shard_checkpoint",
        f"ImportError: {name}",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        f'  File "{SITE}/trl/import_utils.py", line 157, in _get_module',
        "    raise RuntimeError(",
        f"RuntimeError: {late.format('trl.trainer.frob')}",
        late.format("transformers.trainer"),
        name,
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)]).diagnoses[0]

    assert (found.name, found.evidence[0].line) == ("exceptions.removed_name", 4)
    assert "base.py:13" in found.why
    assert "python3 -m pip install -U autoawq  # or" in found.commands


def test_passed_on_import_without_a_traceback() -> None:
    """The name that a late import of transformers reports is looked up in the table of releases, head or no head."""
    lines = [
        "RuntimeError: Failed to import transformers.trainer because of the following error (look up to see its "
        "traceback):",
        f"cannot import name 'EncoderDecoderCache' from 'transformers' ({SITE}/transformers/__init__.py)",
    ]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert found.diagnoses[0].name == "exceptions.added_name"


@pytest.mark.parametrize(
    ("path", "source", "last", "said"),
    [
        # The innermost frame passes it to another package, which the class or the module tells.
        ("transformers/trainer.py", "self.acc = Accelerator(", "__init__() got", ("trainer.py:7", "accelerate")),
        ("trl/own.py", "x = FSDPPlugin(frob=a(1), b=2)", "__init__() got", ("own.py:7", "the library")),
        ("trl/own.py", "with deepspeed.zero.Init(a=b(),", "__init__() got", ("own.py:7", "deepspeed")),
        ("trl/own.py", "with deepspeed.zero.Init(a=b(),", "Init.__init__() got", ("own.py:7", "deepspeed")),
        ("trl/own.py", "out = deepspeed.initialize(", "initialize() got", ("own.py:7", "deepspeed")),
        # It hands on what it was given, or calls its own package.
        ("transformers/models/auto.py", "x = cls(config, **kwargs)", "f() got", ("train.py:45", "transformers")),
        ("trl/own.py", "x = SFTConfig(", "__init__() got", ("train.py:45", "trl")),
    ],
)
def test_who_passes_an_unknown_argument(path: str, source: str, last: str, said: tuple[str, str]) -> None:
    """The text names who passes an argument that a function does not have, and the function's package."""
    last = f"TypeError: {last} an unexpected keyword argument 'frob'"
    found = explain_traceback(f"{SITE}/{path}", source, last)

    assert found.name == "exceptions.unexpected_argument"
    assert found.why.startswith(f"{said[0]} passes it and was written for another version of {said[1]},")
    assert ("most likely a newer" in found.why) == (said[1] in ("accelerate", "deepspeed"))


def test_removed_argument_of_a_class_in_the_source_line() -> None:
    """Where Python names no class, the source line does: the release that removed its argument is known."""
    last = "TypeError: __init__() got an unexpected keyword argument 'dispatch_batches'"
    found = explain_traceback(f"{SITE}/transformers/trainer.py", "self.accelerator = Accelerator(", last)

    assert found.name == "exceptions.removed_name"
    assert found.commands[0] == "python3 -m pip install 'accelerate<1'"


@pytest.mark.parametrize(
    ("message", "is_limit"),
    [
        ("ValueError: frob_size should be larger than quux_size", True),
        ("ValueError: frob_size should be 16 here", True),
        ("RuntimeError: File out_3/frob_0.bin cannot be opened.", False),
        ("ValueError: the frob cannot be loaded", False),
    ],
)
def test_limit_is_a_number_or_a_comparison(message: str, is_limit: bool) -> None:
    """A message without a number or a comparison is about no limit."""
    found = explain_traceback("/w/own.py", "raise X(", message)

    assert (found.name == "exceptions.limit") == is_limit


def test_evaluation_before_training() -> None:
    """What the training loop sets is missing in an evaluation before it; elsewhere, the release lacks it."""
    last = "AttributeError: 'GRPOTrainer' object has no attribute 'current_gradient_accumulation_steps'"
    frames = [
        f'  File "{SITE}/trl/trainer/grpo_trainer.py", line 7, in _compute_loss',
        "    loss = loss / self.current_gradient_accumulation_steps",
    ]
    before = [f'  File "{SITE}/transformers/trainer.py", line 70, in _evaluate', "    self.evaluate()"]

    early = explain_lines("Traceback (most recent call last):", *before, *frames, last)
    assert early.name == "exceptions.unset_before_training"
    assert explain_lines("Traceback (most recent call last):", *frames, last).name == "exceptions.added_name"


@pytest.mark.parametrize(("python", "said"), [("3.8", "Python 3.9 or newer: this is 3.8"), ("3.12", "")])
def test_python_that_a_release_needs(python: str, said: str) -> None:
    """Where the traceback's Python is too old for the release that is needed, the remedy names the Python too."""
    path = f"/opt/lib/python{python}/site-packages/trl/__init__.py"
    found = explain_traceback(
        "/w/run.py", "from trl import GRPOConfig", f"ImportError: cannot import name 'GRPOConfig' from 'trl' ({path})"
    )

    assert found.name == "exceptions.added_name"
    assert said in found.do
    assert ("set up Python" in found.do) == bool(said)


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        (f"{SITE}/torch/_tensor.py", "engine_bypassed"),
        (f"{SITE}/deepspeed/runtime/engine.py", "own_attribute"),
    ],
)
def test_backward_without_the_engine(caller: str, name: str) -> None:
    """An optimizer of ZeRO that misses its buffers is the program's mistake only if no engine called backward."""
    last = "AttributeError: 'DeepSpeedZeroOptimizer' object has no attribute 'frob_index'"
    found = explain_traceback(f"{SITE}/deepspeed/runtime/zero/stage_1_and_2.py", "a = self.frob_index", last, caller)

    assert found.name == f"exceptions.{name}"


def test_fixed_footer_is_no_remedy() -> None:
    """What a framework prints after every exception is no part of its message."""
    lines = ["Traceback (most recent call last):", '  File "/w/frob.py", line 7, in check', "    raise ValueError("]
    lines += ["ValueError: frob has 7 quuxes", "", "Set the environment variable FROB_FULL_ERROR=1 for a full trace."]
    found = explain_lines(*lines)

    assert found.name == "exceptions.refused"
    assert "FROB_FULL_ERROR" not in f"{found.description} {found.do} {found.commands}"


def test_hook_of_imports_is_no_importer() -> None:
    """A frame that imports for its caller is not the one whose import failed."""
    lines = ["Traceback (most recent call last):", f'  File "{SITE}/vllm/frob.py", line 7, in <module>']
    lines += ["    from torch._frob import quux", f'  File "{SITE}/quux_import_hook.py", line 9, in _custom_import']
    lines += ["    module = original(name)", "ModuleNotFoundError: No module named 'torch._frob'"]
    found = explain_lines(*lines)

    assert found.name == "exceptions.imported_part"
    assert "vllm imports torch._frob" in found.description


def test_weights_are_no_settings() -> None:
    """The name of a weight in a message is nothing that a setting can change."""
    last = "ValueError: cannot place 'model.layers.7.frob.weight', see `frob_option`"

    assert "frob.weight" not in explain_traceback("/w/frob.py", "raise ValueError(", last).do


PRINTED = [
    ("vLLM Version                 : 0.8.5.post1", "vllm", "0.8.5.post1"),
    ("torch 2.2.0", "torch", "2.2.0"),
    ("swift.__version__: 3.1.0", "ms-swift", "3.1.0"),
    ("- CANN version: 8.1.RC1", "cann", "8.1.RC1"),
    ("    PyTorch 2.6.0+cu124 with CUDA 1204 (you have 2.5.1+cu121)", "torch", "2.5.1+cu121"),
    ("transformers              4.51.0", "transformers", "4.51.0"),
    ("[conda] torch                     2.5.1                    pypi_0    pypi", "torch", "2.5.1"),
    ("[pip3] numpy==1.26.4", "numpy", "1.26.4"),
    ("- `transformers` version: 4.52.1", "transformers", "4.52.1"),
    ("- PyTorch version (GPU?): 2.5.1+cu124 (True)", "torch", "2.5.1+cu124"),
    ("- Datasets 2.21.0", "datasets", "2.21.0"),
    ("INFO 05-01 10:00:00 [api_server.py:1043] vLLM API server version 0.8.5.post1", "vllm", "0.8.5.post1"),
    ("INFO 05-01 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.9.1) with config:", "vllm", "0.9.1"),
    ("torch version .................... 2.5.1+cu124", "torch", "2.5.1+cu124"),
    ("deepspeed info ................... 0.16.4, unknown, unknown", "deepspeed", "0.16.4"),
    ("O^O/ Torch: 2.7.1+cu128. CUDA: 8.9. CUDA Toolkit: 12.8. Triton: 3.3.1", "triton", "3.3.1"),
    ("Successfully installed accelerate-1.7.0 huggingface-hub-0.31", "huggingface-hub", "0.31"),
    ("Requirement already satisfied: trl>=0.9 in /opt/lib (from x) (0.17.0)", "trl", "0.17.0"),
    ("vllm 0.8.5 requires torch==2.6.0, but you have torch 2.7.0 which is incompatible.", "torch", "2.7.0"),
    (
        "ImportError: tokenizers>=0.21 is required here, but found tokenizers==0.20.3.",
        "tokenizers",
        "0.20.3",
    ),
    ("/opt/lib/python3.10/site-packages/peft-0.15.2.dist-info/METADATA", "peft", "0.15.2"),
    ("transformers 4.38.2 | accelerate 1.0.1 | torch 2.4.1+cu121", "accelerate", "1.0.1"),
    ("torch: 2.6.0+cu124, cuda available True", "torch", "2.6.0+cu124"),
]


@pytest.mark.parametrize(("line", "package", "version"), PRINTED)
def test_printed_version(line: str, package: str, version: str) -> None:
    """A version is read from the lists of pip, conda and the trainers, and from banners and paths."""
    printed = {one.package: one.version for one in installed_versions.read_versions([line])}

    assert printed[package] == version


@pytest.mark.parametrize(
    "line",
    [
        "torch 2.1.0 is required",
        "Found existing installation: torch 2.1.0",
        "transformers>=4.44",
        "Collecting torch==2.3.1",
        '  "transformers_version": "4.40.0",',
        "loss   2.31",
        "works with torch 2.1.0 | trl 0.9.6, peft 0.14.0",
        "Required torch Version: 2.6.0",
        "The minimum torch version: 2.4.0",
        "| NVIDIA-SMI 535.104.05    Driver Version: 535.104.05    CUDA Version: 12.2     |",
    ],
)
def test_version_of_no_installation(line: str) -> None:
    """What a program requires or downloads is not what is installed."""
    assert installed_versions.read_versions([line]) == ()


@pytest.mark.parametrize("version", ["1.0a1b2", "1.0rc1rc2", "2.6.0+a..b"])
def test_what_is_no_version(version: str) -> None:
    """What looks like a version and is none is left out."""
    assert installed_versions.choose_versions(installed_versions.read_versions([f"torch=={version}"])) == {}


def test_two_versions() -> None:
    """Of two different versions of a package none is taken; a text that leaves out the end is the same version."""
    printed = installed_versions.read_versions(["torch==2.6.0", "- PyTorch 2.6.0+cu124", "trl==0.9.6", "trl==0.17.0"])

    assert installed_versions.choose_versions(printed) == {"torch": "2.6.0+cu124"}


LACKS = f"ImportError: cannot import name 'EncoderDecoderCache' from 'transformers' ({SITE}/transformers/__init__.py)"


def explain_with_versions(
    versions: list[str], last: str, path: str = f"{SITE}/frob/a.py", source: str = "x"
) -> Diagnosis:
    """Return the first diagnosis of a log that prints these versions before the exception."""
    frames = ["Traceback (most recent call last):", '  File "/w/t.py", line 4, in <module>', "    main()"]
    frames += [f'  File "{path}", line 7, in run', f"    {source}", last]
    return explainer.build_report([explainer._scan_lines("log", [*versions, *frames])]).diagnoses[0]


def test_version_breaks_bound() -> None:
    """The answer says which version is installed."""
    found = explain_with_versions(["- `transformers` version: 4.42.3"], LACKS)

    assert found.name == "exceptions.added_name"
    assert "The installed one is older: 4.42.3." in found.why
    assert found.installed == ("transformers 4.42.3",)


def test_version_contradicts() -> None:
    """A version that has the name removes the cause that it were too old."""
    found = explain_with_versions(["- `transformers` version: 4.52.1"], LACKS)

    assert found.name != "exceptions.added_name"


@pytest.mark.parametrize(
    ("version", "name"), [("4.50.0", "added_name"), ("5.3.0", "removed_name"), ("", "bounded_name")]
)
def test_version_between_bounds(version: str, name: str) -> None:
    """Of a name that only some releases have, the version tells which bound it breaks."""
    last = "ImportError: cannot import name 'check_model_inputs' from 'transformers.utils.generic'"
    found = explain_with_versions([f"- `transformers` version: {version}"] if version else [], last)

    assert found.name == f"exceptions.{name}"
    assert found.commands[0] == "python3 -m pip install 'transformers>=4.54,<5.2'"


BUG = "AttributeError: 'dict' object has no attribute 'model_type'"


@pytest.mark.parametrize(("version", "is_known"), [("4.57.2", True), ("4.57.3", False)])
def test_known_bug(version: str, is_known: bool) -> None:
    """A bug of a release is known by its message and frame, unless the log prints another release."""
    path = f"{SITE}/transformers/tokenization_utils_base.py"
    found = explain_with_versions([f"transformers=={version}"], BUG, path, "if config.model_type not in [")

    assert (found.name == "exceptions.known_bug") is is_known


@pytest.mark.parametrize("bug", known_bugs.load_bugs(), ids=lambda bug: f"{bug.broken} {bug.other}")
def test_bugs_name_releases(bug: known_bugs.KnownBug) -> None:
    """Each row names releases as pip reads them, of packages whose versions are read, and what it installs mends it."""
    wanted = [Requirement(text) for text in (bug.broken, bug.other, bug.install) if text]
    known = installed_versions.read_versions(f"{one.name}==1.0" for one in wanted)

    assert {one.package for one in known} == {installed_versions.normalize_name(one.name) for one in wanted}
    assert Requirement(bug.broken).specifier


def list_versions_around(texts: list[str]) -> set[str]:
    """Return the versions in the requirements, and those before and after each of them."""
    found = {version for text in texts for version in re.findall(r"[<>=]=?(\d[\w.]*)", text)}
    releases = [Version(version).release for version in found]
    parts = [(one[:at], one[at], step) for one in releases for at in range(len(one)) for step in (-1, 0, 1, 90)]
    return found | {".".join(map(str, (*ahead, max(0, part + step)))) for ahead, part, step in parts}


@pytest.mark.parametrize("bug", known_bugs.load_bugs(), ids=lambda bug: f"{bug.broken} {bug.other}")
def test_remedy_excludes_bug(bug: known_bugs.KnownBug) -> None:
    """No release that the remedy installs has the bug."""
    wanted = Requirement(bug.install)
    same = [one for one in (bug.broken, bug.other) if one and Requirement(one).name == wanted.name]
    versions = [
        one
        for one in list_versions_around([bug.broken, bug.other, bug.install])
        if wanted.specifier.contains(one, prereleases=True)
    ]

    assert same and versions
    assert not [one for one in versions for text in same if Requirement(text).specifier.contains(one, prereleases=True)]


BUG_LINES = toml_file.load_own_table(Path(__file__).with_name("known_bugs.toml"))["bugs"]


@pytest.mark.parametrize(
    ("bug", "lines"),
    list(zip(known_bugs.load_bugs(), BUG_LINES, strict=True)),
    ids=[f"{bug.broken} {bug.other}" for bug in known_bugs.load_bugs()],
)
def test_bug_by_its_line(bug: known_bugs.KnownBug, lines: list[str]) -> None:
    """Each bug is found by the line of its exception, together with what is around it if the table asks for that."""
    last, around = lines
    raised = RaisedException(last, "log", 1, "", frames=("/w/frob.py:7, in main",), sources=(around,))

    assert known_bugs.find_bug(raised.text, raised.frames, raised.sources, {}) == bug
    assert not around or known_bugs.find_bug(raised.text, raised.frames, ("x",), {}) is None


def test_command_that_is_done() -> None:
    """A command that installs what the log shows installed is left out, and a list of known versions."""
    commands = ["python3 -m pip install 'numpy<2'", "python3 -m pip list 2>/dev/null | grep -i -E 'numpy|scipy'"]

    assert installed_versions.select_commands(commands, {"numpy": "1.26.4", "scipy": "1.11"}) == ()
    assert installed_versions.select_commands(commands, {"numpy": "2.1.0"}) == tuple(commands)


@pytest.mark.parametrize("package", ["torch", "'transformers>=4.60'"])
def test_what_an_engine_requires_is_not_upgraded_alone(package: str) -> None:
    """An engine needs certain releases of it: it is upgraded itself, or both are."""
    alone, both = f"python3 -m pip install -U {package}", f"python3 -m pip install -U vllm {package}"

    assert installed_versions.select_commands([alone, both], {"vllm": "0.8.5"}) == (both,)
    assert installed_versions.select_commands([alone], {"trl": "0.20.0"}) == (alone,)


@pytest.mark.parametrize(
    ("message", "fault", "remedy"),
    [
        ("frob is off. Please set frob to true.", "frob is off.", "Set frob to true."),
        ("the frob is too small, please check it.", "the frob is too small", "Check it."),
        ("frob is 3. HINT: Set `frob=1`.", "frob is 3", "Set `frob=1`."),
        ("To read sound, please install 'quux_sound'.", "quux_sound", "To read sound, please install 'quux_sound'."),
        ("When using frob, you must enable `use_quux`.", "use_quux", "When using frob, you must enable `use_quux`."),
    ],
)
def test_instruction_is_not_repeated(message: str, fault: str, remedy: str) -> None:
    """The headline has what is wrong, or what it is about, and the next step the instruction with its condition."""
    found = explain_traceback("/w/args.py", "raise ValueError(", f"ValueError: {message}")

    assert found.description == f"The program refuses to continue (args.py:7): {fault}"
    assert found.do == remedy


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("assert a * b == size, (", "assert a * b == size"),
        ("assert frob_size == len(", ""),
    ],
)
def test_part_of_condition(source: str, shown: str) -> None:
    """A condition is quoted only if it is whole."""
    found = explain_traceback("/w/args.py", source, "AssertionError: the sizes of frob and quux differ here")

    assert found.do.endswith(f"so that the check holds{': ' * bool(shown)}{shown}")


def test_manual_is_no_help() -> None:
    """A page about the type of the exception is not shown, nor is a page of a package that does not describe it."""
    found = explain_traceback(f"{SITE}/trl/a.py", "assert x == 1", "AssertionError: the sizes of frob and quux differ")

    assert found.source == ()


def test_one_fact_once() -> None:
    """A known bug is not shown a second time by the entry that knows the same line."""
    last = "NotImplementedError: Loading a dataset cached in a LocalFileSystem is not supported."
    path = f"{SITE}/datasets/builder.py"
    lines = ["Traceback (most recent call last):", f'  File "{path}", line 9, in as_dataset', "    raise X(y)", last]
    found = explainer.build_report([explainer._scan_lines("log", lines)])

    assert [one.name for one in found.diagnoses] == ["exceptions.known_bug"]


@pytest.mark.parametrize(
    ("source", "got"),
    [
        ("if re.match(shape, completion):", ", got 'NoneType'"),
        ("if re.match(shape, answer):", ", got 'list'"),
        ("name = sample['name'].strip()", ", got 'int'"),
    ],
)
def test_no_completion_messages(source: str, got: str) -> None:
    """Only a list in place of a completion is a list of messages."""
    found = explain_traceback("/w/rewards.py", source, f"TypeError: expected string or bytes-like object{got}")

    assert found.name != "exceptions.completion_messages"


def test_uuid_keeps_card() -> None:
    """No command selects a card that the scheduler did not give to the job."""
    last = "ValueError: invalid literal for int() with base 10: 'GPU-1234abcd-12'"
    found = explain_traceback(f"{SITE}/vllm/platforms/frob.py", "return int(device)", last)

    assert not [one for one in found.commands if "CUDA_VISIBLE_DEVICES=" in one]
    assert "the number that nvidia-smi -L shows" in found.do


def test_product_without_layer() -> None:
    """A product of two matrices of the program is no layer with in_features."""
    last = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x64 and 32x8)"
    found = explain_traceback("/w/attention.py", "scores = torch.matmul(q, k)", last)

    assert found.name != "exceptions.layer_input"


@pytest.mark.parametrize(
    ("path", "name"),
    [(f"{SITE}/deepspeed/comm/comm.py", "launcher.no_launcher"), ("/w/solver.py", "launcher.mpi_module")],
)
def test_missing_mpi(path: str, name: str) -> None:
    """Only DeepSpeed looks for MPI because a launcher is missing; another program uses it."""
    found = explain_traceback(path, "from mpi4py import MPI", "ModuleNotFoundError: No module named 'mpi4py'")

    assert found.name == name


def test_bug_shows_where_it_was_raised() -> None:
    """The frames of Python's import machinery do not hide the place of a bug, and the diagnosis has its own page."""
    frames = [f"{SITE}/trl/a.py:7, in <module>", *["<frozen importlib._bootstrap>:9, in _find_and_load"] * 8]
    last = "ImportError: cannot import name 'GuidedDecodingParams' from 'vllm.sampling_params'"
    raised = RaisedException(last, "log", 1, frames[-1], frames=tuple(frames), sources=("x",) * len(frames))
    found = known_bugs.find_bug(raised.text, raised.frames, raised.sources, {})

    assert found and found.package == "trl"
    assert exception_forms.explain_exception(raised, {}, found).source == (found.source,)


@pytest.mark.parametrize(("installed", "says_more"), [({}, True), ({"transformers": "4.52.1"}, False)])
def test_form_says_more_with_its_version(installed: dict[str, str], says_more: bool) -> None:
    """A form that a printed version excludes does not replace the entry that knows the line."""
    entry = next(one for one in catalogue.load_entries() if one.name == "python.import_name")
    raised = RaisedException(LACKS, "log", 1, "")

    assert exception_forms.repeats_exception(entry, raised, installed) is says_more


@pytest.mark.parametrize(("package", "is_upgraded"), [("vllm", False), ("gptqmodel", True)])
def test_upgrade_keeps_builds(package: str, is_upgraded: bool) -> None:
    """No command installs the newest release of a package that would replace torch or a vendor's build."""
    last = "ValueError: FrobForCausalLM is not supported yet"
    found = explain_traceback(f"{SITE}/{package}/models/frob.py", "raise ValueError(text)", last)

    assert found.name == "exceptions.model_unsupported"
    assert any("install -U" in one for one in found.commands) is is_upgraded


def test_function_named_top_is_no_template() -> None:
    """Only Jinja's own frames are of a template."""
    lines = ["Traceback (most recent call last):", '  File "/w/scorer.py", line 7, in top', "    x = frobs[first]"]

    assert explain_lines(*lines, "KeyError: 'quux'").name == "exceptions.unmapped_value"


def test_step_of_an_optimizer_that_calls_the_training_step() -> None:
    """What a closure raises is not of the optimizer's saved state."""
    lines = ["Traceback (most recent call last):", f'  File "{SITE}/torch/optim/adamw.py", line 9, in step']
    lines += ["    loss = closure()", '  File "/w/module.py", line 7, in training_step', "    x = frobs[7]"]

    assert explain_lines(*lines, "IndexError: list index out of range").name != "exceptions.optimizer_state"
