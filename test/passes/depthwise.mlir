// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-depthwise)' --split-input-file | FileCheck %s --check-prefix=CPU
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a},lamina-plan,lamina-tile{target=nvvm:sm_90a})' --split-input-file | FileCheck %s --check-prefix=TILE

// The weight in order and in f32; the sum over the window with what reads it, which adds the bias.
// CHECK: #[[WINDOW:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1, d2 * 2 + d4, d3 + d5)>
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = "graph.group"(%arg1)
// CHECK: sym_name = "weight"{{.*}} -> tensor<3x3x64xf32>
// CHECK: "graph.group"(%arg0, %[[W]], %arg2)
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1] high[0, 0, 0, 1]
// CHECK: linalg.generic {indexing_maps = [#[[WINDOW]],
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: arith.truncf
// CHECK: arith.addf
// CHECK: "graph.yield"
// CHECK: graph.window
// CHECK-NOT: graph.extern
// CPU-LABEL: func.func @main
// CPU: "graph.extern"

// A strip of 10 columns reads 12 pixels of each row of the window; those at the ends may be outside of the image.
// TILE: func.func private @weight
// TILE: func.func private @convolution
// TILE-SAME: tile.grid = 80
// TILE-SAME: tile.pack = 32
// TILE-SAME: tile.threads = 8
// TILE-SAME: tile.vec = 4
// TILE: %[[SUMS:.*]]:10 = scf.for
// TILE: vector.transfer_read {{.*}}vector<32xbf16>
// TILE-COUNT-30: math.fma
// TILE-NOT: math.fma
// TILE: scf.yield
// TILE-COUNT-10: vector.transfer_write
func.func @main(%x: tensor<2x64x20x20xbf16> {graph.strides = array<i64: 25600, 1, 1280, 64>}, %w: tensor<64x1x3x3xbf16>, %bias: tensor<64xbf16>) -> (tensor<2x64x10x20xbf16> {graph.strides = array<i64: 12800, 1, 1280, 64>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 12800, 1, 1280, 64>]} : (tensor<2x64x20x20xbf16>, tensor<64x1x3x3xbf16>) -> tensor<2x64x10x20xbf16>
  %1 = "graph.group"(%0, %bias) ({
  ^bb0(%a: tensor<2x64x10x20xbf16>, %b: tensor<64xbf16>):
    %o = tensor.empty() : tensor<2x64x10x20xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (c)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %b : tensor<2x64x10x20xbf16>, tensor<64xbf16>) outs(%o : tensor<2x64x10x20xbf16>) {
    ^bb0(%p: bf16, %q: bf16, %u: bf16):
      %s = arith.addf %p, %q : bf16
      linalg.yield %s : bf16
    } -> tensor<2x64x10x20xbf16>
    "graph.yield"(%r) : (tensor<2x64x10x20xbf16>) -> ()
  }) {sym_name = "add"} : (tensor<2x64x10x20xbf16>, tensor<64xbf16>) -> tensor<2x64x10x20xbf16>
  return %1 : tensor<2x64x10x20xbf16>
}

// -----

// A mean over the image is no part of strips, which stand by themselves.
// CHECK-LABEL: func.func @main
// CHECK: graph.window
// CHECK: "graph.group"
// CHECK: sym_name = "sum"
// TILE: scf.for
func.func @main(%x: tensor<2x64x8x8xf16> {graph.strides = array<i64: 4096, 1, 512, 64>}, %w: tensor<64x1x5x5xf16>) -> tensor<2x64xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [2, 2], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 4096, 1, 512, 64>]} : (tensor<2x64x8x8xf16>, tensor<64x1x5x5xf16>) -> tensor<2x64x8x8xf16>
  %1 = "graph.group"(%0) ({
  ^bb0(%a: tensor<2x64x8x8xf16>):
    %zero = arith.constant 0.0 : f32
    %o = tensor.empty() : tensor<2x64xf32>
    %f = linalg.fill ins(%zero : f32) outs(%o : tensor<2x64xf32>) -> tensor<2x64xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (n, c)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%a : tensor<2x64x8x8xf16>) outs(%f : tensor<2x64xf32>) {
    ^bb0(%p: f16, %q: f32):
      %e = arith.extf %p : f16 to f32
      %s = arith.addf %q, %e : f32
      linalg.yield %s : f32
    } -> tensor<2x64xf32>
    "graph.yield"(%r) : (tensor<2x64xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<2x64x8x8xf16>) -> tensor<2x64xf32>
  return %1 : tensor<2x64xf32>
}

// -----

// Rows of 19 columns are two strips of 10: the second begins with column 9.
// CHECK-LABEL: func.func @main
// CHECK: graph.window
// TILE: func.func private @convolution(%arg0: memref<32x64x19x19xbf16{{.*}} tile.grid = 2432
// TILE: %[[BEGIN:.*]] = arith.muli %{{.*}}, %c10
// TILE: arith.minsi %[[BEGIN]], %c9
// TILE: %[[SUMS:.*]]:10 = scf.for
// TILE-COUNT-10: vector.transfer_write
func.func @main(%x: tensor<32x64x19x19xbf16> {graph.strides = array<i64: 23104, 1, 1216, 64>}, %w: tensor<64x1x3x3xbf16>) -> (tensor<32x64x19x19xbf16> {graph.strides = array<i64: 23104, 1, 1216, 64>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 23104, 1, 1216, 64>]} : (tensor<32x64x19x19xbf16>, tensor<64x1x3x3xbf16>) -> tensor<32x64x19x19xbf16>
  return %0 : tensor<32x64x19x19xbf16>
}

// -----

