"""Variables of job platforms and earlier runs that a launcher obeys more than its own command line."""

from __future__ import annotations

from collections.abc import Iterable

# paddle.distributed.launch 3.1 and 3.3 (tried): its context/args_envs.py lets each of these override the option; the
# two ENDPOINTS replace master and node count, so that a left-over one makes a one-node job wait for ever.  Those of the
# last line are what ERNIEKit removes besides.
_PADDLE = (
    *("PADDLE_MASTER", "PADDLE_NNODES", "PADDLE_RANK", "PADDLE_DEVICES", "PADDLE_NPROC_PER_NODE", "PADDLE_RUN_MODE"),
    *("PADDLE_JOB_ID", "PADDLE_LOG_DIR", "PADDLE_LOG_LEVEL", "PADDLE_LOG_OVERWRITE", "PADDLE_SORT_IP"),
    *("PADDLE_MAX_RESTART", "PADDLE_ELASTIC_LEVEL", "PADDLE_ELASTIC_TIMEOUT", "PADDLE_ELASTIC_JOB_ID"),
    *("PADDLE_SERVER_NUM", "PADDLE_TRAINER_NUM", "PADDLE_SERVERS_ENDPOINTS", "PADDLE_TRAINERS_ENDPOINTS"),
    *("PADDLE_GLOO_PORT", "PADDLE_WITH_GLOO", "PADDLE_START_PORT", "PADDLE_IPS", "POD_IP", "FLAGS_START_PORT"),
    *("PADDLE_AUTO_PARALLEL_CONFIG", "PADDLE_AUTO_CLUSTER", "PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM"),
    *("PADDLE_TRAINER_ENDPOINTS", "DISTRIBUTED_TRAINER_ENDPOINTS", "PADDLE_DISTRI_BACKEND", "PADDLE_XCCL_BACKEND"),
    *("PADDLE_WORKERS_IP_PORT_LIST", "PADDLE_TRAINERS", "PADDLE_NUM_GRADIENT_SERVERS"),
)
# With these set ms-swift and LLaMA-Factory turn into a torch.distributed.run; torch itself reads the rest.
_TORCH = (
    *("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
)
# These start paddle.distributed.launch themselves, with what they find in these for its options.
_KIT = (*_PADDLE, "NNODES", "RANK", "MASTER_ADDR", "MASTER_PORT")
BY_LAUNCHER = {
    "paddle.distributed.launch": _PADDLE,
    "erniekit": _KIT,
    "paddleformers-cli": _KIT,
    "torchrun": _TORCH,
    "swift": _TORCH,
    "llamafactory-cli": _TORCH,
}


def left_over(launcher: Iterable[str]) -> tuple[str, ...]:
    """What must not be set when this launcher starts, unless the recipe itself sets it."""
    return tuple(name for word in launcher for name in BY_LAUNCHER.get(word, ()))
