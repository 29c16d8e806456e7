"""The launchers that are read: how each is called, and by which options and variables it is told what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Names = tuple[str, ...]


@dataclass(frozen=True)
class Launcher:
    """`words`: how a command of it begins.  `options` and `variables` by what they tell: nodes (or world, the processes
    of all nodes), processes, rank, master, port, devices; `flags` take no value.  `program`: the first word that is no
    option is the program; else the options are the training's own.  `rank_default`: what a node is that hears nothing.
    """

    name: str
    words: tuple[Names, ...]
    options: Mapping[str, Names] = field(default_factory=dict)
    variables: Mapping[str, Names] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    more: frozenset[str] = frozenset()
    program: bool = True
    rank_default: str = ""
    rank_severe: bool = True
    master_default: str = ""
    total_processes: bool = False  # the count is that of all nodes
    modules: Names = ("-m", "--module")
    short: Mapping[str, str] = field(default_factory=dict)  # -X for an option that counts here
    abbreviates: bool = True  # argparse takes the beginning of an option for it
    source: str = ""

    @property
    def all_options(self) -> frozenset[str]:
        return self.flags | self.more | {name for names in self.options.values() for name in names}

    def whole(self, name: str) -> str:
        """The option that a beginning of one means; the name itself where it means none, or several."""
        found = [each for each in self.all_options if each.startswith(name)]
        return found[0] if self.abbreviates and len(found) == 1 and len(name) > 2 else name


_TORCH = {
    "nodes": ("nnodes",),
    "processes": ("nproc_per_node",),
    "rank": ("node_rank",),
    "master": ("master_addr", "rdzv_endpoint"),
    "port": ("master_port",),
}
_TORCH_MORE = frozenset(
    [
        "rdzv_backend",
        "rdzv_id",
        "rdzv_conf",
        "max_restarts",
        "monitor_interval",
        "start_method",
        "role",
        "log_dir",
        "redirects",
        "tee",
        "local_addr",
        "local_ranks_filter",
        "logs_specs",
        "numa_binding",
        "event_log_handler",
        "signals_to_handle",
        "shutdown_timeout",
        "duplicate_stdout_filters",
        "duplicate_stderr_filters",
    ]
)
_TORCH_FLAGS = frozenset(["standalone", "no_python", "module", "run_path", "use_env", "virtual_local_rank"])
_RUN = {
    "nodes": ("NNODES",),
    "processes": ("NPROC_PER_NODE",),
    "rank": ("NODE_RANK",),
    "master": ("MASTER_ADDR",),
    "port": ("MASTER_PORT",),
}
_KIT = {**_RUN, "rank": ("RANK",), "processes": ()}

LAUNCHERS = (
    Launcher(
        "paddle.distributed.launch",
        (("python", "-m", "paddle.distributed.launch"), ("fleetrun",)),
        options={
            "nodes": ("nnodes",),
            "processes": ("nproc_per_node",),
            "rank": ("rank",),
            "master": ("master",),
            "devices": ("npus", "gpus", "xpus", "devices"),
        },
        variables={
            "nodes": ("PADDLE_NNODES",),
            "processes": ("PADDLE_NPROC_PER_NODE",),
            "rank": ("PADDLE_RANK",),
            "master": ("PADDLE_MASTER",),
            "devices": ("PADDLE_DEVICES",),
        },
        more=frozenset(
            [
                "legacy",
                "log_level",
                "log_overwrite",
                "sort_ip",
                "enable_gpu_log",
                "log_dir",
                "run_mode",
                "job_id",
                "host",
                "ips",
                "start_port",
                "auto_parallel_config",
                "auto_cluster_config",
                "auto_tuner_json",
                "servers",
                "trainers",
                "trainer_num",
                "server_num",
                "gloo_port",
                "with_gloo",
                "max_restart",
                "elastic_level",
                "elastic_timeout",
                "backend",
                "coordinator_num",
            ]
        ),
        rank_severe=False,
        source="paddle.distributed.launch 3.1 and 3.3, tried",
    ),
    Launcher(
        "torchrun",
        (
            ("torchrun",),
            ("python", "-m", "torch.distributed.run"),
            ("python", "-m", "torch.distributed.launch"),
        ),
        options=_TORCH,
        variables={role: tuple(f"PET_{name.upper()}" for name in names) for role, names in _TORCH.items()},
        more=_TORCH_MORE,
        flags=_TORCH_FLAGS,
        rank_default="0",
        master_default="127.0.0.1",
        source="torch.distributed.run 2.13, read",
    ),
    Launcher(
        "deepspeed",
        (("deepspeed",),),
        options={
            "nodes": ("num_nodes",),
            "processes": ("num_gpus",),
            "rank": ("node_rank",),
            "master": ("master_addr",),
            "port": ("master_port",),
            "devices": ("include",),
        },
        more=frozenset(
            [
                "hostfile",
                "exclude",
                "min_elastic_nodes",
                "max_elastic_nodes",
                "launcher",
                "launcher_args",
                "autotuning",
                "bind_core_list",
                "ssh_port",
                "venv_script",
                "elastic_training",
                "enable_each_rank_log",
            ]
        ),
        flags=frozenset(
            [
                "module",
                "no_python",
                "no_local_rank",
                "no_ssh",
                "no_ssh_check",
                "force_multi",
                "save_pid",
                "bind_cores_to_rank",
            ]
        ),
        modules=("--module",),
        short={"-H": "--hostfile", "-i": "--include", "-e": "--exclude"},
        source="DeepSpeed's launcher/runner.py",
    ),
    Launcher(
        "msrun",
        (("msrun",),),
        options={
            "world": ("worker_num",),
            "processes": ("local_worker_num",),
            "rank": ("node_rank",),
            "master": ("master_addr",),
            "port": ("master_port",),
        },
        more=frozenset(
            [
                "log_dir",
                "join",
                "cluster_time_out",
                "bind_core",
                "sim_level",
                "sim_rank_id",
                "rank_table_file",
                "worker_log_name",
                "tail_worker_log",
            ]
        ),
        rank_severe=False,
        master_default="127.0.0.1",
        modules=("-m",),
        source="MindSpore's documentation, msrun: the number of all processes and that of a node's, 8 each",
    ),
    Launcher(
        "accelerate",
        (("accelerate", "launch"), ("accelerate-launch",), ("python", "-m", "accelerate.commands.launch")),
        options={
            "nodes": ("num_machines",),
            "processes": ("num_processes",),
            "rank": ("machine_rank",),
            "master": ("main_process_ip",),
            "port": ("main_process_port",),
            "devices": ("gpu_ids",),
        },
        more=frozenset(
            [
                "config_file",
                "mixed_precision",
                "dynamo_backend",
                "dynamo_mode",
                "num_cpu_threads_per_process",
                "rdzv_backend",
                "rdzv_conf",
                "max_restarts",
                "monitor_interval",
                "role",
                "deepspeed_config_file",
                "zero_stage",
                "offload_optimizer_device",
                "offload_param_device",
                "gradient_accumulation_steps",
                "gradient_clipping",
                "deepspeed_hostfile",
                "deepspeed_multinode_launcher",
                "fsdp_sharding_strategy",
                "fsdp_auto_wrap_policy",
                "zero3_init_flag",
                "fsdp_version",
                "fsdp_transformer_layer_cls_to_wrap",
                "fsdp_state_dict_type",
                "fsdp_offload_params",
                "log_dir",
                "tee",
                "main_training_function",
                "deepspeed_exclusion_filter",
                "deepspeed_inclusion_filter",
                "deepspeed_moe_layer_cls_names",
                "offload_optimizer_nvme_path",
                "offload_param_nvme_path",
                "zero3_save_16bit_model",
                "fsdp_min_num_params",
                "fsdp_reshard_after_forward",
                "fsdp_backward_prefetch",
                "fsdp_forward_prefetch",
                "fsdp_use_orig_params",
                "fsdp_cpu_ram_efficient_loading",
                "fsdp_sync_module_states",
                "fsdp_activation_checkpointing",
                "mpirun_hostfile",
                "fp8_backend",
                "fp8_format",
            ]
        ),
        flags=frozenset(
            [
                "cpu",
                "use_parallelism_config",
                "downcast_bf16",
                "dynamo_use_regional_compilation",
                "multi_gpu",
                "tpu",
                "ipex",
                "quiet",
                "debug",
                "use_deepspeed",
                "use_fsdp",
                "use_megatron_lm",
                "use_xpu",
                "module",
                "no_python",
                "same_network",
                "dynamo_use_fullgraph",
                "dynamo_use_dynamic",
                "enable_cpu_affinity",
            ]
        ),
        rank_default="0",
        total_processes=True,
        abbreviates=False,
        source="accelerate 1.15.0, commands/launch.py",
    ),
    Launcher(
        "swift",
        (("swift",), ("megatron",), ("python", "-m", "swift.cli.main")),
        variables=_RUN,
        program=False,
        rank_default="0",
        master_default="127.0.0.1",
        source="ms-swift's documentation: with NPROC_PER_NODE or NNODES it becomes a torch.distributed.run",
    ),
    Launcher(
        "llamafactory-cli",
        (("llamafactory-cli",), ("lmf",), ("python", "-m", "llamafactory.cli")),
        variables=_RUN,
        program=False,
        rank_default="0",
        master_default="127.0.0.1",
        source="LLaMA-Factory's documentation: FORCE_TORCHRUN, NNODES, NODE_RANK",
    ),
    Launcher(
        "paddleformers-cli",
        (("paddleformers-cli",),),
        variables=_KIT,
        program=False,
        rank_default="0",
        source="wheel paddleformers 1.2.0, cli/cli.py: RANK, 0 where it is not set",
    ),
    Launcher("erniekit", (("erniekit",),), variables={**_KIT, "rank": ()}, program=False, rank_severe=False),
    Launcher("python", (("python",),), program=True, modules=("-m",), source="one process"),
)
ACCELERATE = next(launcher for launcher in LAUNCHERS if launcher.name == "accelerate")
# A configuration that no script here starts.
ALONE = Launcher("", (), program=False)
# Started by these, a launcher stands further back among the words.
CARRIERS = frozenset(
    [
        "srun",
        "mpirun",
        "mpiexec",
        "docker",
        "podman",
        "nerdctl",
        "kubectl",
        "ssh",
        "pdsh",
        "singularity",
        "apptainer",
        "uv",
        "poetry",
        "conda",
        "pixi",
        "parallel",
        "numactl",
        "kernprof",
        "nsys",
        "ncu",
        "msprof",
        "xargs",
    ]
)
# A file or module behind torchrun, deepspeed or python → the command that starts the same, and its verb.
BEHIND = (
    (re.compile(r"(?:^|[/.])swift[/.]cli[/.]_megatron[/.](sft|pt|rlhf)(?:\.py)?$"), "megatron"),
    (re.compile(r"(?:^|[/.])swift[/.]cli[/.](sft|pt|rlhf|infer|export|deploy)(?:\.py)?$"), "swift"),
    (re.compile(r"(?:^|[/.])llamafactory[/.]launcher(?:\.py)?$"), "llamafactory-cli"),
)
