"""States go to compiled code as one pointer.

Numba passes a NamedTuple by value: every array as its address, shape and strides, with references counted at each use. For the
state of a policy, with dozens of arrays, that took most of the compiler's time. A type under `by_pointer` is laid out in memory
once, when Python calls a kernel, and kernels hand on its address. They read the layout and never write it: a NamedTuple is
immutable. The arrays belong to the caller, who holds them for as long as the call takes.
"""

from __future__ import annotations

from typing import Any, get_type_hints

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, register_model, typeof_impl, unbox

PACKAGE = __name__.partition(".")[0]


class StatePointer(types.Type):
    """The address of a NamedTuple of this class whose fields have these types."""

    def __init__(self, instance_class: Any, fields: tuple[Any, ...]) -> None:
        self.instance_class, self.fields = instance_class, fields
        own = instance_class.__module__.startswith(f"{PACKAGE}.")
        self.is_foreign = not own or any(getattr(field, "is_foreign", False) for field in fields)
        super().__init__(f"{instance_class.__module__}.{instance_class.__qualname__}({', '.join(map(str, fields))})")

    @property
    def key(self) -> tuple[Any, ...]:
        """Two types with the same key are the same."""
        return self.instance_class, self.fields


def by_pointer(kind: Any) -> None:
    """From now on pass values of this NamedTuple to kernels by pointer, and those in its fields too."""
    if typeof_impl.dispatch(kind) is typeof_state:
        return
    typeof_impl.register(kind, typeof_state)
    for field in get_type_hints(kind).values():
        if isinstance(field, type) and issubclass(field, tuple) and hasattr(field, "_fields"):
            by_pointer(field)


def typeof_state(value: Any, context: Any) -> StatePointer:
    """Return the type of a state: its class and the types of its fields."""
    return StatePointer(type(value), tuple(typeof_impl(field, context) for field in value))


@register_model(StatePointer)
class StatePointerModel(models.PrimitiveModel):  # type: ignore[misc]
    """A pointer to the fields as they are kept in memory, one after the other."""

    def __init__(self, manager: Any, kind: StatePointer) -> None:
        layout = ir.LiteralStructType([manager[field].get_data_type() for field in kind.fields])
        super().__init__(manager, kind, layout.as_pointer())


@infer_getattr
class StateFields(AttributeTemplate):  # type: ignore[misc]
    """The fields of a state are its attributes."""

    key = StatePointer

    def generic_resolve(self, kind: StatePointer, name: str) -> Any:
        """Return the type of a field."""
        names = kind.instance_class._fields
        return kind.fields[names.index(name)] if name in names else None


@lower_getattr_generic(StatePointer)  # type: ignore[untyped-decorator]
def read_field(context: Any, builder: Any, kind: StatePointer, pointer: Any, name: str) -> Any:
    """Load a field. Of an array, only what is used: the optimiser drops the rest."""
    index = kind.instance_class._fields.index(name)
    field, place = kind.fields[index], cgutils.gep_inbounds(builder, pointer, 0, index)
    model = context.data_model_manager[field]
    if not isinstance(field, types.Array):
        return model.from_data(builder, read(builder, place))

    def part(name: str, *inside: int) -> Any:
        return read(builder, cgutils.gep_inbounds(builder, place, 0, model.get_field_position(name), *inside))

    parts = {"data": part("data"), "nitems": part("nitems")}
    parts["itemsize"] = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(field.dtype)))
    for name in ("shape", "strides"):
        parts[name] = cgutils.pack_array(
            builder, [part(name, k) for k in range(field.ndim)], context.get_value_type(types.intp)
        )
    array = cgutils.get_null_value(
        context.get_value_type(field)
    )  # without a reference to what owns the memory: none is counted
    for name, value in parts.items():
        array = model.set(builder, array, value, name)
    return array


def read(builder: Any, place: Any) -> Any:
    """Load a value that nobody writes while kernels run: without this mark, every write to an array might change it."""
    value = builder.load(place)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(StatePointer)  # type: ignore[untyped-decorator]
def lay_out(kind: StatePointer, state: Any, c: Any) -> NativeValue:
    """Lay out a Python object in memory for the time of a call."""
    manager, by_value = c.context.data_model_manager, types.NamedTuple(kind.fields, kind.instance_class)  # type: ignore[attr-defined]
    native, layout = c.unbox(by_value, state), cgutils.alloca_once(c.builder, manager[kind].get_value_type().pointee)
    for index, field in enumerate(kind.fields):
        value = manager[field].as_data(c.builder, c.builder.extract_value(native.value, index))
        c.builder.store(value, cgutils.gep_inbounds(c.builder, layout, 0, index))

    def release() -> None:
        if native.cleanup is not None:
            native.cleanup()
        c.context.nrt.decref(c.builder, by_value, native.value)

    return NativeValue(layout, is_error=native.is_error, cleanup=release)
