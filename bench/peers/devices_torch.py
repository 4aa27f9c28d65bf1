#!/usr/bin/env python3
"""Training steps on several GPUs in PyTorch, for bench/devices.sh: DistributedDataParallel, a process for each GPU, networks and
settings of bench/peers/workloads*_torch.py. Each GPU has the batch that the networks have there, so the step's is as many times as large.

usage: devices_torch.py N NAME... [--mode eager|default]...   prints a JSON object a line, as workloads_common.py does
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist

from torch_times import arguments, stepped


class Step(torch.nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, *data):
        with torch.autocast("cuda", torch.bfloat16):
            return self.loss(*data)


def measure(rank, network, mode):
    begin = time.time()
    net, loss, data, optimizer = network()
    wrapped = torch.nn.parallel.DistributedDataParallel(Step(net, loss), device_ids=[rank], gradient_as_bucket_view=True)
    f = wrapped if mode == "eager" else torch.compile(wrapped)
    optimizer = optimizer(net.parameters())

    def step():
        f(*data).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    step()
    torch.cuda.synchronize()
    first = time.time() - begin
    return stepped(step), first


def run(rank, count, names, modes):
    torch.cuda.set_device(rank)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511", RANK=str(rank), WORLD_SIZE=str(count))
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    sys.argv = sys.argv[:1]  # (the files below read it)
    import workloads_sequences_torch as sequences
    import workloads_torch as images
    torch.manual_seed(rank)

    def gpt2():
        net = sequences.GPT(12, 768, 12, 50304, 1024).cuda()
        return net, net, (sequences.ints(50304, 16, 1025),), sequences.adamw(6e-4, 0.1)
    known = {"gpt2": gpt2, "gpt2_xl": sequences.gpt2_xl, "resnet50": images.resnet50, "vit": images.vit, "convnext": images.convnext}
    for name in names:
        for mode in modes:
            said = {"name": name, "devices": count, "mode": mode, "version": torch.__version__}
            try:
                said["seconds"], said["first"] = measure(rank, known[name], mode)
            except Exception as e:  # left out, with its reason
                said["error"] = str(e)[:300]
            if not rank:
                print(json.dumps(said), flush=True)
            torch._dynamo.reset()
            torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    modes, words = arguments()
    torch.multiprocessing.spawn(run, (int(words[0]), words[1:], modes or ["default"]), nprocs=int(words[0]))
