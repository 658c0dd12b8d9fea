"""A second device that is not there: tensors that say they live on 'stand', compute on the CPU, and refuse to be mixed.

For tests of device handling on machines without an accelerator. Inside `with Stand():` a model or a tensor moved to
'stand' holds a CPU tensor in a wrapper; an operation that is given wrapped and plain tensors together raises, naming
the operation and the shapes, as a GPU would. Numbers are those of the CPU; nothing is said about speed. GRUs take the
cells of the plain formula, because the fused ones do not know this device, so their last bits may differ.
"""

import sys

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "stand"
_ATEN = torch.ops.aten
_COPIES = {_ATEN.copy_.default, _ATEN._to_copy.default}  # the only way from one device to the other
# a GPU, too, takes positions that lie on the CPU, and the lengths of packed sequences
_POSITIONS = {
    _ATEN.index.Tensor, _ATEN.index_put_.default, _ATEN.index_put.default, _ATEN._index_put_impl_.default,
    _ATEN._unsafe_index.Tensor,
}  # fmt: skip
_PACKS = {_ATEN._pack_padded_sequence.default}
# how large their results are is known when their numbers are
_SIZED = {
    _ATEN.nonzero.default, _ATEN.masked_select.default, _ATEN._unique2.default, _ATEN.unique_consecutive.default,
    _ATEN.unique_dim.default, _ATEN.repeat_interleave.Tensor, _ATEN.equal.default, _ATEN.bincount.default,
}  # fmt: skip
_WHOLE = set()  # operations that turned out to consist of no others


def _map(change, of):
    """`of` with every entry changed, in the lists, tuples and mappings that operations take and give; torch's
    own tree_map knows more kinds and takes five times as long, and every operation comes through here."""
    if isinstance(of, (list, tuple)):
        return type(of)(_map(change, entry) for entry in of)
    return {key: _map(change, entry) for key, entry in of.items()} if isinstance(of, dict) else change(of)


class _Backend(backend_registration._DummyBackendModule):
    def get_amp_supported_dtype(self):
        return [torch.bfloat16, torch.float16]


class Wrapped(torch.Tensor):
    """A tensor on the stand-in: `held` is where its numbers are."""

    @staticmethod
    def __new__(cls, held):
        return torch.Tensor._make_wrapper_subclass(
            cls, held.size(), strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=f"{NAME}:0", requires_grad=held.requires_grad,
        )  # fmt: skip

    def __init__(self, held):
        self.held = held

    def __repr__(self):
        return f"Wrapped({self.held})"

    def tolist(self):
        _wait("tolist")
        return self.detach().held.tolist()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _run(function, args, kwargs or {})


class Stand(TorchDispatchMode):
    """Inside it, operations on the device 'stand' are computed, and watched. Float64 is refused if `single`, as some
    accelerators do."""

    single = False
    waits = None  # a list takes (operation, where in the package) of everything that a host would wait for

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function not in _WHOLE:
            with self:  # in inference mode, composite operations arrive whole: take them apart first
                out = function.decompose(*args, **(kwargs or {}))
            if out is not NotImplemented:
                return out
            _WHOLE.add(function)
        return _run(function, args, kwargs or {})


# before the first backward pass of the process, which counts the devices
backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())
# autocast: matrix products in bfloat16, everything else as it comes
_autocast = torch.library.Library("_", "IMPL", "AutocastPrivateUse1")
_autocast.fallback(torch.library.fallthrough_kernel)
_products = torch.library.Library("aten", "IMPL", "AutocastPrivateUse1")


def _in_half(operation):
    def run(*args):
        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
        half = _map(lambda a: a.bfloat16() if isinstance(a, torch.Tensor) and a.is_floating_point() else a, args)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return operation(*half)

    return run


for _name in ("mm", "bmm", "addmm", "matmul", "linear"):
    _products.impl(_name, _in_half(getattr(_ATEN, _name).default))
# assigning to .data would change what a wrapper says and not what it holds
torch.__future__.set_overwrite_module_params_on_conversion(True)


def _wait(operation):
    """Note a number that the host reads of the device, or a copy between the two that it stands still for."""
    if Stand.waits is None:
        return
    frame = sys._getframe(1)
    while frame and "xmr_core" not in frame.f_code.co_filename.split("/"):
        frame = frame.f_back
    where = f"{frame.f_code.co_filename.split('xmr_core/')[-1]}:{frame.f_lineno}" if frame else "elsewhere"
    Stand.waits.append((str(operation), where))


