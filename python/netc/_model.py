"""Models: compiled, called, looked into."""

import os

from . import _array, _netc
from ._images import files
from ._error import Error
from ._state import Settings, State
from ._table import Table
from ._train import Event, train_arrays, train_batches

_OWN = ("init", "train", "eval")  # entries that are no model of the text
# That no checkpoint is, as the command line has them.
_OTHER_FORMATS = (".net", ".npy", ".npz", ".csv", ".txt", ".png", ".pt", ".pth", ".h5", ".onnx", ".json",
                  ".c", ".cu", ".so", ".o")
_ready = False


def _register():
    global _ready
    if not _ready:
        _netc.register(Error, _array.Array, _array.convert, _array.numpy_empty())
        _ready = True


def _is_text(source):
    return isinstance(source, str) and ("\n" in source or "{" in source)


def _value(v):
    words = {"True": "true", "False": "false", "None": "none"}  # NumPy's bools too
    return words.get(str(v), str(v)) if not isinstance(v, str) else v


def _define_list(defines):
    return [f"{k}={_value(v)}" for k, v in (defines or {}).items()]


def _words(given):
    return [given] if isinstance(given, str) else list(given)


def _tell(core):
    lines = core._notes()
    if not lines:
        return
    import logging
    log = logging.getLogger("netc")
    for text in lines:
        if text.startswith("note: "):
            log.warning("%s", text.removeprefix("note: "))
        else:
            log.debug("%s", text)


def compile(source, *, defines=None, precision=None, device="auto", name=None, seed=0, data=None,
            weights=None, entries=(), memory_limit=0, cache_dir=None, tune_file=None,
            kernels_dir=None, stream=0):
    """Compiles a model and puts it on a device.

    source: the model's text, or the path of a .net file or a model.bin. A str with a newline or a
        brace is text.
    defines: {"batch": 64}: consts, dims and settings of the text, overridden.
    precision: "f32" (default), "tf32", "bf16", "f16".
    device: "cpu", "cuda", "cuda:1"; "auto" is a GPU where there is one.
    name: what diagnostics call the text, and beside which file `use` looks.
    seed: of initial values, dropout, shuffling.
    data: {"image": images}: arrays whose shapes fix the text's dims (but not the batch).
    weights: a safetensors file to begin from.
    entries: only these are wanted; the others cost nothing.
    memory_limit: bytes of temporaries to aim for.
    cache_dir: of compiled kernels; "" for none. tune_file, kernels_dir: see docs/tuning.md.
    stream: a CUstream of the caller's, as an integer, to enqueue on.

    Raises Error, which shows the line and a caret below what is wrong.
    """
    _register()
    text = source if _is_text(source) else None
    path = None if text is not None else os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    options = dict(precision=precision, device=device or "auto", seed=seed, entries=_words(entries),
                   memory_limit=memory_limit, cache_dir=cache_dir, tune_file=tune_file,
                   kernels_dir=kernels_dir, stream=stream)
    m = Model._open(path, name or ("model.net" if text is not None else os.path.basename(path)), text,
                    dict(defines or {}), options, like=data, whole=False)
    if weights is not None:
        m.load(weights, weights_only=True)
    return m


def doctor():
    """What netc finds on this machine: a row each of what, ok, and its version or what to install."""
    return Table([dict(zip(("what", "ok", "detail"), row)) for row in _netc.doctor()])


