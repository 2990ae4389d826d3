#include "shim.h"

#include <bit>
#include <cstring>
#include <dlfcn.h>
#include <type_traits>

#include "device.h"

namespace lamina {
namespace {

template <typename T> T as(uint64_t word) {
  if constexpr (std::is_pointer_v<T>) return reinterpret_cast<T>(word);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(word);
  else return T(word);
}

struct Entry {
  const char *name;
  size_t parameters;
  int32_t (*invoke)(void *, const uint64_t *);
};

// Calls the routine of an operator with these parameters: its arguments, then pointers to its results.
template <typename... P> constexpr Entry routine(const char *name) {
  return {name, sizeof...(P), [](void *f, const uint64_t *words) {
            return [&]<size_t... I>(std::index_sequence<I...>) {
              return reinterpret_cast<int32_t (*)(P...)>(f)(as<P>(words[I])...);
            }(std::index_sequence_for<P...>{});
          }};
}

// From torch/csrc/inductor/aoti_torch/generated/c_shim_{cpu,cuda}.h: a list is a pointer and a length, an optional a pointer. Only
// operators that were measured to be faster are listed: these calls enter torch above autograd, and an operator that is made of
// many others, as attention's gradients are, takes longer in all.
using H = Handle;
using Ints = const int64_t *;
using Bools = const int32_t *;
using Int = int64_t;
using Bool = int32_t;
const Entry kRoutines[] = {
    routine<H, H, H, Ints *, Int, Ints, Int, Ints, Int, Ints, Int, Bool, Ints, Int, Int, Bools, Int, H *, H *, H *>(
        "convolution_backward"),
    routine<H, H, Ints, Int, Ints, Int, Ints, Int, Bool, Bool, Int *, H *>("avg_pool2d_backward"),
    routine<H, H, H *>("_adaptive_avg_pool2d_backward"),
};

// A list of numbers as the shim takes it; false for one of anything else.
bool add_list(const Value &list, ShimCall &call) {
  size_t count = list.items.size();
  auto &place = call.lists.emplace_back(std::make_unique<uint64_t[]>(count + 1)); // never null
  for (size_t i = 0; i < count; ++i) {
    const Value &item = list.items[i];
    if (item.form != Value::Form::word) return false;
    auto flag = int32_t(item.word);
    if (item.flag) std::memcpy(reinterpret_cast<char *>(place.get()) + i * sizeof flag, &flag, sizeof flag);
    else place[i] = item.word;
  }
  call.words.insert(call.words.end(), {reinterpret_cast<uint64_t>(place.get()), count});
  return true;
}

bool add(const Value &value, ShimCall &call) {
  switch (value.form) {
  case Value::Form::word: call.words.push_back(value.word); return true;
  case Value::Form::list: return add_list(value, call);
  case Value::Form::none: call.words.resize(call.words.size() + (value.of_list ? 2 : 1)); return true;
  case Value::Form::tensor:
    if (value.tensor < 0) return false;
    call.tensors.emplace_back(call.words.size(), value.tensor);
    call.words.push_back(0);
    return true;
  case Value::Form::some: break;
  }
  size_t at = call.words.size();
  const Value &inner = value.items[0];
  if (inner.form == Value::Form::tensor || !add(inner, call)) return false;
  auto &place = call.lists.emplace_back(std::make_unique<uint64_t[]>(1));
  place[0] = call.words[at];
  call.words[at] = reinterpret_cast<uint64_t>(place.get());
  return true;
}

} // namespace

std::shared_ptr<const ShimCall> shim_call(const DispatcherCall &call, int32_t device) {
  const std::string prefix = "aten::";
  void *library = torch_abi().routines(device).library;
  if (!library || !call.overload.empty() || !call.op.starts_with(prefix)) return nullptr;
  std::string op = call.op.substr(prefix.size()), name = (device == dlpack::kCUDA ? "aoti_torch_cuda_" : "aoti_torch_cpu_") + op;
  for (const Entry &r : kRoutines) {
    if (op != r.name) continue;
    auto found = std::make_shared<ShimCall>(ShimCall{dlsym(library, name.c_str()), r.invoke, {}, {}, {}});
    for (const Value &value : call.args)
      if (!add(value, *found)) return nullptr;
    found->words.resize(found->words.size() + call.owned.size());
    return found->routine && found->words.size() == r.parameters ? found : nullptr;
  }
  return nullptr;
}

void ShimCall::run(const std::vector<Handle> &given, std::vector<Handle> &results) const {
  std::vector<uint64_t> filled = words;
  for (auto [word, tensor] : tensors) filled[word] = reinterpret_cast<uint64_t>(given[size_t(tensor)]);
  for (size_t i = 0; i < results.size(); ++i) filled[words.size() - results.size() + i] = reinterpret_cast<uint64_t>(&results[i]);
  if (invoke(routine, filled.data())) throw CallFailed();
}

} // namespace lamina
