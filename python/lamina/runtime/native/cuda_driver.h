// The functions of NVIDIA's driver (libcuda.so.1) that the runtime uses, looked up by name: no CUDA header or toolkit is needed.
// Declarations follow the CUDA Driver API reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace lamina::cuda {

using Result = int; // 0 is success
using DeviceId = int;
using ContextHandle = struct ContextOpaque *;
using ModuleHandle = struct ModuleOpaque *;
using FunctionHandle = struct FunctionOpaque *;
using StreamHandle = void *;
using GraphHandle = struct GraphOpaque *;
using GraphExecHandle = struct GraphExecOpaque *;
using NodeHandle = struct NodeOpaque *;
using EventHandle = struct EventOpaque *;

constexpr Result kOutOfMemory = 2, kNotFound = 500, kNotReady = 600;
constexpr int kComputeMajor = 75, kComputeMinor = 76, kSharedOptIn = 97;               // CUdevice_attribute
constexpr int kMaxDynamicShared = 8, kNonPortableCluster = 14;                         // CUfunction_attribute
constexpr int kClusterDimension = 4, kDependentLaunch = 6;                             // CUlaunchAttributeID
constexpr int kAssert = 710;                                                             // CUDA_ERROR_ASSERT: __assertfail was called
constexpr int kCaptureRelaxed = 2;                                                     // CUstreamCaptureMode
constexpr unsigned char kPortProgrammatic = 1, kEdgeProgrammatic = 1; // CU_GRAPH_KERNEL_NODE_PORT_, CU_GRAPH_DEPENDENCY_TYPE_

struct LaunchAttribute {
  int id;
  char pad[8 - sizeof(int)];
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int allowed;
  } value;
};

struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  StreamHandle stream;
  LaunchAttribute *attributes;
  unsigned attribute_count;
};

struct KernelNodeParams {
  FunctionHandle function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void **parameters, **extra;
  void *kernel; // instead of `function`
  ContextHandle context;
};

// Data of an edge between two nodes of a graph: when the second may start.
struct EdgeData {
  unsigned char from_port, to_port, type, reserved[5];
};

class Driver {
public:
  // Returns the driver in a library; the same object for the same library. Throws std::runtime_error if there is none, or if it is
  // too old.
  static Driver &at(const std::string &library);

  Result (*device_get)(DeviceId *, int) = nullptr;
  Result (*device_name)(char *, int, DeviceId) = nullptr;
  Result (*device_attribute)(int *, int, DeviceId) = nullptr;
  Result (*retain_primary_context)(ContextHandle *, DeviceId) = nullptr;
  Result (*current_context)(ContextHandle *) = nullptr;
  Result (*push_context)(ContextHandle) = nullptr;
  Result (*pop_context)(ContextHandle *) = nullptr;
  Result (*load_module)(ModuleHandle *, const void *) = nullptr;
  Result (*get_function)(FunctionHandle *, ModuleHandle, const char *) = nullptr;
  Result (*set_attribute)(FunctionHandle, int, int) = nullptr;
  Result (*launch)(const LaunchConfig *, FunctionHandle, void **, void **) = nullptr;
  Result (*synchronize)(StreamHandle) = nullptr;
  Result (*is_capturing)(StreamHandle, int *) = nullptr;
  Result (*exchange_capture_mode)(int *) = nullptr;

  // CUDA graphs; may be absent
  Result (*capture_info)(StreamHandle, int *, uint64_t *, GraphHandle *, const NodeHandle **, size_t *) = nullptr;
  Result (*capture_info_with_edges)(StreamHandle, int *, uint64_t *, GraphHandle *, const NodeHandle **, const void **, size_t *) = nullptr;
  Result (*create_graph)(GraphHandle *, unsigned) = nullptr;
  Result (*destroy_graph)(GraphHandle) = nullptr;
  Result (*add_kernel)(NodeHandle *, GraphHandle, const NodeHandle *, size_t, const KernelNodeParams *) = nullptr;
  Result (*set_node_attribute)(NodeHandle, int, const void *) = nullptr;
  Result (*add_edges)(GraphHandle, const NodeHandle *, const NodeHandle *, const EdgeData *, size_t) = nullptr; // from CUDA 12.3 on
  Result (*instantiate)(GraphExecHandle *, GraphHandle, unsigned long long) = nullptr;
  Result (*destroy_exec)(GraphExecHandle) = nullptr;
  Result (*set_node)(GraphExecHandle, NodeHandle, const KernelNodeParams *) = nullptr;
  Result (*launch_graph)(GraphExecHandle, StreamHandle) = nullptr;
  Result (*copy)(uintptr_t, uintptr_t, size_t, StreamHandle) = nullptr;
  Result (*device_memory)(size_t *, DeviceId) = nullptr;
  Result (*create_event)(EventHandle *, unsigned) = nullptr;
  Result (*record_event)(EventHandle, StreamHandle) = nullptr;
  Result (*elapsed)(float *, EventHandle, EventHandle) = nullptr; // in milliseconds; kNotReady if the GPU has not reached the event yet
  Result (*destroy_event)(EventHandle) = nullptr;
  Result (*stream_idle)(StreamHandle) = nullptr; // kNotReady while work is queued; may be null even if graphs are supported
  bool has_graphs() const {
    return (capture_info || capture_info_with_edges) && create_graph && destroy_graph && add_kernel && set_node_attribute && instantiate &&
           destroy_exec && set_node && launch_graph && copy && device_memory && create_event && record_event && elapsed && destroy_event;
  }
  // Returns the node that was captured last on a stream. Throws std::runtime_error if there are several.
  NodeHandle last_node(StreamHandle) const;

  int32_t (*current_stream)(int32_t, void **) = nullptr; // torch's function, or the library's own if it has one (in tests)

  std::string text(Result) const; // "CUDA_ERROR_INVALID_VALUE: invalid argument"
  std::string version() const;    // "13.0"
  void check(Result, const std::string &what) const; // throws std::runtime_error "WHAT: TEXT"

  // A module stays loaded until the process ends, as a recorded CUDA graph may hold its kernels; equal code is loaded once. The
  // context must be current.
  Result module(ContextHandle, const std::string &code, ModuleHandle *);

private:
  explicit Driver(const std::string &library);

  Result (*error_name_)(Result, const char **) = nullptr;
  Result (*error_string_)(Result, const char **) = nullptr;
  int version_ = 0;
  std::mutex mutex_;
  std::map<std::pair<ContextHandle, std::string>, ModuleHandle> modules_;
};

// Makes a context current during its lifetime.
class Current {
public:
  Current(Driver &driver, ContextHandle context);
  ~Current();

private:
  Driver &driver_;
  bool pushed_;
};

// During its lifetime, the thread may call functions that a capture by another thread would forbid.
class Relaxed {
public:
  explicit Relaxed(Driver &driver) : driver_(driver) { driver_.exchange_capture_mode(&mode_); }
  ~Relaxed() { driver_.exchange_capture_mode(&mode_); }
  Relaxed(const Relaxed &) = delete;

private:
  Driver &driver_;
  int mode_ = kCaptureRelaxed;
};

} // namespace lamina::cuda
