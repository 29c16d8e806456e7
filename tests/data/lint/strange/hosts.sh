#!/usr/bin/env bash
# A node for each host, by ssh; what was there before is fetched first.
hosts="192.0.2.1 192.0.2.2"
rank=0
for host in $hosts; do
  ssh "$host" "cd $PWD && CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nnodes=2 --nproc_per_node=4 --node_rank=$rank --master_addr=192.0.2.1 train.py" &
  rank=$((rank + 1))
done
wait
ssh 192.0.2.2 "cd /w; torchrun --nnodes 2 --node_rank 1 --master_addr 192.0.2.1 main.py"
kubectl exec pod -- bash -c "cd /w && torchrun --nproc_per_node=8 main.py"
for i in {0..7}; do
  CUDA_VISIBLE_DEVICES=$i python worker.py --rank $i &
done
wait
: "${DATA:?}"
more=(--lr 1e-4)
[ -n "$DEBUG" ] && more+=(--debug)
python -m app.train "${more[@]}" --data "$DATA" --epochs 3
docker build -t me/image:dev . && docker run --rm me/image:dev
docker run --gpus '"device=0,1"' --ipc host --rm ubuntu:22.04 nvidia-smi
x=$1
[[ $x =~ ^[0-9]+$ ]] && (( x > 3 )) && y=$((x + 1)); echo "${y^^} ${x//a/b} ${#x}"
case $2 in start) python -m app.train_sft ;; stop) kill "$(cat pid)" ;; esac
