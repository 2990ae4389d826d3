// Lamina's own f32 matrix products on the CPU (see product_tiles.h), on torch's team of threads.
#pragma once

#include <cstdint>

namespace lamina {

// out = a @ b, or a @ b.T if `transposed`, plus `bias` (one row) unless it is null. Leading dimensions are in elements.
struct Product {
  int64_t m, n, k;
  const float *a;
  int64_t lda;
  const float *b;
  int64_t ldb;
  bool transposed;
  const float *bias;
  float *out;
  int64_t ldc;
};

// Needs runs_product_tiles() and m, n, k > 0. Throws std::bad_alloc.
void multiply(const Product &product);

} // namespace lamina
