#!/usr/bin/env bash
# ernie-0.3b-npu, dpo: full-parameter DPO on one card
# Written by envcheck train --dry-run --as-script.
#
# Run it inside the recipe's container. Start and enter the container with:
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-ernie-0.3b-npu \
#       --workdir /workspace \
#       --network host \
#       --shm-size 128g \
#       --device /dev/davinci0 \
#       --device /dev/davinci_manager \
#       --device /dev/devmm_svm \
#       --device /dev/hisi_hdc \
#       --mount type=bind,source=/home,target=/home \
#       --mount "type=bind,source=$PWD,target=/workspace" \
#       --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
#       --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
#       --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
#       --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
#       --env ASCEND_RT_VISIBLE_DEVICES=0 \
#       ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-npu:cann80RC1-ubuntu20-x86_64-gcc84-py310 bash
#   docker exec --interactive --tty envcheck-ernie-0.3b-npu bash -l
set -euo pipefail

# A new folder for each run and node: the launcher appends to existing logs.
runs=/workspace/runs
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-ernie-0.3b-npu-dpo}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"
LOG_DIR="${LOG_DIR:-$RUN_DIR/log}"

# Relative paths below start here.
cd -- /workspace/ERNIE

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/Ascend/ascend-toolkit/set_env.sh
need /usr/local/Ascend/nnal/atb/set_env.sh
need baidu/ERNIE-4.5-0.3B-Paddle/config.json
need examples/post-training/dpo/dpo_train.py
need examples/data/dpo-train.jsonl
need examples/data/dpo-eval.jsonl

mkdir -p -- "$OUTPUT_DIR"
# Launchers log their environment there, which may contain secrets.
(umask 077 && mkdir -p -- "$LOG_DIR")

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v NPU_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES XPU_VISIBLE_DEVICES PADDLE_MASTER PADDLE_NNODES PADDLE_RANK \
  PADDLE_DEVICES PADDLE_NPROC_PER_NODE PADDLE_RUN_MODE PADDLE_JOB_ID PADDLE_LOG_DIR PADDLE_LOG_LEVEL \
  PADDLE_LOG_OVERWRITE PADDLE_SORT_IP PADDLE_MAX_RESTART PADDLE_ELASTIC_LEVEL PADDLE_ELASTIC_TIMEOUT \
  PADDLE_ELASTIC_JOB_ID PADDLE_SERVER_NUM PADDLE_TRAINER_NUM PADDLE_SERVERS_ENDPOINTS PADDLE_TRAINERS_ENDPOINTS \
  PADDLE_GLOO_PORT PADDLE_WITH_GLOO PADDLE_START_PORT PADDLE_IPS POD_IP FLAGS_START_PORT \
  PADDLE_AUTO_PARALLEL_CONFIG PADDLE_AUTO_CLUSTER PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_TRAINER_ENDPOINTS \
  DISTRIBUTED_TRAINER_ENDPOINTS PADDLE_DISTRI_BACKEND PADDLE_WORKERS_IP_PORT_LIST PADDLE_TRAINERS \
  PADDLE_NUM_GRADIENT_SERVERS
# Set-up scripts of the toolkits; they read unset variables, so -e and -u are off.
set +eu
# shellcheck source=/dev/null
source /usr/local/Ascend/ascend-toolkit/set_env.sh
# shellcheck source=/dev/null
source /usr/local/Ascend/nnal/atb/set_env.sh
set -eu
export PADDLE_XCCL_BACKEND=npu
export FLAGS_allocator_strategy=auto_growth
export FLAGS_use_stride_kernel=0
export FLAGS_npu_jit_compile=0
export FLAGS_set_to_1d=False
export FLAGS_dataloader_use_file_descriptor=False
export ASCEND_RT_VISIBLE_DEVICES=0
export HCCL_CONNECT_TIMEOUT=7200
export PYTHONPATH=/workspace/ERNIE"${PYTHONPATH:+:$PYTHONPATH}"

# exec: the script exits with the status of the job.
exec python -m paddle.distributed.launch \
  --log_dir "${LOG_DIR}" \
  --npus 0 \
  examples/post-training/dpo/dpo_train.py \
  --logging_dir "${LOG_DIR}"/vdl \
  --model_name_or_path baidu/ERNIE-4.5-0.3B-Paddle \
  --output_dir "${OUTPUT_DIR}" \
  --per_device_train_batch_size 1 \
  --per_device_eval_batch_size 1 \
  --train_dataset_path examples/data/dpo-train.jsonl \
  --train_dataset_prob 1.0 \
  --train_dataset_type erniekit \
  --eval_dataset_path examples/data/dpo-eval.jsonl \
  --eval_dataset_prob 1.0 \
  --eval_dataset_type erniekit \
  --max_steps 800 \
  --max_evaluate_steps 10000 \
  --save_steps 100 \
  --logging_steps 1 \
  --eval_steps 100 \
  --weight_decay 0.01 \
  --do_train \
  --do_eval \
  --evaluation_strategy steps \
  --tensor_parallel_degree 1 \
  --pipeline_parallel_degree 1 \
  --sharding_parallel_degree 1 \
  --sharding stage1 \
  --max_seq_len 8192 \
  --seed 23 \
  --gradient_accumulation_steps 8 \
  --warmup_steps 50 \
  --lr_scheduler_type linear \
  --learning_rate 5e-7 \
  --num_samples_each_epoch 6000000 \
  --bf16 \
  --fp16_opt_level O2 \
  --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
  --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
  --disable_tqdm True \
  --recompute 1 \
  --offload_optim 0 \
  --recompute_granularity full \
  --dataloader_num_workers 1 \
  --distributed_dataloader 1 \
  --use_flash_attention 1 \
  --use_sparse_head_and_loss_fn 1 \
  --use_attn_mask_start_row_indices 1 \
  --greedy_intokens 1 \
  --sequence_parallel 0 \
  --release_grads 1 \
  --recompute_use_reentrant True \
  --fuse_rope 0 \
  --device npu \
  --use_sparse_flash_attn False \
  --fuse_rms_norm False \
  --beta 0.1
