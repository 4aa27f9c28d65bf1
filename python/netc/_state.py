"""Parameters, states and settings as a mapping."""

from collections.abc import Mapping, MutableMapping


class State(MutableMapping):
    """A model's parameters and states by name: reading returns a copy, assignment writes.

        m.state["fc1.weight"]                   # an array, f32[128, 784]
        m.state["fc1.weight"] = weight          # of that shape and type
        m.state.update(torch_model.state_dict())
        torch_model.load_state_dict({k: torch.from_dlpack(v) for k, v in m.state.items()})

    Names cannot be added or deleted. "@total" and "@epoch_steps" are not listed: the steps of all
    training and of an epoch, which schedules read. m.train sets them.
    """

    def __init__(self, core):
        self._core = core

    def __getitem__(self, name):
        if name not in self:
            raise self._missing(name)
        return self._core._state_get(name)

    def __setitem__(self, name, value):
        if name not in self:
            raise self._missing(name)
        if getattr(getattr(value, "device", None), "type", None) == "cuda":  # torch's; states are written from the host
            value = value.detach().cpu()
        self._core._state_set(name, value)

    def _missing(self, name):
        if not isinstance(name, str):
            return KeyError(name)
        try:
            self._core._state_info(name)
        except Exception as e:  # which says what it could have been
            there = f"state '{name}' is " in str(e)  # (and of another type than the tensor that find() gives)
            return KeyError(f"'{name}' is a scratch state, which is neither kept nor shown" if there else str(e))
        return KeyError(name)

    def __delitem__(self, name):
        raise TypeError("a model's parameters and states cannot be deleted")

    def __contains__(self, name):
        return name in self._core._state_names() or name in ("@total", "@epoch_steps") and self._told(name)

    def _told(self, name):
        try:
            return bool(self._core._state_info(name))
        except Exception:
            return False

    def __iter__(self):
        return iter(self._core._state_names())

    def __len__(self):
        return len(self._core._state_names())

    def types(self):
        """{name: (type, shape)}, without reading values."""
        return {name: self._core._state_info(name) for name in self}

    def __repr__(self):
        if self._core.device == "closed":
            return "<netc state of a closed model>"
        lines = [f"  {name}: {dtype}{list(shape)}" for name, (dtype, shape) in self.types().items()]
        return "\n".join(["<netc state"] + lines) + ">"


class Settings(Mapping):
    """The settings that a model declares ("setting rate = 0.1"): m.settings["rate"] = 0.05."""

    def __init__(self, core, names):
        self._core, self._names = core, names

    def __getitem__(self, name):
        return self._core._setting_get(name)

    def __setitem__(self, name, value):
        self._core._setting_set(name, value)

    def __iter__(self):
        return iter(self._names)

    def __len__(self):
        return len(self._names)

    def __repr__(self):
        return f"<netc settings {dict(self)}>"
