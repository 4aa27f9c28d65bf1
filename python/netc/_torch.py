"""Entries in PyTorch: functions that autograd differentiates, custom ops, modules."""

import collections
import copy
import itertools
import re

import torch

from ._error import Error
from ._function import Function
from . import _torch_func as func

_TYPES = {"bool": torch.bool, "u8": torch.uint8, "i32": torch.int32, "u32": torch.uint32, "i64": torch.int64,
          "bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f64": torch.float64}
_FLOATS = ("bf16", "f16", "f32", "f64")
_EXCHANGE = hasattr(torch.Tensor, "__dlpack_c_exchange_api__")  # else a tensor that wants a gradient is refused
_numbers = itertools.count()


def _not_while_captured(what):
    if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
        raise Error(f"{what} would be compiled now, which cannot be while a CUDA graph is captured: "
                    "make the function, and call it as in the graph, once before")


def _empty(ports, device):
    return [torch.empty(shape, dtype=_TYPES[dtype], device=device) for _, dtype, shape in ports]


class _Entry:
    """A compiled entry on tensors in the order of its inputs; on a GPU all of them must be there."""

    def __init__(self, entry, ports, device):
        self.entry, self.ports, self.device = entry, ports, device
        self.names = [p[0] for p in entry.outputs]
        self.kinds = [(shape, {"dtype": _TYPES[dtype], "device": device}) for _, dtype, shape, _ in entry.outputs]

    def __call__(self, tensors):
        device, dense = self.device, []
        if not _EXCHANGE and device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise Error(f"'{self.entry.name}' cannot be captured into a CUDA graph with torch {torch.__version__}: "
                        "2.11 or later is needed")
        for t in tensors:
            if t.device != device:
                name = self.ports[len(dense)][0]
                raise Error(f"'{name}' is on {t.device}, '{self.entry.name}' runs on {device}: move it there first")
            if not _EXCHANGE and t.requires_grad:
                t = t.detach()
            dense.append(t.resolve_neg().contiguous())  # (a view such as z.conj().imag negates when it is read)
        out = {name: torch.empty(shape, **kind) for name, (shape, kind) in zip(self.names, self.kinds)}
        self.entry(*dense, out=out)
        return list(out.values())


class _Call:
    """A function's forward and backward part on tensors, for eager mode and as custom ops."""

    def __init__(self, function):
        self.function, self.device = function, torch.device(function.device)
        self.run = _Entry(function.keeping, function.inputs, self.device)
        self.plain = None
        self.nin, self.nout = len(function.inputs), len(function.outputs)
        self.floats = [dtype in _FLOATS for _, dtype, _ in function.outputs]
        self.backwards = {}

    def gradients(self, saved, cotangents, wanted, run):
        """One gradient per input, None if it is not wanted or does not exist. run(entry, tensors)"""
        given, wanted, of = self.given(saved, cotangents, wanted)
        found = self._run(self.function.gradients(wanted, of), given, run) if of and wanted else {}
        return [found.get(name) for name, _, _ in self.function.inputs]

    def second(self, tensors, back, needed):
        """The derivatives with respect to [needed], inputs and cotangents by name, of the gradients
        with respect to the keys of [back], each multiplied by its value there."""
        saved, cotangents = self.apart(tensors)
        given, _, of = self.given(saved, cotangents, [False] * self.nin)
        given.update((f"@dd.{name}", d) for name, d in back.items())
        return self._run(self.function.second(needed, list(back), of), given, self.eager)

    @property
    def names(self):
        """The names with respect to which gradients exist: the inputs, then the outputs' cotangents."""
        f = self.function
        return [name for name, _, _ in f.inputs] + [f"@d.{name}" for name, _, _ in f.outputs]

    def apart(self, values):
        """Splits arguments into saved values and cotangents."""
        n = len(values) - self.nout
        return values[:n], values[n:]

    def given(self, saved, cotangents, wanted):
        """The arguments of gradients by name; the names of the inputs whose gradients are wanted; the
        names of the outputs that have cotangents."""
        f = self.function
        names = [name for name, _, _ in f.inputs]
        of = [i for i, (d, is_float) in enumerate(zip(cotangents, self.floats)) if is_float and d is not None]
        wanted = [names[i] for i in range(self.nin) if wanted[i] and f.inputs[i][1] in _FLOATS]
        given = dict(zip(names, saved))
        given.update(zip([name for name, _, _ in f.kept], saved[self.nin:]))
        given.update((f"@d.{f.outputs[i][0]}", cotangents[i]) for i in of)
        return given, wanted, [f.outputs[i][0] for i in of]

    def _run(self, entry, given, run):
        results = run(entry, [given[name] for name, _, _, _ in entry.inputs])
        return dict(zip([name for name, _, _, _ in entry.outputs], results))

    def eager(self, entry, tensors):
        return _Entry(entry, [p[:3] for p in entry.inputs], self.device)(tensors)

    # -- custom ops

    def make_op(self):
        """The forward part as an op with an autograd formula; None if a call changes states, which
        torch's graphs would not know about."""
        f = self.function
        if f.writes:
            return None
        op = self._op(f"{f.name}", self.run, f.inputs, f.outputs + f.kept)

        def setup(ctx, inputs, output):
            ctx.version = f.version()
            ctx.save_for_backward(*inputs[0], *output[self.nout:])

        def backward(ctx, cotangents):
            f.check_version(ctx.version)
            return self.gradients(ctx.saved_tensors, cotangents[:self.nout], ctx.needs_input_grad[0], self._backward_op)
        op.register_autograd(backward, setup_context=setup)
        return op._opoverload

    def _backward_op(self, entry, tensors):
        if not entry.outputs:
            return []
        if entry not in self.backwards:
            ins, outs = [p[:3] for p in entry.inputs], [p[:3] for p in entry.outputs]
            self.backwards[entry] = self._op(f"{entry.name}_backward", _Entry(entry, ins, self.device), ins, outs)
        return self.backwards[entry](tensors)

    def _op(self, name, run, ins, outs):
        """An op from a list of tensors to a list of tensors: torch's ops have at most 64 arguments, a network may
        have more parameters."""
        name = f"netc::{re.sub('[^0-9A-Za-z_]', '_', name)}_{next(_numbers)}"
        # A check would have to be waited for.
        unsafe = getattr(torch.Tag, "cudagraph_unsafe", None) if run.entry.checks else None
        op = torch.library.custom_op(name, run, mutates_args=(), schema="(Tensor[] x) -> Tensor[]",
                                     tags=() if unsafe is None else (unsafe,))
        op.register_fake(lambda x: _fake(run.entry.name, ins, outs, self.device, x))
        return op


