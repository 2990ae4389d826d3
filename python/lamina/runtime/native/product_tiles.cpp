#include "product_tiles.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lamina {

#if defined(__x86_64__)
namespace {

#define AVX2 __attribute__((target("avx2,fma")))
#define INLINE_AVX2 AVX2 __attribute__((always_inline)) inline

constexpr int64_t kAhead = 32 * kPanel; // elements of a panel that are prefetched, from the L2 cache
constexpr int64_t kChunk = 256;
constexpr int64_t kSets = 1024; // elements after which addresses map to the same set of an L1 cache (8-way)

INLINE_AVX2 void transpose(__m256 (&r)[8]) {
  __m256 t[8], s[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    s[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44), s[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    s[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44), s[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20), r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
}

// Writes the first W elements of a vector. Masked stores are slow on AMD's processors.
template <int W> INLINE_AVX2 void put(float *to, __m256 v, bool add) {
  if constexpr (W == 8) {
    _mm256_storeu_ps(to, add ? _mm256_add_ps(v, _mm256_loadu_ps(to)) : v);
  } else {
    __m128 low = _mm256_castps256_ps128(v), high = _mm256_extractf128_ps(v, 1);
    if constexpr (W >= 4) {
      _mm_storeu_ps(to, add ? _mm_add_ps(low, _mm_loadu_ps(to)) : low);
      to += 4, low = high;
    }
    if constexpr (W & 2) {
      auto *two = reinterpret_cast<double *>(to);
      _mm_store_sd(two, _mm_castps_pd(add ? _mm_add_ps(low, _mm_castpd_ps(_mm_load_sd(two))) : low));
      to += 2, low = _mm_movehl_ps(low, low);
    }
    if constexpr (W & 1) *to = _mm_cvtss_f32(low) + (add ? *to : 0.0f);
  }
}

// Adds the products of V vectors of a panel and R rows to `sum`. Up to 12 sums stay in registers for kChunk steps: shorter chains of
// roundings are as exact as the libraries'.
template <int V, int R> INLINE_AVX2 void multiply(const Tiles &t, const float *row, __m256 (&sum)[R][V]) {
  const float *panel = t.panel;
  const int64_t stride = t.row_stride;
  for (int64_t k = 0; k < t.inner;) {
    __m256 part[R][V];
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) part[r][v] = _mm256_setzero_ps();
    for (const int64_t end = std::min(k + kChunk, t.inner); k < end; ++k, panel += kPanel) {
      _mm_prefetch(reinterpret_cast<const char *>(panel + kAhead), _MM_HINT_T0);
      __m256 of_panel[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) of_panel[v] = _mm256_loadu_ps(panel + 8 * v);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        __m256 of_row = _mm256_broadcast_ss(row + r * stride + k);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) part[r][v] = _mm256_fmadd_ps(of_panel[v], of_row, part[r][v]);
      }
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sum[r][v] = _mm256_add_ps(sum[r][v], part[r][v]);
  }
}

// Stores W of the rows from `first` on, for eight elements of the panel: to[p * stride + r].
template <int W, int V, int R> INLINE_AVX2 void put_across(float *to, const Tiles &t, int64_t valid, const __m256 (&sum)[R][V], int first, int v) {
  __m256 r[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = i < W ? sum[first + i][v] : _mm256_setzero_ps();
  transpose(r);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    if (i >= valid) return;
    put<W>(to + i * t.out_stride, r[i], t.add);
  }
}

template <int V, int R> AVX2 void by_panel(const Tiles &t, int64_t row, const float *bias) {
  __m256 sum[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = bias ? _mm256_broadcast_ss(bias + row + r) : _mm256_setzero_ps();
  multiply<V, R>(t, t.rows + row * t.row_stride, sum);
#pragma GCC unroll 2
  for (int v = 0; v < V; ++v) {
    float *to = t.out + 8 * v * t.out_stride + row;
    put_across<(R < 8 ? R : 8), V, R>(to, t, t.valid - 8 * v, sum, 0, v);
    if constexpr (R > 8) put_across<R - 8, V, R>(to + 8, t, t.valid - 8 * v, sum, 8, v);
  }
}

template <int V, int R> AVX2 void by_row(const Tiles &t, int64_t row, const float *bias) {
  __m256 sum[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) sum[r][v] = bias ? _mm256_loadu_ps(bias + 8 * v) : _mm256_setzero_ps();
  multiply<V, R>(t, t.rows + row * t.row_stride, sum);
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float *to = t.out + (row + r) * t.out_stride + 8 * v;
      int64_t valid = t.valid - 8 * v;
      if (valid >= 8) {
        put<8>(to, sum[r][v], t.add);
      } else {
        float part[8];
        _mm256_storeu_ps(part, sum[r][v]);
        for (int64_t i = 0; i < valid; ++i) to[i] = part[i] + (t.add ? to[i] : 0.0f);
      }
    }
}

template <bool ByRow, int V, int R> void tile(const Tiles &t, int64_t row, const float *bias) {
  ByRow ? by_row<V, R>(t, row, bias) : by_panel<V, R>(t, row, bias);
}

// Computes tiles of R rows, and of fewer rows for the rest.
template <bool ByRow, int V, int R> void tiles(const Tiles &t, int64_t row, const float *bias) {
  for (; row + R <= t.count; row += R) tile<ByRow, V, R>(t, row, bias);
  if constexpr (R > 1)
    if (row < t.count) tiles<ByRow, V, (R > 6 ? 6 : R - 1)>(t, row, bias);
}

template <bool ByRow> void all_tiles(const Tiles &t, const float *bias) {
  if (t.valid > kHalf) return tiles<ByRow, 2, 6>(t, 0, bias);
  t.row_stride % kSets ? tiles<ByRow, 1, 12>(t, 0, bias) : tiles<ByRow, 1, 6>(t, 0, bias);
}

} // namespace

