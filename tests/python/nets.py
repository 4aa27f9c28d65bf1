"""Small networks that the tests share."""

ADD = """
dim n = 4
model add(x: f32[n], y: f32[n]) {
    param w: f32[n] = 1
    state runs: i64 = 0
    runs <- runs + 1
    return z = x * w + y, s = sum(x)
}
"""

# Two clouds of points, and which of them each is in.
CLOUDS = """
use nn
use optim
dim batch = 32
setting rate = 0.05
model side(x: f32[batch, 2], label: u8[batch] in 0..2) {
    h = tanh(linear(x, 8) as fc1)
    logits = linear(h, 2) as fc2
    return loss = cross_entropy(logits, label), accuracy = mean(argmax(logits) == label), logits
}
train side {
    minimize loss
    update sgd(lr = rate)
}
"""


def clouds(n):
    """Data for CLOUDS, always the same."""
    import numpy
    r = numpy.random.default_rng(1)
    label = (numpy.arange(n) % 2).astype(numpy.uint8)
    x = r.normal(size=(n, 2)).astype(numpy.float32) + numpy.where(label, 1.5, -1.5).astype(numpy.float32)[:, None]
    return {"x": x, "label": label}

# A block as one writes it in PyTorch, too.
BLOCK = """
use nn
dim batch = 8
model block(x: f32[batch, 64], label: u8[batch] in 0..4) {
    h = layer_norm(x) as norm
    h = x + (linear(gelu(linear(h, 128) as up), 64) as down)
    logits = linear(h, 4) as head
    return loss = cross_entropy(logits, label), logits, best = argmax(logits)
}
"""

# Draws, and reads what it has written.
STATEFUL = """
use nn
model drops(x: f32[64, 8]) {
    state calls: f32 = 1
    calls <- calls + 1
    return y = dropout(x, 0.5) * calls
}
"""
