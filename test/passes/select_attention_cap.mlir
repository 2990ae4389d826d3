// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

// Attention with a soft cap, the argument after those of other attention, is Lamina's unmeasured: no vendor's kernel has one. Warps of
// parts of their own do not compute it.
// CHECK-LABEL: func.func @forward
// CHECK: "graph.kernel"(%arg0, %arg1, %arg1)
// CHECK-SAME: callee = "lamina.attention_forward", kwargs = {cap = 5.000000e+01
func.func @forward(%q: tensor<2x16x2048x128xbf16>, %k: tensor<2x16x2048x128xbf16>) -> tensor<2x16x2048x128xbf16> {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, true, 0.125, "", 50.0], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 4194304, 262144, 128, 1>, array<i64: 32768, 2048, 1>]} : (tensor<2x16x2048x128xbf16>, tensor<2x16x2048x128xbf16>, tensor<2x16x2048x128xbf16>) -> (tensor<2x16x2048x128xbf16>, tensor<2x16x2048xf32>)
  return %0#0 : tensor<2x16x2048x128xbf16>
}

// -----

// CHECK-LABEL: func.func @backward
// CHECK: callee = "lamina.attention_backward_queries", kwargs = {cap = 3.000000e+01
// CHECK: callee = "lamina.attention_backward_keys", kwargs = {cap = 3.000000e+01
func.func @backward(%q: tensor<2x4x128x64xbf16>, %sums: tensor<2x4x128xf32>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %q, %sums) {args = [unit, unit, unit, unit, none, unit, unit, none, 0.0, false, 0.5, "", false, 30.0], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 32768, 64, 256, 1>, array<i64: 32768, 64, 256, 1>]} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>)
  return %0#0, %0#2 : tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>
}

// -----

// Where no vendor may compute attention, a mask that only hides is read by lists of its blocks.
// CHECK-LABEL: func.func @hidden
// CHECK: callee = "lamina.attention_blocks"
// CHECK: callee = "lamina.attention_forward"
// CHECK-SAME: reads = "mask blocks"
// CHECK-SAME: blocks=1
func.func @hidden(%q: tensor<2x4x1024x64xbf16>, %seen: tensor<1x1x1024x1024xi1>) -> tensor<2x4x1024x64xbf16> {
  %0:2 = "graph.extern"(%q, %q, %q, %seen) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, ""], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 262144, 65536, 64, 1>, array<i64: 4096, 1024, 1>]} : (tensor<2x4x1024x64xbf16>, tensor<2x4x1024x64xbf16>, tensor<2x4x1024x64xbf16>, tensor<1x1x1024x1024xi1>) -> (tensor<2x4x1024x64xbf16>, tensor<2x4x1024xf32>)
  return %0#0 : tensor<2x4x1024x64xbf16>
}
