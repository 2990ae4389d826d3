// Python types that are called with tensors: one by one, or in one list, which the call empties. A call goes straight from
// the interpreter to the state that an object holds, with no argument tuple.
#pragma once

#include <Python.h>
#include <cstddef>
#include <nanobind/nanobind.h>
#include <structmember.h>
#include <utility>
#include <vector>

namespace lamina {

namespace nb = nanobind;

// Runs `body`, turning C++ exceptions into Python's.
template <typename Body> PyObject *guarded(Body body) {
  try {
    return body();
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const nb::builtin_exception &error) {
    auto kind = error.type();
    PyErr_SetString(kind == nb::exception_type::value_error   ? PyExc_ValueError
                    : kind == nb::exception_type::index_error ? PyExc_IndexError
                    : kind == nb::exception_type::type_error  ? PyExc_TypeError
                                                              : PyExc_RuntimeError,
                    error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

// Calls `body` with the arguments of a call. Holds references to a list's items meanwhile: another thread may change the list when
// the GIL is released.
template <typename Body> PyObject *with_arguments(PyObject *const *args, size_t count, Body body) {
  if (count != 1 || !PyList_CheckExact(args[0])) return body(args, count);
  nb::object items = nb::steal(PyList_AsTuple(args[0]));
  if (!items.is_valid() || PyList_SetSlice(args[0], 0, PyList_Size(args[0]), nullptr)) throw nb::python_error();
  std::vector<PyObject *> given;
  given.reserve(size_t(PyTuple_Size(items.ptr())));
  for (nb::handle item : items) given.push_back(item.ptr());
  return body(given.data(), given.size());
}

// A Python object that is called by `Call`. Its state is null until `init` creates it. It supports weak references and attributes.
// A state that holds Python objects needs visit(visitproc, void *), for the garbage collector.
template <typename State, PyObject *(*Call)(State &, PyObject *const *, size_t)> struct Callable {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *weak, *dict;
  State *state;

  static Callable *of(PyObject *self) { return reinterpret_cast<Callable *>(self); }

  static PyObject *enter(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    State *state = of(self)->state;
    if (state && !(names && PyTuple_Size(names))) return Call(*state, args, size_t(PyVectorcall_NARGS(flags)));
    PyErr_SetString(PyExc_TypeError, state ? "a compiled program takes no keyword arguments" : "this object was not initialized");
    return nullptr;
  }

  static PyObject *create(PyTypeObject *type, PyObject *, PyObject *) {
    auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject *self = allocate(type, 0);
    if (self) of(self)->call = &enter;
    return self;
  }

  static void destroy(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (of(self)->weak) PyObject_ClearWeakRefs(self);
    clear(self);
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
  }

  static int traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(of(self)->dict);
    if constexpr (requires(State state) { state.visit(visit, arg); })
      if (State *state = of(self)->state) return state->visit(visit, arg);
    return 0;
  }

  static int clear(PyObject *self) {
    delete std::exchange(of(self)->state, nullptr);
    Py_CLEAR(of(self)->dict);
    return 0;
  }

  // Creates the type. name: includes the module; methods: must have static storage.
  static PyObject *make_type(const char *name, const char *doc, initproc init, PyMethodDef *methods) {
    static PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Callable, call), READONLY, nullptr},
        {"__weaklistoffset__", T_PYSSIZET, offsetof(Callable, weak), READONLY, nullptr},
        {"__dictoffset__", T_PYSSIZET, offsetof(Callable, dict), READONLY, nullptr},
        {nullptr, 0, 0, 0, nullptr},
    };
    // functools.wraps reads __dict__; __dictoffset__ alone only allows setting attributes.
    static PyGetSetDef fields[] = {
        {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
        {nullptr, nullptr, nullptr, nullptr, nullptr},
    };
    PyType_Slot slots[] = {
        {Py_tp_doc, const_cast<char *>(doc)},
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
    PyType_Spec spec = {name, sizeof(Callable), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    PyObject *type = PyType_FromSpec(&spec);
    if (!type) throw nb::python_error();
    return type;
  }
};

} // namespace lamina
