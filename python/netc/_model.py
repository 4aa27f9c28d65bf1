"""An entry as a torch.nn.Module. Its parameters have the names and initial values of the model's
and belong to torch: optimizers, state_dict and hooks see them, and netc reads them in place."""

import os

from . import _array, _netc
from ._images import files
from ._error import Error
from ._path import encoded
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
            weights=None, entries=(), program=None, memory_limit=0, cache_dir=None, tune_file=None,
            kernels_dir=None, stream=0):
    """Compiles a model and puts it on a device.

    source: the model's text, or the path of a .net file or a model.bin. A str that contains a newline
        or a brace is text.
    defines: {"batch": 64}: overrides consts, dims and settings of the text.
    precision: "f32" (default), "tf32", "bf16", "f16".
    device: "cpu", "cuda", "cuda:1"; "auto": a GPU if there is one; "cuda:0,1": several GPUs that share
        the work of a step, each with its part of the batch.
    name: the name of the text in diagnostics; `use` looks for files next to it.
    seed: of initial values, dropout and shuffling.
    data: {"image": images}: arrays whose shapes fix the text's dims (but not the batch).
    weights: a safetensors file with the initial parameters.
    entries: compile only these; the others cost nothing.
    program: the name of the train block to train and evaluate by, if there are several (default: the first).
    memory_limit: bytes of temporaries to aim for.
    cache_dir: folder of compiled kernels; "" for none. tune_file, kernels_dir: see docs/tuning.md.
    stream: a CUstream to enqueue on, as an integer.

    Raises Error, which shows the line and a caret below the error.
    """
    _register()
    text = source if _is_text(source) else None
    path = None if text is not None else os.fspath(source)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    device = "auto" if device is None else device
    if not isinstance(device, str):
        raise TypeError(f'a device is a str, "cpu", "cuda:1" or "auto", not {device!r}')
    options = dict(precision=precision, device=device or "auto", seed=seed, entries=_words(entries),
                   program=program, memory_limit=memory_limit, cache_dir=cache_dir, tune_file=tune_file,
                   kernels_dir=kernels_dir, stream=stream)
    m = Model._open(path, name or ("model.net" if text is not None else os.path.basename(path)), text,
                    dict(defines or {}), options, like=data, whole=False)
    if weights is not None:
        m.load(weights, weights_only=True)
    return m


def doctor():
    """What netc finds on this machine: a row for each item with what, ok, and its version or what to install."""
    return Table([dict(zip(("what", "ok", "detail"), row)) for row in _netc.doctor()])


