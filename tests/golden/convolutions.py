"""Convolutions, pooling, resizing and sums by indices (einsum), channels last."""
import json

import jax
import jax.numpy as jnp

from goldens import HEAD, File, R


def conv(stride=1, padding=0, dilation=1, groups=1):
    """Channels last, weights (out, size..., in), through JAX's own convolution."""
    def f(x, w):
        n = x.ndim - 2
        each = lambda v: list(v) if isinstance(v, (list, tuple)) else [v] * n
        pads = padding.upper() if isinstance(padding, str) else [p if isinstance(p, (list, tuple)) else (p, p) for p in each(padding)]
        y = jax.lax.conv_general_dilated(jnp.moveaxis(x, -1, 1), jnp.moveaxis(w, -1, 1), each(stride), pads, rhs_dilation=each(dilation), feature_group_count=groups)
        return jnp.moveaxis(y, 1, -1)
    return f


def pooled(x, size, stride, pads, fill, dilation=1):
    """(B, h, w, elements, C): the elements of each window, in order."""
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)), constant_values=fill)
    at = [jnp.arange(0, x.shape[1 + i] - (size[i] - 1) * dilation, stride[i])[:, None] + jnp.arange(size[i]) * dilation for i in range(2)]
    w = x[:, at[0][:, None, :, None], at[1][None, :, None, :]]
    return w.reshape(*w.shape[:3], -1, x.shape[-1])


def largest(w):
    return jnp.take_along_axis(w, jnp.argmax(w, -2)[..., None, :], -2)[..., 0, :]


