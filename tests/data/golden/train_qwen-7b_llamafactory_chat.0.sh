#!/usr/bin/env bash
# qwen-7b-npu-llamafactory, chat: chat with the trained adapter
# Written by envcheck infer --dry-run --as-script.
# Note: set ADAPTER_DIR to the adapter folder; Ctrl+C or exit ends the chat
#
# Run it inside the recipe's container. Start and enter the container with:
#   mkdir -p hf_cache ms_cache output
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-qwen-7b-llamafactory \
#       --workdir /app \
#       --shm-size 16g \
#       --device /dev/davinci0 \
#       --device /dev/davinci_manager \
#       --device /dev/devmm_svm \
#       --device /dev/hisi_hdc \
#       --mount "type=bind,source=$PWD/hf_cache,target=/root/.cache/huggingface" \
#       --mount "type=bind,source=$PWD/ms_cache,target=/root/.cache/modelscope" \
#       --mount "type=bind,source=$PWD/output,target=/app/output" \
#       --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
#       --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
#       --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
#       --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
#       --publish 127.0.0.1:7860:7860 \
#       --publish 127.0.0.1:8000:8000 \
#       quay.io/ascend/llamafactory:0.9.4-npu-a2 bash
#   docker exec --interactive --tty envcheck-qwen-7b-llamafactory bash -l
set -euo pipefail

# Required: set these variables before you run the script.
: "${ADAPTER_DIR:?set ADAPTER_DIR: folder of the trained adapter, such as .../checkpoint-500}"

# Relative paths below start here.
cd -- /app

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/Ascend/ascend-toolkit/set_env.sh
need "${ADAPTER_DIR}"/adapter_config.json

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v NNODES NODE_RANK NPROC_PER_NODE MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE \
  GROUP_RANK
# Set-up scripts of the toolkits; they read unset variables, so -e and -u are off.
set +eu
# shellcheck source=/dev/null
source /usr/local/Ascend/ascend-toolkit/set_env.sh
set -eu
export USE_MODELSCOPE_HUB=1
export ASCEND_RT_VISIBLE_DEVICES=0

# exec: the script exits with the status of the job.
exec llamafactory-cli chat \
  --model_name_or_path Qwen/Qwen1.5-7B \
  --adapter_name_or_path "${ADAPTER_DIR}" \
  --template qwen \
  --finetuning_type lora
