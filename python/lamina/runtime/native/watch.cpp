// Watch: checks whether the Python state that a compilation depended on is unchanged.
#include "watch.h"

#include <nanobind/stl/string.h>
#include <vector>

namespace lamina {
namespace {

struct Item {
  nb::object dict, key, value;
};

struct Size {
  nb::object dict;
  Py_ssize_t count;
};

struct Result {
  nb::object function, arguments, value;
};

// A compiled model asks this at every call: entries of dictionaries compare by identity, a few nanoseconds each.
class Watch {
public:
  Watch(nb::list items, nb::list sizes, nb::list results, nb::tuple pattern, nb::tuple types) {
    for (nb::handle item : items) items_.push_back({item[0], item[1], item[2]});
    for (nb::handle size : sizes) sizes_.push_back({size[0], nb::cast<Py_ssize_t>(size[1])});
    for (nb::handle result : results) results_.push_back({result[0], result[1], result[2]});
    for (nb::handle first : pattern) pattern_.push_back(nb::cast<size_t>(first));
    for (nb::handle type : types) types_.push_back(nb::borrow(type));
  }

  bool holds(nb::tuple arguments) const { return same_pattern(arguments) && is_current() && same_results(); }

  bool is_current() const {
    for (const Item &item : items_) {
      PyObject *found = PyDict_GetItemWithError(item.dict.ptr(), item.key.ptr());
      if (!found && PyErr_Occurred()) throw nb::python_error();
      if (found != item.value.ptr()) return false;
    }
    for (const Size &size : sizes_)
      if (PyDict_Size(size.dict.ptr()) != size.count) return false;
    return true;
  }

  int traverse(visitproc visit, void *arg) const {
    for (const Item &item : items_) {
      Py_VISIT(item.dict.ptr());
      Py_VISIT(item.value.ptr());
    }
    for (const Size &size : sizes_) Py_VISIT(size.dict.ptr());
    for (const Result &result : results_) Py_VISIT(result.function.ptr());
    return 0;
  }

  void clear() {
    items_.clear();
    sizes_.clear();
    results_.clear();
  }

private:
  // Checks the number and types of the arguments, and that those which were one object still are.
  bool same_pattern(nb::tuple arguments) const {
    size_t count = size_t(PyTuple_Size(arguments.ptr()));
    if (count != pattern_.size()) return false;
    for (size_t i = 0; i < count; ++i) {
      PyObject *argument = PyTuple_GetItem(arguments.ptr(), Py_ssize_t(i));
      if (!is_of_types(Py_TYPE(argument))) return false;
      for (size_t j = 0; j < i; ++j)
        if (pattern_[j] == j && (PyTuple_GetItem(arguments.ptr(), Py_ssize_t(j)) == argument) != (pattern_[i] == j)) return false;
    }
    return true;
  }

  bool is_of_types(PyTypeObject *type) const {
    for (const nb::object &one : types_)
      if ((PyObject *)type == one.ptr()) return true;
    return false;
  }

  bool same_results() const {
    for (const Result &result : results_) {
      nb::object found = nb::steal(PyObject_CallObject(result.function.ptr(), result.arguments.ptr()));
      if (!found.is_valid()) throw nb::python_error();
      if (found.is(result.value)) continue;
      int equal = PyObject_RichCompareBool(found.ptr(), result.value.ptr(), Py_EQ);
      if (equal < 0) throw nb::python_error();
      if (!equal) return false;
    }
    return true;
  }

  std::vector<Item> items_;
  std::vector<Size> sizes_;
  std::vector<Result> results_;
  std::vector<size_t> pattern_;
  std::vector<nb::object> types_;
};

int traverse(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  return nb::inst_ready(self) ? nb::inst_ptr<Watch>(self)->traverse(visit, arg) : 0;
}

int clear(PyObject *self) {
  if (nb::inst_ready(self)) nb::inst_ptr<Watch>(self)->clear();
  return 0;
}

PyType_Slot slots[] = {{Py_tp_traverse, (void *)traverse}, {Py_tp_clear, (void *)clear}, {0, nullptr}};

} // namespace

void add_watch(nb::module_ &m) {
  nb::class_<Watch>(m, "Watch", nb::type_slots(slots), "Whether the Python state that a compilation depended on is as it was.")
      .def(nb::init<nb::list, nb::list, nb::list, nb::tuple, nb::tuple>(), nb::arg("items"), nb::arg("sizes"), nb::arg("results"),
           nb::arg("pattern"), nb::arg("types"),
           "items: (dictionary, key, the object there); sizes: (dictionary, how many entries); results: (function, arguments, what it "
           "returned); pattern: for each argument of a call the number of the first one that is the same object; types: of arguments.")
      .def("holds", &Watch::holds, nb::arg("arguments"), "Whether all is as it was, for a call with these arguments.");
}

} // namespace lamina