def _fake(entry, ins, outs, device, given):
    for (name, dtype, shape), t in zip(ins, given):
        if t.dtype != _TYPES[dtype] or tuple(t.shape) != shape:
            raise Error(f"input '{name}' of '{entry}' is {dtype}{list(shape)}, the tensor given is "
                        f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}")
    return _empty(outs, device)


class _Autograd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, call, *tensors):
        results = call.run(tensors)
        ctx.call, ctx.version = call, call.function.version()
        ctx.save_for_backward(*tensors, *results[call.nout:])
        ctx.set_materialize_grads(False)
        results = results[:call.nout]
        ctx.mark_non_differentiable(*[r for r, is_float in zip(results, call.floats) if not is_float])
        return tuple(results)

    @staticmethod
    def backward(ctx, *cotangents):
        ctx.call.function.check_version(ctx.version)
        wanted = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # create_graph=True
            return (None, *_Gradients.apply(ctx.call, wanted, ctx.version, *ctx.saved_tensors, *cotangents))
        return (None, *ctx.call.gradients(ctx.saved_tensors, cotangents, wanted, ctx.call.eager))


class _Gradients(torch.autograd.Function):
    """The result of the backward of _Autograd, in a form that can be differentiated."""

    @staticmethod
    def forward(ctx, call, wanted, version, *tensors):
        ctx.call, ctx.wanted, ctx.version = call, wanted, version
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return tuple(call.gradients(*call.apart(tensors), wanted, call.eager))

    @staticmethod
    def backward(ctx, *again):
        call, tensors = ctx.call, ctx.saved_tensors
        call.function.check_version(ctx.version)
        nin, (of_saved, of_cotangents) = call.nin, call.apart(ctx.needs_input_grad[3:])
        back = {name: d for name, d in zip(call.names, again) if d is not None}
        needed = [name for name, needs in zip(call.names, of_saved[:nin] + of_cotangents) if needs]
        found = {}
        if back and needed:
            last = [t if t is None or not t.requires_grad else _Last.apply(call.function.name, t) for t in tensors]
            found = dict(zip(needed, _Second.apply(call, list(back), needed, *back.values(), *last)))
        found = [found.get(name) for name in call.names]
        return (None, None, None, *found[:nin], *[None] * (len(of_saved) - nin), *found[nin:])


