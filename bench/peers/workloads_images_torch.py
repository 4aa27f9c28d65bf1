#!/usr/bin/env python3
"""As workloads_torch.py, networks of images: EfficientNet, DenseNet, Swin, RetinaNet, SimCLR, VQ-VAE, StyleGAN2, WGAN-GP."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torchvision.models.swin_transformer import SwinTransformer
from torchvision.ops.feature_pyramid_network import FeaturePyramidNetwork, LastLevelP6P7

from workloads_common import adam, adamw, device, ints, measure, rand, sgd, size, tiny
from workloads_torch import classifier, images


def efficientnet():
    drop = size(0.2, 0)
    net = torchvision.models.efficientnet_b0(dropout=drop, stochastic_depth_prob=drop)
    return classifier(net, size(128, 2), size(224, 32), sgd(0.05))


def densenet():
    growth = size(32, 4)
    net = torchvision.models.DenseNet(growth, (6, 12, 24, 16), 2 * growth)
    return classifier(net, size(64, 2), size(224, 32), sgd(0.1))


def swin():
    depths, room, side = size([2, 2, 6, 2], [2, 2, 6]), size(7, 4), size(224, 64)
    width = size(96, 32)
    net = SwinTransformer([4, 4], width, depths, [width // 32 * 2 ** i for i in range(len(depths))], [room, room], stochastic_depth_prob=size(0.2, 0))
    return classifier(net, size(64, 2), side, adamw(0.001, 0.05))


# -- adversaries -------------------------------------------------------------------------------------------------------------------
def flat(x):
    return x.permute(0, 2, 3, 1).flatten(1)


def noise(x):
    return torch.randn(x.shape[0], 1, *x.shape[2:], device=x.device)


def scaled(x):
    return F.leaky_relu(x, 0.2) * math.sqrt(2)


class Modulated(nn.Module):
    """A convolution whose weights are scaled for each image: one of as many groups as there are images."""
    def __init__(self, width, c, out, k, demodulate=True):
        super().__init__()
        self.style, self.weight = nn.Linear(width, c), nn.Parameter(torch.randn(out, c, k, k) / math.sqrt(c * k * k))
        self.demodulate = demodulate

    def forward(self, x, style):
        B, C, H, W = x.shape
        out, _, k, _ = self.weight.shape
        w = self.weight * (1 + self.style(style))[:, None, :, None, None]
        if self.demodulate:
            w = w * torch.rsqrt((w * w).sum((2, 3, 4), keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, B * C, H, W), w.reshape(B * out, C, k, k).to(x.dtype), padding=k // 2, groups=B)
        return y.view(B, out, H, W)


class Styled(nn.Module):
    def __init__(self, width, c, out):
        super().__init__()
        self.conv, self.strength, self.bias = Modulated(width, c, out, 3), nn.Parameter(torch.tensor(0.1)), nn.Parameter(torch.zeros(out))

    def forward(self, x, style):
        h = self.conv(x, style)
        return scaled(h + self.strength * noise(h) + self.bias[:, None, None])


class ToRGB(nn.Module):
    def __init__(self, width, c):
        super().__init__()
        self.conv, self.bias = Modulated(width, c, 3, 1, False), nn.Parameter(torch.zeros(3))

    def forward(self, x, style):
        return self.conv(x, style) + self.bias[:, None, None]


def twice(x):
    return F.interpolate(x, scale_factor=2, mode="bilinear")


class Synthesis(nn.Module):
    def __init__(self, width, layers, channels):
        super().__init__()
        self.map = nn.ModuleList([nn.Linear(width, width) for _ in range(layers)])
        self.start = nn.Parameter(torch.randn(width, 4, 4))
        self.levels = nn.ModuleList()
        c = width
        for i, out in enumerate(channels):
            first = [] if i == 0 else [Styled(width, c, out)]
            self.levels.append(nn.ModuleList(first + [Styled(width, out, out), ToRGB(width, out)]))
            c = out

    def forward(self, z):
        style = z * torch.rsqrt((z * z).mean(-1, keepdim=True) + 1e-8)
        for layer in self.map:
            style = scaled(layer(style))
        x, image = self.start.expand(len(z), -1, -1, -1), None
        for *layers, rgb in self.levels:
            if image is not None:
                x = twice(x)
            for layer in layers:
                x = layer(x, style)
            image = rgb(x, style) if image is None else twice(image) + rgb(x, style)
        return image


class Shrink(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c, 3, 1, 1), nn.Conv2d(c, out, 3, 2, 1)
        self.skip = nn.Conv2d(c, out, 1, bias=False)

    def forward(self, x):
        return (scaled(self.b(scaled(self.a(x)))) + self.skip(F.avg_pool2d(x, 2))) * math.sqrt(0.5)


class Discriminator(nn.Module):
    def __init__(self, width, channels):
        super().__init__()
        c = channels[::-1]
        self.from_rgb = nn.Conv2d(3, c[0], 1)
        self.down = nn.Sequential(*[Shrink(a, b) for a, b in zip(c, c[1:])])
        self.last = nn.Conv2d(width + 1, width, 3, 1, 1)
        self.out1, self.out2 = nn.Linear(16 * width, width), nn.Linear(width, 1)

    def forward(self, x):
        x = self.down(scaled(self.from_rgb(x)))
        B, C, H, W = x.shape
        n = min(4, B)
        spread = torch.sqrt(x.float().view(n, B // n, C, H, W).var(0, unbiased=False) + 1e-8).mean((1, 2, 3))
        x = torch.cat([x, spread.repeat(n).view(B, 1, 1, 1).expand(B, 1, H, W).to(x.dtype)], 1)
        return self.out2(scaled(self.out1(flat(scaled(self.last(x))))))[:, 0]


def stylegan():
    width, layers, batch = size(512, 8), size(8, 2), size(32, 4)
    channels = size([width] * 4 + [width // 2], [width] * 3)
    G, D = Synthesis(width, layers, channels).to(device), Discriminator(width, channels).to(device, memory_format=torch.channels_last)

    def d_loss(x, z=None):
        fake = G(torch.randn(batch, width, device=device) if z is None else z)
        return F.softplus(-D(x).float()).mean() + F.softplus(D(fake.detach()).float()).mean(), fake

    def g_loss(fake):
        return F.softplus(-D(fake).float()).mean()
    options = dict(lr=0.0001, betas=(0.0, 0.99), fused=not tiny)
    return (G, D), (d_loss, g_loss), (images(batch, 4 * 2 ** (len(channels) - 1)),), \
        (torch.optim.Adam(D.parameters(), **options), torch.optim.Adam(G.parameters(), **options))


class Unflat(nn.Module):
    def forward(self, x):
        return x.view(len(x), 4, 4, -1).permute(0, 3, 1, 2)


class Flat(nn.Module):
    def forward(self, x):
        return flat(x)


def wgan():
    w, code, batch = size(128, 4), size(128, 8), size(128, 4)

    def up(c, out):
        return nn.Sequential(nn.ConvTranspose2d(c, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    def down(c, out):
        return nn.Sequential(nn.Conv2d(c, out, 4, 2, 1), nn.LeakyReLU(0.2))
    G = nn.Sequential(nn.Linear(code, 64 * w, bias=False), Unflat(), nn.BatchNorm2d(4 * w), nn.ReLU(), up(4 * w, 2 * w), up(2 * w, w),
                      nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Tanh()).to(device, memory_format=torch.channels_last)
    D = nn.Sequential(down(3, w), down(w, 2 * w), down(2 * w, 4 * w), Flat(), nn.Linear(64 * w, 1)).to(device, memory_format=torch.channels_last)

    def d_loss(x, z=None, share=None):
        fake = G(torch.randn(batch, code, device=device) if z is None else z)
        drawn = fake.detach().float()
        share = torch.rand(batch, 1, 1, 1, device=device) if share is None else share
        between = (share * x + (1 - share) * drawn).requires_grad_()
        slope, = torch.autograd.grad(D(between).float().sum(), between, create_graph=True)
        penalty = (((slope ** 2).sum((1, 2, 3)) + 1e-12).sqrt() - 1).square().mean()
        return D(drawn).float().mean() - D(x).float().mean() + 10 * penalty, fake

    def g_loss(fake):
        return -D(fake).float().mean()
    options = dict(lr=1e-4, betas=(0.5, 0.9), fused=not tiny)
    return (G, D), (d_loss, g_loss), (images(batch, 32),), \
        (torch.optim.Adam(D.parameters(), **options), torch.optim.Adam(G.parameters(), **options))


# -- others ------------------------------------------------------------------------------------------------------------------------
class Part(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(width, width // 4, 3, 1, 1), nn.Conv2d(width // 4, width, 1)

    def forward(self, x):
        return x + self.conv2(F.relu(self.conv1(F.relu(x))))


class VQVAE(nn.Module):
    def __init__(self, w, codes, code):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, w // 2, 4, 2, 1), nn.ReLU(), nn.Conv2d(w // 2, w, 4, 2, 1), nn.ReLU(), nn.Conv2d(w, w, 3, 1, 1),
                                     Part(w), Part(w), nn.ReLU(), nn.Conv2d(w, code, 1))
        self.table = nn.Parameter((torch.rand(codes, code) * 2 - 1) / codes)
        self.decoder = nn.Sequential(nn.Conv2d(code, w, 3, 1, 1), Part(w), Part(w), nn.ReLU(), nn.ConvTranspose2d(w, w // 2, 4, 2, 1), nn.ReLU(),
                                     nn.ConvTranspose2d(w // 2, 3, 4, 2, 1))

    def forward(self, image):
        z = self.encoder(image).permute(0, 2, 3, 1).float()
        far = (self.table ** 2).sum(-1) - 2 * (z @ self.table.t())
        near = F.embedding(far.argmin(-1), self.table)
        made = self.decoder((z + (near - z).detach()).permute(0, 3, 1, 2))
        return F.mse_loss(made.float(), image) + F.mse_loss(near, z.detach()) + 0.25 * F.mse_loss(z, near.detach())


def vqvae():
    net = VQVAE(size(128, 16), size(512, 32), size(64, 8)).to(device, memory_format=torch.channels_last)
    return net, net, (images(size(128, 2), size(64, 16)),), adam(0.0002)


class Head(nn.Module):
    def __init__(self, n, anchors, each):
        super().__init__()
        self.parts = nn.Sequential(*[m for _ in range(4) for m in (nn.Conv2d(n, n, 3, 1, 1), nn.ReLU())])
        self.out, self.each = nn.Conv2d(n, anchors * each, 3, 1, 1), each
        for conv in [*self.parts[::2], self.out]:
            nn.init.normal_(conv.weight, std=0.01)

    def forward(self, x):
        return flat(self.out(self.parts(x))).view(len(x), -1, self.each)


class Detector(nn.Module):
    def __init__(self, classes, anchors):
        super().__init__()
        self.body, self.classes = torchvision.models.resnet50(), classes
        del self.body.fc
        self.pyramid = FeaturePyramidNetwork([512, 1024, 2048], 256, extra_blocks=LastLevelP6P7(256, 256))
        self.kind, self.box = Head(256, anchors, classes), Head(256, anchors, 4)

    def forward(self, x, label, box):
        b = self.body
        x, found = b.maxpool(b.relu(b.bn1(b.conv1(x)))), {}
        for i, stage in enumerate([b.layer1, b.layer2, b.layer3, b.layer4]):
            x = stage(x)
            if i > 0:
                found[str(i)] = x
        levels = list(self.pyramid(found).values())
        kinds, boxes = (torch.cat([head(x) for x in levels], 1).float() for head in (self.kind, self.box))
        there = label > 0
        target = (label[..., None] == torch.arange(1, self.classes + 1, device=label.device)).float()
        loss = torchvision.ops.sigmoid_focal_loss(kinds, target, reduction="sum")
        loss = loss + torch.where(there[..., None], F.smooth_l1_loss(boxes, box, reduction="none", beta=1 / 9), 0).sum()
        return loss / there.sum().clamp(min=1)


def detector():
    side, batch, classes, anchors = size(512, 128), size(8, 2), size(80, 5), size(9, 2)
    count = anchors * sum((side // 2 ** i) ** 2 for i in range(3, 8))
    net = Detector(classes, anchors).to(device, memory_format=torch.channels_last)
    return net, net, (images(batch, side), ints(classes + 1, batch, count), rand(batch, count, 4)), sgd(0.01)


class SimCLR(nn.Module):
    def __init__(self, code=128):
        super().__init__()
        self.body = torchvision.models.resnet18()
        self.body.fc = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, code))

    def forward(self, one, other):
        z = F.normalize(self.body(torch.cat([one, other])).float(), dim=-1)
        n = len(z)
        alike = (z @ z.t()).float() / 0.5
        alike = alike.masked_fill(torch.eye(n, dtype=torch.bool, device=z.device), -torch.inf)
        return F.cross_entropy(alike, (torch.arange(n, device=z.device) + n // 2) % n)


def simclr():
    net, batch, side = SimCLR().to(device, memory_format=torch.channels_last), size(256, 4), size(96, 32)
    return net, net, (images(batch, side), images(batch, side)), adam(0.0003)


if __name__ == "__main__":  # torch.compile has no second derivatives of a network's loss
    measure(globals(), eager=["wgan"])
