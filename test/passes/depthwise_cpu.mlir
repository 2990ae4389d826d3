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
// CHECK-LABEL: func.func @main
// CHECK: graph.planes = array<i64: 2, 2, 1, 1, 1, 1>
// TILE: func.func private @convolution
// TILE: vector.shuffle
func.func @main(%x: tensor<1x2x8x64xf32>, %w: tensor<2x1x3x3xf32>) -> tensor<1x2x4x32xf32> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 2], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 256, 128, 32, 1>]} : (tensor<1x2x8x64xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x4x32xf32>
  return %0 : tensor<1x2x4x32xf32>
}

// -----

// Gradients: of the image a convolution with the window reversed, of the weight sums over all images, of the bias a plain sum.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"(%arg0, %arg2)
// CHECK: graph.planes = array<i64: 1, 1, 1, 1, 1, 1>
// CHECK: "graph.group"(%arg1, %arg0)
// CHECK: iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
// CHECK: graph.weight_gradient = array<i64: 1, 1, 1, 1, 1, 1>
// CHECK: "graph.group"(%arg0)
// CHECK: iterator_types = ["reduction", "parallel", "reduction", "reduction"]
// CHECK-NOT: graph.extern

// One program for each channel: three sums, one for each column of the window, in a loop over the pixels.
// TILE: func.func private @convolution_backward_1
// TILE-SAME: tile.grid = 3
// TILE: memref.alloca() {{.*}} memref<288xf32>
// TILE: %{{.*}}:3 = scf.for
// TILE: vector.maskedload
// TILE-COUNT-3: math.fma
// TILE-NOT: math.fma
// TILE: vector.reduction <add>
func.func @main(%g: tensor<2x3x8x20xf32>, %x: tensor<2x3x8x20xf32>, %w: tensor<3x1x3x3xf32>) -> (tensor<2x3x8x20xf32>, tensor<3x1x3x3xf32>, tensor<3xf32>) {
  %0:3 = "graph.extern"(%g, %x, %w) {args = [unit, unit, unit, [3], [1, 1], [1, 1], [1, 1], false, [0, 0], 3, [true, true, true]], callee = "aten.convolution_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 480, 160, 20, 1>, array<i64: 9, 9, 3, 1>, array<i64: 1>]} : (tensor<2x3x8x20xf32>, tensor<2x3x8x20xf32>, tensor<3x1x3x3xf32>) -> (tensor<2x3x8x20xf32>, tensor<3x1x3x3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<2x3x8x20xf32>, tensor<3x1x3x3xf32>, tensor<3xf32>
}

// -----

// Channels last and a large window: blocks of 16 channels, each a lane. The image's gradient stays the library's.
// CHECK-LABEL: func.func @main
// CHECK: graph.weight_gradient
// CHECK: "graph.extern"
// CHECK-SAME: [true, false, false]
// TILE: func.func private @convolution_backward(
// TILE-SAME: tile.grid = 2
// TILE: %{{.*}}:5 = scf.for
// TILE-COUNT-5: math.fma
// TILE-NOT: vector.reduction
func.func @main(%g: tensor<2x20x8x9xf32> {graph.strides = array<i64: 1440, 1, 180, 20>}, %x: tensor<2x20x8x9xf32> {graph.strides = array<i64: 1440, 1, 180, 20>}, %w: tensor<20x1x5x5xf32>) -> (tensor<2x20x8x9xf32> {graph.strides = array<i64: 1440, 1, 180, 20>}, tensor<20x1x5x5xf32>) {
  %0:2 = "graph.extern"(%g, %x, %w) {args = [unit, unit, unit, none, [1, 1], [2, 2], [1, 1], false, [0, 0], 20, [true, true, false]], callee = "aten.convolution_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 1440, 1, 180, 20>, array<i64: 25, 25, 5, 1>, none]} : (tensor<2x20x8x9xf32>, tensor<2x20x8x9xf32>, tensor<20x1x5x5xf32>) -> (tensor<2x20x8x9xf32>, tensor<20x1x5x5xf32>)
  return %0#0, %0#1 : tensor<2x20x8x9xf32>, tensor<20x1x5x5xf32>
}

// -----

// A signal is an image of one row; one whose columns are not neighbors is copied first.
// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = linalg.transpose
// CHECK: %[[ROWS:.*]] = "graph.group"(%[[X]])
// CHECK: sym_name = "copy"
// CHECK: %[[IMAGE:.*]] = tensor.expand_shape %[[ROWS]] {{.*}} into tensor<2x3x1x40xf32>
// CHECK: "graph.group"(%[[IMAGE]]
// CHECK: graph.planes = array<i64: 1, 1, 0, 3, 1, 1>
// CHECK: tensor.collapse_shape {{.*}} into tensor<2x3x43xf32>
// CHECK-NOT: graph.extern
func.func @main(%s: tensor<2x40x3xf32>, %w: tensor<3x1x4xf32>) -> tensor<2x3x43xf32> {
  %o = tensor.empty() : tensor<2x3x40xf32>
  %x = linalg.transpose ins(%s : tensor<2x40x3xf32>) outs(%o : tensor<2x3x40xf32>) permutation = [0, 2, 1]
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1], [3], [1], false, [0], 3], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 129, 43, 1>]} : (tensor<2x3x40xf32>, tensor<3x1x4xf32>) -> tensor<2x3x43xf32>
  return %0 : tensor<2x3x43xf32>
}