def convolutions():
    f = File("convolutions", HEAD.replace("use nn\n", "use nn\nuse conv\n"))
    def convs(name, x, w, rows, second=()):
        outs = []
        for i, o in enumerate(rows):
            text = "".join(f", {k} = {json.dumps(v)}" for k, v in o.items())
            outs.append(("abcdefgh"[i], f"convolve(x, w{text})", conv(**{"padding": "same", **o})))
        f.case(name, {"x": R(x), "w": R(w)}, outs, ["x", "w"], second)
    convs("lines", [2, 9, 3], [2, 4, 3], [dict(), dict(stride=3, padding="valid"), dict(dilation=2, padding=[[3, 1]]), dict(stride=2, dilation=2), dict(stride=2, dilation=3, padding=4)])
    convs("planes", [2, 7, 6, 3], [2, 3, 2, 3], [dict(), dict(stride=2), dict(stride=[1, 3], padding=[1, 0]), dict(dilation=[2, 1], padding="valid"), dict(stride=[3, 2], dilation=[1, 3], padding=[[0, 2], [3, 1]])])
    convs("wide", [1, 9, 8, 2], [2, 5, 7, 2], [dict(stride=2), dict(stride=3, padding=3)])
    convs("points", [2, 5, 4, 3], [2, 1, 1, 3], [dict(), dict(stride=2)])
    convs("twice", [1, 4, 5, 1], [1, 3, 2, 1], [dict(stride=2)], ["x", "w"])
    convs("groups", [2, 6, 5, 4], [6, 3, 2, 2], [dict(groups=2), dict(groups=2, stride=2, padding=1)])
    convs("each", [2, 6, 5, 3], [3, 3, 2, 1], [dict(groups=3), dict(groups=3, stride=2, dilation=2, padding=2)])
    convs("more", [2, 5, 2], [4, 3, 1], [dict(groups=2)])
    convs("solids", [1, 4, 5, 3, 2], [2, 3, 2, 2, 2], [dict(), dict(stride=[2, 1, 2], padding=1)])
    convs("solid_each", [1, 4, 3, 3, 2], [2, 2, 3, 2, 1], [dict(groups=2, stride=[1, 2, 1])])
    def turned(shape, **o):  # the gradient of a convolution's input
        return lambda x, w: jax.vjp(lambda z: conv(**{"padding": "same", **o})(z, jnp.swapaxes(w, 0, -1)), jnp.zeros((x.shape[0], *shape, w.shape[0])))[1](x)[0]
    f.case("turned", {"x": R([2, 3, 2, 3]), "w": R([2, 3, 4, 3])}, [
        ("a", "convolve_transpose(x, w, stride = 2)", turned([6, 4], stride=2)), ("b", "convolve_transpose(x, w)", turned([3, 2])),
        ("c", "convolve_transpose(x, w, stride = [2, 5], padding = \"valid\")", turned([7, 9], stride=[2, 5], padding="valid")),
        ("d", "convolve_transpose(x, w, stride = 3, padding = 1)", turned([7, 5], stride=3, padding=1)),
    ], ["x", "w"])
    f.case("pools", {"x": R([2, 7, 6, 2], apart=True), "t": R([1, 5, 6, 2], values=[1, 3, 3, 2, 3, 1, -2])}, [
        ("max", "max_pool(x, 2)", lambda x, t: largest(pooled(x, (2, 2), (2, 2), ((0, 0), (0, 0)), -jnp.inf))),
        ("over", "max_pool(x, 3, stride = 2, padding = 1)", lambda x, t: largest(pooled(x, (3, 3), (2, 2), ((1, 1), (1, 1)), -jnp.inf))),
        ("apart", "max_pool(x, [2, 3], stride = 1, dilation = 2)", lambda x, t: largest(pooled(x, (2, 3), (1, 1), ((0, 0), (0, 0)), -jnp.inf, 2))),
        ("equal", "max_pool(t, 3, stride = [1, 2], padding = \"same\")", lambda x, t: largest(pooled(t, (3, 3), (1, 2), ((1, 1), (0, 1)), -jnp.inf))),
        ("mean", "avg_pool(x, [3, 2])", lambda x, t: pooled(x, (3, 2), (3, 2), ((0, 0), (0, 0)), 0).mean(-2)),
        ("same", "avg_pool(x, 3, stride = 2, padding = \"same\")",
         lambda x, t: pooled(x, (3, 3), (2, 2), ((1, 1), (0, 1)), 0).sum(-2) / pooled(jnp.ones((1, 7, 6, 1)), (3, 3), (2, 2), ((1, 1), (0, 1)), 0).sum(-2)),
        ("all", "global_avg_pool(x)", lambda x, t: x.mean((1, 2))), ("top", "global_max_pool(x)", lambda x, t: x.max((1, 2))),
    ], ["x", "t"])
    def group_norm(x, g):
        v = x.reshape(x.shape[0], -1, g, x.shape[-1] // g)
        return ((v - v.mean((1, 3), keepdims=True)) / jnp.sqrt(v.var((1, 3), keepdims=True) + 1e-5)).reshape(x.shape)
    f.case("norms", {"x": R([2, 3, 4, 6])}, [
        ("groups", "group_norm(x, 2, affine = false)", lambda x: group_norm(x, 2)), ("each", "instance_norm(x, affine = false)", lambda x: group_norm(x, 6)),
    ], ["x"])
    f.case("einsums", {"a": R([2, 3, 4]), "b": R([4, 2, 5])}, [
        ("a", 'einsum("ijk,kil->ijl", a, b)', lambda a, b: jnp.einsum("ijk,kil->ijl", a, b)), ("b", 'einsum("ijk,kil->lj", a, b)', lambda a, b: jnp.einsum("ijk,kil->lj", a, b)),
        ("c", 'einsum("ijk,kml->mj", a, b)', lambda a, b: jnp.einsum("ijk,kml->mj", a, b)), ("d", 'einsum("ijk,kil->", a, b)', lambda a, b: jnp.einsum("ijk,kil->", a, b)),
    ], ["a", "b"], ["a"])
    convs("solid_groups", [2, 4, 5, 3, 4], [6, 2, 3, 2, 2], [dict(groups=2), dict(groups=2, stride=[2, 1, 2], padding="valid"), dict(groups=2, dilation=[2, 1, 1], stride=2, padding=1)])
    def resized(size, mode, at=None):  # at: middles of the result's pixels along both axes, else JAX's own convention
        def f(x):
            if at is None:
                return jax.image.resize(x, (x.shape[0], *size, x.shape[-1]), {"linear": "bilinear"}.get(mode, mode), antialias=False)
            places = jnp.meshgrid(*[jnp.linspace(0, x.shape[1 + i] - 1, size[i]) for i in range(2)], indexing="ij")
            one = lambda v: jax.scipy.ndimage.map_coordinates(v, places, order=1)
            return jax.vmap(jax.vmap(one, -1, -1))(x)
        return f
    f.case("resized", {"x": R([2, 4, 6, 2])}, [
        ("large", "resize(x, [7, 9])", resized((7, 9), "linear")), ("small", "resize(x, [3, 4])", resized((3, 4), "linear")),
        ("twice", "upsample(x, 2, mode = \"linear\")", resized((8, 12), "linear")), ("near", "resize(x, [7, 4], mode = \"nearest\")", resized((7, 4), "nearest")),
        ("blocks", "upsample(x, [2, 3])", resized((8, 18), "nearest")), ("corners", "resize(x, [7, 3], corners = true)", resized((7, 3), "linear", True)),
        ("one", "resize(x, 1)", resized((1, 1), "linear")),
    ], ["x"])
    f.case("rounded_up", {"x": R([2, 7, 6, 2], apart=True)}, [
        ("max", "max_pool(x, 3, stride = 2, round_up = true)", lambda x: largest(pooled(x, (3, 3), (2, 2), ((0, 0), (0, 1)), -jnp.inf))),
        ("cut", "max_pool(x, 2, stride = 2, padding = 1, round_up = true)", lambda x: largest(pooled(x, (2, 2), (2, 2), ((1, 1), (1, 1)), -jnp.inf))),
        ("mean", "avg_pool(x, 2, stride = 3, round_up = true)",
         lambda x: pooled(x, (2, 2), (3, 3), ((0, 1), (0, 0)), 0).sum(-2) / pooled(jnp.ones((1, 7, 6, 1)), (2, 2), (3, 3), ((0, 1), (0, 0)), 0).sum(-2)),
    ], ["x"])
    def einsums(name, inputs, texts, second):
        """By the names of a text's tensors: what is summed, as JAX sums it."""
        outs = [(o, f'einsum("{text}", {", ".join(inputs)})', lambda *xs, text=text: jnp.einsum(text, *xs)) for o, text in texts.items()]
        f.case(name, inputs, outs, list(inputs), second)
    einsums("einsum_of_one", {"s": R([3, 3, 2])}, {
        "turned": "ijk->kij", "rows": "ijk->j", "diagonal": "iij->ji", "trace": "iij", "all": "ijk->", "alphabetical": "bca", "dots": "...j->j..."}, ["s"])
    einsums("einsum_of_three", {"a": R([2, 3, 4]), "b": R([4, 2, 5]), "s": R([3, 3, 2])}, {
        "chain": "ijk,kil,jmn->lmn", "apart": "abc,def,ggh->adg", "diagonal": "ijk,kil,jji->jl", "implied": "ijk,kim,jnl", "dots": "...jk,k...l,jm...->l...", "outer": "abc,def,ghi->aei"}, ["a"])
    einsums("einsum_stretched", {"a": R([1, 4, 3]), "b": R([2, 1, 3, 2]), "c": R([2]), "d": R([4, 2])}, {
        "all": "...i,...ij,j,...j->...", "sum": "...i,...ij,k,...k->k..."}, ["b"])
    f.write()
