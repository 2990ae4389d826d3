// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-vendor-calls{target=nvvm:sm_80})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-vendor-calls)' --split-input-file | FileCheck %s --check-prefix=CPU

// Without users of the sums, they are not made. Heads are padded for flash attention; the kernel for CPUs takes them as they are.
// CHECK-LABEL: func.func @forward
// CHECK: %[[Q:.*]] = "graph.group"(%arg0)
// CHECK: tensor.pad
// CHECK: -> tensor<2x4x128x24xbf16>
// CHECK: %[[OUT:.*]] = "graph.extern"(%[[Q]], {{.*}}args = [unit, unit, unit, 0.000000e+00, true, false]
// CHECK-SAME: callee = "aten._scaled_dot_product_flash_attention.default", kwargs = {scale = 1.250000e-01
// CHECK-SAME: strides = [array<i64: 12288, 24, 96, 1>, none, none, none, none, none, none, none, none]
// CHECK: tensor.extract_slice %[[OUT]]
// CPU-LABEL: func.func @forward
// CPU-NOT: graph.group
// CPU: "graph.extern"(%arg0, %arg1, %arg1) {args = [unit, unit, unit, 0.000000e+00, true], callee = "aten._scaled_dot_product_flash_attention_for_cpu.default"
// CPU-SAME: strides = [array<i64: 10240, 20, 80, 1>, none]
func.func @forward(%q: tensor<2x4x128x20xbf16>, %k: tensor<2x2x128x20xbf16>) -> tensor<2x4x128x20xbf16> {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, true, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 20, 80, 1>, array<i64: 512, 128, 1>]} : (tensor<2x4x128x20xbf16>, tensor<2x2x128x20xbf16>, tensor<2x2x128x20xbf16>) -> (tensor<2x4x128x20xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x20xbf16>
}

// -----

// The memory-efficient kernel reads a mask of all dimensions, in rows that begin at multiples of 16 bytes, made once for both passes. Its
// sums are longer than the op's.
// CHECK-LABEL: func.func @both
// CHECK: %[[ROWS:.*]] = "graph.group"(%arg2)
// CHECK: tensor.pad
// CHECK: -> tensor<2x1x40x44xf32>
// CHECK: %[[BIAS:.*]] = tensor.extract_slice %[[ROWS]]
// CHECK: linalg.generic {{.*}} ins(%[[BIAS]] : tensor<2x1x40x41xf32>)
// CHECK: callee = "aten._scaled_dot_product_efficient_attention.default"
// CHECK-SAME: strides = [array<i64: 2560, 16, 64, 1>, array<i64: 256, 64, 1>, none, none]
// CHECK-NOT: tensor<2x1x40x44xf32>
// CHECK: -> tensor<2x4x64xf32>
// CHECK: tensor.extract_slice %[[ROWS]]
// CHECK: callee = "aten._scaled_dot_product_efficient_attention_backward.default"
// CHECK-SAME: strides = [none, array<i64: 2624, 16, 64, 1>, none, none]
// CPU-LABEL: func.func @both
// CPU: %[[MADE:.*]]:2 = "graph.extern"(%arg0, %arg1, %arg1, %arg2)
// CPU-SAME: kwargs = {attn_mask, scale
// CPU-SAME: strides = [array<i64: 2560, 640, 16, 1>, array<i64: 160, 1, 4>]
// CPU: "graph.extern"(%arg0, %arg0, %arg1, %arg1, %[[MADE]]#0, %[[MADE]]#1, %arg2)
// CPU-SAME: strides = [none, array<i64: 2624, 16, 64, 1>, none]
func.func @both(%q: tensor<2x4x40x16xf32>, %k: tensor<2x4x41x16xf32>, %m: tensor<2x1x40x41xf32>) -> tensor<2x4x41x16xf32> {
  %0:2 = "graph.extern"(%q, %k, %k, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.25, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 2560, 640, 16, 1>, array<i64: 160, 40, 1>]} : (tensor<2x4x40x16xf32>, tensor<2x4x41x16xf32>, tensor<2x4x41x16xf32>, tensor<2x1x40x41xf32>) -> (tensor<2x4x40x16xf32>, tensor<2x4x40xf32>)
  %1:3 = "graph.extern"(%q, %q, %k, %k, %m, %0#0, %0#1) {args = [unit, unit, unit, unit, unit, unit, unit, none, 0.0, false, 0.25, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 2560, 640, 16, 1>, array<i64: 2624, 656, 16, 1>, array<i64: 2624, 656, 16, 1>]} : (tensor<2x4x40x16xf32>, tensor<2x4x40x16xf32>, tensor<2x4x41x16xf32>, tensor<2x4x41x16xf32>, tensor<2x1x40x41xf32>, tensor<2x4x40x16xf32>, tensor<2x4x40xf32>) -> (tensor<2x4x40x16xf32>, tensor<2x4x41x16xf32>, tensor<2x4x41x16xf32>)
  return %1#1 : tensor<2x4x41x16xf32>
}

// -----

// What no kernel computes is a fallback, and says so.
// CHECK-LABEL: func.func @neither
// CHECK: callee = "lamina.attention.default", kwargs = {}, reason = "fallback"
// CPU-LABEL: func.func @neither
// CPU: callee = "lamina.attention.default", kwargs = {}, reason = "fallback"
func.func @neither(%q: tensor<2x4x40x15xf32>, %v: tensor<2x4x40x16xf32>) -> tensor<2x4x40x16xf32> {
  %0:2 = "graph.extern"(%q, %q, %v) {args = [unit, unit, unit, none, none, 0.0, false, 0.25, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 2560, 640, 16, 1>, array<i64: 160, 40, 1>]} : (tensor<2x4x40x15xf32>, tensor<2x4x40x15xf32>, tensor<2x4x40x16xf32>) -> (tensor<2x4x40x16xf32>, tensor<2x4x40xf32>)
  return %0#0 : tensor<2x4x40x16xf32>
}
