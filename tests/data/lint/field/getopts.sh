#!/bin/bash
usage() { echo "usage: $0 -m MODEL -g GPUS"; exit 1; }
while getopts "m:g:l:h" opt; do
  case $opt in
    m) MODEL=$OPTARG ;;
    g) GPUS=$OPTARG ;;
    l) LR=$OPTARG ;;
    *) usage ;;
  esac
done
: "${MODEL:?model}" "${GPUS:=8}"
LR=${LR:-1e-5}
ARGS=(
  --model_name_or_path "$MODEL"
  --learning_rate "$LR"
  --bf16 True   # bf16 only
  --max_steps 1000
  --warmup_ratio 3
)
[[ -n "$RESUME" ]] && ARGS+=(--resume_from_checkpoint "$RESUME")
exec torchrun --standalone --nproc-per-node="$GPUS" train.py "${ARGS[@]}" "$@"
