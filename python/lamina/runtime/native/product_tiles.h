// Register tiles of f32 products for processors with AVX2 and FMA.
//
// A product takes one operand in panels of 16 and the other by its rows, as they lie in memory: a step loads 16 elements of the panel
// and broadcasts one of each of six rows, so both have the inner dimension contiguous and only the panel is copied. In x @ w.T, the
// product of a linear layer, the panels are rows of x and the weight is read where it is, once. (BLAS and oneDNN copy the weight,
// which costs the more the fewer rows x has.)
#pragma once

#include <cstdint>

namespace lamina {

constexpr int64_t kPanel = 16; // elements of a panel for each index of the inner dimension
constexpr int64_t kHalf = kPanel / 2;

// Whether this processor supports the tiles, and the libraries are slower: it is not Intel's and has no AVX-512.
bool runs_product_tiles();

// Copies up to 16 rows of a matrix into a panel: to[column * 16 + row]. Missing rows become 0.
void panel_of_rows(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to);

// Copies columns into panels, one after the other: to[row * 16 + column] of each. Missing columns of the last become 0.
void panels_of_columns(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to);

// The product of one panel and some rows, over `inner` elements. valid: how many of the panel's 16 rows exist.
struct Tiles {
  const float *panel;
  int64_t valid, inner;
  const float *rows;
  int64_t row_stride, count;
  float *out;
  int64_t out_stride;
  bool add; // adds to `out` instead of overwriting it
};

// out[p * out_stride + r] = panel p . row r (+ bias[r] where there is one)
void tiles_by_panel(const Tiles &tiles, const float *bias);

// out[r * out_stride + p] = panel p . row r (+ bias[p] where there is one)
void tiles_by_row(const Tiles &tiles, const float *bias);

} // namespace lamina
