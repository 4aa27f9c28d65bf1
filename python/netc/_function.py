"""An entry as a function that a framework differentiates: the part that PyTorch and JAX share."""

from ._error import Error


class Function:
    """A model's entry as a function of its inputs and of the chosen parameters.

    inputs, outputs: (name, type, shape) of its arguments and results; inputs[own:] are parameters.
    keeping: the compiled entry that also returns `kept`, what gradients need: states that they
    depend on, results of layers. writes: whether a call changes states. compiling: is called with a
    description of what is about to be compiled, and may refuse by raising. With states, entries take
    the states that they read and return those that they write: reads, changes, and states for both,
    by their names in the model.
    """

    def __init__(self, model, entry, params, outputs, training, compiling=lambda what: None, states=False):
        self.name = entry or model.entry().name
        params = [params] if isinstance(params, str) else list(params)
        outputs = [outputs] if isinstance(outputs, str) else list(outputs or ())
        self._model, self._options, self._outputs = model, dict(arguments=params, training=training, states=states), outputs
        self._plain, self._gradients, self._compiling = None, {}, compiling
        self._made, self._mapped = {}, {}  # by entry: how it was compiled; by entry, inputs, calls
        declared = model.entry(self.name).declared or [name for name, _, _, _ in model.entry(self.name).inputs]
        self.keeping = self._compile(outputs, keep=True)
        ports = [port[:3] for port in self.keeping.inputs]
        self.inputs = [p for p in ports if not p[0].startswith("@")]
        self.reads = [(name.removeprefix("@was."), *of) for name, *of in ports if name.startswith("@")]
        self._names = [name for name, _, _ in self.inputs]
        self.own = sum(name in declared for name, _, _ in self.inputs)
        # As many stand first as they are declared; what is behind one that nothing needs has no place.
        self._unneeded = next((d for d, name in zip(declared, self._names[:self.own]) if d != name), None)
        self._in_order = declared.index(self._unneeded) if self._unneeded else self.own
        ports = [port[:3] for port in self.keeping.outputs]
        self.outputs = [p for p in ports if not p[0].startswith("@")]
        self.changes = [(name.removeprefix("@now."), *of) for name, *of in ports if name.startswith("@now.")]
        self.states = sorted({*self.reads, *self.changes})
        self.kept = [p for p in ports if p[0].startswith(("@was.", "@kept."))]
        self.writes = self.keeping.writes
        self.device = model.device.split()[0]
        if "," in self.device:
            raise Error(f"the model is on several devices, {self.device}; as a function of torch's or JAX's it takes "
                        "one that was compiled for one device")

    def _compile(self, outputs, **more):
        self._compiling(f"the gradients of '{self.name}'" if "gradients" in more else f"'{self.name}'")
        options = dict(outputs=outputs, **self._options, **more)
        entry = self._model._functional(self.name, **options)
        self._made[entry] = options
        return entry

    def mapped(self, entry, inputs, calls):
        """One of this function's entries, computed for [calls] slices along a new axis 0 of its outputs and
        of the inputs with these names. It is compiled at the first request."""
        key = entry, tuple(inputs), calls
        if key not in self._mapped:
            self._compiling(f"{calls} calls of '{self.name}'")
            self._mapped[key] = self._model._functional(self.name, mapped=list(inputs), calls=calls, **self._made[entry])
        return self._mapped[key]

    @property
    def plain(self):
        """The entry without the extra results that gradients need."""
        if self._plain is None:
            self._plain = self._compile(self._outputs) if self.kept else self.keeping
        return self._plain

    def version(self):
        """A counter that changes when the model's own parameters change."""
        return self._model._core._changes

    def check_version(self, then):
        if then != self.version():
            raise Error(f"parameters or states of {self._model.name} were changed between a call of "
                        f"'{self.name}' and its gradients, which must be of the same")

    def gradients(self, wanted, of):
        """The entry that computes gradients with respect to the inputs [wanted], by name, from
        cotangents of the outputs [of]. It is compiled at the first request."""
        key = (tuple(wanted), tuple(of))
        if key not in self._gradients:
            self._gradients[key] = self._compile(list(of), gradients=list(wanted), keep=True)
        return self._gradients[key]

    def second(self, wanted, first, of):
        """The entry that computes the gradients with respect to [wanted] of the gradients with respect
        to [first] of the outputs [of]. It takes the cotangents of the outputs ("@d.Z") and cotangents
        of the first gradients ("@dd.X")."""
        key = (tuple(wanted), tuple(first), tuple(of))
        if key not in self._gradients:
            self._gradients[key] = self._compile(list(of), gradients=list(wanted), second=list(first))
        return self._gradients[key]

    def arrange(self, args, inputs, params):
        """The given arguments in the order of self.inputs."""
        own, chosen = self._names[:self.own], self._names[self.own:]
        if len(args) > self._in_order and self._unneeded:
            raise TypeError(f"{self.name}(): arguments after '{self._unneeded}' must be given by name, since nothing "
                            f"needs that input; it takes {', '.join(own)}")
        given, params = own[len(args):], params or {}
        try:
            found = (*args, *[inputs[n] for n in given], *[params[n] for n in chosen])
        except KeyError as e:
            name, = e.args
            raise TypeError(f"{self.name}(): no value for '{name}'; it takes {', '.join(own)}" if name in given else
                            f"{self.name}(): no value for the parameter '{name}', params={{…}}") from None
        if len(found) == len(self._names) and len(inputs) == len(given) and len(params) == len(chosen):
            return found
        if len(args) > len(own):
            raise TypeError(f"{self.name}(): too many arguments; it takes {', '.join(own)}")
        for name in inputs:
            if name not in given:
                raise TypeError(f"{self.name}(): there is no input '{name}', or it is given twice; "
                                f"it takes {', '.join(own)}")
        name = next(name for name in params if name not in chosen)
        raise TypeError(f"{self.name}(): there is no parameter '{name}' among the arguments; "
                        f"they are {', '.join(chosen) or 'none: say params= before'}")

    def __repr__(self):
        ins = ", ".join(f"{n}: {t}{list(s)}" for n, t, s in self.inputs)
        outs = ", ".join(f"{n}: {t}{list(s)}" for n, t, s in self.outputs)
        return f"<netc function {self.name}({ins}) -> {outs}>"
