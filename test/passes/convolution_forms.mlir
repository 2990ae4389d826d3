// The forms of convolutions on a GPU: no biases, rows as images, pixels and patches as products, few channels as 16.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-convolution-forms{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @bias
// CHECK: %[[MADE:.*]] = "graph.extern"(%arg0, %arg1) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1]{{.*}}strides = [array<i64: 2304, 144, 12, 1>]
// CHECK: linalg.generic {{.*}} ins(%[[MADE]], %arg2
// CHECK: arith.addf {{.*}} : bf16
func.func @bias(%x: tensor<2x32x12x12xbf16>, %w: tensor<16x32x3x3xbf16>, %b: tensor<16xbf16>) -> tensor<2x16x12x12xbf16> {
  %0 = "graph.extern"(%x, %w, %b) {args = [unit, unit, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 2304, 144, 12, 1>]} : (tensor<2x32x12x12xbf16>, tensor<16x32x3x3xbf16>, tensor<16xbf16>) -> tensor<2x16x12x12xbf16>
  return %0 : tensor<2x16x12x12xbf16>
}

// -----

// CHECK-LABEL: func.func @rows
// CHECK-DAG: %[[X:.*]] = tensor.expand_shape %arg0 {{.*}} into tensor<2x8x1x13xbf16>
// CHECK-DAG: %[[W:.*]] = tensor.expand_shape %arg1 {{.*}} into tensor<16x8x1x3xbf16>
// CHECK: %[[MADE:.*]] = "graph.extern"(%[[X]], %[[W]]) {args = [unit, unit, none, [1, 2], [0, 1], [1, 1], false, [0, 0], 1]{{.*}}strides = [array<i64: 112, 7, 7, 1>]
// CHECK: tensor.collapse_shape %[[MADE]] {{.*}} into tensor<2x16x7xbf16>
func.func @rows(%x: tensor<2x8x13xbf16>, %w: tensor<16x8x3xbf16>) -> tensor<2x16x7xbf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2], [1], [1], false, [0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 112, 7, 1>]} : (tensor<2x8x13xbf16>, tensor<16x8x3xbf16>) -> tensor<2x16x7xbf16>
  return %0 : tensor<2x16x7xbf16>
}

// -----

// CHECK-LABEL: func.func @pixels
// CHECK: "graph.extern"(%arg2, {{.*}}) {args = [unit, unit, unit], callee = "aten.addmm.default"{{.*}} (tensor<72xf32>, tensor<64x24xf32>, tensor<24x72xf32>) -> tensor<64x72xf32>
// CHECK: tensor.expand_shape {{.*}} into tensor<64x72x1x1xf32>
func.func @pixels(%x: tensor<64x24x1x1xf32>, %w: tensor<72x24x1x1xf32>, %b: tensor<72xf32>) -> tensor<64x72x1x1xf32> {
  %0 = "graph.extern"(%x, %w, %b) {args = [unit, unit, unit, [2, 1], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 72, 1, 1, 1>]} : (tensor<64x24x1x1xf32>, tensor<72x24x1x1xf32>, tensor<72xf32>) -> tensor<64x72x1x1xf32>
  return %0 : tensor<64x72x1x1xf32>
}

// -----

// The last row of the image is in no patch.
// CHECK-LABEL: func.func @patches
// CHECK: tensor.extract_slice %arg0[0, 0, 0, 0] [2, 16, 8, 6] [1, 1, 1, 1]
// CHECK: linalg.transpose {{.*}} permutation = [0, 2, 4, 3, 5, 1]
// CHECK: callee = "aten.mm.default"{{.*}} (tensor<24x64xbf16>, tensor<64x32xbf16>) -> tensor<24x32xbf16>
// CHECK: linalg.transpose {{.*}} permutation = [0, 3, 1, 2]
func.func @patches(%x: tensor<2x16x9x6xbf16>, %w: tensor<32x16x2x2xbf16>) -> tensor<2x32x4x3xbf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 384, 12, 3, 1>]} : (tensor<2x16x9x6xbf16>, tensor<32x16x2x2xbf16>) -> tensor<2x32x4x3xbf16>
  return %0 : tensor<2x32x4x3xbf16>
}

// -----

