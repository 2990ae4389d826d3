#include "product.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "pool.h"
#include "product_tiles.h"
#include "torch_abi.h"

namespace lamina {
namespace {

constexpr int64_t kOpsPerThread = 256 << 10;  // multiply-adds for which waking a thread pays
constexpr int64_t kItemsPerThread = 8;        // several items per thread, so that late threads do fewer
constexpr int64_t kCached = 128 << 10;        // elements of an operand that fit into half of a second-level cache
constexpr int64_t kColumns = 96;              // columns of an item
constexpr int64_t kLongest = 4096, kLongestCopied = 1024; // steps of the inner dimension at a time; the second if columns are copied
constexpr int64_t kPacked = 4 << 20;          // elements of `a` that are copied at once

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Memory from the pool.
class Scratch {
public:
  explicit Scratch(int64_t elements) : block_(pool().take(size_t(elements) * sizeof(float))) {}
  ~Scratch() { block_->release(); }
  Scratch(const Scratch &) = delete;
  float *data() { return reinterpret_cast<float *>(block_->data); }

private:
  Block *block_;
};

int64_t threads_for(const Product &p) {
  const TorchAbi &torch = torch_abi();
  if (!torch.has_team() || torch.in_parallel()) return 1;
  return std::clamp<int64_t>(p.m * p.n / kPanel * p.k / (kOpsPerThread / kPanel), 1, torch.num_threads());
}

// Calls body(item, worker) for all items, on up to `threads` workers. `body` must not throw.
template <typename Body> void for_each(int64_t items, int64_t threads, const Body &body) {
  if (std::min(threads, items) <= 1) {
    for (int64_t i = 0; i < items; ++i) body(i, 0);
    return;
  }
  struct Job {
    const Body &body;
    int64_t items;
    std::atomic<int64_t> next{0};
    static void run(void *data) {
      auto *job = static_cast<Job *>(data);
      int64_t worker = torch_abi().thread_num();
      for (int64_t i; (i = job->next.fetch_add(1, std::memory_order_relaxed)) < job->items;) job->body(i, worker);
    }
  } job{body, items};
  torch_abi().parallel(Job::run, &job, unsigned(std::min(threads, items)), 0);
}

// Returns the columns of an item, a multiple of `unit`.
int64_t columns_of_item(int64_t n, int64_t inner, int64_t threads, int64_t unit) {
  int64_t cached = std::min(kColumns, kCached / inner), even = threads > 1 ? ceil_div(n, threads * kItemsPerThread) : kColumns;
  return std::max<int64_t>(1, std::min(cached / unit, ceil_div(even, unit))) * unit;
}

// Copies rows of `a` into panels, and reads rows of `b` in place.
void multiply_transposed(const Product &p, int64_t threads) {
  const int64_t inner = ceil_div(p.k, ceil_div(p.k, kLongest)), columns = columns_of_item(p.n, inner, threads, 12);
  const int64_t most = std::min(ceil_div(p.m, kPanel), std::max<int64_t>(1, kPacked / p.k / kPanel)) * kPanel;
  Scratch scratch(most * p.k);
  float *panels = scratch.data();
  for (int64_t first = 0; first < p.m; first += most) {
    const int64_t rows = std::min(most, p.m - first);
    for_each(ceil_div(rows, kPanel), rows * p.k < kCached ? 1 : threads, [&](int64_t panel, int64_t) {
      int64_t row = panel * kPanel;
      panel_of_rows(p.a + (first + row) * p.lda, p.lda, std::min(kPanel, rows - row), p.k, panels + row * p.k);
    });
    for_each(ceil_div(p.n, columns), threads, [&](int64_t item, int64_t) {
      int64_t column = item * columns, count = std::min(columns, p.n - column);
      for (int64_t k = 0; k < p.k; k += inner)
        for (int64_t row = 0; row < rows; row += kPanel)
          tiles_by_panel({panels + row * p.k + k * kPanel, std::min(kPanel, rows - row), std::min(inner, p.k - k), p.b + column * p.ldb + k,
                          p.ldb, count, p.out + (first + row) * p.ldc + column, p.ldc, k > 0},
                         p.bias && !k ? p.bias + column : nullptr);
    });
  }
}

// Copies columns of `b` into panels, and reads rows of `a` in place.
void multiply_plain(const Product &p, int64_t threads) {
  const int64_t inner = ceil_div(p.k, ceil_div(p.k, kLongestCopied)), columns = columns_of_item(p.n, inner, threads, kPanel);
  const int64_t items = ceil_div(p.n, columns), rows = std::max<int64_t>(12, kCached / inner / 12 * 12), size = columns * inner;
  Scratch scratch(std::min(threads, items) * size);
  for_each(items, threads, [&](int64_t item, int64_t worker) {
    float *panels = scratch.data() + worker * size;
    int64_t column = item * columns, end = std::min(p.n, column + columns);
    for (int64_t k = 0; k < p.k; k += inner) {
      int64_t steps = std::min(inner, p.k - k);
      panels_of_columns(p.b + k * p.ldb + column, p.ldb, steps, end - column, panels);
      for (int64_t row = 0; row < p.m; row += rows)
        for (int64_t c = column; c < end; c += kPanel) {
          float bias[kPanel] = {};
          int64_t valid = std::min(kPanel, p.n - c);
          if (p.bias && !k) std::memcpy(bias, p.bias + c, sizeof(float) * size_t(valid));
          tiles_by_row({panels + (c - column) * steps, valid, steps, p.a + row * p.lda + k, p.lda, std::min(rows, p.m - row),
                        p.out + row * p.ldc + c, p.ldc, k > 0},
                       bias);
        }
    }
  });
}

} // namespace

void multiply(const Product &p) {
  int64_t threads = threads_for(p);
  p.transposed ? multiply_transposed(p, threads) : multiply_plain(p, threads);
}

} // namespace lamina