bool runs_product_tiles() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !__builtin_cpu_supports("avx512f") && !__builtin_cpu_is("intel");
}

AVX2 void panel_of_rows(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to) {
  for (int64_t half = 0; half < kPanel; half += kHalf) {
    int64_t k = 0;
    for (; k + 8 <= columns; k += 8) {
      __m256 r[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) r[i] = half + i < rows ? _mm256_loadu_ps(from + (half + i) * stride + k) : _mm256_setzero_ps();
      transpose(r);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) _mm256_storeu_ps(to + (k + i) * kPanel + half, r[i]);
    }
    for (; k < columns; ++k)
      for (int64_t i = half; i < half + kHalf; ++i) to[k * kPanel + i] = i < rows ? from[i * stride + k] : 0.0f;
  }
}

void panels_of_columns(const float *from, int64_t stride, int64_t rows, int64_t columns, float *to) {
  const int64_t panel = rows * kPanel, whole = columns / kPanel, rest = columns % kPanel;
  for (int64_t row = 0; row < rows; ++row, from += stride, to += kPanel) {
    for (int64_t i = 0; i < whole; ++i) std::memcpy(to + i * panel, from + i * kPanel, sizeof(float) * kPanel);
    if (!rest) continue;
    std::memset(to + whole * panel, 0, sizeof(float) * kPanel);
    std::memcpy(to + whole * panel, from + whole * kPanel, sizeof(float) * size_t(rest));
  }
}

void tiles_by_panel(const Tiles &t, const float *bias) { all_tiles<false>(t, bias); }
void tiles_by_row(const Tiles &t, const float *bias) { all_tiles<true>(t, bias); }

#else

bool runs_product_tiles() { return false; }
void panel_of_rows(const float *, int64_t, int64_t, int64_t, float *) {}
void panels_of_columns(const float *, int64_t, int64_t, int64_t, float *) {}
void tiles_by_panel(const Tiles &, const float *) {}
void tiles_by_row(const Tiles &, const float *) {}

#endif

} // namespace lamina
