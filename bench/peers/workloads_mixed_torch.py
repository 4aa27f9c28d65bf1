#!/usr/bin/env python3
"""As workloads_torch.py: ShuffleNetV2."""
import torch
import torchvision

from workloads_common import measure, size, tiny
from workloads_torch import classifier


def shufflenet():
    width, last = size(176, 8), size(1024, 32)
    net = torchvision.models.ShuffleNetV2([4, 8, 4], [24, width, 2 * width, 4 * width, last])
    return classifier(net, size(256, 2), size(224, 64), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=4e-5, fused=not tiny))


if __name__ == "__main__":
    measure(globals())
