"""Training on arrays, and on an iterable of batches."""

import logging
import os
import time

from ._error import Error
from ._images import files
from ._path import encoded, try_to_write
from ._progress import progress as open_progress
from ._table import Table


class Event:
    """What training reports: kind is "start", "progress", "eval", "saved" or "end".

    step, total, epoch, epochs, epochs_done, examples, seconds, rate (examples per second),
    seconds_left; metrics: {"loss": …}, means since the last report or, for "eval", those of the
    evaluation; text: for "start" a description, for "saved" the path, for "end" the best
    evaluation, if one was requested.
    """

    __slots__ = ("kind", "step", "total", "epoch", "epochs", "epochs_done", "examples", "seconds",
                 "rate", "seconds_left", "metrics", "text")

    def __init__(self, *values):
        for name, value in zip(self.__slots__, values):
            setattr(self, name, value)

    def __repr__(self):
        values = ", ".join(f"{k} {v:.5g}" for k, v in self.metrics.items())
        return f"<netc.Event {self.kind} {self.step}/{self.total} {values}>".replace(" >", ">")


class _Teller:
    """Keeps the history, and passes events to the progress bar and the caller."""

    def __init__(self, model, on_event, progress):
        self.model, self.on_event, self.bar = model, on_event, open_progress(progress)

    def __call__(self, *values):
        event = Event(*values)
        if event.kind == "start":
            self.model.history = Table()
        if event.kind in ("progress", "eval"):
            self.model.history.append({"step": event.step, "epoch": event.epochs_done, **event.metrics,
                                       "seconds": event.seconds})
        self.bar(event)
        if self.on_event is not None:
            self.on_event(event)


def train_arrays(model, data, *, eval_data, split, epochs, steps, report_every, eval_every, save,
                 save_every, save_best, patience, resume, watch, shuffle, keep_last, on_event, progress):
    teller = _Teller(model, on_event, progress)
    try:
        model._core._train(files(data), teller, eval_data=files(eval_data), split=split, epochs=epochs or 0,
                           steps=steps or 0, report_every=report_every, eval_every=eval_every,
                           save_every=save_every, save=encoded(save),
                           resume=encoded(resume), watch=watch,
                           shuffle=shuffle, keep_last=keep_last, save_best=save_best,
                           patience=patience)
    except StopIteration:
        pass
    finally:
        teller.bar.close()
    return model.history


def _length(batches):
    try:
        return len(batches)
    except TypeError:
        return None


def _scalars(outputs):
    return {k: float(v) for k, v in outputs.items() if not v.shape}


def train_batches(model, batches, *, epochs, steps, report_every, on_event, progress, save):
    """One step per batch. The number of batches must be known if the model's text uses it."""
    length, entry = _length(batches), model.entry("train")
    if epochs is not None and epochs != int(epochs):
        raise ValueError("epochs of an iterable must be a whole number")
    if save is not None:
        try_to_write(os.fsdecode(save))
    total = steps or (length * int(epochs or 1) if length is not None else 0)
    state = model.state
    if not total and "@total" in state:
        raise Error("the model's schedule asks for the length of training ('total'), and these batches "
                    "have no len(): say steps=N")
    if not length and "@epoch_steps" in state and not state["@epoch_steps"]:
        raise Error("the model's schedule asks for the current epoch, and these batches have no len(): "
                    "say m.state['@epoch_steps'] = N, the batches of an epoch")
    for cell, n in (("@total", total), ("@epoch_steps", length)):
        if n and cell in state:
            state[cell] = n
    for cell in "@step", "@skipped":  # a new training, as of a dict of arrays
        model._core._control_set(cell, 0)
    return _Loop(model, entry, batches, int(epochs or 1), total, report_every, save,
                 _Teller(model, on_event, progress)).run()


