// Lamina's own products of f32 matrices on the CPU (see product_tiles.h), on torch's team of threads.
#pragma once

#include <cstdint>

namespace lamina {

// out = a @ b, or a @ b.T where `transposed`, plus `bias`, a row, unless null. Leading dimensions count elements.
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
