// Products and convolutions with weights that are packed once.
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

// The packed weights of one program: constants, and arguments that the user froze (Options.freeze_weights), whose elements do not
// change in place. A model may still be given other weights, so an argument is packed again when it is another tensor object, has
// other memory, or has another torch version count than at the last call.
class Packs {
public:
  explicit Packs(const Plan &plan);
  ~Packs(); // needs the GIL

  // Checks the weights of this call, sets in the context which packed form to use for each, and packs those of convolutions.
  // Needs the GIL; throws nanobind::python_error.
  void observe(PyObject *const *inputs, Context &context);

  // Runs the step with its packed weight; returns false if this call has to run it unpacked. Throws CallFailed.
  bool run(const Gemm &gemm, Context &context);
  bool run(const Convolution &convolution, Context &context);

  int packed(); // number of the plan's steps that are packed now

private:
  struct Weight {
    PyObject *seen = nullptr; // weak reference to the argument of the last call
    void *data = nullptr;
    int64_t version = -1, generation = 0;
  };
  struct Pack;
  using PackPtr = std::shared_ptr<Pack>;

  int64_t generation(Weight &weight, PyObject *tensor, void *data, int64_t version);
  void pack_convolution(const Convolution &convolution, PyObject *weight, Context &context);
  PackPtr find(int pack, int64_t generation);
  PackPtr make(const Gemm &gemm, int64_t generation, const float *memory);
  void keep(int pack, PackPtr made);

  const Plan &plan_;
  std::mutex mutex_; // never held while Python runs
  std::vector<Weight> weights_; // as Plan::weights
  std::vector<PackPtr> packs_;
};

// The limit of bytes for packed weights in this process, and the bytes in use.
struct PackMemory {
  std::atomic<size_t> limit, used;
};
PackMemory &pack_memory();

} // namespace lamina
