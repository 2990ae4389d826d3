// Gradients of convolutions take and give their channels last where the library is faster so: what no kernel makes is copied, and the
// call counts on all of it.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{target=nvvm:sm_90a})' | FileCheck %s

// The image was saved with its channels last; what flows back is copied.
// CHECK-LABEL: func.func @saved
// CHECK: %[[GRADIENT:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%arg2
// CHECK: "graph.extern"(%[[GRADIENT]], %arg1, %[[WEIGHT]])
// CHECK-SAME: needs = [array<i64: 200704, 1, 3584, 64>, array<i64: 200704, 1, 3584, 64>, array<i64: 576, 1, 192, 64>]
// CHECK-SAME: strides = [array<i64: 200704, 1, 3584, 64>, array<i64: 576, 1, 192, 64>, none]
func.func @saved(%g: tensor<16x64x56x56xbf16>, %x: tensor<16x64x56x56xbf16> {graph.strides = array<i64: 200704, 1, 3584, 64>}, %w: tensor<64x64x3x3xbf16>) -> (tensor<16x64x56x56xbf16>, tensor<64x64x3x3xbf16>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, false]], kwargs = {}, strides = [array<i64: 200704, 3136, 56, 1>, array<i64: 576, 9, 3, 1>, none]} : (tensor<16x64x56x56xbf16>, tensor<16x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> (tensor<16x64x56x56xbf16>, tensor<64x64x3x3xbf16>)
  return %d#0, %d#1 : tensor<16x64x56x56xbf16>, tensor<64x64x3x3xbf16>
}

// -----

// Where nobody asked for the image's gradient; that of the bias is no image.
// CHECK-LABEL: func.func @weight_and_bias
// CHECK: "graph.extern"
// CHECK-SAME: strides = [none, array<i64: 576, 1, 192, 64>, array<i64: 1>]
func.func @weight_and_bias(%g: tensor<16x64x56x56xbf16>, %x: tensor<16x64x56x56xbf16>, %w: tensor<64x64x3x3xbf16>) -> (tensor<64x64x3x3xbf16>, tensor<64xbf16>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, [64], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [false, true, true]], kwargs = {}, tbf16, strides = [none, array<i64: 576, 9, 3, 1>, array<i64: 1>]} : (tensor<16x64x56x56xbf16>, tensor<16x64x56x56xbf16>, tensor<64x64x3x3xbf16>) -> (tensor<64x64x3x3xbf16>, tensor<64xbf16>)
  return %d#0, %d#1 : tensor<64x64x3x3xbf16>, tensor<64xbf16>
}

// -----

// The gradient of a depthwise weight with a large window, in f32, takes cuDNN several times as long with channels last.
// CHECK-LABEL: func.func @depthwise
// CHECK-NOT: needs
// CHECK: strides = [none, array<i64: 49, 49, 7, 1>, none]
func.func @depthwise(%g: tensor<16x96x56x56xf32>, %x: tensor<16x96x56x56xf32>, %w: tensor<96x1x7x7xf32>) -> tensor<96x1x7x7xf32> {
  %d = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [3, 3], [1, 1], false, [0, 0], 96, [false, true, false]], kwargs = {}, tf32, strides = [none, array<i64: 49, 49, 7, 1>, none]} : (tensor<16x96x56x56xf32>, tensor<16x96x56x56xf32>, tensor<96x1x7x7xf32>) -> tensor<96x1x7x7xf32>
  return %d : tensor<96x1x7x7xf32>
}
