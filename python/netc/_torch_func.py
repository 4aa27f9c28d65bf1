"""Entries under torch.func: its vmap, grad, vjp and jacrev."""

import torch

from ._error import Error


def active():
    return torch._C._are_functorch_transforms_active()


def _among(names, dims, mapped):
    """The names of the inputs that have an axis of calls, of this vmap or of those inside it."""
    return tuple(name for name, dim in zip(names, dims) if dim is not None or name in mapped)


def _merged(names, dims, mapped, calls, size, tensors):
    """The tensors with the axis of this vmap, [size], and the one they have, [calls], as one axis 0."""
    out = []
    for name, dim, x in zip(names, dims, tensors):
        if dim is not None or name in mapped:
            x = x.unsqueeze(0) if dim is None else x.movedim(dim, 0)
            if name not in mapped:
                x = x.unsqueeze(1)
            x = x.expand(size, max(calls, 1), *x.shape[2:]).flatten(0, 1)
        out.append(x)
    return out


def _apart(results, calls, size):
    results = [r.unflatten(0, (size, calls)) if calls else r for r in results]
    return tuple(results), (0,) * len(results)


def _run(call, entry, mapped, calls, tensors):
    given = dict(zip([name for name, _, _, _ in entry.inputs], tensors))
    used = call.function.mapped(entry, mapped, calls) if calls else entry
    return tuple(call.eager(used, [given[name] for name, _, _, _ in used.inputs]))


class Transformed(torch.autograd.Function):
    """A function, or [calls] of it at once, of inputs of which those that are [mapped] have an axis 0 for
    the calls. It also returns what gradients need."""

    @staticmethod
    def forward(call, mapped, calls, *tensors):
        return _run(call, call.function.keeping, mapped, calls, tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.call, ctx.mapped, ctx.calls, *tensors = inputs
        nout, floats = ctx.call.nout, ctx.call.floats
        ctx.save_for_backward(*tensors, *output[nout:])
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*[r for i, r in enumerate(output) if i >= nout or not floats[i]])

    @staticmethod
    def backward(ctx, *cotangents):
        call, mapped, calls = ctx.call, ctx.mapped, ctx.calls
        given, wanted, of = call.given(ctx.saved_tensors, cotangents[:call.nout], ctx.needs_input_grad[3:])
        found = {}
        if of and wanted:
            entry = call.function.gradients(wanted, of)
            names = [name for name, _, _, _ in entry.inputs]
            among = tuple(name for name in names if name in mapped or (calls and name.startswith("@")))
            results = _Gradients.apply(call, entry, among, calls, *[given[name] for name in names])
            # Inputs that all calls share have the gradient of all.
            found = {name: r if not calls or name in mapped else r.sum(0)
                     for (name, _, _, _), r in zip(entry.outputs, results)}
        return (None, None, None, *[found.get(name) for name, _, _ in call.function.inputs])

    @staticmethod
    def vmap(info, dims, call, mapped, calls, *tensors):
        names = [name for name, _, _ in call.function.inputs]
        both, n = _among(names, dims[3:], mapped), info.batch_size * max(calls, 1)
        merged = _merged(names, dims[3:], mapped, calls, info.batch_size, tensors)
        return _apart(Transformed.apply(call, both, n, *merged), calls, info.batch_size)


class _Gradients(torch.autograd.Function):
    """The gradients of a Transformed, by an entry that computes them."""

    @staticmethod
    def forward(call, entry, mapped, calls, *tensors):
        return _run(call, entry, mapped, calls, tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0].function.name

    @staticmethod
    def backward(ctx, *_):
        raise Error(f"'{ctx.name}' cannot be differentiated twice by torch.func: use torch.autograd.grad with "
                    "create_graph=True, or take the first gradient in the model, by grad(…)")

    @staticmethod
    def vmap(info, dims, call, entry, mapped, calls, *tensors):
        names = [name for name, _, _, _ in entry.inputs]
        both, n = _among(names, dims[4:], mapped), info.batch_size * max(calls, 1)
        merged = _merged(names, dims[4:], mapped, calls, info.batch_size, tensors)
        return _apart(_Gradients.apply(call, entry, both, n, *merged), calls, info.batch_size)