class _Second(torch.autograd.Function):
    """The result of the backward of _Gradients. It is linear in the cotangents of the gradients and can be
    differentiated with respect to them: since second derivatives are symmetric, by another _Second."""

    @staticmethod
    def forward(ctx, call, first, needed, *tensors):
        ctx.call, ctx.first, ctx.needed = call, first, needed
        back, tensors = tensors[:len(first)], tensors[len(first):]
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        found = call.second(tensors, dict(zip(first, back)), needed)
        return tuple(found[name] for name in needed)

    @staticmethod
    def backward(ctx, *again):
        back, tensors = {name: d for name, d in zip(ctx.needed, again) if d is not None}, ctx.saved_tensors
        found = _Second.apply(ctx.call, list(back), ctx.first, *back.values(), *tensors) if back else \
            [None] * len(ctx.first)
        return (None, None, None, *found, *[None] * len(tensors))


class _Last(torch.autograd.Function):
    """A tensor with respect to which second derivatives cannot be differentiated. Its backward runs only if
    that is requested, which _Second cannot know."""

    @staticmethod
    def forward(ctx, name, tensor):
        ctx.name = name
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx, _):
        raise Error(f"'{ctx.name}' cannot be differentiated three times: take the first gradient in the model, by "
                    "grad(…), which leaves two")


class TorchFunction:
    """An entry as a function of torch tensors; see Model.torch."""

    def __init__(self, model, entry, params, outputs, training):
        self._function = f = Function(model, entry, params, outputs, training, _not_while_captured)
        self._call = _Call(f)
        self._op = self._call.make_op()
        self._tuple = collections.namedtuple(f.name, [name for name, _, _ in f.outputs], rename=True)
        self._run = torch.compiler.disable(self._eager)

    def _eager(self, tensors):
        if func.active():
            return func.Transformed.apply(self._call, (), 0, *tensors)[:self._call.nout]
        if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
            return _Autograd.apply(self._call, *tensors)
        call = self._call
        if call.plain is None:
            call.plain = _Entry(self._function.plain, self._function.inputs, call.device)
        return call.plain(tensors)

    def __call__(self, *args, params=None, **inputs):
        tensors = self._function.arrange(args, inputs, params)
        if not all(map(torch.is_tensor, tensors)):
            kinds = ", ".join(type(t).__name__ for t in tensors if not torch.is_tensor(t))
            raise TypeError(f"{self._function.name}(): {kinds} was given for a tensor")
        if not torch.compiler.is_compiling():
            results = self._eager(tensors)
        elif self._op is None:
            results = self._run(tensors)
        else:
            results = self._op(list(tensors))[:self._call.nout]
        return results[0] if len(results) == 1 else self._tuple(*results)

    def __deepcopy__(self, memo):
        return self  # as Python's own functions are

    def __repr__(self):
        return repr(self._function)


class NetcModule(torch.nn.Module):
    """An entry as a module; see Model.module. Dropout is active in training mode.

    States of the model (running statistics) stay in the model: m.state, m.save.
    """

    def __init__(self, model, entry, outputs):
        super().__init__()
        self._model, self._entry, self._outputs, self._functions = model, entry, outputs, {}
        self._now = self._of(True)
        f = self._now._function
        values = dict(zip([n for n, _, _ in f.inputs[f.own:]], _empty(f.inputs[f.own:], f.device)))
        self._places = []
        for name, value in values.items():
            value.copy_(torch.as_tensor(model.state[name]) if value.dtype != torch.bfloat16 else
                        torch.from_dlpack(model.state[name]))
            *path, leaf = name.split(".")
            owner = self
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, torch.nn.Module())
                owner = owner._modules[part]
            owner.register_parameter(leaf, torch.nn.Parameter(value))
            self._places.append((name, owner, leaf))

    def _of(self, training):
        if training not in self._functions:
            self._functions[training] = TorchFunction(self._model, self._entry, "*", self._outputs, training)
        return self._functions[training]

    def train(self, mode=True):
        super().train(mode)
        self._now = self._of(bool(mode))
        return self

    def forward(self, *args, **inputs):
        return self._now(*args, params={name: getattr(owner, leaf) for name, owner, leaf in self._places}, **inputs)

    def __deepcopy__(self, memo):
        made = memo[id(self)] = self.__class__.__new__(self.__class__)
        mine = {k: v for k, v in self.__dict__.items() if k not in ("_functions", "_now")}
        made.__dict__.update(copy.deepcopy(mine, memo))
        made._functions = {}  # of the copied model, whose states are its own
        made._now = made._of(self.training)
        return made

    def extra_repr(self):
        return repr(self._now)
