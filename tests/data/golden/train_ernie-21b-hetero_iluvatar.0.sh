#!/usr/bin/env bash
# ernie-21b-hetero, lora (iluvatar): LoRA with rank 32 on two nodes: node 1, Iluvatar BI-V150
# Written by envcheck train --dry-run --as-script.
# Note: 5 steps only verify the communication between the two vendors; increase --max_steps and --warmup_steps
# for real training
# Note: start both nodes at the same time with the same --master, port, and Paddle and FlagCX commits; the
# launcher waits for the other node without a timeout
# Note: 8 of the 16 chips are used, as many as on the other node
set -euo pipefail

# Required: set these variables before you run the script.
: "${MASTER_ADDR:?set MASTER_ADDR: address of node 0 that the other nodes can reach (not a loopback address)}"
: "${HOST_ADDR:?set HOST_ADDR: address of this node that the other nodes can reach}"
: "${SOCKET_IFNAMES:?set SOCKET_IFNAMES: network interfaces of this host to use, comma-separated}"
# With a wrong value here, the launcher hangs without a message.
wrong() { printf '%s: %s\n' "$0" "$1" >&2; exit 2; }
case "$MASTER_ADDR" in localhost | 127.* | ::1) wrong "MASTER_ADDR is $MASTER_ADDR, a loopback address: use one that the other nodes can reach" ;; esac
case "$HOST_ADDR" in localhost | 127.* | ::1) wrong "HOST_ADDR is $HOST_ADDR, a loopback address: use one that the other nodes can reach" ;; esac

# A new folder for each run and node: the launcher appends to existing logs.
runs=/workspace/runs
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-ernie-21b-hetero-lora-iluvatar}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"
LOG_DIR="${LOG_DIR:-$RUN_DIR/log}"

# Relative paths below start here.
cd -- /workspace/ERNIE

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/corex/lib64/libcuda.so.1
need baidu/ERNIE-4.5-21B-A3B-Paddle/config.json
need examples/post-training/sft/train.py
need examples/data/sft-train.jsonl

mkdir -p -- "$OUTPUT_DIR"
# Launchers log their environment there, which may contain secrets.
(umask 077 && mkdir -p -- "$LOG_DIR")

# Variables left by job platforms and earlier runs override the launcher's options.
unset -v CUDA_VISIBLE_DEVICES ILUVATAR_GPU_VISIBLE_DEVICES XPU_VISIBLE_DEVICES PADDLE_MASTER PADDLE_NNODES \
  PADDLE_RANK PADDLE_DEVICES PADDLE_NPROC_PER_NODE PADDLE_RUN_MODE PADDLE_JOB_ID PADDLE_LOG_DIR PADDLE_LOG_LEVEL \
  PADDLE_LOG_OVERWRITE PADDLE_SORT_IP PADDLE_MAX_RESTART PADDLE_ELASTIC_LEVEL PADDLE_ELASTIC_TIMEOUT \
  PADDLE_ELASTIC_JOB_ID PADDLE_SERVER_NUM PADDLE_TRAINER_NUM PADDLE_SERVERS_ENDPOINTS PADDLE_TRAINERS_ENDPOINTS \
  PADDLE_GLOO_PORT PADDLE_WITH_GLOO PADDLE_START_PORT PADDLE_IPS POD_IP FLAGS_START_PORT \
  PADDLE_AUTO_PARALLEL_CONFIG PADDLE_AUTO_CLUSTER PADDLE_TRAINER_ID PADDLE_TRAINERS_NUM PADDLE_TRAINER_ENDPOINTS \
  DISTRIBUTED_TRAINER_ENDPOINTS PADDLE_WORKERS_IP_PORT_LIST PADDLE_TRAINERS PADDLE_NUM_GRADIENT_SERVERS
export FLAGS_set_to_1d=False
export FLAGS_dataloader_use_file_descriptor=False
export FLAGCX_SOCKET_IFNAME="${SOCKET_IFNAMES}"
export FLAGCX_DEBUG=INFO
export PADDLE_DISTRI_BACKEND=xccl
export PADDLE_XCCL_BACKEND=iluvatar_gpu
export LD_PRELOAD=/usr/local/corex/lib64/libcuda.so.1
export LD_LIBRARY_PATH=/workspace/PaddleCustomDevice/Paddle/third_party/flagcx/build/lib"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH=/workspace/ERNIE"${PYTHONPATH:+:$PYTHONPATH}"

# exec: the script exits with the status of the job.
exec <home>/environments/ernie-21b-hetero/bin/python -m paddle.distributed.launch \
  --log_dir "${LOG_DIR}" \
  --gpus 0,1,2,3,4,5,6,7 \
  --master "${MASTER_ADDR}":8021 \
  --nproc_per_node 8 \
  --nnodes 2 \
  --rank 1 \
  --host "${HOST_ADDR}" \
  examples/post-training/sft/train.py \
  --logging_dir "${LOG_DIR}"/vdl \
  --model_name_or_path baidu/ERNIE-4.5-21B-A3B-Paddle \
  --output_dir "${OUTPUT_DIR}" \
  --per_device_train_batch_size 1 \
  --train_dataset_path examples/data/sft-train.jsonl \
  --train_dataset_prob 1.0 \
  --train_dataset_type erniekit \
  --max_steps 5 \
  --save_steps 5 \
  --logging_steps 1 \
  --weight_decay 0.01 \
  --do_train \
  --evaluation_strategy no \
  --tensor_parallel_degree 4 \
  --pipeline_parallel_degree 4 \
  --sharding_parallel_degree 1 \
  --sharding stage1 \
  --max_seq_len 8192 \
  --seed 23 \
  --gradient_accumulation_steps 2 \
  --warmup_steps 1 \
  --lr_scheduler_type linear \
  --learning_rate 3e-4 \
  --bf16 \
  --fp16_opt_level O2 \
  --num_samples_each_epoch 6000000 \
  --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
  --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
  --disable_tqdm True \
  --recompute 0 \
  --offload_optim 0 \
  --dataloader_num_workers 1 \
  --distributed_dataloader 0 \
  --use_flash_attention 1 \
  --use_sparse_head_and_loss_fn 0 \
  --use_attn_mask_start_row_indices 0 \
  --use_sparse_flash_attn 0 \
  --tensor_parallel_output 0 \
  --pipeline_parallel_config 'disable_partial_send_recv enable_clear_every_step_cache disable_batch_p2p_comm' \
  --greedy_intokens 1 \
  --sequence_parallel 1 \
  --release_grads 1 \
  --recompute_use_reentrant True \
  --fuse_rope 1 \
  --device iluvatar_gpu \
  --continue_training False \
  --moe_group mp \
  --lora \
  --lora_rank 32 \
  --moe_multimodal_dispatch_use_allgather '' \
  --unified_checkpoint_config async_save
