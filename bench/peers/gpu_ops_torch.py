#!/usr/bin/env python3
"""The models of bench/gpu_ops.net in PyTorch, a function of the same name each; inputs are read from the models' first lines.

usage: gpu_ops_torch.py [--mode eager|default|max-autotune]... [--check] [NAME...]
Prints a JSON object a line: seconds of a call in a CUDA graph. --check: instead, that the functions run, with small sizes on the CPU.
"""
import math
import os
import re
import sys

import torch
import torch.nn.functional as F

from torch_times import arguments, graphed, report

modes, names = arguments()
check = "--check" in names
names = [n for n in names if not n.startswith("--")]
TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}
device = "cpu" if check else "cuda"
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
torch.backends.cudnn.benchmark = True


def slope(f):
    """The gradient of sum(f(x, …) * y) with respect to x: of what comes before the last argument."""
    def g(x, *rest):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(f(x, *rest), x)[0]
    return g


def slopes(f):
    """Likewise with respect to both of the first two arguments."""
    def g(x, w, *rest):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        return torch.autograd.grad(f(x, w, *rest), (x, w))
    return g


def last(x):  # images with channels last, (B, H, W, C), as PyTorch sees them, and back
    return x.movedim(-1, 1)


def back(x):
    return x.movedim(1, -1)


def conv(x, w, **how):
    f = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()]
    return back(f(last(x), last(w), **how))


def shuffle_in(x):
    b, h, w, c = x.shape
    return x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h // 2, w // 2, 4 * c)


def adam(p, g, m, v):
    a, b = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 0.001 * a / (b.sqrt() + 1e-8), a, b


def gated(x):
    a, b = x.chunk(2, -1)
    return a * F.gelu(b, approximate="tanh")


def rotated(x, a):
    return torch.stack([x[:, 0] * a.cos() - x[:, 1] * a.sin(), x[:, 0] * a.sin() + x[:, 1] * a.cos()], -1)


def decay(x, a):
    h, all = torch.zeros_like(x[0]), []
    for t in x[:64]:  # (an unrolled loop; the time of the whole is taken to be as many times as long)
        h = torch.sigmoid(a) * h + t
        all.append(h)
    return torch.stack(all)


def divergence(x, y):
    p = x.log_softmax(-1)
    return (p.exp() * (p - y.log_softmax(-1))).sum(1).mean()


def bias(q, k, v, b):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=b[None])


