// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

// Attention that drops weights by our random numbers is Lamina's unmeasured: no vendor has them. The seed is one more operand.
// CHECK-LABEL: func.func @forward
// CHECK: %[[MADE:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1, %arg2)
// CHECK-SAME: callee = "lamina.attention_forward"
// CHECK-SAME: causal = true, dropout = 1.000000e-01
// CHECK-SAME: of = "lamina.attention.default"
// CHECK-SAME: reads = "seed"
// CHECK-SAME: sums = true
// CHECK: return %[[MADE]]#0, %[[MADE]]#1
func.func @forward(%q: tensor<2x4x128x64xbf16>, %k: tensor<2x2x128x64xbf16>, %seed: tensor<i64>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>) {
  %0:2 = "graph.extern"(%q, %k, %k, %seed) {args = [unit, unit, unit, none, unit, 0.1, true, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>]} : (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<i64>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0, %0#1 : tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>
}

// -----

// Few queries are not split over keys.
// CHECK-LABEL: func.func @few
// CHECK: callee = "lamina.attention_forward"
// CHECK-SAME: reads = "mask seed"
func.func @few(%q: tensor<2x4x1x64xf16>, %k: tensor<2x4x2048x64xf16>, %m: tensor<2x1x1x2048xf16>, %seed: tensor<i64>) -> tensor<2x4x1x64xf16> {
  %0:2 = "graph.extern"(%q, %k, %k, %m, %seed) {args = [unit, unit, unit, unit, unit, 0.1, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 256, 64, 64, 1>, array<i64: 4, 1, 1>]} : (tensor<2x4x1x64xf16>, tensor<2x4x2048x64xf16>, tensor<2x4x2048x64xf16>, tensor<2x1x1x2048xf16>, tensor<i64>) -> (tensor<2x4x1x64xf16>, tensor<2x4x1xf32>)
  return %0#0 : tensor<2x4x1x64xf16>
}

// -----

// Gradients read the same seed.
// CHECK-LABEL: func.func @backward
// CHECK: %[[QUERIES:.*]]:2 = "graph.kernel"(%arg0, %arg0, %arg0, %arg2, %arg0, %arg1, %arg0)
// CHECK-SAME: callee = "lamina.attention_backward_queries"
// CHECK-SAME: dropout = 2.500000e-01
// CHECK-SAME: reads = "seed"
// CHECK: "graph.kernel"(%arg0, %arg0, %arg0, %arg2, %arg1, %arg0, %[[QUERIES]]#1)
// CHECK-SAME: callee = "lamina.attention_backward_keys"
// CHECK-SAME: dropout = 2.500000e-01
func.func @backward(%q: tensor<2x4x128x64xbf16>, %sums: tensor<2x4x128xf32>, %seed: tensor<i64>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums, %seed) {args = [unit, unit, unit, unit, none, unit, unit, unit, 0.25, false, 0.5, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 32768, 64, 256, 1>, array<i64: 32768, 64, 256, 1>]} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>, tensor<i64>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>)
  return %0#0, %0#2 : tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>
}
