#!/usr/bin/env bash
# qwen-7b-npu8-llamafactory, lora zero2: LoRA on q_proj and v_proj, DeepSpeed ZeRO-2 on four cards
# Written by envcheck train --dry-run --as-script.
# Note: four cards reduce 1473 steps to 368; set --set save_steps=100 to save and evaluate before the end
#
# Run it inside the recipe's container. Start and enter the container with:
#   mkdir -p hf_cache ms_cache output
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-qwen-7b-npu8-llamafactory \
#       --workdir /app \
#       --network host \
#       --shm-size 64g \
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
#       --mount "type=bind,source=$PWD/hf_cache,target=/root/.cache/huggingface" \
#       --mount "type=bind,source=$PWD/ms_cache,target=/root/.cache/modelscope" \
#       --mount "type=bind,source=$PWD/output,target=/app/output" \
#       --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
#       --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
#       --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
#       --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
#       quay.io/ascend/llamafactory:0.9.4-npu-a2 bash
#   docker exec --interactive --tty envcheck-qwen-7b-npu8-llamafactory bash -l
set -euo pipefail

# A new folder for each run and node: the launcher appends to existing logs.
runs=/app/output
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-qwen-7b-npu8-llamafactory-lora-zero2}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"

# Relative paths below start here.
cd -- /app

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/Ascend/ascend-toolkit/set_env.sh
need data/dataset_info.json
need src/train.py
need examples/deepspeed/ds_z2_config.json

mkdir -p -- "$OUTPUT_DIR"

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v NNODES NODE_RANK NPROC_PER_NODE MASTER_ADDR MASTER_PORT RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE \
  GROUP_RANK
# Set-up scripts of the toolkits; they read unset variables, so -e and -u are off.
set +eu
# shellcheck source=/dev/null
source /usr/local/Ascend/ascend-toolkit/set_env.sh
set -eu
export USE_MODELSCOPE_HUB=1
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3

# exec: the script exits with the status of the job.
exec torchrun \
  --nproc_per_node 4 \
  --nnodes 1 \
  --node_rank 0 \
  --master_addr 127.0.0.1 \
  --master_port 7007 \
  src/train.py \
  --model_name_or_path Qwen/Qwen1.5-7B \
  --stage sft \
  --do_train true \
  --finetuning_type lora \
  --lora_target q_proj,v_proj \
  --ddp_timeout 180000000 \
  --deepspeed examples/deepspeed/ds_z2_config.json \
  --dataset identity,alpaca_en_demo \
  --template qwen \
  --cutoff_len 1024 \
  --max_samples 1000 \
  --overwrite_cache true \
  --preprocessing_num_workers 16 \
  --output_dir "${OUTPUT_DIR}" \
  --logging_steps 10 \
  --save_steps 500 \
  --plot_loss true \
  --per_device_train_batch_size 1 \
  --gradient_accumulation_steps 2 \
  --learning_rate 1e-4 \
  --num_train_epochs 3.0 \
  --lr_scheduler_type cosine \
  --warmup_ratio 0.1 \
  --bf16 true \
  --val_size 0.1 \
  --per_device_eval_batch_size 1 \
  --eval_strategy steps \
  --eval_steps 500
