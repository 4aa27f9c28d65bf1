"""An entry as a function that a framework differentiates: what PyTorch and JAX have in common."""

from ._error import Error


class Function:
    """A model's entry, of its inputs and of the parameters chosen.

    inputs, outputs: (name, type, shape) of what it takes and gives; inputs[own:] are parameters.
    keeping: the compiled entry that gives besides what gradients want, kept: states that they
    depend on, results of layers. writes: whether a call changes states. compiling: called with
    what is about to be compiled; may refuse. With states, entries take those that they read and
    give those that they write: reads, changes, and both, states, by the names of the model.
    """

    def __init__(self, model, entry, params, outputs, training, compiling=lambda what: None, states=False):
        self.name = entry or model.entry().name
        params = [params] if isinstance(params, str) else list(params)
        outputs = [outputs] if isinstance(outputs, str) else list(outputs or ())
        self._model, self._options, self._outputs = model, dict(arguments=params, training=training, states=states), outputs
        self._plain, self._gradients, self._compiling = None, {}, compiling
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

    def _compile(self, outputs, **more):
        self._compiling(f"the gradients of '{self.name}'" if "gradients" in more else f"'{self.name}'")
        return self._model._functional(self.name, outputs=outputs, **self._options, **more)

    @property
    def plain(self):
        """The entry without what gradients want."""
        if self._plain is None:
            self._plain = self._compile(self._outputs) if self.kept else self.keeping
        return self._plain

    def version(self):
        """A count that is another one when the model's own parameters have changed."""
        return self._model._core._changes

    def check_version(self, then):
        if then != self.version():
            raise Error(f"parameters or states of {self._model.name} were changed between a call of "
                        f"'{self.name}' and its gradients, which must be of the same")

    def gradients(self, wanted, of):
        """The entry that computes gradients with respect to the inputs [wanted], by name, from
        cotangents of the outputs [of]. Compiled when it is first asked for."""
        key = (tuple(wanted), tuple(of))
        if key not in self._gradients:
            self._gradients[key] = self._compile(list(of), gradients=list(wanted), keep=True)
        return self._gradients[key]

    def second(self, wanted, first, of):
        """The entry that computes the gradients with respect to [wanted] of the gradients with
        respect to [first] of the outputs [of], both inputs and cotangents ("@d.Z"), from cotangents
        of the first ("@dd.X")."""
        key = (tuple(wanted), tuple(first), tuple(of))
        if key not in self._gradients:
            self._gradients[key] = self._compile(list(of), gradients=list(wanted), second=list(first))
        return self._gradients[key]

    def arrange(self, args, inputs, params):
        """Arguments as they were given, in the order of self.inputs."""
        own, chosen = self._names[:self.own], self._names[self.own:]
        if len(args) > self._in_order and self._unneeded:
            raise TypeError(f"{self.name}(): what is behind '{self._unneeded}' is to be given by name, for nothing "
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
