// Runs kernels on torch's own OpenMP team: there are no other threads that compete with it, and torch.set_num_threads applies.
#pragma once

#include <algorithm>
#include <cstdint>

#include "plan.h"
#include "torch_abi.h"

namespace lamina {

// The least work for which another thread pays: waking and joining the team costs about 3 us, in which one core moves about 100 KiB
// from its cache, or computes about 10000 exponentials (which count as one operation each).
constexpr int64_t kBytesPerThread = 128 << 10, kFlopsPerThread = 64 << 10;

inline int64_t useful_threads(int64_t grid, int64_t bytes, int64_t flops) {
  return std::max<int64_t>(1, std::min(grid, std::max(bytes / kBytesPerThread, flops / kFlopsPerThread)));
}

struct TeamJob {
  Kernel kernel;
  void *const *bufs;
  int64_t grid;

  // The body of each thread of the team: runs its share of the programs, one contiguous range.
  static void share(void *data) {
    const auto *job = static_cast<const TeamJob *>(data);
    int64_t threads = torch_abi().team_size(), me = torch_abi().thread_num();
    int64_t lo = job->grid * me / threads, hi = job->grid * (me + 1) / threads;
    if (lo < hi) job->kernel(job->bufs, lo, hi);
  }
};

inline void run_launch(const Launch &launch, void *const *bufs) {
  const TorchAbi &torch = torch_abi();
  if (launch.threads > 1 && torch.has_team() && !torch.in_parallel()) {
    int64_t threads = std::min<int64_t>(launch.threads, torch.num_threads());
    if (threads > 1) {
      TeamJob job{launch.kernel, bufs, launch.grid};
      torch.parallel(TeamJob::share, &job, unsigned(threads), 0);
      return;
    }
  }
  launch.kernel(bufs, 0, launch.grid);
}

} // namespace lamina
