"""Linear algebra, detection, and what moves or pools images."""
import math

import jax
import jax.numpy as jnp

from goldens import HEAD, File, R


def boxes(b):
    return jnp.concatenate([b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2], -1)


def overlap(a, b, general):
    area = lambda z: (z[..., 2] - z[..., 0]) * (z[..., 3] - z[..., 1])
    low, high = jnp.maximum(a[..., :2], b[..., :2]), jnp.minimum(a[..., 2:], b[..., 2:])
    both = jnp.prod(jnp.maximum(high - low, 0), -1)
    either = area(a) + area(b) - both
    hull = jnp.prod(jnp.maximum(a[..., 2:], b[..., 2:]) - jnp.minimum(a[..., :2], b[..., :2]), -1)
    return both / either - ((hull - either) / hull if general else 0)


def focal(z, t, alpha, gamma):
    p = jax.nn.sigmoid(z)
    wrong = p * (1 - t) + (1 - p) * t
    return (alpha * t + (1 - alpha) * (1 - t)) * wrong**gamma * (jnp.logaddexp(z, 0) - z * t)


def pooled(x, sizes):
    for axis, m in enumerate(sizes, 1):
        n = x.shape[axis]
        parts = [jnp.mean(jax.lax.slice_in_dim(x, i * n // m, math.ceil((i + 1) * n / m), axis=axis), axis) for i in range(m)]
        x = jnp.stack(parts, axis)
    return x


def shuffled(x, f):
    b, h, w, c = x.shape
    return x.reshape(b, h, w, c // f**2, f, f).transpose(0, 1, 4, 2, 5, 3).reshape(b, h * f, w * f, -1)


def library():
    f = File("library", HEAD.replace("use nn\n", "use nn\nuse conv\nuse linalg\nuse detection\n"))
    for n in [1, 2, 3, 6]:
        f.case(f"systems_{n}", {"a": R([2, n, n]), "b": R([2, n, 3])}, [
            ("x", "solve(a, b)", jnp.linalg.solve), ("log", "slogdet(a)[1]", lambda a, b: jnp.linalg.slogdet(a)[1]),
        ], ["a", "b"], ["a"])
        f.case(f"signs_{n}", {"a": R([5, n, n])}, [("s", "slogdet(a)[0]", lambda a: jnp.linalg.slogdet(a)[0])])
        gram = lambda x: x @ jnp.swapaxes(x, -1, -2) + jnp.eye(x.shape[-1])
        made = f"matmul(x, transpose(x)) + eye({n}, real)"
        f.case(f"triangles_{n}", {"x": R([2, n, n], -1, 1), "b": R([2, n, 2])}, [
            ("l", f"cholesky({made})", lambda x, b: jnp.linalg.cholesky(gram(x))),
            ("s", f"cholesky_solve(cholesky({made}), b)", lambda x, b: jnp.linalg.solve(gram(x), b)),
        ], ["x", "b"], ["x"])
    for i, (shape, by, axis) in enumerate([([7], 3, 0), ([3, 5], -1, 1), ([3, 5], [2, 8], [0, 1]), ([2, 1, 33], [1, 1, 40], [0, 1, 2])]):
        f.case(f"roll_{i}", {"x": R(shape)}, [("y", f"roll(x, {by}, {axis})", lambda x, by=by, axis=axis: jnp.roll(x, by, axis))], ["x"])
    for i, (shape, axis) in enumerate([([7], 0), ([3, 5], 1), ([2, 9, 3], 1), ([4, 65], -1)]):
        f.case(f"bools_{i}", {"x": R(shape, 0, 2, dtype="bool")}, [
            ("any", f"any(x, {axis})", lambda x, axis=axis: jnp.any(x, axis)), ("all", f"all(x, {axis}, keep = true)", lambda x, axis=axis: jnp.all(x, axis, keepdims=True)),
            ("one", "any(x)", jnp.any),
        ])
    f.case("boxes", {"a": R([5, 4], 0.5, 3), "b": R([3, 4], 0.5, 3)}, [
        ("iou", "iou(box_corners(a)[:, none], box_corners(b))", lambda a, b: overlap(boxes(a)[:, None], boxes(b), False)),
        ("giou", "giou(box_corners(a)[:, none], box_corners(b))", lambda a, b: overlap(boxes(a)[:, None], boxes(b), True)),
    ], ["a", "b"], ["a"])
    f.case("focal", {"z": R([4, 9]), "t": R([4, 9], 0, 2, dtype="bool")}, [
        ("f", "focal_loss(z, t)", lambda z, t: focal(z, t, 0.25, 2)), ("g", "focal_loss(z, t, alpha = 0.6, gamma = 1.5)", lambda z, t: focal(z, t, 0.6, 1.5)),
    ], ["z"], ["z"])
    for i, (shape, size) in enumerate([([2, 5, 6, 3], [2, 3]), ([1, 7, 4, 2], [3, 5]), ([1, 9, 9, 1], [9, 1])]):
        f.case(f"parts_{i}", {"x": R(shape)}, [("y", f"adaptive_avg_pool(x, {size})", lambda x, size=size: pooled(x, size))], ["x"])
    f.case("row_parts", {"x": R([2, 11, 3])}, [("y", "adaptive_avg_pool(x, 4)", lambda x: pooled(x, [4]))], ["x"])
    for i, (shape, by) in enumerate([([2, 3, 5, 8], 2), ([1, 2, 2, 9], 3)]):
        f.case(f"pixels_{i}", {"x": R(shape)}, [("y", f"pixel_shuffle(x, {by})", lambda x, by=by: shuffled(x, by))], ["x"])
    f.write()
