// lamina._native.BySizes: finds the program for the sizes of a call, and calls it, without Python for sizes that it has met before.
#include "by_sizes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>
#include <utility>
#include <vector>

#include "tensors.h"
#include "torch_abi.h"

namespace nb = nanobind;

namespace lamina {
namespace {

// Where a call brings the value of a symbol: argument `argument` itself, an int, where `dim` is negative, else that size or stride.
struct Source {
  size_t argument;
  int64_t dim;
  bool stride;
};

// What a call with some sizes runs, and the arguments that it takes; all of them without `picks`.
struct Target {
  nb::object run;
  bool all;
  std::vector<size_t> picks;
  uint64_t used;
  bool renewed = false; // to be bound anew
};

using Key = std::vector<int64_t>;

struct State {
  std::vector<Source> sources;
  size_t arguments = 0; // that the sources need, at least
  nb::object bind;
  size_t limit = 0;
  std::map<Key, Target> targets;
  uint64_t calls = 0;
};

struct Object {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *weak, *dict;
  State *state;
};

int64_t number(nb::handle value) {
  long long found = PyLong_AsLongLong(value.ptr());
  if (found == -1 && PyErr_Occurred()) throw nb::python_error();
  return found;
}

int64_t value_of(const Source &source, PyObject *const *given) {
  PyObject *argument = given[source.argument];
  if (source.dim < 0) return number(argument);
  if (is_ordinary(argument)) {
    dlpack::Tensor tensor = memory_of(argument);
    if (source.dim >= tensor.ndim) throw nb::index_error("a tensor has fewer dimensions than the program was compiled for");
    return (source.stride ? tensor.strides : tensor.shape)[source.dim];
  }
  nb::handle tensor(argument);
  return source.stride ? number(tensor.attr("stride")(source.dim)) : number(nb::object(tensor.attr("shape")[source.dim]));
}

Target &make_target(State &state, const Key &key) {
  nb::object bound = state.bind(nb::tuple(nb::cast(key)));
  auto known = state.targets.find(key); // after binding: other threads may have run meanwhile
  if (bound.is_none() && known != state.targets.end()) return known->second;
  nb::object picks = bound[1], old; // what was kept is freed once the table is whole again
  if (known != state.targets.end()) {
    old = std::move(known->second.run);
  } else if (state.targets.size() >= state.limit) {
    auto oldest = std::ranges::min_element(state.targets, {}, [](const auto &entry) { return entry.second.used; });
    state.targets.erase(oldest);
  }
  Target target{nb::object(bound[0]), picks.is_none(), {}, 0};
  if (!target.all) target.picks = nb::cast<std::vector<size_t>>(picks);
  return state.targets.insert_or_assign(key, std::move(target)).first->second;
}

PyObject *run(State &state, PyObject *const *given, size_t count) {
  if (count < state.arguments) throw nb::type_error("too few arguments for a compiled program");
  Key key;
  key.reserve(state.sources.size());
  for (const Source &source : state.sources) key.push_back(value_of(source, given));
  auto found = state.targets.find(key);
  Target &target = found == state.targets.end() || found->second.renewed ? make_target(state, key) : found->second;
  target.used = ++state.calls;
  nb::object call = target.run; // a call on another thread may drop the target
  if (target.all) return PyObject_Vectorcall(call.ptr(), given, count, nullptr);
  std::vector<PyObject *> taken;
  taken.reserve(target.picks.size());
  for (size_t i : target.picks) {
    if (i >= count) throw nb::type_error("too few arguments for a compiled program");
    taken.push_back(given[i]);
  }
  return PyObject_Vectorcall(call.ptr(), taken.data(), taken.size(), nullptr);
}

PyObject *call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
  State *state = reinterpret_cast<Object *>(self)->state;
  size_t count = size_t(PyVectorcall_NARGS(flags));
  if (!state || (names && PyTuple_Size(names))) {
    PyErr_SetString(PyExc_TypeError, state ? "a compiled program takes no keyword arguments" : "this BySizes was not initialized");
    return nullptr;
  }
  try {
    if (count != 1 || !PyList_CheckExact(args[0])) return run(*state, args, count);
    nb::object items = nb::steal(PyList_AsTuple(args[0]));
    if (!items.is_valid() || PyList_SetSlice(args[0], 0, PyList_Size(args[0]), nullptr)) throw nb::python_error();
    std::vector<PyObject *> given;
    for (nb::handle item : items) given.push_back(item.ptr());
    return run(*state, given.data(), given.size());
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const nb::builtin_exception &error) {
    PyErr_SetString(error.type() == nb::exception_type::index_error ? PyExc_IndexError : PyExc_TypeError, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

int init(PyObject *self, PyObject *args, PyObject *) {
  auto *object = reinterpret_cast<Object *>(self);
  PyObject *sources = nullptr, *bind = nullptr;
  Py_ssize_t limit = 0;
  if (!PyArg_ParseTuple(args, "OOn:BySizes", &sources, &bind, &limit)) return -1;
  if (limit < 1) return PyErr_SetString(PyExc_ValueError, "BySizes keeps at least one program"), -1;
  try {
    torch_abi();
    auto fresh = std::make_unique<State>();
    fresh->bind = nb::borrow(bind);
    fresh->limit = size_t(limit);
    for (nb::handle source : nb::borrow(sources)) {
      int64_t dim = source[1].is_none() ? -1 : nb::cast<int64_t>(source[1]);
      fresh->sources.push_back({nb::cast<size_t>(source[0]), dim, nb::cast<bool>(source[2])});
      fresh->arguments = std::max(fresh->arguments, fresh->sources.back().argument + 1);
    }
    delete std::exchange(object->state, fresh.release());
    return 0;
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return -1;
}

PyObject *create(PyTypeObject *type, PyObject *, PyObject *) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto *self = reinterpret_cast<Object *>(allocate(type, 0));
  if (self) self->call = &call;
  return reinterpret_cast<PyObject *>(self);
}

int traverse(PyObject *self, visitproc visit, void *arg) {
  auto *object = reinterpret_cast<Object *>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object->dict);
  if (!object->state) return 0;
  Py_VISIT(object->state->bind.ptr());
  for (auto &[key, target] : object->state->targets) Py_VISIT(target.run.ptr());
  return 0;
}

int clear(PyObject *self) {
  auto *object = reinterpret_cast<Object *>(self);
  delete std::exchange(object->state, nullptr);
  Py_CLEAR(object->dict);
  return 0;
}

void destroy(PyObject *self) {
  auto *object = reinterpret_cast<Object *>(self);
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (object->weak) PyObject_ClearWeakRefs(self);
  clear(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// The programs kept, by their sizes.
PyObject *programs(PyObject *self, PyObject *) {
  State *state = reinterpret_cast<Object *>(self)->state;
  nb::dict found;
  if (state)
    for (auto &[key, target] : state->targets) found[nb::tuple(nb::cast(key))] = target.run;
  return found.release().ptr();
}

// Has the next call at some sizes bind anew. The program kept for them serves on where `bind` returns None.
PyObject *renew(PyObject *self, PyObject *sizes) {
  State *state = reinterpret_cast<Object *>(self)->state;
  try {
    if (state)
      if (auto found = state->targets.find(nb::cast<Key>(nb::handle(sizes))); found != state->targets.end()) found->second.renewed = true;
  } catch (const std::exception &) {
    return PyErr_SetString(PyExc_TypeError, "sizes are a tuple of ints"), nullptr;
  }
  Py_RETURN_NONE;
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, call), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Object, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef fields[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"programs", programs, METH_NOARGS, "The programs that are kept, by their sizes, as a dict."},
    {"renew", renew, METH_O, "Has the next call at some sizes bind anew; the program kept for them serves on where `bind` returns None."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>("A program with symbolic sizes: call it with tensors and ints, or with one list of them, which it "
                                   "empties. It runs the program that `bind` returned for these sizes.")},
    {Py_tp_new, reinterpret_cast<void *>(create)},
    {Py_tp_init, reinterpret_cast<void *>(init)},
    {Py_tp_dealloc, reinterpret_cast<void *>(destroy)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverse)},
    {Py_tp_clear, reinterpret_cast<void *>(clear)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_getset, fields},
    {0, nullptr},
};

PyType_Spec type_spec = {"lamina._native.BySizes", sizeof(Object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

} // namespace

PyObject *make_by_sizes_type() {
  PyObject *type = PyType_FromSpec(&type_spec);
  if (!type) throw nb::python_error();
  return type;
}

} // namespace lamina
