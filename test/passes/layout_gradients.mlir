// Gradients of convolutions take and give their channels last: what no kernel makes is copied, and the call counts on all of it.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{types=bf16,tf32 packed=false grouped=false transposed=true gradients=true copied=true})' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{types=bf16,tf32 packed=false copied=true})' | FileCheck %s --check-prefix=WITHOUT

// The image was saved with its channels last, and a weight of one pixel lies so in any case; what flows back is copied.
// CHECK-LABEL: func.func @saved
// CHECK: %[[GRADIENT:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: "graph.extern"(%[[GRADIENT]], %arg1, %arg2)
// CHECK-SAME: needs = [array<i64: 256, 1, 32, 4>, array<i64: 512, 1, 64, 8>, array<i64: 8, 1, 8, 8>]
// CHECK-SAME: strides = [array<i64: 512, 1, 64, 8>, array<i64: 8, 1, 8, 8>, none]
// WITHOUT-NOT: needs
func.func @saved(%g: tensor<1x4x8x8xbf16>, %x: tensor<1x8x8x8xbf16> {graph.strides = array<i64: 512, 1, 64, 8>}, %w: tensor<4x8x1x1xbf16>) -> (tensor<1x8x8x8xbf16>, tensor<4x8x1x1xbf16>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [true, true, false]], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>, array<i64: 8, 1, 1, 1>, none]} : (tensor<1x4x8x8xbf16>, tensor<1x8x8x8xbf16>, tensor<4x8x1x1xbf16>) -> (tensor<1x8x8x8xbf16>, tensor<4x8x1x1xbf16>)
  return %d#0, %d#1 : tensor<1x8x8x8xbf16>, tensor<4x8x1x1xbf16>
}

// -----

// Where nobody asked for the image's gradient; that of the bias is no image.
// CHECK-LABEL: func.func @weight_and_bias
// CHECK: "graph.extern"
// CHECK-SAME: strides = [none, array<i64: 72, 1, 24, 8>, array<i64: 1>]
func.func @weight_and_bias(%g: tensor<1x4x6x6xf32>, %x: tensor<1x8x8x8xf32>, %w: tensor<4x8x3x3xf32>) -> (tensor<4x8x3x3xf32>, tensor<4xf32>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, [4], [1, 1], [0, 0], [1, 1], false, [0, 0], 1, [false, true, true]], kwargs = {}, tf32, strides = [none, array<i64: 72, 9, 3, 1>, array<i64: 1>]} : (tensor<1x4x6x6xf32>, tensor<1x8x8x8xf32>, tensor<4x8x3x3xf32>) -> (tensor<4x8x3x3xf32>, tensor<4xf32>)
  return %d#0, %d#1 : tensor<4x8x3x3xf32>, tensor<4xf32>
}

// -----

// Groups of several channels stay.
// CHECK-LABEL: func.func @grouped
// CHECK-NOT: needs
func.func @grouped(%g: tensor<1x8x6x6xbf16>, %x: tensor<1x8x8x8xbf16>, %w: tensor<8x4x3x3xbf16>) -> (tensor<1x8x8x8xbf16>, tensor<8x4x3x3xbf16>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2, [true, true, false]], kwargs = {}, strides = [array<i64: 512, 64, 8, 1>, array<i64: 36, 9, 3, 1>, none]} : (tensor<1x8x6x6xbf16>, tensor<1x8x8x8xbf16>, tensor<8x4x3x3xbf16>) -> (tensor<1x8x8x8xbf16>, tensor<8x4x3x3xbf16>)
  return %d#0, %d#1 : tensor<1x8x8x8xbf16>, tensor<8x4x3x3xbf16>
}

// -----

// But those that round to tf32.
// CHECK-LABEL: func.func @grouped_tf32
// CHECK: "graph.extern"{{.*}}needs
// CHECK-SAME: array<i64: 512, 1, 64, 8>
func.func @grouped_tf32(%g: tensor<1x8x6x6xf32>, %x: tensor<1x8x8x8xf32>, %w: tensor<8x4x3x3xf32>) -> (tensor<1x8x8x8xf32>, tensor<8x4x3x3xf32>) {
  %d:2 = "graph.extern"(%g, %x, %w) {callee = "aten.convolution_backward.default", reason = "library", args = [unit, unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 2, [true, true, false]], kwargs = {}, tf32, strides = [array<i64: 512, 64, 8, 1>, array<i64: 36, 9, 3, 1>, none]} : (tensor<1x8x6x6xf32>, tensor<1x8x8x8xf32>, tensor<8x4x3x3xf32>) -> (tensor<1x8x8x8xf32>, tensor<8x4x3x3xf32>)
  return %d#0, %d#1 : tensor<1x8x8x8xf32>, tensor<8x4x3x3xf32>
}