def _is_awaited(function, args, kwargs, tensors, here, asked):
    if function is _ATEN._local_scalar_dense.default or (here and function in _SIZED):
        return here
    if function in _POSITIONS and here:  # of Booleans the places are counted; numbers of the host are copied
        places = [a for a in args[1] if a is not None]
        return any(a.dtype == torch.bool or not isinstance(a, Wrapped) for a in places)
    if function not in _COPIES:
        return False
    goes = (
        isinstance(args[0], Wrapped) if function is _ATEN.copy_.default else asked == NAME or (asked is None and here)
    )
    comes = isinstance(args[1 if function is _ATEN.copy_.default else 0], Wrapped)
    return goes != comes and not (goes and kwargs.get("non_blocking", len(args) > 2 and args[2]))


def _run(function, args, kwargs):
    tensors = []
    _map(lambda a: tensors.append(a) if isinstance(a, torch.Tensor) else None, (args, kwargs))
    here = any(isinstance(a, Wrapped) for a in tensors)
    asked = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else None
    if Stand.waits is not None and _is_awaited(function, args, kwargs, tensors, here, asked):
        _wait(function)
    if here and function not in _COPIES | _PACKS:
        # single numbers may come from anywhere
        plain = [tuple(a.shape) for a in tensors if not isinstance(a, Wrapped) and a.ndim]
        if plain and not (function in _POSITIONS and isinstance(tensors[0], Wrapped)):
            raise RuntimeError(f"{function}: all tensors must be on one device, found {NAME}:0 and cpu {plain}")
    doubles = [a for a in tensors if isinstance(a, Wrapped) and a.dtype == torch.float64]
    if Stand.single and (doubles or (asked == NAME and kwargs.get("dtype") == torch.float64)):
        raise TypeError(f"{function}: {NAME} has no float64")
    if asked == NAME:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        kwargs.pop("pin_memory", None)
    held = lambda a: a.held if isinstance(a, Wrapped) else a  # noqa: E731
    out = _CELLS.get(function, function)(*_map(held, args), **_map(held, kwargs))
    if function is _ATEN.copy_.default:
        return args[0]
    if function in _PACKS:
        return (Wrapped(out[0]), out[1]) if here else out
    if function is _ATEN._local_scalar_dense.default:
        return out
    if not (asked == NAME or (asked is None and here)):
        return out
    known = {id(held(a)): a for a in tensors}  # an operation in place gives back what it was given

    def wrapped(o):
        if not isinstance(o, torch.Tensor) or isinstance(o, Wrapped):
            return o
        return known.get(id(o)) if id(o) in known else Wrapped(o)

    return _map(wrapped, out)


def _gru_cell(from_input, from_hidden, hidden, input_bias=None, hidden_bias=None):
    """(next state, what the backward pass needs) of a GRU cell whose products are already taken."""
    if input_bias is not None:
        from_input, from_hidden = from_input + input_bias, from_hidden + hidden_bias
    reset_in, update_in, new_in = from_input.chunk(3, 1)
    reset_hidden, update_hidden, new_hidden = from_hidden.chunk(3, 1)
    reset, update = (reset_in + reset_hidden).sigmoid(), (update_in + update_hidden).sigmoid()
    new = (new_in + reset * new_hidden).tanh()
    return new + update * (hidden - new), torch.cat([reset, update, new, hidden, new_hidden], 1)


def _gru_cell_backward(grad, workspace, has_bias):
    if grad is None:
        return None, None, None, None, None
    reset, update, new, hidden, new_hidden = workspace.chunk(5, 1)
    d_update = grad * (hidden - new) * update * (1 - update)
    d_new = grad * (1 - update) * (1 - new.square())
    d_reset = d_new * new_hidden * reset * (1 - reset)
    d_input = torch.cat([d_reset, d_update, d_new], 1)
    d_hidden = torch.cat([d_reset, d_update, d_new * reset], 1)
    sums = (d_input.sum(0), d_hidden.sum(0)) if has_bias else (None, None)
    return d_input, d_hidden, grad * update, *sums


_CELLS = {
    _ATEN._thnn_fused_gru_cell.default: _gru_cell,
    _ATEN._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
}
