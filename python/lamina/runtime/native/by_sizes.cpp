// lamina._native.BySizes: finds the program for the sizes of a call and calls it, without Python for sizes that it knows.
#include "by_sizes.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nanobind/stl/vector.h>
#include <utility>
#include <vector>

#include "callable.h"
#include "tensors.h"
#include "torch_abi.h"

namespace lamina {
namespace {

// Where the value of a symbol is found: argument `argument` itself (an int) if `dim` is negative, else that size or stride of it.
struct Source {
  size_t argument;
  int64_t dim;
  bool stride;
};

// The program for some sizes, and the arguments that it takes; all of them if `picks` is empty.
struct Target {
  nb::object run;
  bool all;
  std::vector<size_t> picks;
  uint64_t used;
  bool renewed = false; // whether it has to be bound again
};

using Key = std::vector<int64_t>;

struct State {
  std::vector<Source> sources;
  size_t arguments = 0; // least number that the sources need
  nb::object bind;
  size_t limit = 0;
  std::map<Key, Target> targets;
  uint64_t calls = 0;

  int visit(visitproc visit, void *arg) {
    Py_VISIT(bind.ptr());
    for (auto &[key, target] : targets) Py_VISIT(target.run.ptr());
    return 0;
  }
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
  nb::object picks = bound[1], old; // the old program is freed after the table is consistent again
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

PyObject *find_and_run(State &state, PyObject *const *given, size_t count) {
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

PyObject *run(State &state, PyObject *const *args, size_t count) {
  return guarded([&] {
    return with_arguments(args, count, [&](PyObject *const *given, size_t number) { return find_and_run(state, given, number); });
  });
}

using Object = Callable<State, run>;

int init(PyObject *self, PyObject *args, PyObject *) {
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
    delete std::exchange(Object::of(self)->state, fresh.release());
    return 0;
  } catch (nb::python_error &error) {
    error.restore();
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return -1;
}

// The stored programs, by their sizes.
PyObject *programs(PyObject *self, PyObject *) {
  State *state = Object::of(self)->state;
  nb::dict found;
  if (state)
    for (auto &[key, target] : state->targets) found[nb::tuple(nb::cast(key))] = target.run;
  return found.release().ptr();
}

// Makes the next call at some sizes bind again. The stored program stays in use if `bind` returns None.
PyObject *renew(PyObject *self, PyObject *sizes) {
  State *state = Object::of(self)->state;
  try {
    if (state)
      if (auto found = state->targets.find(nb::cast<Key>(nb::handle(sizes))); found != state->targets.end()) found->second.renewed = true;
  } catch (const std::exception &) {
    return PyErr_SetString(PyExc_TypeError, "sizes are a tuple of ints"), nullptr;
  }
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"programs", programs, METH_NOARGS, "The programs that are kept, by their sizes, as a dict."},
    {"renew", renew, METH_O, "Has the next call at some sizes bind anew; the program kept for them serves on where `bind` returns None."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

PyObject *make_by_sizes_type() {
  return Object::make_type("lamina._native.BySizes",
                           "A program with symbolic sizes: call it with tensors and ints, or with one list of them, which it "
                           "empties. It runs the program that `bind` returned for these sizes.",
                           init, methods);
}

} // namespace lamina
