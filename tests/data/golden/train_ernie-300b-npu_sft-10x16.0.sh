#!/usr/bin/env bash
# ernie-300b-npu, sft 10x16: full fine-tuning on 10 nodes with 16 cards each, optimizer states on the cards
# Written by envcheck train --dry-run --as-script.
# Note: 54 layers in 20 stages and 8 accumulation steps leave the pipeline idle in 19 of 27 steps (70 %)
# Note: a full checkpoint with optimizer states takes about 4.2 TB across all nodes
# Note: the launcher waits forever for a missing node, and for this node if its own name resolves to 127.0.0.1;
# therefore --rank and --host are set
#
# Run it inside the recipe's container. Start and enter the container with:
#   docker run \
#       --detach \
#       --interactive \
#       --tty \
#       --name envcheck-ernie-300b-npu \
#       --workdir /workspace \
#       --network host \
#       --shm-size 128g \
#       --device /dev/davinci0 \
#       --device /dev/davinci1 \
#       --device /dev/davinci2 \
#       --device /dev/davinci3 \
#       --device /dev/davinci4 \
#       --device /dev/davinci5 \
#       --device /dev/davinci6 \
#       --device /dev/davinci7 \
#       --device /dev/davinci8 \
#       --device /dev/davinci9 \
#       --device /dev/davinci10 \
#       --device /dev/davinci11 \
#       --device /dev/davinci12 \
#       --device /dev/davinci13 \
#       --device /dev/davinci14 \
#       --device /dev/davinci15 \
#       --device /dev/davinci_manager \
#       --device /dev/devmm_svm \
#       --device /dev/hisi_hdc \
#       --mount type=bind,source=/home,target=/home \
#       --mount "type=bind,source=$PWD,target=/workspace" \
#       --mount type=bind,source=/usr/local/Ascend/driver,target=/usr/local/Ascend/driver,readonly \
#       --mount type=bind,source=/usr/local/bin/npu-smi,target=/usr/local/bin/npu-smi,readonly \
#       --mount type=bind,source=/usr/local/dcmi,target=/usr/local/dcmi,readonly \
#       --mount type=bind,source=/etc/ascend_install.info,target=/etc/ascend_install.info,readonly \
#       --env ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 \
#       ccr-2vdh3abv-pub.cnc.bj.baidubce.com/device/paddle-npu:cann80RC1-ubuntu20-x86_64-gcc84-py310 bash
#   docker exec --interactive --tty envcheck-ernie-300b-npu bash -l
set -euo pipefail

# Required: set these variables before you run the script.
: "${NODE_RANK:?set NODE_RANK: number of this node: 0 for the master, unique on every node}"
: "${MASTER_ADDR:?set MASTER_ADDR: address of node 0 that the other nodes can reach (not a loopback address)}"
: "${HOST_ADDR:?set HOST_ADDR: address of this node that the other nodes can reach}"
# With a wrong value here, the launcher hangs without a message.
wrong() { printf '%s: %s\n' "$0" "$1" >&2; exit 2; }
case "$MASTER_ADDR" in localhost | 127.* | ::1) wrong "MASTER_ADDR is $MASTER_ADDR, a loopback address: use one that the other nodes can reach" ;; esac
case "$HOST_ADDR" in localhost | 127.* | ::1) wrong "HOST_ADDR is $HOST_ADDR, a loopback address: use one that the other nodes can reach" ;; esac
case "$NODE_RANK" in *[!0-9]*) wrong "NODE_RANK is $NODE_RANK: expected 0 to 9" ;; esac
[ "$NODE_RANK" -lt 10 ] || wrong "NODE_RANK is $NODE_RANK: expected 0 to 9"

# A new folder for each run and node: the launcher appends to existing logs.
runs=/workspace/runs
RUN_DIR="${RUN_DIR:-$runs/$(date +%Y%m%d-%H%M%S)-ernie-300b-npu-sft-10x16-node$NODE_RANK}"
OUTPUT_DIR="${OUTPUT_DIR:-$RUN_DIR/output}"
LOG_DIR="${LOG_DIR:-$RUN_DIR/log}"

# Relative paths below start here.
cd -- /workspace/ERNIE

# Without these files the job fails late, with an unrelated message.
need() { [ -e "$1" ] || { printf '%s: %s is missing\n' "$0" "$1" >&2; exit 1; }; }
need /usr/local/Ascend/ascend-toolkit/set_env.sh
need /usr/local/Ascend/nnal/atb/set_env.sh
need baidu/ERNIE-4.5-300B-A47B-Paddle/config.json
need examples/post-training/sft/train.py
need examples/data/sft-train.jsonl
need examples/data/sft-eval.jsonl

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
export ASCEND_RT_VISIBLE_DEVICES=0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
export HCCL_CONNECT_TIMEOUT=7200
export PYTHONPATH=/workspace/ERNIE"${PYTHONPATH:+:$PYTHONPATH}"

# exec: the script exits with the status of the job.
exec python -m paddle.distributed.launch \
  --log_dir "${LOG_DIR}" \
  --npus 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15 \
  --master "${MASTER_ADDR}":12123 \
  --nnodes 10 \
  --rank "${NODE_RANK}" \
  --host "${HOST_ADDR}" \
  examples/post-training/sft/train.py \
  --logging_dir "${LOG_DIR}"/vdl \
  --model_name_or_path baidu/ERNIE-4.5-300B-A47B-Paddle \
  --output_dir "${OUTPUT_DIR}" \
  --per_device_train_batch_size 1 \
  --per_device_eval_batch_size 1 \
  --train_dataset_path examples/data/sft-train.jsonl \
  --train_dataset_prob 1.0 \
  --train_dataset_type erniekit \
  --eval_dataset_path examples/data/sft-eval.jsonl \
  --eval_dataset_prob 1.0 \
  --eval_dataset_type erniekit \
  --max_steps 200 \
  --max_evaluate_steps 10000 \
  --save_steps 100 \
  --logging_steps 1 \
  --eval_steps 100 \
  --do_train \
  --do_eval \
  --evaluation_strategy steps \
  --tensor_parallel_degree 8 \
  --pipeline_parallel_degree 20 \
  --sharding_parallel_degree 1 \
  --sharding stage1 \
  --max_seq_len 8192 \
  --seed 23 \
  --gradient_accumulation_steps 8 \
  --warmup_steps 20 \
  --weight_decay 0.1 \
  --learning_rate 1e-5 \
  --min_lr 1e-6 \
  --num_samples_each_epoch 6000000 \
  --bf16 \
  --fp16_opt_level O2 \
  --disable_tqdm True \
  --recompute 1 \
  --recompute_granularity full \
  --dataloader_num_workers 1 \
  --distributed_dataloader 0 \
  --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
  --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
  --use_flash_attention 1 \
  --use_sparse_head_and_loss_fn 1 \
  --use_attn_mask_start_row_indices 1 \
  --pipeline_parallel_config 'enable_delay_scale_loss enable_release_grads disable_batch_p2p_comm disable_partial_send_recv' \
  --greedy_intokens 1 \
  --sequence_parallel 1 \
  --release_grads 1 \
  --moe_group mp \
  --moe_multimodal_dispatch_use_allgather '' \
  --adam_beta1 0.9 \
  --adam_beta2 0.95 \
  --adam_epsilon 1e-8 \
  --amp_master_grad 1 \
  --fuse_rope 0 \
  --disable_ckpt_quant 1 \
  --recompute_use_reentrant True \
  --unified_checkpoint_config async_save \
  --device npu \
  --use_sparse_flash_attn False \
  --moe_use_aux_free False \
  --fuse_rms_norm False
