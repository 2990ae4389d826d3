// Products and convolutions with a weight that was packed once.
//
// On 2 cores of a Xeon with AVX-512, f32, best of 40: 256x768 @ 768x3072 takes 3.06 ms packed for MKL, 3.66 by at::mm_out, 3.66 by
// oneDNN's packed linear; 256x768 @ 768x50257 takes 50 ms, 67 and 69; below two million products mm_out is as fast or faster. The
// convolutions of ResNet-18 at batch 1 take 19.4 ms by at::convolution in NCHW, 14.4 with packed weights, 12.4 when their sources are
// channels-last too.
#pragma once

#include <Python.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "plan.h"

namespace lamina {

class Context;

// The packed weights of one program. A weight is packed when it has been the same for a few calls, and the number of calls doubles
// whenever a packed weight changes: a model in training stops being packed.
//
// A weight is the same while the argument is the same tensor object with the same memory and the same torch version count. A write
// through `.data` escapes that count; samples of the memory catch it, unless it leaves all of them alone.
class Packs {
public:
  explicit Packs(const Plan &plan);
  ~Packs(); // needs the GIL

  // Looks at the weights of this call, notes in the context which of them are the same as before, and packs those of convolutions.
  // Needs the GIL; throws nanobind::python_error.
  void observe(PyObject *const *inputs, Context &context);

  // The step with a packed weight; false when this call has to run it plainly. Throws CallFailed.
  bool run(const Gemm &gemm, Context &context);
  bool run(const Convolution &convolution, Context &context);

  int packed(); // how many of the plan's steps are packed now

private:
  struct Weight {
    PyObject *seen = nullptr; // weak reference to the argument of the last call
    void *data = nullptr;
    int64_t version = -1, generation = 0;
    int same = 0, needed = 2;
    bool packed = false;
  };
  struct Pack;
  using PackPtr = std::shared_ptr<Pack>;

  bool same(Weight &weight, PyObject *tensor, void *data, int64_t version);
  void pack_convolution(const Convolution &convolution, PyObject *weight, Context &context);
  PackPtr find(int pack, int weight, Context &context, const void *memory);
  PackPtr make(const Gemm &gemm, int64_t generation, const float *memory);
  void keep(int pack, int weight, PackPtr made);

  const Plan &plan_;
  std::mutex mutex_; // never held while Python runs
  std::vector<Weight> weights_; // as Plan::weights
  std::vector<PackPtr> packs_;
};

// Bytes that packed weights may take in this process, and take.
struct PackMemory {
  std::atomic<size_t> limit, used;
};
PackMemory &pack_memory();

} // namespace lamina
