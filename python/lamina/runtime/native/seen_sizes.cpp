// SeenSizes: a set of sizes and strides of tensors.
#include "seen_sizes.h"

#include <nanobind/stl/vector.h>
#include <set>
#include <vector>

#include "tensors.h"

namespace lamina {
namespace {

// A compiled model asks this at every call of symbolic sizes, so a call whose sizes are known takes no Python.
class SeenSizes {
public:
  SeenSizes(std::vector<Py_ssize_t> places, size_t limit) : places_(std::move(places)), limit_(limit) { torch_abi(); }

  bool holds(nb::handle tensors) const { return seen_.contains(key(tensors)); }

  void add(nb::handle tensors) {
    if (seen_.size() >= limit_) seen_.clear();
    seen_.insert(key(tensors));
  }

  void clear() { seen_.clear(); }

private:
  using Key = std::vector<int64_t>;

  Key key(nb::handle tensors) const {
    Key found;
    found.reserve(8 * places_.size());
    for (Py_ssize_t place : places_) {
      nb::object tensor = nb::steal(PySequence_GetItem(tensors.ptr(), place));
      if (!tensor.is_valid()) throw nb::python_error();
      if (is_ordinary(tensor.ptr())) {
        dlpack::Tensor t = memory_of(tensor.ptr());
        found.push_back(t.ndim);
        found.insert(found.end(), t.shape, t.shape + t.ndim);
        found.insert(found.end(), t.strides, t.strides + t.ndim);
        continue;
      }
      nb::object shape = tensor.attr("shape"), strides = tensor.attr("stride")();
      found.push_back(int64_t(nb::len(shape)));
      for (nb::handle n : shape) found.push_back(nb::cast<int64_t>(n));
      for (nb::handle n : strides) found.push_back(nb::cast<int64_t>(n));
    }
    return found;
  }

  std::vector<Py_ssize_t> places_;
  size_t limit_;
  std::set<Key> seen_;
};

} // namespace

void add_seen_sizes(nb::module_ &m) {
  nb::class_<SeenSizes>(m, "SeenSizes", "A set of sizes and strides of tensors.")
      .def(nb::init<std::vector<Py_ssize_t>, size_t>(), nb::arg("places"), nb::arg("limit"),
           "places: which tensors of a call count; limit: how many sets of sizes are kept, before all are dropped.")
      .def("holds", &SeenSizes::holds, nb::arg("tensors"), "Whether the sizes and strides of these tensors were added.")
      .def("add", &SeenSizes::add, nb::arg("tensors"), "Adds the sizes and strides of these tensors.")
      .def("clear", &SeenSizes::clear, "Drops all.");
}

} // namespace lamina
