#!/usr/bin/env bash
set -Eeuo pipefail
trap 'echo "line $LINENO failed" >&2' ERR
usage() { echo "usage: $0 [-n nodes] [-r rank] model" >&2; exit 2; }
nodes=1 rank=0 addr=127.0.0.1
while getopts "n:r:a:h" flag; do
  case $flag in
    n) nodes=$OPTARG ;;
    r) rank=$OPTARG ;;
    a) addr=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
model=$1; shift
log() { local level=$1; shift; printf '%s %s\n' "$level" "$*"; }
start() {
  local steps=$1 warm=$2
  log info "starting $model"
  torchrun --nnodes "$nodes" --node_rank "$rank" --master_addr "$addr" --nproc_per_node gpu -m app.train \
    --model "$model" --max_steps "$steps" --warmup_steps "$warm" "${@:3}"
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
start 1000 50 --seed 1 "$@"
start 2000 100 --seed 2 "$@"
