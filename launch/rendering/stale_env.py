"""Variables of job platforms and earlier runs that override a launcher's own command-line options."""

from __future__ import annotations

from collections.abc import Iterable

# paddle.distributed.launch 3.1 and 3.3 (tested): context/args_envs.py lets each of these override the option.  The two
# ENDPOINTS replace master and node count: with a stale one, a job of one node waits for ever.  ERNIEKit also removes
# those of the last line.
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
# With the first line set, ms-swift and LLaMA-Factory start torch.distributed.run; torch itself reads the second.
_TORCH = (
    *("NNODES", "NODE_RANK", "NPROC_PER_NODE", "MASTER_ADDR", "MASTER_PORT"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
)
# These start paddle.distributed.launch themselves and take its options from these variables.
_KIT = (*_PADDLE, "NNODES", "RANK", "MASTER_ADDR", "MASTER_PORT")
BY_LAUNCHER = {
    "paddle.distributed.launch": _PADDLE,
    "erniekit": _KIT,
    "paddleformers-cli": _KIT,
    "torchrun": _TORCH,
    "swift": _TORCH,
    "llamafactory-cli": _TORCH,
}


def list_stale_variables(launcher: Iterable[str]) -> tuple[str, ...]:
    """Return the variables to unset before this launcher starts, unless the recipe sets them."""
    return tuple(name for word in launcher for name in BY_LAUNCHER.get(word, ()))