// The reader makes rows of channels of the image, as a sequence has them: it is computed as an image, with a residual of rows.
// CHECK-LABEL: func.func @main
// CHECK: %[[Y:.*]] = "graph.group"(%arg0, %{{.*}}, %arg2) ({
// CHECK: graph.window{{.*}} -> tensor<2x64x16x8xbf16>
// CHECK: %[[ROWS:.*]] = linalg.transpose ins(%[[Y]] : tensor<2x64x16x8xbf16>) {{.*}} permutation = [0, 2, 3, 1]
// CHECK: tensor.collapse_shape %[[ROWS]] {{\[}}[0], [1, 2], [3]{{\]}}
// CHECK-NOT: "graph.group"
// CPU: "graph.extern"
// CPU: "graph.group"
// TILE: "plan.launch"
// TILE: "plan.launch"
// TILE-NOT: "plan.launch"
// TILE: tile.grid
func.func @main(%x: tensor<2x64x16x8xbf16> {graph.strides = array<i64: 8192, 1, 512, 64>}, %w: tensor<64x1x3x3xbf16>, %r: tensor<2x128x64xbf16>) -> tensor<2x128x64xbf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 8192, 1, 512, 64>]} : (tensor<2x64x16x8xbf16>, tensor<64x1x3x3xbf16>) -> tensor<2x64x16x8xbf16>
  %1 = "graph.group"(%0, %r) ({
  ^bb0(%a: tensor<2x64x16x8xbf16>, %b: tensor<2x128x64xbf16>):
    %flat = tensor.collapse_shape %a [[0], [1], [2, 3]] : tensor<2x64x16x8xbf16> into tensor<2x64x128xbf16>
    %o = tensor.empty() : tensor<2x128x64xbf16>
    %s = linalg.generic {indexing_maps = [affine_map<(n, p, c) -> (n, c, p)>, affine_map<(n, p, c) -> (n, p, c)>, affine_map<(n, p, c) -> (n, p, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%flat, %b : tensor<2x64x128xbf16>, tensor<2x128x64xbf16>) outs(%o : tensor<2x128x64xbf16>) {
    ^bb0(%p: bf16, %q: bf16, %u: bf16):
      %t = arith.addf %p, %q : bf16
      linalg.yield %t : bf16
    } -> tensor<2x128x64xbf16>
    "graph.yield"(%s) : (tensor<2x128x64xbf16>) -> ()
  }) {sym_name = "add"} : (tensor<2x64x16x8xbf16>, tensor<2x128x64xbf16>) -> tensor<2x128x64xbf16>
  return %1 : tensor<2x128x64xbf16>
}

// -----

// f32: the weight is only transposed, and nothing is rounded.
// CHECK-LABEL: func.func @main
// CHECK: %[[W:.*]] = "graph.group"(%arg1) ({
// CHECK-NOT: arith.
// CHECK: tensor<3x3x64xf32>
// CHECK: "graph.group"(%arg0, %[[W]]) ({
// CHECK: arith.mulf {{.*}} : f32
// CHECK-NOT: arith.truncf
// CHECK: graph.window{{.*}} -> tensor<2x64x8x8xf32>
// CHECK-NOT: "graph.extern"
// CPU: "graph.extern"
// TILE: "plan.launch"
// TILE: "plan.launch"
// TILE-NOT: "plan.launch"
func.func @main(%x: tensor<2x64x8x8xf32> {graph.strides = array<i64: 4096, 1, 512, 64>}, %w: tensor<64x1x3x3xf32>) -> tensor<2x64x8x8xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 4096, 1, 512, 64>]} : (tensor<2x64x8x8xf32>, tensor<64x1x3x3xf32>) -> tensor<2x64x8x8xf32>
  return %0 : tensor<2x64x8x8xf32>
}

// -----

// Not Lamina's: windows three columns apart, channels that are not last, f64, several channels in a group.
// CHECK-LABEL: func.func @main
// CHECK-COUNT-4: "graph.extern"
// CHECK-NOT: graph.group
// TILE: plan.call
func.func @main(%x: tensor<2x64x19x19xbf16> {graph.strides = array<i64: 23104, 1, 1216, 64>}, %f: tensor<2x64x8x8xf64> {graph.strides = array<i64: 4096, 1, 512, 64>}, %w: tensor<64x1x3x3xbf16>, %wf: tensor<64x1x3x3xf64>, %w2: tensor<64x2x3x3xbf16>) -> (tensor<2x64x7x7xbf16>, tensor<2x64x10x10xbf16>, tensor<2x64x8x8xf64>, tensor<2x64x10x10xbf16>) {
  %1 = "graph.extern"(%x, %w) {args = [unit, unit, none, [3, 3], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 3136, 1, 448, 64>]} : (tensor<2x64x19x19xbf16>, tensor<64x1x3x3xbf16>) -> tensor<2x64x7x7xbf16>
  %2 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 6400, 100, 10, 1>]} : (tensor<2x64x19x19xbf16>, tensor<64x1x3x3xbf16>) -> tensor<2x64x10x10xbf16>
  %3 = "graph.extern"(%f, %wf) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 4096, 1, 512, 64>]} : (tensor<2x64x8x8xf64>, tensor<64x1x3x3xf64>) -> tensor<2x64x8x8xf64>
  %4 = "graph.extern"(%x, %w2) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 32], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 6400, 1, 640, 64>]} : (tensor<2x64x19x19xbf16>, tensor<64x2x3x3xbf16>) -> tensor<2x64x10x10xbf16>
  return %1, %2, %3, %4 : tensor<2x64x7x7xbf16>, tensor<2x64x10x10xbf16>, tensor<2x64x8x8xf64>, tensor<2x64x10x10xbf16>
}
