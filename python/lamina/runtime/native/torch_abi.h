// The parts of torch that the runtime uses, looked up by name in the running process: the DLPack exchange table of torch.Tensor, the stable
// C shim (aoti_torch_*, declared in torch/include/torch/csrc/inductor/aoti_torch/c/shim.h and generated/c_shim_cpu.h), the OpenMP
// runtime that torch itself runs on, and MKL's packed GEMM if torch was built with MKL. What is missing is null, and the
// callers have a fallback.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "dlpack.h"
#include "tensor_object.h"

namespace lamina {

using Handle = struct AtenTensorOpaque *; // AtenTensorHandle: owns one reference to an at::Tensor
using RecordHandle = struct AtenRecordOpaque *;
using ListHandle = struct StableListOpaque *;

// c10::DeviceType of a DLPack device type: both count the CPU and CUDA first.
constexpr int32_t shim_device(int32_t type) { return type == dlpack::kCUDA ? 1 : 0; }

// The library routines of one kind of device.
struct Routines {
  void *library = nullptr; // the library that contains them
  int32_t (*mm_out)(Handle, Handle, Handle) = nullptr;
  int32_t (*bmm_out)(Handle, Handle, Handle) = nullptr;
  int32_t (*addmm_out)(Handle, Handle, Handle, Handle, double, double) = nullptr;
  int32_t (*baddbmm_out)(Handle, Handle, Handle, Handle, double, double) = nullptr;
  int32_t (*convolution)(Handle, Handle, Handle *, const int64_t *, int64_t, const int64_t *, int64_t, const int64_t *, int64_t, int32_t,
                         const int64_t *, int64_t, int64_t, Handle *) = nullptr;
  int32_t (*randint)(int64_t, int64_t, const int64_t *, int64_t, int32_t *, int32_t *, int32_t *, int32_t, int32_t *, Handle *) = nullptr;
  // attention on GPUs
  int32_t (*flash)(Handle, Handle, Handle, double, int32_t, int32_t, double *, Handle *, Handle *, Handle *, Handle *, int64_t *, int64_t *,
                   Handle *, Handle *, Handle *) = nullptr;
  int32_t (*efficient)(Handle, Handle, Handle, Handle *, int32_t, double, int32_t, double *, Handle *, Handle *, Handle *,
                       Handle *) = nullptr;
  int32_t (*cudnn)(Handle, Handle, Handle, Handle *, int32_t, double, int32_t, int32_t, double *, Handle *, Handle *, Handle *, Handle *,
                   int64_t *, int64_t *, Handle *, Handle *, Handle *) = nullptr;
};

// Parameters and result of at::detail::empty_strided_cuda, with their C++ ABI.
struct ArrayRef {
  const int64_t *data;
  size_t size;
};
struct DeviceOf {
  int8_t type, index;
};
struct TensorBase {
  TensorBase(TensorBase &&other) noexcept : impl(std::exchange(other.impl, nullptr)) {}
  ~TensorBase() {} // the reference is released through its Handle
  void *impl;
};

struct TorchAbi {
  // torch.Tensor and its exchange table
  PyTypeObject *tensor_type = nullptr;
  PyTypeObject *parameter_type = nullptr;
  dlpack::ExchangeAPI *exchange = nullptr;
  TensorLayout layout;

  // torch.autograd.forward_ad: its globals, the name of the variable with the current level, and its value outside of all levels
  PyObject *forward_ad = nullptr, *level_name = nullptr, *no_level = nullptr;

  // tensors from memory
  int32_t (*create_from_blob)(void *, int64_t, const int64_t *, const int64_t *, int64_t, int32_t, int32_t, int32_t, Handle *) = nullptr;
  int32_t (*delete_tensor)(Handle) = nullptr;
  int32_t (*new_handle)(Handle, Handle *) = nullptr; // one more reference to the same tensor
  int32_t (*get_data_ptr)(Handle, void **) = nullptr;
  int32_t (*get_sizes)(Handle, int64_t **) = nullptr;
  int32_t (*get_strides)(Handle, int64_t **) = nullptr;
  int32_t (*get_dim)(Handle, int64_t *) = nullptr;
  int32_t (*get_dtype)(Handle, int32_t *) = nullptr;
  int32_t (*empty_strided)(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, Handle *) = nullptr;
  int32_t (*reinterpret)(Handle, int64_t, const int64_t *, const int64_t *, int64_t, Handle *) = nullptr; // a view of it
  PyObject *(*wrap)(Handle) = nullptr; // the same tensor in Python; needs the GIL
  bool (*grad_mode_enabled)() = nullptr;
  void (*set_grad_mode)(bool) = nullptr;