class Model:
    """A compiled model with its parameters and states on a device. Created by netc.compile.

    m(x=…) runs its model; m.entry("next") is another entry, which is called in the same way.
    """

    def __init__(self):
        raise TypeError("models are made by netc.compile")

    @classmethod
    def _open(cls, path, name, text, defines, options, **more):
        m = cls.__new__(cls)
        device = options.pop("device")
        target = "cuda" if device.startswith("cuda") else "cpu" if device.startswith("cpu") else None
        paths = {k: encoded(v) for k, v in options.items() if k in ("cache_dir", "tune_file", "kernels_dir")}
        m._core = _netc.open(_netc.Model, encoded(path), encoded(name), text, _define_list(defines),
                             device=device, target=target, **{**options, **paths}, **more)
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
        """The same model with its own copy of the parameters and states."""
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
        """The names of the entries that can be run."""
        return self._core._entries()

    def entry(self, name=None):
        """An entry by name, to be called with its inputs; without a name, that of the only model."""
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
        """Runs the only model: takes inputs by name (or in order) and returns a dict of outputs by name.

        An input is an array of NumPy, torch, jax, cupy or anything with the buffer protocol or
        DLPack, dense and of exactly the input's type and shape, which is read in place; or a number or
        lists of numbers. Outputs are NumPy arrays or, without NumPy, netc.Array. out={"y": place}
        writes them into arrays or tensors of the caller, on a GPU also in its memory.
        """
        try:
            entry = self._cached[None]
        except KeyError:
            entry = self._cached[None] = self.entry()
        return entry(*args, **inputs)

    def variant(self, *, defines=None, outputs=None, entry=None, like=None):
        """The same text compiled with other options, sharing the parameters and states.

        defines: {"batch": 1}, in addition to those of this model. outputs: only these of the entry
        (without a name, of the only model), and so only the inputs that they need. like: inputs by
        name, whose whole shapes fix the dims, including the batch.
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
        """The entry as a function, or its gradients, as described in netc.h; with the same states."""
        path, name, text, defines, options = self._made
        options = dict(options, share=self._core, outputs_of=entry, entries=[entry], **more)
        return Model._open(path, name, text, defines, options, **self._more).entry(entry)

    def torch(self, entry=None, *, params=(), outputs=None, training=False):
        """An entry (without a name, that of the only model) as a function of torch tensors that autograd
        can differentiate and torch.compile can capture as a whole.

            f = m.torch("block", params="*")
            y = f(x, params={"fc.weight": w, "fc.bias": b})

        Its float inputs have gradients, and so do the parameters that match a name or pattern of
        params, which become arguments; other parameters are the model's own. outputs: only these.
        training: dropout is active. One output is returned as a tensor, several as a named tuple.
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
        """An entry as a function of JAX arrays, for jit, grad and vmap (which calls it once per example).
        It works like m.torch: f(x, params={"fc.weight": w}). graphs: on a GPU, XLA may make calls
        part of its CUDA graphs, and then provides their temporaries. states: the function takes the
        states and returns the new ones, y, states = f(states, x), starting with f.states(); the
        model's own do not change."""
        from ._jax import JaxFunction
        return JaxFunction(self, entry, params, outputs, training, graphs, states)

    # -- training

    def train(self, data=None, *, epochs=None, steps=None, eval_data=None, split=0.0, on_event=None,
              progress=None, report_every=0, eval_every=0, save=None, save_every=0, resume=None,
              watch=(), shuffle=True, keep_last=False, save_best=None, patience=0):
        """Trains the model. Returns the history, a Table with one row per report.

        data: {"image": images, "label": labels}: arrays (or paths of data files) with the examples
            along axis 0, one for each input of the trained model; or an iterable of such dicts with
            one batch each, in which case only epochs, steps, on_event, progress, report_every and
            save apply. None: the step makes its own examples, steps says how many.
        epochs or steps: how long (default: one epoch).
        eval_data, split: what to evaluate on: other data, or the part of data after this share of it.
        on_event: is called with an Event from time to time. An exception that it raises ends training
            and is raised here, except StopIteration, which only ends training.
        progress: True, False; None: in terminals and notebooks.
        save: a safetensors file, written however training ends. resume: one to continue from.
        save_best: a scalar output of evaluations, "accuracy" (or "x:min", "x:max"): the checkpoint of
            the best value is kept beside the last one, "m.best.safetensors". patience: stop after this
            many evaluations in a row without improvement of that output or, without it, of the loss.
        watch: parameters and taps whose statistics are reported, or patterns: "h.*.attn".

        Ctrl-C ends training after the current step and raises KeyboardInterrupt. However training
        ends, the parameters are those of the last valid step, and m.history has the rows so far.
        """
        kinds = dict(epochs=epochs, steps=steps, report_every=report_every, on_event=on_event, progress=progress)
        if epochs is not None and steps is not None:
            raise ValueError("give epochs or steps, not both")
        if any(n is not None and n <= 0 for n in (epochs, steps)):  # (none is one epoch)
            raise ValueError("epochs and steps must be above 0")
        data = {} if data is None else data
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

    def predict(self, data, *, outputs=None, entry=None):
        """The outputs for every example of data: {"logits": an array with the examples along axis 0}.

        data: as for train; only inputs that these outputs depend on are needed. They are run a batch
            at a time, in order; the last batch may be smaller.
        outputs: a name or several; without it, all that have a value for each example.
        entry: a model (without a name, the only one).
        """
        whole = self.entry(entry)
        if outputs is None:
            rows = next((s[0] for _, _, s, data_axis in whole.inputs if data_axis and s), None)
            outputs = [name for name, _, s, _ in whole.outputs if s and s[0] == rows]
            if not outputs:
                raise Error(f"no output of '{whole.name}' has a value for each example; m.evaluate "
                            "computes results over all of them")
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        key = ("predict", whole.name, *names)
        if key not in self._cached:
            self._cached[key] = self.variant(outputs=names, entry=whole.name)
        try:
            return self._cached[key]._core._predict(files(data), whole.name, names)
        finally:
            _tell(self._cached[key]._core)

    def generate(self, prompt, *, tokenizer=None, entry=None, length=100, temperature=1.0, top_k=0, top_p=0.0,
                 seed=0, prefill=None, repetition_penalty=0.0, on_token=None):
        """Generates text with a language model, the entry "next" or another. Returns a list with one item
        per text.

        prompt: a text (with tokenizer=: a netc.Tokenizer, its path, or "bytes") or tokens with which
            every text of the batch begins; or a list of these, one for each text. For prompts of text
            the results are text, for tokens they are tokens, without the prompt.
        length: tokens to draw. temperature 0 always takes the most likely token; top_k, top_p: draw
            only from the k most likely tokens, or from the fewest whose probabilities sum to p.
            repetition_penalty: as in CTRL.
        on_token: is called with (text, token) for each drawn token; False ends that text, an
            exception ends all of them.
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
        """Writes arrays by name. strict: raises if a parameter or a name is left over."""
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
        """Writes parameters and states as safetensors. If the path ends in .bin, writes the compiled
        model, which runs without a compiler."""
        path = os.fsdecode(path)
        if path.endswith(".bin"):
            self._core._save_program(encoded(path), None, True)
        elif path.endswith(_OTHER_FORMATS) and not path.endswith(".safetensors.index.json"):
            raise ValueError(f"{path}: parameters are written as .safetensors; name the file accordingly")
        else:
            self._core._state_save(encoded(path))

    def load(self, path, *, map=(), ignore=(), transpose=(), allow_missing=False, weights_only=False):
        """Reads a safetensors file. map: ["h.*=blocks.*"], from names in the file to the model's.
        ignore: patterns of tensors that the model does not need. transpose: patterns of parameters
        that the file stores transposed."""
        map = [f"{a}={b}" for a, b in map.items()] if isinstance(map, dict) else _words(map)
        self._core._state_load(encoded(path), map, _words(ignore), _words(transpose), allow_missing,
                               weights_only)
        _tell(self._core)

    def adopt(self, other):
        """Copies parameters and states with the same name and type from another model. Returns their number."""
        return self._core._state_adopt(other._core)

    # -- looking into it

    def inspect(self, *, target=None, why=False, params=False, in_order=False):
        """The result of compilation: a row per kernel or call with bytes, flops and minimum times. print()
        shows it as `netc inspect` does. why, params: texts."""
        import json
        text = self._core._inspect(target=target, why=why, params=params, in_order=in_order)
        if why or params:
            return text
        data = json.loads(self._core._inspect(target=target, in_order=in_order, json=True))
        rows = [{"entry": e["name"], **s} for e in data.get("entries", ()) for s in e.get("steps", ())]
        return Table(rows, text=text, data=data)

    def kernel(self, name, *, target=None):
        """The text of one kernel, each line with the model's line that it comes from."""
        return self._core._inspect(kernel=name, target=target)

    def emit(self, stage):
        """A stage of compilation as text: ast ir grad fused plan tile cuda c ptx dot."""
        return self._core._emit(stage)

    def profile(self, entry=None, *, data=None, seed=0, steps=0, repeats=0, cold=False):
        """Times an entry (default: train, else the only model) and each of its steps: a row per step. The
        whole entry's times and the device's limits are in .data."""
        if entry is None:
            entry = "train" if "train" in self.entries else self.entry().name
        whole, rows = self._core._profile(entry, data=files(data), seed=seed, steps=steps, repeats=repeats, cold=cold)
        _tell(self._core)
        shown = ["name", "kind", "line", "calls", "seconds", "floor", "bytes", "flops"]
        return Table(rows, columns=shown, data=whole)

    def tune(self, seconds=60, *, kernel=None, file=None, again=False, prune=False, on_event=None):
        """Measures schedules of the kernels on the model's device for this many seconds and writes the
        best to the tuning file (NAME.net.tune; for a text, [file]), which later compilations read: see
        docs/tuning.md.

        Returns a Table with a row per kernel: share of the step, seconds before and after. on_event is
        called with each row. Its exceptions and Ctrl-C end the search; what was found until then is
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
            self._core._tune(told, seconds=float(seconds), kernel=kernel, file=encoded(file),
                             again=again, prune=prune)
        finally:
            _tell(self._core)
        return Table(rows, columns=["kernel", "share", "before", "after", "tried", "schedule"])

    def check(self):
        """Compares gradients with finite differences and kernels with the evaluator. Returns the
        report or raises Error."""
        return self._core._check()

    # -- itself

    @property
    def name(self):
        return self._made[1]

    @property
    def device(self):
        """Where the model runs: "cuda:0 NVIDIA H200"."""
        return self._core.device

    def close(self):
        """Frees the model's memory now; the model cannot be used any more."""
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