// CHECK-LABEL: func.func @blocks
// CHECK: tensor.pad %arg0 low[0, 0, 3, 3] high[0, 1, 3, 3]
// CHECK: linalg.transpose {{.*}} permutation = [0, 1, 3, 5, 2, 4]
// CHECK: "graph.extern"{{.*}} {args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1]{{.*}} (tensor<2x16x19x19xbf16>, tensor<64x16x4x4xbf16>) -> tensor<2x64x16x16xbf16>
func.func @blocks(%x: tensor<2x3x32x32xbf16>, %w: tensor<64x3x7x7xbf16>) -> tensor<2x64x16x16xbf16> {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [3, 3], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 16384, 256, 16, 1>]} : (tensor<2x3x32x32xbf16>, tensor<64x3x7x7xbf16>) -> tensor<2x64x16x16xbf16>
  return %0 : tensor<2x64x16x16xbf16>
}

// -----

// Zeros pay where a convolution is long compared with a copy of its image.
// CHECK-LABEL: func.func @zeros
// CHECK: "graph.extern"{{.*}} (tensor<2x16x32x32xbf16>, tensor<128x16x3x3xbf16>) -> tensor<2x128x32x32xbf16>
// CHECK: "graph.extern"{{.*}} (tensor<2x3x32x32xbf16>, tensor<8x3x3x3xbf16>) -> tensor<2x8x32x32xbf16>
func.func @zeros(%x: tensor<2x3x32x32xbf16>, %w: tensor<128x3x3x3xbf16>, %v: tensor<8x3x3x3xbf16>) -> (tensor<2x128x32x32xbf16>, tensor<2x8x32x32xbf16>) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 131072, 1024, 32, 1>]} : (tensor<2x3x32x32xbf16>, tensor<128x3x3x3xbf16>) -> tensor<2x128x32x32xbf16>
  %1 = "graph.extern"(%x, %v) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 8192, 1024, 32, 1>]} : (tensor<2x3x32x32xbf16>, tensor<8x3x3x3xbf16>) -> tensor<2x8x32x32xbf16>
  return %0, %1 : tensor<2x128x32x32xbf16>, tensor<2x8x32x32xbf16>
}

// -----

// The gradient of a bias is a sum in f32; the call computes the others.
// CHECK-LABEL: func.func @gradients
// CHECK: linalg.generic {{.*}}iterator_types = ["reduction", "parallel", "reduction", "reduction"]{{.*}} ins(%arg0
// CHECK: arith.truncf
// CHECK: "graph.extern"(%arg0, %arg1, %arg2) {args = [unit, unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, false]]{{.*}}strides = [none, array<i64: 288, 9, 3, 1>, none]
func.func @gradients(%g: tensor<2x16x12x12xbf16>, %x: tensor<2x32x12x12xbf16>, %w: tensor<16x32x3x3xbf16>) -> (tensor<16x32x3x3xbf16>, tensor<16xbf16>) {
  %0:2 = "graph.extern"(%g, %x, %w) {args = [unit, unit, unit, [16], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, true]], callee = "aten.convolution_backward.default", kwargs = {}, reason = "library", strides = [none, array<i64: 288, 9, 3, 1>, array<i64: 1>]} : (tensor<2x16x12x12xbf16>, tensor<2x32x12x12xbf16>, tensor<16x32x3x3xbf16>) -> (tensor<16x32x3x3xbf16>, tensor<16xbf16>)
  return %0#0, %0#1 : tensor<16x32x3x3xbf16>, tensor<16xbf16>
}

// The gradient of the weight of a depthwise convolution of few elements: a sum for each.
// CHECK-LABEL: func.func @weights
// CHECK-NOT: graph.extern
// CHECK: %[[PADDED:.*]] = tensor.pad %arg1 low[0, 0, 0, 1] high[0, 0, 0, 1]
// CHECK-COUNT-3: tensor.extract_slice %[[PADDED]]
// CHECK: tensor.concat dim(1)
// CHECK: arith.truncf
func.func @weights(%g: tensor<2x16x1x12xbf16>, %x: tensor<2x16x1x12xbf16>, %w: tensor<16x1x1x3xbf16>) -> tensor<16x1x1x3xbf16> {
  %0 = "graph.extern"(%g, %x, %w) {args = [unit, unit, unit, none, [1, 1], [0, 1], [1, 1], false, [0, 0], 16, [false, true, false]], callee = "aten.convolution_backward.default", kwargs = {}, reason = "library", strides = [none, array<i64: 3, 3, 3, 1>, none]} : (tensor<2x16x1x12xbf16>, tensor<2x16x1x12xbf16>, tensor<16x1x1x3xbf16>) -> tensor<16x1x1x3xbf16>
  return %0 : tensor<16x1x1x3xbf16>
}
