// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-depthwise)' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-depthwise,lamina-plan,lamina-tile)' --split-input-file | FileCheck %s --check-prefix=TILE

// The sum over the window with what reads it.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"(%arg0, %arg1, %arg2)
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: arith.addf
// CHECK: graph.planes = array<i64: 1, 1, 1, 1, 1, 1>
// CHECK-NOT: graph.extern

// A copy of the image's channel with zeros around it; tiles of eight rows, which read ten rows of pixels for each column of the window.
// TILE: func.func private @convolution
// TILE-SAME: tile.grid = 6
// TILE: memref.alloca() {{.*}} memref<480xf32>
// TILE: scf.for
// TILE: scf.if
// TILE: vector.load
// TILE: vector.store
// TILE: vector.maskedstore
// TILE: scf.for
// TILE-COUNT-3: memref.load %{{.*}}memref<27xf32>
// TILE: vector.load %{{.*}} : memref<480xf32>, vector<32xf32>
// TILE-COUNT-72: math.fma
// TILE-NOT: math.fma
// TILE: arith.addf
// TILE: vector.transfer_write
func.func @main(%x: tensor<2x3x8x20xf32>, %w: tensor<3x1x3x3xf32>, %bias: tensor<3xf32>) -> tensor<2x3x8x20xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 3], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 480, 160, 20, 1>]} : (tensor<2x3x8x20xf32>, tensor<3x1x3x3xf32>) -> tensor<2x3x8x20xf32>
  %1 = "graph.group"(%0, %bias) ({
  ^bb0(%a: tensor<2x3x8x20xf32>, %b: tensor<3xf32>):
    %o = tensor.empty() : tensor<2x3x8x20xf32>
    %r = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>, affine_map<(n, c, i, j) -> (c)>, affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %b : tensor<2x3x8x20xf32>, tensor<3xf32>) outs(%o : tensor<2x3x8x20xf32>) {
    ^bb0(%p: f32, %q: f32, %u: f32):
      %s = arith.addf %p, %q : f32
      linalg.yield %s : f32
    } -> tensor<2x3x8x20xf32>
    "graph.yield"(%r) : (tensor<2x3x8x20xf32>) -> ()
  }) {sym_name = "add"} : (tensor<2x3x8x20xf32>, tensor<3xf32>) -> tensor<2x3x8x20xf32>
  return %1 : tensor<2x3x8x20xf32>
}

// -----

// Channels last: the call stays.
// CHECK-LABEL: func.func @main
// CHECK: graph.extern
func.func @main(%x: tensor<2x8x8x8xf32> {graph.strides = array<i64: 512, 1, 64, 8>}, %w: tensor<8x1x3x3xf32>) -> tensor<2x8x8x8xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 8], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 512, 1, 64, 8>]} : (tensor<2x8x8x8xf32>, tensor<8x1x3x3xf32>) -> tensor<2x8x8x8xf32>
  return %0 : tensor<2x8x8x8xf32>
}

// -----

// Two rows of strided windows: columns that are not side by side are apart in the copy.
// TILE: func.func private @convolution
// TILE: vector.shuffle
func.func @main(%x: tensor<1x2x8x64xf32>, %w: tensor<2x1x3x3xf32>) -> tensor<1x2x4x32xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 2], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 256, 128, 32, 1>]} : (tensor<1x2x8x64xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x4x32xf32>
  return %0 : tensor<1x2x4x32xf32>
}
