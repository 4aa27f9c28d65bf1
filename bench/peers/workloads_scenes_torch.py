#!/usr/bin/env python3
"""As workloads_torch.py, networks of scenes, sound and faces: DeepLabV3, EDSR, HiFi-GAN, R(2+1)D, MAE, DETR, CLIP, capsules, ArcFace."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchvision
from torch.nn.utils.parametrizations import weight_norm
from torchvision.models.video.resnet import BasicBlock, Conv2Plus1D, R2Plus1dStem, VideoResNet
from torchvision.ops import box_convert

from workloads_common import adam, adamw, clipped, device, ints, measure, rand, sgd, size, tiny
from workloads_images_torch import flat
from workloads_torch import Block, Heads, classifier, feed, images


# -- images to images --------------------------------------------------------------------------------------------------------------
class DeepLab(nn.Module):
    def __init__(self, classes, drop, **backbone):
        super().__init__()
        self.net = torchvision.models.segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=classes, **backbone)
        self.net.classifier[0].project[3].p = drop

    def forward(self, image, label):
        return F.cross_entropy(self.net(image)["out"].float(), label, ignore_index=255)


def deeplab():
    classes, batch, side = size(21, 5), size(8, 2), size(513, 65)
    net = DeepLab(classes, size(0.5, 0.0)).to(device, memory_format=torch.channels_last)
    label = ints(classes, batch, side, side)
    label[torch.rand(label.shape, device=device) < 0.1] = 255
    return net, net, (images(batch, side), label), sgd(0.01, 0.9)


class Enhanced(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(width, width, 3, 1, 1), nn.Conv2d(width, width, 3, 1, 1)

    def forward(self, x):
        return x + 0.1 * self.conv2(F.relu(self.conv1(x)))


class EDSR(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        self.register_buffer("mean", torch.tensor([0.4488, 0.4371, 0.4040]).view(1, 3, 1, 1), persistent=False)
        self.head, self.blocks = nn.Conv2d(3, width, 3, 1, 1), nn.Sequential(*[Enhanced(width) for _ in range(blocks)])
        self.body = nn.Conv2d(width, width, 3, 1, 1)
        self.up = nn.Sequential(*[m for _ in range(2) for m in (nn.Conv2d(width, 4 * width, 3, 1, 1), nn.PixelShuffle(2))])
        self.tail = nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, low, high):
        x = self.head(low - self.mean)
        x = self.up(x + self.body(self.blocks(x)))
        return F.l1_loss((self.tail(x) + self.mean).float(), high)


def edsr():
    net, batch, side = EDSR(size(256, 8), size(32, 2)).to(device, memory_format=torch.channels_last), size(16, 2), size(48, 8)
    return net, net, (images(batch, side), images(batch, 4 * side)), adam(1e-4)


# -- sound -------------------------------------------------------------------------------------------------------------------------
class Dilated(nn.Module):
    def __init__(self, c, k):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([weight_norm(nn.Conv1d(c, c, k, dilation=d, padding=k // 2 * d)),
                                                    weight_norm(nn.Conv1d(c, c, k, padding=k // 2))]) for d in (1, 3, 5)])

    def forward(self, x):
        for near, far in self.layers:
            x = x + far(F.leaky_relu(near(F.leaky_relu(x, 0.1)), 0.1))
        return x


class HiFiGAN(nn.Module):
    def __init__(self, width, rates, mels):
        super().__init__()
        self.start = weight_norm(nn.Conv1d(mels, width, 7, padding=3))
        self.up, self.parts = nn.ModuleList(), nn.ModuleList()
        for n in rates:
            self.up.append(weight_norm(nn.ConvTranspose1d(width, width // 2, 2 * n, n, n // 2), dim=1))
            width //= 2
            self.parts.append(nn.ModuleList([Dilated(width, k) for k in (3, 7, 11)]))
        self.last = weight_norm(nn.Conv1d(width, 1, 7, padding=3))

    def forward(self, mel):
        x = self.start(mel.transpose(1, 2))
        for up, parts in zip(self.up, self.parts):
            x = up(F.leaky_relu(x, 0.1))
            x = sum(part(x) for part in parts) / 3
        return torch.tanh(self.last(F.leaky_relu(x)))[:, 0]


class OfPeriod(nn.Module):
    def __init__(self, period, widths):
        super().__init__()
        self.period = period
        self.convs = nn.ModuleList([weight_norm(nn.Conv2d(c, out, (5, 1), (3 if i < len(widths) - 1 else 1, 1), (2, 0)))
                                    for i, (c, out) in enumerate(zip([1] + widths, widths))])
        self.last = weight_norm(nn.Conv2d(widths[-1], 1, (3, 1), padding=(1, 0)))

    def forward(self, x):
        x = F.pad(x[:, None], (0, -x.shape[1] % self.period), "reflect")
        x, found = x.unflatten(-1, (-1, self.period)), []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            found.append(x)
        return found + [self.last(x)]


class LogMel(nn.Module):
    def __init__(self, mels, points, hop, rate):
        super().__init__()
        self.points, self.hop = points, hop
        edge = 700 * (10 ** (torch.linspace(0, 2595 * math.log10(1 + 8000 / 700), mels + 2) / 2595) - 1)
        at = torch.arange(points // 2 + 1)[:, None] * (rate / points)
        up, down = (at - edge[:-2]) / (edge[1:-1] - edge[:-2]), (edge[2:] - at) / (edge[2:] - edge[1:-1])
        self.register_buffer("filters", torch.minimum(up, down).clamp(min=0))
        self.register_buffer("hann", torch.hann_window(points))

    def forward(self, x):
        x = F.pad(x.float()[:, None], [(self.points - self.hop) // 2] * 2, "reflect")[:, 0]
        s = torch.stft(x, self.points, self.hop, window=self.hann, center=False, return_complex=True)
        s = torch.sqrt(s.real ** 2 + s.imag ** 2 + 1e-9).transpose(1, 2)
        return torch.log((s @ self.filters).float().clamp(min=1e-5))


def hifigan():
    rates, mels, hop, batch = size([8, 8, 2, 2], [2, 2]), size(80, 6), size(256, 4), size(16, 2)
    frames, widths = 32, size([32, 128, 512, 1024, 1024], [4, 8])
    G = HiFiGAN(size(512, 16), rates, mels).to(device)
    D = nn.ModuleList([OfPeriod(p, widths) for p in (2, 3, 5, 7, 11)]).to(device)
    log_mel = LogMel(mels, 4 * hop, hop, 22050).to(device)
    mel, sound = rand(batch, frames, mels), torch.tanh(rand(batch, frames * hop))

    def d_loss(mel, sound):
        fake = G(mel)
        loss = 0
        for d in D:
            loss = loss + (1 - d(sound)[-1].float()).square().mean() + d(fake.detach())[-1].float().square().mean()
        return loss, fake

    def g_loss(fake):
        loss = 45 * F.l1_loss(log_mel(fake), log_mel(sound))
        for d in D:
            real, judged = d(sound), d(fake)
            loss = loss + (1 - judged[-1].float()).square().mean() + 2 * sum(F.l1_loss(a.float(), b.float()) for a, b in zip(real, judged))
        return loss
    options = dict(lr=2e-4, betas=(0.8, 0.99), weight_decay=0.01, fused=not tiny)
    return (G, D), (d_loss, g_loss), (mel, sound), (torch.optim.AdamW(D.parameters(), **options), torch.optim.AdamW(G.parameters(), **options))


# -- videos, patches, objects --------------------------------------------------------------------------------------------------------
def r2plus1d():
    net = VideoResNet(BasicBlock, [Conv2Plus1D] * 4, [2, 2, 2, 2], R2Plus1dStem, size(400, 10)).to(device, memory_format=torch.channels_last_3d)
    video = rand(size(16, 2), 3, size(16, 8), size(112, 16), size(112, 16)).to(memory_format=torch.channels_last_3d)
    return net, lambda x, y: F.cross_entropy(net(x).float(), y), (video, ints(size(400, 10), len(video))), sgd(0.01)


def sinusoidal(count, width):
    i = torch.arange(width)
    turns = torch.arange(count)[:, None] * torch.exp((i // 2 * 2) * (-math.log(10000) / width))
    return torch.where(i % 2 == 0, turns.sin(), turns.cos())


def of_rows_and_columns(each):
    n = len(each)
    return torch.cat([each[:, None].expand(-1, n, -1), each.expand(n, -1, -1)], -1).flatten(0, 1)


class Tower(nn.Module):
    def __init__(self, layers, width, heads):
        super().__init__()
        self.layers = nn.Sequential(*[Block(width, Heads(width, heads), feed(width, 4 * width)) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.layers(x))


def taken(x, index):
    return torch.gather(x, 1, index[..., None].expand(-1, -1, x.shape[-1]))


class MAE(nn.Module):
    def __init__(self, side, patch, encoder, decoder):
        super().__init__()
        self.patch, rows, n = patch, side // patch, 3 * patch * patch
        self.embed, self.first = nn.Linear(n, encoder[1]), nn.Parameter(torch.randn(encoder[1]) * 0.02)
        self.encoder, self.between = Tower(*encoder), nn.Linear(encoder[1], decoder[1])
        self.hidden, self.decoder, self.head = nn.Parameter(torch.randn(decoder[1]) * 0.02), Tower(*decoder), nn.Linear(decoder[1], n)
        self.register_buffer("places", of_rows_and_columns(sinusoidal(rows, encoder[1] // 2)), persistent=False)
        self.register_buffer("decoder_places", of_rows_and_columns(sinusoidal(rows, decoder[1] // 2)), persistent=False)

    def forward(self, image, keep, back):
        B, C, H, W = image.shape
        p = self.patch
        pixels = image.view(B, C, H // p, p, W // p, p).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        x = taken(self.embed(pixels) + self.places, keep)
        x = self.between(self.encoder(torch.cat([self.first.expand(B, 1, -1).to(x.dtype), x], 1)))
        y = torch.cat([x[:, 1:], self.hidden.to(x.dtype).expand(B, back.shape[1] - keep.shape[1], -1)], 1)
        y = self.decoder(torch.cat([x[:, :1], taken(y, back) + self.decoder_places], 1))
        made = self.head(y[:, 1:]).float()
        goal = (pixels - pixels.mean(-1, keepdim=True)) / (pixels.var(-1, keepdim=True) + 1e-6).sqrt()
        hidden = (back >= keep.shape[1]).float()
        return ((made - goal).square().mean(-1) * hidden).sum() / hidden.sum()


def mae():
    batch, side, patch = size(128, 2), size(224, 16), size(16, 4)
    count = (side // patch) ** 2
    net = MAE(side, patch, size((12, 768, 12), (2, 32, 4)), size((8, 512, 16), (2, 16, 2))).to(device)
    order = torch.rand(batch, count, device=device).argsort(1)
    return net, net, (rand(batch, 3, side, side), order[:, :count // 4], order.argsort(1)), adamw(1.5e-4, 0.05, betas=(0.9, 0.95))


class See(nn.Module):
    def __init__(self, width, heads, drop):
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads, self.drop = heads, drop

    def forward(self, q, k, v):
        q, k, v = (f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, x in ((self.query, q), (self.key, k), (self.value, v)))
        return self.out(F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop).transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self, width, hidden, drop):
        super().__init__()
        self.up, self.down, self.drop = nn.Linear(width, hidden), nn.Linear(hidden, width), drop

    def forward(self, x):
        return self.down(F.dropout(F.relu(self.up(x)), self.drop))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads, hidden, drop):
        super().__init__()
        self.attn, self.norm1 = See(width, heads, drop), nn.LayerNorm(width)
        self.ff, self.norm2, self.drop = Feed(width, hidden, drop), nn.LayerNorm(width), drop

    def forward(self, x, place):
        x = self.norm1(x + F.dropout(self.attn(x + place, x + place, x), self.drop))
        return self.norm2(x + F.dropout(self.ff(x), self.drop))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, hidden, drop):
        super().__init__()
        self.attn, self.norm1 = See(width, heads, drop), nn.LayerNorm(width)
        self.cross, self.norm2 = See(width, heads, drop), nn.LayerNorm(width)
        self.ff, self.norm3, self.drop = Feed(width, hidden, drop), nn.LayerNorm(width), drop

    def forward(self, x, asked, seen, place):
        x = self.norm1(x + F.dropout(self.attn(x + asked, x + asked, x), self.drop))
        x = self.norm2(x + F.dropout(self.cross(x + asked, seen + place, seen), self.drop))
        return self.norm3(x + F.dropout(self.ff(x), self.drop))


def giou(a, b):
    """Of boxes in pairs (n, 4)."""
    both = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    either = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - both
    return both / either - (hull - either) / hull


class DETR(nn.Module):
    def __init__(self, side, classes, queries, width, heads, layers, hidden, drop, backbone):
        super().__init__()
        self.body, self.classes = backbone, classes
        del self.body.fc
        self.narrow = nn.Conv2d(2048, width, 1)
        self.encoder = nn.ModuleList([EncoderLayer(width, heads, hidden, drop) for _ in range(layers)])
        self.asked = nn.Parameter(torch.randn(queries, width))
        self.decoder = nn.ModuleList([DecoderLayer(width, heads, hidden, drop) for _ in range(layers)])
        self.last, self.kind = nn.LayerNorm(width), nn.Linear(width, classes + 1)
        self.box = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4))
        n, i = side // 32, torch.arange(width // 2)
        turns = (torch.arange(n)[:, None] + 1) * (2 * math.pi / n) * torch.exp((i // 2 * 2) * (-math.log(10000) / (width // 2)))
        self.register_buffer("place", of_rows_and_columns(torch.where(i % 2 == 0, turns.sin(), turns.cos())), persistent=False)
        weight = torch.ones(classes + 1)
        weight[-1] = 0.1
        self.register_buffer("weight", weight, persistent=False)

    def losses(self, x, match, label, box, rows):
        kind, found = self.kind(x).float(), self.box(x).float().sigmoid()
        target = torch.full(kind.shape[:2], self.classes, device=x.device)
        target[rows, match] = label
        loss = F.cross_entropy(kind.transpose(1, 2), target, self.weight)
        a = found[rows, match]
        far = F.l1_loss(a, box, reduction="sum") / len(box)
        return loss + 5 * far + 2 * (1 - giou(box_convert(a, "cxcywh", "xyxy"), box_convert(box, "cxcywh", "xyxy"))).sum() / len(box)

    def forward(self, image, rows, label, box, match):
        """The objects of all images one after the other, rows: their images, match: (layers, objects)."""
        b = self.body
        x = b.layer4(b.layer3(b.layer2(b.layer1(b.maxpool(b.relu(b.bn1(b.conv1(image))))))))
        x = self.narrow(x).flatten(2).transpose(1, 2)
        for layer in self.encoder:
            x = layer(x, self.place)
        y, loss = torch.zeros(len(x), *self.asked.shape, device=x.device), 0
        for layer, m in zip(self.decoder, match):
            y = layer(y, self.asked, x, self.place)
            loss = loss + self.losses(self.last(y), m, label, box, rows)
        return loss


class FrozenNorm(nn.Module):
    """A factor and a term for each channel, of which none is trained."""
    def __init__(self, c):
        super().__init__()
        self.register_buffer("weight", torch.ones(c))
        self.register_buffer("bias", torch.zeros(c))

    def forward(self, x):
        return x * self.weight.to(x.dtype).view(1, -1, 1, 1) + self.bias.to(x.dtype).view(1, -1, 1, 1)


def detr():
    side, batch, classes, queries, layers = size(640, 64), size(8, 2), size(91, 5), size(100, 8), size(6, 2)
    net = DETR(side, classes, queries, size(256, 32), size(8, 4), layers, size(2048, 48), size(0.1, 0.0),
               torchvision.models.resnet50(norm_layer=FrozenNorm)).to(device, memory_format=torch.channels_last)
    counts = [1 + i * 5 % size(20, 3) for i in range(batch)]
    rows = torch.cat([torch.full((n,), i, device=device) for i, n in enumerate(counts)])
    match = torch.stack([torch.cat([torch.randperm(queries, device=device)[:n] for n in counts]) for _ in range(layers)])
    box = 0.1 + 0.3 * torch.rand(len(rows), 4, device=device)
    data = images(batch, side), rows, ints(classes, len(rows)), box, match
    body = [p for n, p in net.named_parameters() if n.startswith("body.")]
    others = [p for n, p in net.named_parameters() if not n.startswith("body.")]
    return net, net, data, clipped(0.1, lambda _: torch.optim.AdamW([{"params": body, "lr": 1e-5}, {"params": others}], lr=1e-4, weight_decay=1e-4,
                                                                    fused=not tiny))


# -- texts and images --------------------------------------------------------------------------------------------------------------
class QuickGELU(nn.Module):
    def forward(self, x):
        return x * torch.sigmoid(1.702 * x)


class CLIP(nn.Module):
    def __init__(self, layers, side, patch, width, text_width, vocab, T, code, heads_of):
        super().__init__()

        def tower(n, causal):
            return nn.Sequential(*[Block(n, Heads(n, n // heads_of, causal=causal), feed(n, 4 * n, QuickGELU)) for _ in range(layers)])
        self.patch = nn.Conv2d(3, width, patch, patch, bias=False)
        self.first = nn.Parameter(torch.randn(width) * 0.02)
        self.position = nn.Parameter(torch.randn((side // patch) ** 2 + 1, width) * 0.02)
        self.norm, self.tower, self.last, self.code = nn.LayerNorm(width), tower(width, False), nn.LayerNorm(width), nn.Linear(width, code, bias=False)
        self.word, self.text_position = nn.Embedding(vocab, text_width), nn.Parameter(torch.randn(T, text_width) * 0.01)
        nn.init.normal_(self.word.weight, std=0.02)
        self.text_tower, self.text_last = tower(text_width, True), nn.LayerNorm(text_width)
        self.text_code = nn.Linear(text_width, code, bias=False)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image, text):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), 1, -1).to(x.dtype), x], 1) + self.position
        a = F.normalize(self.code(self.last(self.tower(self.norm(x))[:, 0])).float(), dim=-1)
        y = self.text_last(self.text_tower(self.word(text) + self.text_position))
        b = F.normalize(self.text_code(y[torch.arange(len(y), device=y.device), text.argmax(-1)]).float(), dim=-1)
        alike = self.scale.exp().clamp(max=100) * (a @ b.t()).float()
        same = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(alike, same) + F.cross_entropy(alike.t(), same)) / 2


def clip():
    side, patch, vocab, T, batch = size(224, 16), size(32, 8), size(49408, 50), size(77, 9), size(256, 4)
    net = CLIP(size(12, 2), side, patch, size(768, 128), size(512, 64), vocab, T, size(512, 16), 64).to(device)
    decayed = [p for p in net.parameters() if p.dim() > 1]
    others = [p for p in net.parameters() if p.dim() < 2]
    return net, net, (rand(batch, 3, side, side), ints(vocab, batch, T)), lambda _: torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.2}, {"params": others, "weight_decay": 0.0}], lr=5e-4, betas=(0.9, 0.98), eps=1e-6, fused=not tiny)


# -- others ------------------------------------------------------------------------------------------------------------------------
def squash(s):
    n = (s * s).sum(-1, keepdim=True)
    return s * (n / (1 + n) * torch.rsqrt(n + 1e-8))


class Capsules(nn.Module):
    def __init__(self, side, width, kinds, classes, rounds):
        super().__init__()
        places = ((side - 16) // 2) ** 2
        self.conv, self.first = nn.Conv2d(1, width, 9), nn.Conv2d(width, 8 * kinds, 9, 2)
        self.weight, self.rounds = nn.Parameter(torch.randn(kinds * places, classes, 16, 8) * 0.05), rounds
        self.decoder = nn.Sequential(nn.Linear(16 * classes, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, side * side), nn.Sigmoid())

    def routed(self, u):
        votes = torch.einsum("bic,ikdc->bikd", u, self.weight).float()
        fixed, logits = votes.detach(), torch.zeros(votes.shape[:-1], device=u.device)
        for _ in range(self.rounds - 1):
            v = squash((logits.softmax(-1)[..., None] * fixed).sum(1))
            logits = logits + (fixed * v[:, None]).sum(-1)
        return squash((logits.softmax(-1)[..., None] * votes).sum(1))

    def forward(self, image, label):
        x = self.first(F.relu(self.conv(image[:, None])))
        v = self.routed(squash(x.permute(0, 2, 3, 1).reshape(len(x), -1, 8).float()))
        length = ((v * v).sum(-1) + 1e-8).sqrt()
        right = F.one_hot(label, length.shape[1]).float()
        margin = right * F.relu(0.9 - length).square() + 0.5 * (1 - right) * F.relu(length - 0.1).square()
        made = self.decoder((v * right[..., None]).flatten(1)).float()
        return margin.sum(-1).mean() + 0.0005 * (made - image.flatten(1)).square().sum() / len(x)


def capsule():
    side, batch, classes = size(28, 20), size(256, 3), size(10, 4)
    net = Capsules(side, size(256, 8), size(32, 2), classes, 3).to(device, memory_format=torch.channels_last)
    return net, net, (rand(batch, side, side), ints(classes, batch)), adam(0.001)


class FaceBlock(nn.Module):
    def __init__(self, c, out, stride):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(c), nn.Conv2d(c, out, 3, 1, 1, bias=False)
        self.norm2, self.act = nn.BatchNorm2d(out), nn.PReLU(out)
        self.conv2, self.norm3 = nn.Conv2d(out, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential(nn.Conv2d(c, out, 1, stride, bias=False), nn.BatchNorm2d(out)) if stride > 1 else nn.Identity()

    def forward(self, x):
        return self.norm3(self.conv2(self.act(self.norm2(self.conv1(self.norm1(x)))))) + self.shortcut(x)


class ArcFace(nn.Module):
    def __init__(self, people, side, width, code, depths, margin=0.5, scale=64):
        super().__init__()
        c, layers = width, []
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c), nn.PReLU(c))
        for stage, depth in enumerate(depths):
            for i in range(depth):
                layers.append(FaceBlock(c, width * 2 ** stage, 2 if i == 0 else 1))
                c = width * 2 ** stage
        self.layers, self.last = nn.Sequential(*layers), nn.BatchNorm2d(c)
        self.code, self.features = nn.Linear(c * (side >> len(depths)) ** 2, code), nn.BatchNorm1d(code)
        self.centre, self.margin, self.scale = nn.Parameter(torch.randn(people, code) * 0.01), margin, scale

    def forward(self, image, label):
        x = F.normalize(self.features(self.code(flat(self.last(self.layers(self.stem(image)))))).float())
        alike = F.linear(x, F.normalize(self.centre)).float().clamp(-1, 1)
        right = torch.arange(len(self.centre), device=x.device) == label[:, None]
        return F.cross_entropy(self.scale * torch.where(right, torch.cos(torch.acos(alike) + self.margin), alike), label)


def arcface():
    people, batch, side, depths = size(10000, 20), size(128, 4), size(112, 16), size((3, 4, 14, 3), (1, 2))
    net = ArcFace(people, side, size(64, 8), size(512, 16), depths).to(device, memory_format=torch.channels_last)
    return net, net, (images(batch, side), ints(people, batch)), sgd(0.1)


if __name__ == "__main__":
    measure(globals())
