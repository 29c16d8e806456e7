#!/usr/bin/env bash
# ernie-21b-nvidia, sft: full fine-tuning on one node with 8 GPUs
# Written by envcheck train --dry-run --as-script.
set -euo pipefail

# A new folder for each run and node: the launcher appends to existing logs.
runs=/workspace/runs
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-ernie-21b-nvidia-sft}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"
LOG_DIR="${LOG_DIR:-$RUN_DIR/log}"

# Relative paths below start here.
cd -- /workspace/ERNIE

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need baidu/ERNIE-4.5-21B-A3B-Paddle/config.json
need examples/post-training/sft/train.py
need examples/data/sft-train.jsonl
need examples/data/sft-eval.jsonl

mkdir -p -- "$OUTPUT_DIR"
# Launchers log their environment there, which may contain secrets.
(umask 077 && mkdir -p -- "$LOG_DIR")

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v CUDA_VISIBLE_DEVICES XPU_VISIBLE_DEVICES PADDLE_MASTER PADDLE_NNODES PADDLE_RANK PADDLE_DEVICES \
  PADDLE_NPROC_PER_NODE PADDLE_RUN_MODE PADDLE_JOB_ID PADDLE_LOG_DIR PADDLE_LOG_LEVEL PADDLE_LOG_OVERWRITE \
  PADDLE_SORT_IP PADDLE_MAX_RESTART PADDLE_ELASTIC_LEVEL PADDLE_ELASTIC_TIMEOUT PADDLE_ELASTIC_JOB_ID \
  PADDLE_SERVER_NUM PADDLE_TRAINER_NUM PADDLE_SERVERS_ENDPOINTS PADDLE_TRAINERS_ENDPOINTS PADDLE_GLOO_PORT \
  PADDLE_WITH_GLOO PADDLE_START_PORT PADDLE_IPS POD_IP FLAGS_START_PORT PADDLE_AUTO_PARALLEL_CONFIG \
  PADDLE_AUTO_CLUSTER PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_TRAINER_ENDPOINTS DISTRIBUTED_TRAINER_ENDPOINTS \
  PADDLE_DISTRI_BACKEND PADDLE_XCCL_BACKEND PADDLE_WORKERS_IP_PORT_LIST PADDLE_TRAINERS \
  PADDLE_NUM_GRADIENT_SERVERS
export FLAGS_set_to_1d=False
export FLAGS_dataloader_use_file_descriptor=False
export NVIDIA_TF32_OVERRIDE=0
export PYTHONPATH=/workspace/ERNIE"${PYTHONPATH:+:$PYTHONPATH}"

# exec: the script exits with the status of the job.
exec <home>/environments/ernie-21b-nvidia/bin/python -m paddle.distributed.launch \
  --log_dir "${LOG_DIR}" \
  --gpus 0,1,2,3,4,5,6,7 \
  examples/post-training/sft/train.py \
  --logging_dir "${LOG_DIR}"/vdl \
  --model_name_or_path baidu/ERNIE-4.5-21B-A3B-Paddle \
  --output_dir "${OUTPUT_DIR}" \
  --per_device_train_batch_size 1 \
  --per_device_eval_batch_size 1 \
  --train_dataset_path examples/data/sft-train.jsonl \
  --train_dataset_prob 1.0 \
  --train_dataset_type erniekit \
  --eval_dataset_path examples/data/sft-eval.jsonl \
  --eval_dataset_prob 1.0 \
  --eval_dataset_type erniekit \
  --max_steps 500 \
  --max_evaluate_steps 10000 \
  --save_steps 100 \
  --logging_steps 1 \
  --eval_steps 100 \
  --weight_decay 0.1 \
  --do_train \
  --do_eval \
  --evaluation_strategy steps \
  --device gpu \
  --tensor_parallel_degree 4 \
  --pipeline_parallel_degree 2 \
  --sharding_parallel_degree 1 \
  --sharding stage1 \
  --max_seq_len 8192 \
  --seed 23 \
  --gradient_accumulation_steps 8 \
  --warmup_steps 20 \
  --lr_scheduler_type cosine \
  --learning_rate 1e-5 \
  --num_samples_each_epoch 6000000 \
  --bf16 \
  --fp16_opt_level O2 \
  --amp_master_grad 1 \
  --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
  --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
  --disable_tqdm True \
  --recompute 1 \
  --recompute_granularity full \
  --recompute_use_reentrant True \
  --offload_optim 0 \
  --dataloader_num_workers 1 \
  --use_flash_attention 1 \
  --use_sparse_head_and_loss_fn 1 \
  --use_attn_mask_start_row_indices 1 \
  --pipeline_parallel_config 'disable_partial_send_recv enable_clear_every_step_cache' \
  --greedy_intokens 1 \
  --sequence_parallel 1 \
  --release_grads 1 \
  --fuse_rope 1 \
  --moe_group mp \
  --unified_checkpoint_config async_save
