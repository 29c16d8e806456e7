#!/bin/bash
# Options and variables of the published P800 training, in the words of our facts about it.
unset PADDLE_TRAINERS_NUM
unset PADDLE_ELASTIC_JOB_ID
unset PADDLE_TRAINER_ENDPOINTS
unset DISTRIBUTED_TRAINER_ENDPOINTS
unset FLAGS_START_PORT
unset PADDLE_ELASTIC_TIMEOUT

export PYTHONPATH=$(dirname "$0")/../../../..:$PYTHONPATH
export FLAGS_set_to_1d=False
export NVIDIA_TF32_OVERRIDE=0
export FLAGS_dataloader_use_file_descriptor=False
export FLAGS_use_stride_kernel=0

# XPU
export XPU_PADDLE_L3_SIZE=0
export XPUAPI_DEFAULT_SIZE=2205258752
export XPU_PADDLE_FC_LOCAL_INT16=1
export XPU_AUTO_BF16_TF32=1
export XPU_AUTO_BF16_TF32_RADIO=10
export CUDA_DEVICE_MAX_CONNECTIONS=8
# BKCL
export BKCL_TREE_THRESHOLD=0
export BKCL_ENABLE_XDR=1
export BKCL_RDMA_FORCE_TREE=1
export BKCL_TREE_THRESHOLD=0
export BKCL_RDMA_NICS=eth1,eth1,eth2,eth2,eth3,eth3,eth4,eth4
export BKCL_SOCKET_IFNAME=eth0
export BKCL_FORCE_L3_RDMA=0
export BKCL_USE_AR=1
export BKCL_RING_OPT=1
export BKCL_RING_HOSTID_USE_RANK=1
export FLAGS_set_to_1d=False

master_ip=${1:-}
nnodes=$2
port=8090

model_path=/root/paddlejob/ERNIE-4.5-300B-A47B-Base-Paddle
task="sft_8k"
paddle_log_dir="${model_path}_${task}_log"
vdl_log_dir="${model_path}_${task}_vdl"
output_dir="${model_path}_${task}_checkpoint"

rm -rf ${paddle_log_dir}

python -m paddle.distributed.launch \
    --log_dir ${paddle_log_dir} \
    --xpus 0,1,2,3,4,5,6,7 \
    --master $master_ip:$port \
    --nnodes $nnodes \
    --run_mode=collective \
    examples/post-training/sft/train.py \
    --logging_dir ${vdl_log_dir} \
    --model_name_or_path ${model_path} \
    --output_dir ${output_dir} \
    --per_device_train_batch_size 1 \
    --per_device_eval_batch_size 1 \
    --train_dataset_path "examples/data/sft-train.jsonl" \
    --train_dataset_prob "1.0" \
    --train_dataset_type "erniekit" \
    --eval_dataset_path "examples/data/sft-eval.jsonl" \
    --eval_dataset_prob "1.0" \
    --eval_dataset_type "erniekit" \
    --max_steps 500 \
    --max_evaluate_steps 10000 \
    --num_train_epochs 1 \
    --save_steps 10000000 \
    --logging_steps 1 \
    --eval_steps 50 \
    --weight_decay 0.01 \
    --do_train \
    --do_eval \
    --evaluation_strategy steps \
    --tensor_parallel_degree 8 \
    --pipeline_parallel_degree $nnodes \
    --sharding_parallel_degree 1 \
    --sharding stage1 \
    --max_seq_len 8192 \
    --seed 23 \
    --gradient_accumulation_steps 8 \
    --warmup_steps 20 \
    --weight_decay 0.1 \
    --learning_rate 1e-5 \
    --min_lr 1e-6 \
    --lr_scheduler_type cosine \
    --adam_beta1 0.9 \
    --adam_beta2 0.95 \
    --adam_epsilon 1e-8 \
    --bf16 \
    --fp16_opt_level O2 \
    --amp_master_grad 1 \
    --amp_custom_white_list lookup_table lookup_table_v2 flash_attn matmul matmul_v2 fused_gemm_epilogue \
    --amp_custom_black_list reduce_sum softmax_with_cross_entropy c_softmax_with_cross_entropy elementwise_div sin cos \
    --recompute 1 \
    --recompute_granularity full \
    --recompute_use_reentrant True \
    --offload_optim \
    --distributed_dataloader 0 \
    --dataloader_num_workers 1 \
    --use_flash_attention 1 \
    --use_sparse_flash_attn 1 \
    --use_sparse_head_and_loss_fn 1 \
    --use_attn_mask_start_row_indices 1 \
    --pipeline_parallel_config "enable_delay_scale_loss enable_release_grads disable_partial_send_recv disable_batch_p2p_comm" \
    --sequence_parallel 1 \
    --moe_group mp \
    --moe_multimodal_dispatch_use_allgather v2-alltoall-unpad \
    --greedy_intokens 1 \
    --release_grads 1 \
    --fuse_rope 1 \
    --continue_training 1 \
    --disable_ckpt_quant 1 \
    --unified_checkpoint_config async_save \
    --num_samples_each_epoch 6000000 \
    --disable_tqdm True \
    --device xpu
