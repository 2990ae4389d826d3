#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdexcept>
#include <vector>

#include "torch_abi.h"

namespace lamina::cuda {
namespace {

constexpr int kOldest = 11080; // the first version with cuLaunchKernelEx

std::string dotted(int version) { return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10); }

} // namespace

Driver &Driver::at(const std::string &library) {
  static std::mutex mutex;
  static auto *drivers = new std::map<std::string, std::unique_ptr<Driver>>; // modules outlive every runner
  std::lock_guard lock(mutex);
  auto &found = (*drivers)[library];
  if (!found) found.reset(new Driver(library));
  return *found;
}

Driver::Driver(const std::string &library) {
  void *lib = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!lib) {
    const char *why = dlerror();
    throw std::runtime_error("a program for an NVIDIA GPU needs NVIDIA's driver, which was not found: " + std::string(why ? why : library));
  }
  std::vector<std::string> missing;
  auto find = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(lib, name));
    if (!function) missing.push_back(name);
  };
  Result (*init)(unsigned) = nullptr;
  Result (*driver_version)(int *) = nullptr;
  find(init, "cuInit");
  find(driver_version, "cuDriverGetVersion");
  find(error_name_, "cuGetErrorName");
  find(error_string_, "cuGetErrorString");
  find(device_get, "cuDeviceGet");
  find(device_name, "cuDeviceGetName");
  find(device_attribute, "cuDeviceGetAttribute");
  find(retain_primary_context, "cuDevicePrimaryCtxRetain");
  find(current_context, "cuCtxGetCurrent");
  find(push_context, "cuCtxPushCurrent_v2");
  find(pop_context, "cuCtxPopCurrent_v2");
  find(load_module, "cuModuleLoadData");
  find(get_function, "cuModuleGetFunction");
  find(set_attribute, "cuFuncSetAttribute");
  find(launch, "cuLaunchKernelEx");
  find(synchronize, "cuStreamSynchronize");
  find(is_capturing, "cuStreamIsCapturing");
  find(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  auto find_if_there = [&](auto &function, const char *name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(lib, name));
  };
  find_if_there(capture_info, "cuStreamGetCaptureInfo_v2");
  find_if_there(capture_info_with_edges, "cuStreamGetCaptureInfo_v3");
  find_if_there(create_graph, "cuGraphCreate");
  find_if_there(destroy_graph, "cuGraphDestroy");
  find_if_there(add_kernel, "cuGraphAddKernelNode_v2");
  find_if_there(set_node_attribute, "cuGraphKernelNodeSetAttribute");
  find_if_there(add_edges, "cuGraphAddDependencies_v2");
  find_if_there(instantiate, "cuGraphInstantiateWithFlags");
  find_if_there(destroy_exec, "cuGraphExecDestroy");
  find_if_there(set_node, "cuGraphExecKernelNodeSetParams_v2");
  find_if_there(launch_graph, "cuGraphLaunch");
  find_if_there(copy, "cuMemcpyDtoDAsync_v2");
  find_if_there(device_memory, "cuDeviceTotalMem_v2");
  find_if_there(create_event, "cuEventCreate");
  find_if_there(record_event, "cuEventRecord");
  find_if_there(elapsed, "cuEventElapsedTime");
  find_if_there(destroy_event, "cuEventDestroy_v2");
  find_if_there(stream_idle, "cuStreamQuery");
  if (driver_version) driver_version(&version_);
  if (!missing.empty() || version_ < kOldest)
    throw std::runtime_error("NVIDIA's driver is for CUDA " + dotted(version_) + "; Lamina needs one for CUDA " + dotted(kOldest) + " or newer" +
                             (missing.empty() ? "" : " (it lacks " + missing[0] + ")"));
  check(init(0), "NVIDIA's driver does not start");
  current_stream = reinterpret_cast<decltype(current_stream)>(dlsym(lib, "aoti_torch_get_current_cuda_stream"));
  if (!current_stream) current_stream = torch_abi().current_cuda_stream;
  if (!current_stream) throw std::runtime_error("this torch was built without CUDA; a program for an NVIDIA GPU needs one with it");
}

std::string Driver::text(Result result) const {
  const char *name = nullptr, *what = nullptr;
  error_name_(result, &name);
  error_string_(result, &what);
  return (name ? name : "CUDA error " + std::to_string(result)) + std::string(what ? ": " : "") + (what ? what : "");
}

std::string Driver::version() const { return dotted(version_); }

void Driver::check(Result result, const std::string &what) const {
  if (result) throw std::runtime_error(what + ": " + text(result));
}

NodeHandle Driver::last_node(StreamHandle stream) const {
  int status = 0;
  uint64_t id = 0;
  GraphHandle graph = nullptr;
  const NodeHandle *last = nullptr;
  const void *edges = nullptr; // the older function fails for edges with programmatic dependence
  size_t count = 0;
  check(capture_info_with_edges ? capture_info_with_edges(stream, &status, &id, &graph, &last, &edges, &count)
                                : capture_info(stream, &status, &id, &graph, &last, &count),
        "the graph being recorded cannot be seen");
  if (count != 1) throw std::runtime_error("the graph being recorded has several ends");
  return last[0];
}

Result Driver::module(ContextHandle context, const std::string &code, ModuleHandle *module) {
  std::lock_guard lock(mutex_);
  auto [place, fresh] = modules_.try_emplace({context, code}, nullptr);
  Result result = 0;
  if (fresh) {
    Relaxed relaxed(*this); // loading is allowed while a stream is being captured
    result = load_module(&place->second, code.data());
  }
  *module = place->second;
  if (result) modules_.erase(place);
  return result;
}

Current::Current(Driver &driver, ContextHandle context) : driver_(driver), pushed_(false) {
  ContextHandle now = nullptr;
  driver.check(driver.current_context(&now), "no current CUDA context");
  if (now == context) return;
  driver.check(driver.push_context(context), "the GPU's context cannot be used");
  pushed_ = true;
}

Current::~Current() {
  ContextHandle gone = nullptr;
  if (pushed_) driver_.pop_context(&gone);
}

} // namespace lamina::cuda