OPS = dict(
    sum_rows=lambda x: x.sum(1), sum_columns=lambda x: x.sum(0), sum_all=lambda x: x.sum(), sum_middle=lambda x: x.sum(1),
    sum_outer=lambda x: x.sum((0, 2)), sum_short=lambda x: x.sum(1), sum_narrow=lambda x: x.sum(0), sum_bf16=lambda x: x.sum(1),
    max_columns=lambda x: x.amax(0), argmax_rows=lambda x: x.argmax(-1), argmax_columns=lambda x: x.argmax(0),
    variance_rows=lambda x: x.var(1, correction=0), variance_columns=lambda x: x.var(0, correction=0), product_rows=lambda x: x.prod(1),
    any_rows=lambda x: (x > 3).any(1), logsumexp_rows=lambda x: x.logsumexp(-1),
    norm_columns=lambda x: x * torch.rsqrt((x * x).sum(0, keepdim=True) + 1e-12), mean_square=lambda x, y: F.mse_loss(x, y),
    softmax_rows=lambda x: x.softmax(-1), softmax_middle=lambda x: x.softmax(1), softmax_columns=lambda x: x.softmax(0),
    softmax_short=lambda x: x.softmax(-1), log_softmax_long=lambda x: x.log_softmax(-1),
    softmax_masked=lambda x, m: torch.where(m, x, -1e9).softmax(-1),
    softmax_slope=slope(lambda x, y: (x.softmax(-1) * y).sum()),
    cumsum_rows=lambda x: x.cumsum(-1), cumsum_columns=lambda x: x.cumsum(0), cumsum_long=lambda x: x.cumsum(0),
    cumsum_short=lambda x: x.cumsum(-1), cumsum_i32=lambda x: x.cumsum(-1, dtype=torch.int32), cumprod_rows=lambda x: x.cumprod(-1),
    cummax_rows=lambda x: x.cummax(-1)[0],
    sort_rows=lambda x: x.sort(-1)[0], sort_long=lambda x: x.sort(-1)[0], sort_columns=lambda x: x.sort(0)[0], sort_short=lambda x: x.sort(-1)[0],
    argsort_rows=lambda x: x.argsort(-1), top_10=lambda x: x.topk(10)[1], top_2=lambda x: x.topk(2)[1],
    transpose_f32=lambda x: x.t().contiguous(), transpose_bf16=lambda x: x.t().contiguous(), permute_4=lambda x: x.permute(2, 0, 3, 1).contiguous(),
    permute_heads=lambda x: x.transpose(1, 2).contiguous(), concat_narrow=lambda x, y: torch.cat([x, y], 1),
    concat_rows=lambda x, y: torch.cat([x, y]), stack_last=lambda x, y, z: torch.stack([x, y, z], -1),
    pad_3=lambda x: F.pad(x, (3, 1, 2, 2, 1, 3)), reverse_rows=lambda x: x.flip(1), roll_rows=lambda x: x.roll(1001, 1), gated=gated,
    every_other=lambda x: x[:, ::2].contiguous(), outer_sum=lambda x, y: x + y, repeat_rows=lambda x: x.expand(-1, 33, -1).contiguous(),
    space_to_depth=shuffle_in,
    gather_rows=lambda x, i: x[i], gather_narrow=lambda x, i: x[i], gather_scalars=lambda x, i: x[i], gather_columns=lambda x, i: x[:, i],
    gather_along=lambda x, i: x.gather(1, i.long()), gather_pairs=lambda x, i, j: x[i, j],
    scatter_rows=lambda x, i, v: x.index_add(0, i, v), scatter_scalars=lambda x, i, v: x.index_add(0, i, v),
    scatter_largest=lambda x, i, v: x.scatter_reduce(0, i.long(), v, "amax"),
    histogram=lambda i: torch.zeros(256, dtype=torch.int32, device=i.device).index_add(0, i, torch.ones_like(i)),
    embedding_slope=slope(lambda x, i, y: (F.embedding(i, x) * y).sum()), one_hot_rows=lambda i: F.one_hot(i.long(), 201).float(),
    chosen_rows=lambda x, i: x.gather(1, i.long()[:, None]).mean(),
    gelu_bf16=lambda x: F.gelu(x), mixed=lambda x, y: (x.float() * 2 + y).bfloat16(), pixels=lambda x: (x.float() / 255 - 0.5) / 0.25,
    tanh_f16=lambda x: x.tanh(), exp_f64=lambda x: x.exp(), pow_f32=lambda x: (x.abs() + 0.5).pow(1.7),
    integers=lambda x: x // 7 + x % 13 * 3, rotate_pairs=rotated,
    masked_mean_rows=lambda x, m: torch.where(m, x, 0).sum(1) / m.sum(1), adam=adam,
    product_odd=torch.matmul, product_tf32=torch.matmul, product_batch=torch.matmul, product_small=torch.matmul, product_f64=torch.matmul,
    matrix_vector=torch.matmul, vector_matrix=torch.matmul, batch_vector=lambda a, x: torch.einsum("bij,bj->bi", a, x),
    outer=lambda x, y: x[:, None] * y, gram_long=lambda a, b: a.t() @ b, thin=torch.matmul,
    bilinear=lambda x, w, y: torch.einsum("bi,oij,bj->bo", x, w, y), middle=lambda x, w: torch.einsum("bhwc,wk->bhkc", x, w),
    middle_rows=lambda x, w: torch.einsum("bhwc,hk->bkwc", x, w), middle_colors=lambda x, w: torch.einsum("bhwc,wk->bhkc", x, w),
    middle_slopes=slopes(lambda x, w, y: (torch.einsum("btc,ts->bsc", x, w) * y).sum()),
    distances=lambda x, y: (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.t(),
    distances_direct=lambda x, y: (x[:, None] - y).square().sum(-1).sqrt(), quadratic=lambda x, a: ((x @ a) * x).sum(1),
    linear_relu=lambda x, w, b: F.linear(x, w, b).relu(),
    conv1d_9=lambda x, w: conv(x, w, padding=4), conv2d_7=lambda x, w: conv(x, w, stride=2, padding=3),
    conv2d_odd=lambda x, w: conv(x, w, padding=1), conv2d_dilated=lambda x, w: conv(x, w, dilation=4, padding=4),
    conv2d_groups=lambda x, w: conv(x, w, groups=8, padding=1), depthwise_5=lambda x, w: conv(x, w, groups=len(w), padding=2),
    depthwise_1d=lambda x, w: back(F.conv1d(F.pad(last(x), (3, 0)), last(w), groups=len(w))), conv3d_3=lambda x, w: conv(x, w, padding=1),
    max_pool_3=lambda x: back(F.max_pool2d(last(x), 3, 2, 1)), avg_pool_3=lambda x: back(F.avg_pool2d(last(x), 3, 1)),
    max_pool_slope=slope(lambda x, y: (back(F.max_pool2d(last(x), 3, 2, 1)) * y).sum()),
    resize_2=lambda x: back(F.interpolate(last(x), scale_factor=2, mode="bilinear")),
    layer_norm_rows=lambda x, w, b: F.layer_norm(x, x.shape[-1:], w.to(x.dtype), b.to(x.dtype)),
    layer_norm_slope=slope(lambda x, y: (F.layer_norm(x, x.shape[-1:]) * y).sum()), group_norm_8=lambda x: back(F.group_norm(last(x), 8)),
    instance_norm_1=lambda x: back(F.instance_norm(last(x))), cross_entropy_slope=slope(lambda x, i: F.cross_entropy(x, i.long())),
    bce=F.binary_cross_entropy_with_logits, divergence=divergence,
    attention_odd=F.scaled_dot_product_attention, attention_bias=bias, decay=decay,
)


def inputs(line):
    """The tensors of a model's first line."""
    for kind, size, below in re.findall(r"\w+: (\w+)\[([\d, ]+)\](?: in 0\.\.(\d+))?", line):
        shape = [int(n) for n in size.split(",")]
        if check:
            shape = [min(n, 9 if len(shape) > 1 else 99) for n in shape]
        if below:
            yield torch.randint(0, 2 if check else int(below), shape, dtype=torch.int32, device=device)
        elif kind == "bool":
            yield torch.rand(shape, device=device) < 0.7
        elif kind == "u8":
            yield torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        else:
            yield torch.randn(shape, device=device).to(TYPES[kind])


path = os.environ.get("NET") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gpu_ops.net")
text = open(path).read()
for name, line in re.findall(r"^model (\w+)\((.*?)\) \{", text, re.M):
    if names and name not in names:
        continue
    if check:
        given = list(inputs(line))
        try:
            made = OPS[name](*given)
            print(name, [tuple(y.shape) for y in ([made] if isinstance(made, torch.Tensor) else made)])
        except (RuntimeError, ValueError) as e:  # (of sizes that depend on each other)
            print(name, "does not run with small sizes:", str(e)[:60])
        continue
    given = list(inputs(line))
    share = max(1, len(given[0]) / 64) if name == "decay" else 1
    for mode in modes or ["eager"]:
        f = OPS[name] if mode == "eager" else torch.compile(OPS[name], mode=None if mode == "default" else mode, dynamic=False)
        report(name, mode, lambda: graphed(lambda: f(*given), 9, 3) * share, lambda s: {})
        torch.compiler.reset()
    del given
