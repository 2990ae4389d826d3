// The part of DLPack 1.x that the runtime uses (https://dmlc.github.io/dlpack/latest/c_api.html): the description of a
// tensor, and the table of functions that a framework's tensor type has as `__dlpack_c_exchange_api__`.
#pragma once

#include <cstdint>

namespace lamina::dlpack {

struct Version {
  uint32_t major, minor;
};

enum DeviceType : int32_t { kCPU = 1, kCUDA = 2 };

struct Device {
  int32_t type, id;
  bool operator==(const Device &) const = default;
};

// code: 0 signed, 1 unsigned, 2 float, 4 bfloat, 5 complex, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
  bool operator==(const DataType &) const = default;
};

// strides are in elements
struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct ManagedTensor {
  Version version;
  void *manager_ctx;
  void (*deleter)(ManagedTensor *);
  uint64_t flags;
  Tensor tensor;
};

// Every function returns 0, or -1 with a Python exception set. All need the GIL.
struct ExchangeAPI {
  Version version;
  ExchangeAPI *previous;
  int (*allocate)(Tensor *prototype, ManagedTensor **out, void *error_ctx,
                  void (*set_error)(void *, const char *, const char *));
  int (*managed_from_py)(void *object, ManagedTensor **out);
  int (*managed_to_py)(ManagedTensor *tensor, void **out_object);
  int (*tensor_from_py)(void *object, Tensor *out); // borrowed; may be null
  int (*current_stream)(int32_t device_type, int32_t device_id, void **out);
};

} // namespace lamina::dlpack
