// On a GPU layouts minimize the library's time, by measurements of similar calls, and what must be transposed.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{target=nvvm:sm_90a})' | FileCheck %s

// Channels that fill tensor cores: last, although the image must be copied.
// CHECK-LABEL: func.func @dense
// CHECK: %[[IMAGE:.*]] = linalg.generic {{.*}} ins(%arg0
// CHECK: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%arg1
// CHECK: "graph.extern"(%[[IMAGE]], %[[WEIGHT]])
// CHECK-SAME: strides = [array<i64: 50176, 1, 1792, 64>]
func.func @dense(%x: tensor<32x64x28x28xbf16>, %w: tensor<64x64x3x3xbf16>) -> tensor<32x64x28x28xbf16> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 50176, 784, 28, 1>]} : (tensor<32x64x28x28xbf16>, tensor<64x64x3x3xbf16>) -> tensor<32x64x28x28xbf16>
  return %c : tensor<32x64x28x28xbf16>
}

// -----

// f32 stays where the library may not round it to tf32.
// CHECK-LABEL: func.func @exact
// CHECK-NOT: linalg.generic
// CHECK: strides = [array<i64: 50176, 784, 28, 1>]
func.func @exact(%x: tensor<32x64x28x28xf32>, %w: tensor<64x64x3x3xf32>) -> tensor<32x64x28x28xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 50176, 784, 28, 1>]} : (tensor<32x64x28x28xf32>, tensor<64x64x3x3xf32>) -> tensor<32x64x28x28xf32>
  return %c : tensor<32x64x28x28xf32>
}

// -----

// Two filters a channel: cuDNN has no fast kernel with channels last.
// CHECK-LABEL: func.func @multiplied
// CHECK-NOT: linalg.generic
// CHECK-NOT: needs
// CHECK: strides = [array<i64: 100352, 784, 28, 1>]
func.func @multiplied(%x: tensor<32x64x28x28xf32>, %w: tensor<128x1x3x3xf32>) -> tensor<32x128x28x28xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], kwargs = {}, tf32, strides = [array<i64: 100352, 784, 28, 1>]} : (tensor<32x64x28x28xf32>, tensor<128x1x3x3xf32>) -> tensor<32x128x28x28xf32>
  return %c : tensor<32x128x28x28xf32>
}

// -----

// A caller's channels last do not make it slow: its operands are copied.
// CHECK-LABEL: func.func @multiplied_given
// CHECK: needs = [array<i64: 50176, 784, 28, 1>, array<i64: 9, 9, 3, 1>]
// CHECK-SAME: strides = [array<i64: 100352, 784, 28, 1>]
func.func @multiplied_given(%x: tensor<32x64x28x28xf32> {graph.strides = array<i64: 50176, 1, 1792, 64>}, %w: tensor<128x1x3x3xf32>) -> tensor<32x128x28x28xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 64], kwargs = {}, tf32, strides = [array<i64: 100352, 1, 3584, 128>]} : (tensor<32x64x28x28xf32>, tensor<128x1x3x3xf32>) -> tensor<32x128x28x28xf32>
  return %c : tensor<32x128x28x28xf32>
}

// -----

#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>

// In one graph each call has the layout that suits it; the kernel between them transposes.
// CHECK-LABEL: func.func @mixed
// CHECK: "graph.extern"{{.*}}strides = [array<i64: 401408, 1, 7168, 128>]
// CHECK: "graph.extern"{{.*}}needs = [array<i64: 401408, 3136, 56, 1>, array<i64: 9, 9, 3, 1>]{{.*}}strides = [array<i64: 1605632, 3136, 56, 1>]
func.func @mixed(%x: tensor<32x128x56x56xf32> {graph.strides = array<i64: 401408, 1, 7168, 128>}, %w: tensor<128x128x3x3xf32>, %v: tensor<512x1x3x3xf32>) -> tensor<32x512x56x56xf32> {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, tf32, strides = [array<i64: 401408, 3136, 56, 1>]} : (tensor<32x128x56x56xf32>, tensor<128x128x3x3xf32>) -> tensor<32x128x56x56xf32>
  %e = tensor.empty() : tensor<32x128x56x56xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%c : tensor<32x128x56x56xf32>) outs(%e : tensor<32x128x56x56xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %neg = arith.negf %in : f32
    linalg.yield %neg : f32
  } -> tensor<32x128x56x56xf32>
  %d = "graph.extern"(%n, %v) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 128], kwargs = {}, tf32, strides = [array<i64: 1605632, 3136, 56, 1>]} : (tensor<32x128x56x56xf32>, tensor<512x1x3x3xf32>) -> tensor<32x512x56x56xf32>
  return %d : tensor<32x512x56x56xf32>
}
