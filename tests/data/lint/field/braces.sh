#!/bin/bash
# start the training container on a A2 node
IMAGE=ascendai/cann:8.0.0-910b-ubuntu22.04-py3.10
docker rm -f sft-npu 2>/dev/null
docker run -itd --net=host --ipc=host --name sft-npu \
    --device=/dev/davinci{0,1,2,3,4,5,6,7} \
    --device=/dev/davinci_manager --device=/dev/devmm_svm --device=/dev/hisi_hdc \
    -v /usr/local/Ascend/driver:/usr/local/Ascend/driver:ro \
    -v /usr/local/dcmi:/usr/local/dcmi \
    -v /etc/ascend_install.info:/etc/ascend_install.info \
    -v /data:/data \
    $IMAGE bash
docker exec sft-npu bash -lc 'cd /data/code && bash train.sh'
