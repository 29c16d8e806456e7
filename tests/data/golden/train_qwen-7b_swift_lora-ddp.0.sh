#!/usr/bin/env bash
# qwen-7b-npu-swift, lora ddp: LoRA on four cards, data parallel
# Written by envcheck train --dry-run --as-script.
#
# Run it inside the recipe's container. Start and enter the container with:
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-qwen-7b-swift \
#       --workdir /workspace \
#       --network host \
#       --ipc host \
#       --device /dev/davinci0 \
#       --device /dev/davinci1 \
#       --device /dev/davinci2 \
#       --device /dev/davinci3 \
#       --device /dev/davinci4 \
#       --device /dev/davinci5 \
#       --device /dev/davinci6 \
#       --device /dev/davinci7 \
#       --device /dev/davinci_manager \
#       --device /dev/devmm_svm \
#       --device /dev/hisi_hdc \
#       --mount "type=bind,source=$PWD,target=/workspace" \
#       --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
#       --mount type=bind,source=/usr/local/Ascend/firmware,target=/usr/local/Ascend/firmware,readonly \
#       --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
#       --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
#       --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
#       --mount type=bind,source=/var/log/npu,target=/var/log/npu \
#       quay.io/ascend/ms-swift:v4.3.0-A2-py311-CANN9.0.0-ubuntu22.04 bash
#   docker exec --interactive --tty envcheck-qwen-7b-swift bash -l
set -euo pipefail

# A new folder for each run and node: the launcher appends to existing logs.
runs="$PWD/runs"
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-qwen-7b-npu-swift-lora-ddp}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/Ascend/ascend-toolkit/set_env.sh
need /usr/local/Ascend/nnal/atb/set_env.sh

mkdir -p -- "$OUTPUT_DIR"

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v NNODES NODE_RANK MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK
# Set-up scripts of the toolkits; they read unset variables, so -e and -u are off.
set +eu
# shellcheck source=/dev/null
source /usr/local/Ascend/ascend-toolkit/set_env.sh
# shellcheck source=/dev/null
source /usr/local/Ascend/nnal/atb/set_env.sh
set -eu
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3
export NPROC_PER_NODE=4

# exec: the script exits with the status of the job.
exec swift sft \
  --model Qwen/Qwen1.5-7B-Chat \
  --dataset AI-ModelScope/blossom-math-v2 \
  --num_train_epochs 5 \
  --tuner_type lora \
  --output_dir "${OUTPUT_DIR}"
