// lamina._native.Runner as a plain CPython type: a call goes straight from the interpreter to the runner, with no argument tuple.
#include "runner_type.h"

#include <cstddef>
#include <nanobind/stl/string.h>
#include <new>
#include <structmember.h>

#include "build.h"
#include "runner.h"

namespace lamina {
namespace {

struct Object {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject *weak, *dict;
  Runner *runner;
};

// Tells of an error that torch has no memory left what was planned.
void note_memory(const Plan &plan, const nb::python_error &error) {
  nb::object kind = nb::getattr(nb::module_::import_("torch"), "OutOfMemoryError", nb::none());
  if (kind.is_none() || !PyErr_GivenExceptionMatches(error.type().ptr(), kind.ptr())) return;
  std::string note = plan.name + ": planned an arena of " + std::to_string(plan.arena_bytes) + " bytes and results of " +
                     std::to_string(plan.output_bytes) + " bytes";
  error.value().attr("add_note")(note);
}

// Runs `body`, turning C++ exceptions into Python's.
template <typename Body> PyObject *guarded(const Runner *runner, Body body) {
  try {
    return body();
  } catch (nb::python_error &error) {
    if (runner && runner->plan().gpu) note_memory(runner->plan(), error);
    error.restore();
  } catch (const std::bad_alloc &) {
    const Plan *plan = runner ? &runner->plan() : nullptr;
    PyErr_Format(PyExc_MemoryError, "%s: out of memory: planned an arena of %lld bytes and results of %lld bytes",
                 plan ? plan->name.c_str() : "lamina", plan ? (long long)plan->arena_bytes : 0LL, plan ? (long long)plan->output_bytes : 0LL);
  } catch (const nb::builtin_exception &error) {
    bool value = error.type() == nb::exception_type::value_error, index = error.type() == nb::exception_type::index_error;
    PyErr_SetString(value ? PyExc_ValueError : index ? PyExc_IndexError : PyExc_RuntimeError, error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

PyObject *call(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
  Runner *runner = reinterpret_cast<Object *>(self)->runner;
  size_t count = size_t(PyVectorcall_NARGS(flags));
  if (names && PyTuple_Size(names)) {
    PyErr_SetString(PyExc_TypeError, "a compiled program takes no keyword arguments");
    return nullptr;
  }
  if (!runner) {
    PyErr_SetString(PyExc_TypeError, "this Runner was not initialized with a program");
    return nullptr;
  }
  if (count != 1 || !PyList_CheckExact(args[0])) return guarded(runner, [&] { return runner->run(args, count); });
  return guarded(runner, [&] {
    // Hold the items: another thread may change the list while the GIL is away.
    nb::object items = nb::steal(PyList_AsTuple(args[0]));
    if (!items.is_valid() || PyList_SetSlice(args[0], 0, PyList_Size(args[0]), nullptr)) throw nb::python_error();
    std::vector<PyObject *> tensors;
    tensors.reserve(size_t(PyTuple_Size(items.ptr())));
    for (nb::handle item : items) tensors.push_back(item.ptr());
    return runner->run(tensors.data(), tensors.size());
  });
}

int init(PyObject *self, PyObject *args, PyObject *) {
  auto *object = reinterpret_cast<Object *>(self);
  PyObject *spec = nullptr;
  if (!PyArg_ParseTuple(args, "O!:Runner", &PyDict_Type, &spec)) return -1;
  PyObject *done = guarded(nullptr, [&] {
    torch_abi();
    auto *fresh = new Runner(build_plan(nb::borrow<nb::dict>(spec)));
    delete std::exchange(object->runner, fresh);
    return Py_NewRef(Py_None);
  });
  Py_XDECREF(done);
  return done ? 0 : -1;
}

PyObject *create(PyTypeObject *type, PyObject *, PyObject *) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  auto *self = reinterpret_cast<Object *>(allocate(type, 0));
  if (self) self->call = &call;
  return reinterpret_cast<PyObject *>(self);
}

void destroy(PyObject *self) {
  auto *object = reinterpret_cast<Object *>(self);
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (object->weak) PyObject_ClearWeakRefs(self);
  delete object->runner;
  Py_CLEAR(object->dict);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

int traverse(PyObject *self, visitproc visit, void *arg) {
  auto *object = reinterpret_cast<Object *>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object->dict);
  return 0;
}

int clear(PyObject *self) {
  Py_CLEAR(reinterpret_cast<Object *>(self)->dict);
  return 0;
}

PyObject *packed(PyObject *self, PyObject *) {
  Runner *runner = reinterpret_cast<Object *>(self)->runner;
  return PyLong_FromLong(runner ? runner->packs().packed() : 0);
}

PyObject *load(PyObject *self, PyObject *index) {
  Runner *runner = reinterpret_cast<Object *>(self)->runner;
  long number = PyLong_AsLong(index);
  if (number < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a device's number is not negative");
    return nullptr;
  }
  return guarded(runner, [&] {
    if (runner) runner->plan().device->load(int(number));
    return Py_NewRef(Py_None);
  });
}

PyObject *graphs(PyObject *self, PyObject *) {
  Runner *runner = reinterpret_cast<Object *>(self)->runner;
  return guarded(runner, [&] { return runner ? runner->graphs().release().ptr() : Py_NewRef(Py_None); });
}

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Object, call), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Object, weak), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(Object, dict), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

// functools.wraps reads it; __dictoffset__ alone lets attributes be set.
PyGetSetDef fields[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMethodDef methods[] = {
    {"packed", packed, METH_NOARGS, "How many of the program's matrix products run on packed weights now."},
    {"graphs", graphs, METH_NOARGS, "Whether the steps run as a recorded CUDA graph, as a dict; None on the CPU."},
    {"load", load, METH_O, "Loads code and constants on the GPU of this number now, not at the first call there."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char *>("A program ready to run: call it with tensors, or with one list of tensors, which it empties. "
                                   "The result is a tuple of tensors.")},
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

PyType_Spec type_spec = {"lamina._native.Runner", sizeof(Object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};

} // namespace

PyObject *make_runner_type() {
  PyObject *type = PyType_FromSpec(&type_spec);
  if (!type) throw nb::python_error();
  return type;
}

} // namespace lamina
