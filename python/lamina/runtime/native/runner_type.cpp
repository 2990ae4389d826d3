// lamina._native.Runner as a plain CPython type.
#include "runner_type.h"

#include <nanobind/stl/string.h>
#include <new>

#include "build.h"
#include "callable.h"
#include "runner.h"

namespace lamina {
namespace {

// Adds the planned bytes to torch's out-of-memory error.
void note_memory(const Plan &plan, const nb::python_error &error) {
  nb::object kind = nb::getattr(nb::module_::import_("torch"), "OutOfMemoryError", nb::none());
  if (kind.is_none() || !PyErr_GivenExceptionMatches(error.type().ptr(), kind.ptr())) return;
  std::string note = plan.name + ": planned an arena of " + std::to_string(plan.arena_bytes) + " bytes and results of " +
                     std::to_string(plan.output_bytes) + " bytes";
  error.value().attr("add_note")(note);
}

// Runs `body` like `guarded`; if memory runs out, the error says what was planned.
template <typename Body> PyObject *noted(const Runner *runner, Body body) {
  return guarded([&]() -> PyObject * {
    try {
      return body();
    } catch (nb::python_error &error) {
      if (runner && runner->plan().gpu) note_memory(runner->plan(), error);
      throw;
    } catch (const std::bad_alloc &) {
      const Plan *plan = runner ? &runner->plan() : nullptr;
      return PyErr_Format(PyExc_MemoryError, "%s: out of memory: planned an arena of %lld bytes and results of %lld bytes",
                          plan ? plan->name.c_str() : "lamina", plan ? (long long)plan->arena_bytes : 0LL,
                          plan ? (long long)plan->output_bytes : 0LL);
    }
  });
}

PyObject *run(Runner &runner, PyObject *const *args, size_t count) {
  return noted(&runner, [&] {
    return with_arguments(args, count, [&](PyObject *const *tensors, size_t number) { return runner.run(tensors, number); });
  });
}

using Object = Callable<Runner, run>;

int init(PyObject *self, PyObject *args, PyObject *) {
  PyObject *spec = nullptr;
  if (!PyArg_ParseTuple(args, "O!:Runner", &PyDict_Type, &spec)) return -1;
  PyObject *done = noted(nullptr, [&] {
    torch_abi();
    auto *fresh = new Runner(build_plan(nb::borrow<nb::dict>(spec)));
    delete std::exchange(Object::of(self)->state, fresh);
    return Py_NewRef(Py_None);
  });
  Py_XDECREF(done);
  return done ? 0 : -1;
}

PyObject *packed(PyObject *self, PyObject *) {
  Runner *runner = Object::of(self)->state;
  return PyLong_FromLong(runner ? runner->packs().packed() : 0);
}

PyObject *load(PyObject *self, PyObject *index) {
  Runner *runner = Object::of(self)->state;
  long number = PyLong_AsLong(index);
  if (number < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a device's number is not negative");
    return nullptr;
  }
  return noted(runner, [&] {
    if (runner) runner->plan().device->load(int(number));
    return Py_NewRef(Py_None);
  });
}

PyObject *graphs(PyObject *self, PyObject *) {
  Runner *runner = Object::of(self)->state;
  return noted(runner, [&] { return runner ? runner->graphs().release().ptr() : Py_NewRef(Py_None); });
}

PyMethodDef methods[] = {
    {"packed", packed, METH_NOARGS, "How many of the program's matrix products run on packed weights now."},
    {"graphs", graphs, METH_NOARGS, "Whether the steps run as a recorded CUDA graph, as a dict; None on the CPU."},
    {"load", load, METH_O, "Loads code and constants on the GPU of this number now, not at the first call there."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

PyObject *make_runner_type() {
  return Object::make_type("lamina._native.Runner",
                           "A program ready to run: call it with tensors, or with one list of tensors, which it empties. "
                           "The result is a tuple of tensors.",
                           init, methods);
}

} // namespace lamina