  // library routines
  Routines cpu, cuda;
  int32_t (*flash_attention)(Handle, Handle, Handle, double, int32_t, Handle *, double *, Handle *, Handle *) = nullptr;

  int32_t (*copy)(Handle, Handle, int32_t) = nullptr; // into the first

  // calls any operator through the dispatcher, on a stack of words (StableIValue): see dispatcher.cpp
  int32_t (*call_dispatcher)(const char *, const char *, uint64_t *, uint64_t) = nullptr;
  int32_t (*new_list)(size_t, ListHandle *) = nullptr;
  int32_t (*push_back)(ListHandle, uint64_t) = nullptr;
  int32_t (*new_optional)(uint64_t **) = nullptr; // only in torch newer than 2.11, which takes the result of `new`
  int32_t (*new_undefined)(Handle *) = nullptr;
  int32_t (*get_device_type)(Handle, int32_t *) = nullptr;
  int32_t (*get_device_index)(Handle, int32_t *) = nullptr;

  int32_t (*packed_convolution)(Handle, Handle, Handle *, const int64_t *, int64_t, const int64_t *, int64_t, const int64_t *, int64_t,
                                int64_t, const char *, const double **, int64_t, const char **, Handle *) = nullptr;

  // MKL: C = A * packed(B)
  size_t (*pack_size)(int, int, int, int) = nullptr;
  void (*pack)(int, int, int, int, int, int, float, const float *, int, float *) = nullptr;
  void (*compute)(int, int, int, int, int, int, const float *, int, const float *, int, float, float *, int) = nullptr;

  // at::native::mkldnn_matmul(a, b, out, beta, alpha): a handle is the address of an at::Tensor. Null on Intel's processors, where MKL
  // is as fast and packs weights.
  void (*onednn_matmul)(Handle, Handle, Handle, float, float) = nullptr;

  // torch's own thread team
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = nullptr;
  int (*num_threads)() = nullptr; // what torch.set_num_threads set, for the calling thread
  int (*thread_num)() = nullptr;
  int (*team_size)() = nullptr;
  int (*in_parallel)() = nullptr;

  // profiler
  bool (*profiler_enabled)() = nullptr;
  int32_t (*record_start)(const char *, void *, const void *, uint64_t, RecordHandle *) = nullptr;
  int32_t (*record_end)(RecordHandle) = nullptr;

  // GPUs: memory without the dispatcher, and torch's current stream
  TensorBase (*empty_cuda)(ArrayRef, ArrayRef, int8_t, std::optional<DeviceOf>) = nullptr;
  int32_t (*current_cuda_stream)(int32_t, void **) = nullptr;

  std::string library; // path of libtorch_cpu

  bool has_shim() const {
    return create_from_blob && delete_tensor && new_handle && get_data_ptr && get_sizes && get_strides && get_dim && get_dtype &&
           empty_strided && reinterpret && copy;
  }
  bool has_dispatcher() const {
    return has_shim() && call_dispatcher && new_list && push_back && new_undefined && get_device_type && get_device_index;
  }
  // Allocates a tensor on a GPU; null if that fails.
  Handle new_cuda_tensor(int64_t ndim, const int64_t *shape, const int64_t *strides, int32_t scalar_type, int index) const;
  const Routines &routines(int32_t type) const { return type == dlpack::kCUDA ? cuda : cpu; }
  bool has_team() const { return parallel && num_threads && thread_num && team_size && in_parallel; }
  bool has_packed_gemm() const { return pack_size && pack && compute; }
  bool has_profiler() const { return profiler_enabled && record_start && record_end; }
};

// Looked up at the first call, which imports torch; the GIL must be held then. Throws nanobind::python_error.
const TorchAbi &torch_abi();

} // namespace lamina