class _Sound:
    """A copy of a model's states after a step that left no values in them that are not finite.

    A step does not check what it writes. The states are checked, and copied, so rarely that this
    takes at most 1/300 of the time, and at the end (lib/train/train_back.c does so for arrays, and
    can repeat steps; the batches of an iterable are gone).
    """

    SHARE = 300

    def __init__(self, model):
        self.model, self.step, self.values, self.checks = model, 0, None, True
        self.at = self.cost = 0.0
        try:
            self.keep(0)
        except Error as e:
            # There were such values before: they are the caller's. (Another error: some states have no
            # value before the first batch.)
            self.checks = e.status != "check failed"

    def keep(self, step):
        """Copies the states, which must be sound: raises an Error if they are not."""
        begun = time.perf_counter()
        self.model._core._state_check()
        self.values = None  # (never two copies)
        state = self.model.state
        try:
            self.values = {name: state[name] for name in state if not self.model._is_setting(name)}
            self.values.update(self._count())
            self.step = step
        except MemoryError:
            self.values = None
            logging.getLogger("netc").warning("no memory for a copy of the states: training cannot go back")
        self.at = time.perf_counter()
        self.cost = self.at - begun

    def _count(self):
        try:
            return {"@step": self.model._core._state_get("@step")}
        except Error:  # the model has none
            return {}

    def due(self):
        return self.checks and (not self.at or time.perf_counter() - self.at > self.SHARE * self.cost)

    def check(self, step, keep=False):
        """After a step: (the step whose states the model has now, an Error if it is an earlier one).
        Step 0 with an Error: nothing can be saved."""
        try:
            if self.checks:
                self.keep(step) if keep else self.model._core._state_check()
            return step, None
        except Error as e:
            if e.status != "check failed" or self.values is None:
                return 0, e
            for name, value in self.values.items():
                self.model._core._state_set(name, value)
            return self.step, Error(f"{str(e).split(';')[0]} after step {step}; parameters and states are those "
                                    f"of step {self.step} again, when they were last checked", 4)


class _Loop:
    def __init__(self, model, entry, batches, epochs, total, report_every, save, teller):
        self.model, self.entry, self.batches, self.epochs = model, entry, batches, epochs
        self.total, self.save, self.teller = total, save, teller
        self.every = report_every or max(1, (total // self.epochs + 19) // 20 if total else 50)
        self.names = [name for name, _, _, _ in entry.inputs]
        self.rows = next((s[0] for _, _, s, data in entry.inputs if data and s), 1)
        self.step, self.epoch, self.sums, self.count = 0, 0, {}, 0

    def tell(self, kind, metrics=None, text=None):
        now = time.perf_counter()
        span, steps = now - self.reported, self.step - self.reported_step
        rate = steps * self.rows / span if span > 0 else 0.0
        left = (self.total - self.step) * self.rows / rate if rate and self.total else 0.0
        length = self.total / self.epochs if self.total else 0
        self.teller(kind, self.step, self.total, self.epoch, self.epochs,
                    self.step / length if length else float(self.epoch), self.step * self.rows,
                    now - self.begun, rate, left, metrics or {}, text)

    def report(self):
        if self.count:
            self.tell("progress", {k: v / self.count for k, v in self.sums.items()})
        self.sums, self.count = {}, 0
        self.reported, self.reported_step = time.perf_counter(), self.step

    def one(self, batch):
        if not isinstance(batch, dict):  # (inputs, labels), in the order they are declared
            declared = self.entry.declared or self.names
            if len(batch) != len(declared):
                raise TypeError(f"a batch of {len(batch)} arrays, where 'train' takes {', '.join(declared)}; "
                                'all examples at once are a dict of arrays, {"' + declared[0] + '": …}')
            batch = dict(zip(declared, batch))
        try:
            results = self.entry(**batch)
        except Error as e:
            if self.step and any(getattr(v, "shape", (self.rows,))[:1] != (self.rows,) for v in batch.values()):
                e.args = (f"{e}; a last batch that is smaller is left out by a loader's drop_last=True",)
            raise
        for k, v in _scalars(results).items():
            self.sums[k] = self.sums.get(k, 0.0) + v
        self.step += 1
        self.count += 1
        if self.sound.due():
            self.step, error = self.sound.check(self.step, keep=True)
            if error is not None:
                raise error
        if self.step % self.every == 0 or self.step == self.total:
            self.report()

    def all(self):
        for self.epoch in range(1, self.epochs + 1):
            before = self.step
            for batch in self.batches:
                self.one(batch)
                if self.total and self.step >= self.total:
                    return
            if self.step == before:
                raise Error(f"epoch {self.epoch} has no batches: an iterator gives them once; give a list or "
                            "something that can be iterated again")

    def finish(self, failed):
        """Goes back if the states are not sound, and saves. failed: an exception is on its way."""
        if not self.step:
            return
        self.step, error = self.sound.check(self.step)
        if self.save is not None and self.step:
            self.model.save(self.save)
        if error is not None and not failed:
            raise error
        if error is not None:
            logging.getLogger("netc").warning("%s", error)

    def run(self):
        self.begun = self.reported = time.perf_counter()
        self.reported_step, failed = 0, True
        try:
            self.sound = _Sound(self.model)
            self.tell("start")
            while True:
                self.all()
                if not self.total or self.step >= self.total:
                    break
            self.report()
            failed = False
        except StopIteration:
            failed = False
        finally:
            try:
                self.finish(failed)
            finally:
                self.teller.bar.close()
        try:
            self.tell("end")
        except StopIteration:  # (a callback that always raises it)
            pass
        return self.model.history
