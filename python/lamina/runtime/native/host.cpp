// The CPU: memory from the pool, kernels on torch's team of threads.
#include <cstring>

#include "context.h"
#include "team.h"

namespace lamina {
namespace {

// An arena up to this size stays with its context; a larger one goes back to the pool after every run, where other programs find it.
constexpr int64_t kKeepArena = 1 << 20;

void copy_strided(char *to, const int64_t *to_strides, const char *from, const int64_t *from_strides, const int64_t *shape, int64_t ndim,
                  int64_t item) {
  if (ndim == 0) {
    std::memcpy(to, from, size_t(item));
    return;
  }
  if (ndim == 1 && to_strides[0] == 1 && from_strides[0] == 1) {
    std::memcpy(to, from, size_t(item * shape[0]));
    return;
  }
  for (int64_t i = 0; i < shape[0]; ++i)
    copy_strided(to + i * to_strides[0] * item, to_strides + 1, from + i * from_strides[0] * item, from_strides + 1, shape + 1, ndim - 1,
                 item);
}

class Host final : public Device {
public:
  Host() : Device(dlpack::kCPU, false) {}

  int current() override { return 0; }
  void load(int) override {}
  void enter(Context &) override {}
  void leave(Context &) noexcept override {}

  Memory allocate(const Ref &, int64_t bytes, int, void **data) override {
    Block *block = pool().take(size_t(bytes));
    *data = block->data;
    return {.block = block};
  }
  bool keeps(int64_t bytes) const override { return bytes <= kKeepArena; }

  void launch(const Launch &launch, const std::string &, Context &context) override { run_launch(launch, &context.slots[launch.slots]); }
  void wait(const std::string &, Context &) override {}

  void copy(const dlpack::Tensor &from, void *to, const Ref &want, Context &) override {
    if (want.numel())
      copy_strided(static_cast<char *>(to), want.strides.data(), static_cast<const char *>(from.data), from.strides, from.shape, from.ndim,
                   want.dtype->bytes);
  }
};

} // namespace

std::shared_ptr<Device> make_host() { return std::make_shared<Host>(); }

void Memory::release() {
  if (object) Py_DECREF(object);
  if (handle) torch_abi().delete_tensor(handle);
  if (block) block->release();
  if (loan) loan->release();
  *this = {};
}

void Loan::release() {
  if (users_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  torch_abi().delete_tensor(tensor_);
  delete this;
}

} // namespace lamina