class Model:
    """A compiled model with its parameters and states on a device. Made by netc.compile.

    m(x=…) runs its model; m.entry("next") is another of its entries, to be called the same way.
    """

    def __init__(self):
        raise TypeError("models are made by netc.compile")

    @classmethod
    def _open(cls, path, name, text, defines, options, **more):
        m = cls.__new__(cls)
        device = options.pop("device")
        target = "cuda" if device.startswith("cuda") else "cpu" if device == "cpu" else None
        m._core = _netc.open(_netc.Model, path, name, text, _define_list(defines), device=device,
                             target=target, **options, **more)
        m._made = (path, name, text, defines, dict(options, device=device))
        m._more, m._all = more, m._made[4]
        m._cached, m.history = {}, Table()
        _tell(m._core)
        return m

    # -- copies

    def __copy__(self):
        m = self.__class__.__new__(self.__class__)
        m.__dict__.update(self.__dict__)
        return m

    def __deepcopy__(self, memo):
        """The same model on parameters and states of its own, which begin as this one's are."""
        path, name, text, defines, _ = self._made
        options = {k: v for k, v in self._all.items() if k != "share"}
        m = memo[id(self)] = Model._open(path, name, text, defines, options, **self._more)
        m._made = self._made
        m.adopt(self)
        m.history = Table(self.history)
        return m

    def __reduce_ex__(self, protocol):
        raise TypeError(f"{self.name} is compiled for this process and cannot be pickled: m.save(PATH) keeps what it "
                        "learned, netc.compile(…, weights=PATH) begins with it elsewhere")

    # -- calling

    @property
    def entries(self):
        """Names of what can be run."""
        return self._core._entries()

    def entry(self, name=None):
        """An entry by name, to be called with its inputs; without a name the only model's."""
        if name is None:
            models = [e for e in self.entries if e not in _OWN]
            if len(models) != 1:
                raise Error(f"{self.name} has the models {', '.join(models) or 'none'}: "
                            "say which, m.entry(NAME)(…)")
            name = models[0]
        if name not in self._cached:
            self._cached[name] = self._core._entry(name)
        return self._cached[name]

    def __call__(self, *args, **inputs):
        """Runs the only model: inputs by name (or in order), a dict of outputs by name.

        An input is an array of NumPy, torch, jax, cupy, anything with the buffer protocol or
        DLPack, of exactly its type and shape and dense, which is read where it lies; or a number or
        lists of numbers. Outputs are NumPy arrays, without NumPy netc.Array; out={"y": place} has
        them written into arrays or tensors of the caller's, on a GPU in its memory, too.
        """
        try:
            entry = self._cached[None]
        except KeyError:
            entry = self._cached[None] = self.entry()
        return entry(*args, **inputs)

    def variant(self, *, defines=None, outputs=None, entry=None, like=None):
        """The same text compiled otherwise, on the same parameters and states.

        defines: {"batch": 1}, over those it was compiled with. outputs: only these of the entry
        (without a name the only model's), and so only the inputs that they need. like: inputs, by
        name, whose whole shapes fix the dims, the batch too.
        """
        path, name, text, old, options = self._made
        options = dict(options, share=self._core)
        if isinstance(outputs, str):
            outputs = [outputs]
        if outputs:
            options.update(outputs=list(outputs), outputs_of=entry)
            options["entries"] = [entry or self.entry().name]
        elif entry:
            options["entries"] = [entry]
        m = Model._open(path, name, text, {**old, **(defines or {})}, options, like=like, whole=True)
        m._made = (path, name, text, {**old, **(defines or {})}, {**self._made[4]})
        return m

    def _functional(self, entry, **more):
        """The entry as a function, or its gradients, as netc.h says; on the same states."""
        path, name, text, defines, options = self._made
        options = dict(options, share=self._core, outputs_of=entry, entries=[entry], **more)
        return Model._open(path, name, text, defines, options, **self._more).entry(entry)

    def torch(self, entry=None, *, params=(), outputs=None, training=False):
        """An entry (without a name the only model's) as a function of torch tensors that autograd
        differentiates, and torch.compile takes whole.

            f = m.torch("block", params="*")
            y = f(x, params={"fc.weight": w, "fc.bias": b})

        Its float inputs have gradients, and so have the parameters that a name or pattern of params
        says, which are then arguments; the others are the model's own. outputs: only these. training:
        dropout acts. One output is a tensor, several are a named tuple.
        """
        from ._torch import TorchFunction
        return TorchFunction(self, entry, params, outputs, training)

    def module(self, entry=None, *, outputs=None):
        """An entry as a torch.nn.Module. Its parameters begin as the model's, are called the same,
        and are torch's: optimizers, state_dict and hooks see them, netc reads them where they lie.
        """
        from ._torch import NetcModule
        return NetcModule(self, entry, outputs)

    def jax(self, entry=None, *, params=(), outputs=None, training=False, graphs=False, states=False):
        """An entry as a function of JAX's arrays, under jit, grad and vmap (which calls it once an
        example). What is said of m.torch holds: f(x, params={"fc.weight": w}). graphs: on a GPU, XLA
        may make calls part of its CUDA graphs; their temporaries are XLA's then. states: it takes
        states and gives those that follow, y, states = f(states, x), beginning with f.states(); the
        model's own stay as they are."""
        from ._jax import JaxFunction
        return JaxFunction(self, entry, params, outputs, training, graphs, states)

    # -- training

    def train(self, data, *, epochs=None, steps=None, eval_data=None, split=0.0, on_event=None,
              progress=None, report_every=0, eval_every=0, save=None, save_every=0, resume=None,
              watch=(), shuffle=True, keep_last=False, save_best=None, patience=0):
        """Trains. Returns the history, a Table with a row a report.

        data: {"image": images, "label": labels}, arrays (or paths of data files) whose axis 0 is
            the examples, one for each input of the trained model; or an iterable of such dicts of
            one batch each, in which case only epochs, steps, on_event, progress, report_every and
            save apply.
        epochs or steps: how long (default one epoch).
        eval_data, split: what to evaluate on: other data, or what is behind the first share of data.
        on_event: called with an Event now and then. What it raises ends training and is raised
            here; StopIteration only ends training.
        progress: True, False; None: in terminals and notebooks.
        save: a safetensors file, written however training ends. resume: one to go on from.
        save_best: a scalar output of evaluations, "accuracy" (or "x:min", "x:max"): the checkpoint of
            the best is kept beside the last, "m.best.safetensors". patience: training ends after so
            many evaluations that were no better, by that output or else by the loss.
        watch: parameters and taps whose statistics are reported, or patterns: "h.*.attn".

        Ctrl-C ends training behind a step and raises KeyboardInterrupt. However it ends, the
        parameters are those of the last step without mistake, and m.history has the rows so far.
        """
        kinds = dict(epochs=epochs, steps=steps, report_every=report_every, on_event=on_event, progress=progress)
        if epochs is not None and steps is not None:
            raise ValueError("give epochs or steps, not both")
        if epochs == 0 or steps == 0:  # (none is one epoch)
            raise ValueError("epochs and steps are above 0: of 0 nothing would be trained")
        try:
            if isinstance(data, dict):
                return train_arrays(self, data, eval_data=eval_data, split=split, eval_every=eval_every,
                                    save=save, save_every=save_every, save_best=save_best,
                                    patience=patience, resume=resume, watch=_words(watch),
                                    shuffle=shuffle, keep_last=keep_last, **kinds)
            if eval_data is not None or split or resume or eval_every or save_every or save_best or patience:
                raise ValueError("an iterable of batches is trained on as it comes: eval_data, split, "
                                 "resume, eval_every, save_every, save_best and patience want a dict of arrays")
            return train_batches(self, data, save=save, **kinds)
        finally:
            _tell(self._core)

    def evaluate(self, data):
        """Means of the scalar outputs over all of data: {"loss": …, "accuracy": …}."""
        try:
            return self._core._evaluate(files(data))
        finally:
            _tell(self._core)

    def generate(self, prompt, *, tokenizer=None, entry=None, length=100, temperature=1.0, top_k=0, top_p=0.0,
                 seed=0, prefill=None, repetition_penalty=0.0, on_token=None):
        """What a language model writes: the entry "next", or another. A list, a text each.

        prompt: a text (with tokenizer=: a netc.Tokenizer, its path, or "bytes") or tokens, with which
            every text of the batch begins; or a list of them, one for each text to write. Of text the
            result is text, of tokens tokens, without the prompt.
        length: tokens to draw. temperature 0 takes the likeliest; top_k, top_p: only from so many, from
            those that add up to that. repetition_penalty: as CTRL's.
        on_token: called with (text, token) as they are drawn; False ends that text, what it raises
            all of them.
        """
        from ._generate import generate
        try:
            return generate(self, prompt, tokenizer=tokenizer, on_token=on_token, entry=entry, length=length,
                            temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, prefill=prefill,
                            repetition_penalty=repetition_penalty)
        finally:
            _tell(self._core)

    # -- parameters and states

    @property
    def state(self):
        """Parameters and states: a live mapping of names to arrays."""
        return State(self._core)

    @property
    def settings(self):
        """Settings: m.settings["rate"] = 0.1."""
        return Settings(self._core, [k for k in self.state if self._is_setting(k)])

    def _is_setting(self, name):
        try:
            self._core._setting_get(name)
        except Error:
            return False
        return True

    def state_dict(self):
        """Copies of all parameters and states, by name."""
        return dict(self.state)

    def load_state_dict(self, values, strict=True):
        """Writes arrays by name. strict: neither a parameter nor a name may be left over."""
        state = self.state
        names, given = set(state), set(values)
        if strict and names != given:
            missing, unknown = sorted(names - given), sorted(given - names)
            raise Error("; ".join(filter(None, [
                f"the model has no {', '.join(unknown)}" if unknown else "",
                f"there is nothing for {', '.join(missing)}" if missing else ""])))
        for name in given & names:
            state[name] = values[name]

    def save(self, path):
        """Writes parameters and states as safetensors; a path that ends in .bin gets the compiled
        model, which runs where no compiler is."""
        path = os.fspath(path)
        if path.endswith(".bin"):
            self._core._save_program(path, None, True)
        elif path.endswith(_OTHER_FORMATS) and not path.endswith(".safetensors.index.json"):
            raise ValueError(f"{path}: parameters are written as .safetensors; name the file accordingly")
        else:
            self._core._state_save(path)

    def load(self, path, *, map=(), ignore=(), transpose=(), allow_missing=False, weights_only=False):
        """Reads a safetensors file. map: ["h.*=blocks.*"], names of the file to the model's.
        ignore: patterns of tensors that the model does not want. transpose: of parameters whose
        matrices the file has turned."""
        map = [f"{a}={b}" for a, b in map.items()] if isinstance(map, dict) else _words(map)
        self._core._state_load(os.fspath(path), map, _words(ignore), _words(transpose), allow_missing, weights_only)
        _tell(self._core)

    def adopt(self, other):
        """Carries what has the same name and type over from another model. How many those were."""
        return self._core._state_adopt(other._core)

    # -- looking into it

    def inspect(self, *, target=None, why=False, params=False, in_order=False):
        """What it compiles to: a row a kernel or call, with bytes, flops and floors. print() shows
        it as `netc inspect` does. why, params: texts."""
        import json
        text = self._core._inspect(target=target, why=why, params=params, in_order=in_order)
        if why or params:
            return text
        data = json.loads(self._core._inspect(target=target, in_order=in_order, json=True))
        rows = [{"entry": e["name"], **s} for e in data.get("entries", ()) for s in e.get("steps", ())]
        return Table(rows, text=text, data=data)

    def kernel(self, name, *, target=None):
        """The text of one kernel, each line with the model's line it comes from."""
        return self._core._inspect(kernel=name, target=target)

    def emit(self, stage):
        """A stage of compilation as text: ast ir grad fused plan tile cuda c ptx dot."""
        return self._core._emit(stage)

    def profile(self, entry=None, *, data=None, seed=0, steps=0, repeats=0, cold=False):
        """Times an entry (default: train, else the only model) and every step of it: a row a step,
        and in .data what the whole took and what the device can do."""
        if entry is None:
            entry = "train" if "train" in self.entries else self.entry().name
        whole, rows = self._core._profile(entry, data=data, seed=seed, steps=steps, repeats=repeats, cold=cold)
        _tell(self._core)
        shown = ["name", "kind", "line", "calls", "seconds", "floor", "bytes", "flops"]
        return Table(rows, columns=shown, data=whole)

    def tune(self, seconds=60, *, kernel=None, file=None, again=False, prune=False, on_event=None):
        """Measures schedules of its kernels on its device for so many seconds and writes them to its
        tuning file (NAME.net.tune; of a text, [file]), which later compilations take: docs/tuning.md.

        Returns a Table, a row a kernel: share of the step, seconds before and after. on_event is
        called with each row; what it raises ends the search, and so does Ctrl-C: what was found is
        in the file."""
        rows, names = [], ("kind", "kernel", "schedule", "text", "device", "share", "before", "after",
                           "tried", "done", "total", "finished")

        def told(*values):
            row = dict(zip(names, values))
            if row["kind"] == "kernel":
                rows.append(row)
            if on_event is not None and row["kind"] in ("kernel", "skipped"):
                on_event(row)
        try:
            self._core._tune(told, seconds=float(seconds), kernel=kernel, file=None if file is None else
                             os.fspath(file), again=again, prune=prune)
        finally:
            _tell(self._core)
        return Table(rows, columns=["kernel", "share", "before", "after", "tried", "schedule"])

    def check(self):
        """Holds gradients to finite differences and kernels to the evaluator: the report, or Error."""
        return self._core._check()

    # -- itself

    @property
    def name(self):
        return self._made[1]

    @property
    def device(self):
        """Where it runs: "cuda:0 NVIDIA H200"."""
        return self._core.device

    def close(self):
        """Gives its memory back now; it cannot be used any more."""
        self._cached.clear()
        self._core.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def __repr__(self):
        if self.device == "closed":
            return f"<netc.Model {self.name}, closed>"
        lines = [f"<netc.Model {self.name} on {self.device}"]
        for name in self.entries:
            e = self.entry(name)
            if name == "init":
                continue
            ins = ", ".join(f"{n}: {t}{list(s)}" for n, t, s, _ in e.inputs)
            outs = ", ".join(f"{n}: {t}{list(s)}" for n, t, s, _ in e.outputs)
            lines.append(f"  {name}({ins}) -> {outs or 'nothing'}")
        return "\n".join(lines) + ">"

    def _repr_html_(self):
        import html
        text = f"<pre>{html.escape(repr(self))}</pre>"
        if self.device == "closed":
            return text
        rows = [{"name": n, "type": f"{t}{list(s)}"} for n, (t, s) in self.state.types().items()]
        return text + Table(rows)._repr_html_()
