#include "tensor_object.h"

#include <cstring>
#include <nanobind/nanobind.h>

#include "torch_abi.h"

namespace nb = nanobind;

namespace lamina {
namespace {

// Limits of the search: no larger than a TensorImpl (torch asserts its fields' sizes, c10/core/TensorImpl.h) and a StorageImpl.
constexpr int64_t kTensorBytes = 184, kStorageBytes = 64;

template <typename T> T read(const void *base, int64_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char *>(base) + offset, sizeof value);
  return value;
}

// Returns the first multiple of 8 from `start` below `end` at which both bases hold the expected values; 0 if there is none. (An
// address of memory may be followed by the allocator's context pointer, which is the same on the CPU.)
int64_t find_word(const void *a, uint64_t in_a, const void *b, uint64_t in_b, int64_t start, int64_t end) {
  for (int64_t at = start; at + 8 <= end; at += 8)
    if (read<uint64_t>(a, at) == in_a && read<uint64_t>(b, at) == in_b) return at;
  return 0;
}

// A Python context manager, entered for a scope.
class Entered {
public:
  explicit Entered(nb::object context) : context_(std::move(context)) { context_.attr("__enter__")(); }
  ~Entered() {
    try {
      context_.attr("__exit__")(nb::none(), nb::none(), nb::none());
    } catch (nb::python_error &error) {
      error.discard_as_unraisable("leaving a context of torch");
    }
  }
  Entered(const Entered &) = delete;
  Entered &operator=(const Entered &) = delete;

private:
  nb::object context_;
};

} // namespace

TensorLayout find_tensor_layout(PyObject *module) {
  nb::handle torch(module);
  auto number = [](nb::handle value) { return nb::cast<uint64_t>(value); };
  try {
    // A compilation may ask first, under a mode that makes fake tensors, and a user under one that makes tensors without gradients.
    Entered plain(nb::module_::import_("torch.utils._python_dispatch").attr("_disable_current_modes")());
    Entered ordinary(torch.attr("inference_mode")(false));
    nb::object internal = torch.attr("_C");
    auto keys = [&](nb::handle tensor) { return number(internal.attr("_dispatch_keys")(tensor).attr("raw_repr")()); };
    nb::object a = internal.attr("_VariableFunctions").attr("ones")(nb::int_(3), nb::arg("dtype") = torch.attr("complex64"),
                                                               nb::arg("device") = "cpu");
    nb::object b = a.attr("clone")().attr("conj")(), of_a = a.attr("untyped_storage")(), of_b = b.attr("untyped_storage")();
    TensorLayout found;
    found.impl = find_word(a.ptr(), number(a.attr("_cdata")), b.ptr(), number(b.attr("_cdata")), int64_t(sizeof(PyObject)),
                           nb::cast<int64_t>(torch.attr("Tensor").attr("__basicsize__")));
    if (!found.impl) return {};
    auto *in_a = read<const void *>(a.ptr(), found.impl), *in_b = read<const void *>(b.ptr(), found.impl);
    found.keys = find_word(in_a, keys(a), in_b, keys(b), 8, kTensorBytes);
    found.storage = find_word(in_a, number(of_a.attr("_cdata")), in_b, number(of_b.attr("_cdata")), 8, kTensorBytes);
    if (!found.keys || !found.storage) return {};
    found.memory = find_word(read<const void *>(in_a, found.storage), number(of_a.attr("data_ptr")()),
                             read<const void *>(in_b, found.storage), number(of_b.attr("data_ptr")()), 8, kStorageBytes);
    if (!found.memory) return {};
    found.ordinary = keys(a);
    nb::object kinds = internal.attr("DispatchKey");
    for (const char *name : {"CUDA", "AutocastCUDA"})
      found.ordinary |= number(internal.attr("DispatchKeySet")(kinds.attr(name)).attr("raw_repr")());
    return found;
  } catch (nb::python_error &) { // this torch has no such functions
    return {};
  } catch (const nb::cast_error &) {
    return {};
  }
}

bool is_ordinary(PyObject *tensor) {
  const TorchAbi &torch = torch_abi();
  PyTypeObject *type = Py_TYPE(tensor);
  const TensorLayout &layout = torch.layout;
  if ((type != torch.tensor_type && type != torch.parameter_type) || !layout.memory) return false;
  return !(read<uint64_t>(read<const void *>(tensor, layout.impl), layout.keys) & ~layout.ordinary);
}

bool has_storage(PyObject *tensor) {
  const TensorLayout &layout = torch_abi().layout;
  auto *storage = read<const void *>(read<const void *>(tensor, layout.impl), layout.storage);
  return storage && read<const void *>(storage, layout.memory);
}

bool computes_tangents() {
  const TorchAbi &torch = torch_abi();
  PyObject *level = PyDict_GetItemWithError(torch.forward_ad, torch.level_name);
  return level && level != torch.no_level;
}

} // namespace lamina
