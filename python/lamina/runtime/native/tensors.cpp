#include "tensors.h"

#include <mutex>

namespace lamina {
namespace {

constexpr int kDims = 8;

// The memory of a tensor that torch created over the runtime's memory: passed to torch with the tensor, returned by its deleter.
struct Lease {
  dlpack::ManagedTensor managed;
  Block *block;
  PyObject *object;
  Handle handle;
  Loan *loan;
  int64_t shape[kDims], strides[kDims];
  std::vector<int64_t> more; // shape and strides beyond kDims
  Lease *next;
};

// A free list of leases, so that creating a result does not call malloc.
class Leases {
public:
  Lease *take() {
    std::lock_guard lock(mutex_);
    if (!free_) return new Lease{};
    Lease *lease = free_;
    free_ = lease->next;
    --count_;
    return lease;
  }
  void give(Lease *lease) {
    {
      std::lock_guard lock(mutex_);
      if (count_ < 1024) {
        lease->next = free_;
        free_ = lease;
        ++count_;
        return;
      }
    }
    delete lease;
  }

private:
  std::mutex mutex_;
  Lease *free_ = nullptr;
  int count_ = 0;
};

Leases &leases() {
  static Leases *shared = new Leases; // outlives every tensor
  return *shared;
}

// torch may call this in any thread, with or without the GIL, and while the interpreter ends.
void end_lease(dlpack::ManagedTensor *managed) {
  auto *lease = static_cast<Lease *>(managed->manager_ctx);
  if (lease->block) lease->block->release();
  if (lease->loan) lease->loan->release();
  if (lease->handle) torch_abi().delete_tensor(lease->handle);
  if (lease->object && Py_IsInitialized()) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(lease->object);
    PyGILState_Release(state);
  }
  leases().give(lease);
}

} // namespace

PyObject *tensor_over(void *data, const Ref &r, dlpack::Device on, const Memory &owner) {
  Lease *lease = leases().take();
  int n = int(r.shape.size());
  int64_t *shape = lease->shape, *strides = lease->strides;
  if (n > kDims) {
    lease->more.resize(2 * size_t(n));
    shape = lease->more.data();
    strides = shape + n;
  }
  for (int i = 0; i < n; ++i) {
    shape[i] = r.shape[i];
    strides[i] = r.strides[i];
  }
  lease->block = owner.block;
  lease->object = owner.object;
  lease->handle = nullptr;
  lease->loan = owner.loan;
  if (owner.block) owner.block->retain();
  if (owner.loan) owner.loan->retain();
  Py_XINCREF(owner.object);
  if (owner.handle && torch_abi().new_handle(owner.handle, &lease->handle))
    throw nb::builtin_exception(nb::exception_type::runtime_error, "torch gave no tensor handle");
  lease->managed = {{1, 0}, lease, end_lease, 0, {data, on, n, r.dtype->dl, shape, strides, 0}};
  void *tensor = nullptr;
  if (torch_abi().exchange->managed_to_py(&lease->managed, &tensor)) {
    nb::python_error error;
    end_lease(&lease->managed);
    throw error;
  }
  return static_cast<PyObject *>(tensor);
}

dlpack::Tensor memory_of(PyObject *tensor) {
  dlpack::Tensor t;
  if (torch_abi().exchange->tensor_from_py(tensor, &t)) throw nb::python_error();
  t.data = static_cast<char *>(t.data) + t.byte_offset;
  return t;
}

} // namespace lamina
