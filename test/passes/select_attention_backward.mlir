// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{schedule="backward{m=64 n=32}"})' --split-input-file | FileCheck %s --check-prefix=GIVEN
// RUN: not opt-driver %p/Inputs/select_attention_backward_errors.mlir --split-input-file --pass-pipeline='builtin.module(lamina-select-kernels)' 2>&1 | FileCheck %s --check-prefix=ERROR

// What a backward graph will read of attention is a second result of Lamina's kernel.
// CHECK-LABEL: func.func @forward
// CHECK: %[[MADE:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1)
// CHECK-SAME: callee = "lamina.attention_forward"
// CHECK-SAME: sums = true
// CHECK-SAME: strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>]
// CHECK: return %[[MADE]]#0, %[[MADE]]#1
func.func @forward(%q: tensor<2x4x128x64xbf16>, %k: tensor<2x2x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>) {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, true, 0.125, "flash"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "forward{m=64 n=64}"} : (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0, %0#1 : tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>
}

// -----

// Gradients are two kernels: the second reads the sums that the first has made.
// CHECK-LABEL: func.func @chosen
// CHECK: %[[QUERIES:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1, %arg3, %arg4, %arg2)
// CHECK-SAME: callee = "lamina.attention_backward_queries"
// CHECK-SAME: causal = true
// CHECK-SAME: of = "lamina.attention_backward.default"
// CHECK-SAME: reads = "", scale = 1.250000e-01
// CHECK-SAME: schedule = "backward{m=64 n=64 queries=32}"
// CHECK-SAME: -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
// CHECK: %[[KEYS:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1, %arg4, %arg2, %[[QUERIES]]#1)
// CHECK-SAME: callee = "lamina.attention_backward_keys"
// CHECK-SAME: strides = [array<i64: 16384, 64, 128, 1>, array<i64: 16384, 8192, 64, 1>]
// CHECK: return %[[QUERIES]]#0, %[[KEYS]]#0
func.func @chosen(%q: tensor<2x4x128x64xbf16>, %k: tensor<2x2x128x64xbf16>, %grad: tensor<2x4x128x64xbf16>, %out: tensor<2x4x128x64xbf16>, %sums: tensor<2x4x128xf32>, %seed: tensor<2xi64>, %offset: tensor<i64>) -> (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>) {
  %0:3 = "graph.extern"(%grad, %q, %k, %k, %out, %sums) {args = [unit, unit, unit, unit, none, unit, unit, none, 0.0, true, 0.125, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 16384, 64, 128, 1>, array<i64: 16384, 64, 128, 1>], graph.choice = "backward{m=64 n=64 queries=32}"} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>) -> (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>)
  return %0#0, %0#1 : tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>
}

// -----

// Nothing was measured: the library's, unless a schedule for gradients is given.
// CHECK-LABEL: func.func @unmeasured
// CHECK: callee = "lamina.attention_backward.default"
// GIVEN-LABEL: func.func @unmeasured
// GIVEN: lamina.attention_backward_queries
// GIVEN-SAME: reads = "mask"
// GIVEN-NOT: lamina.attention_backward_keys
func.func @unmeasured(%q: tensor<2x4x40x64xbf16>, %m: tensor<2x4x40x40xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> tensor<2x4x40x64xbf16> {
  %0:3 = "graph.extern"(%q, %q, %q, %q, %m, %q, %sums) {args = [unit, unit, unit, unit, unit, unit, unit, none, 0.0, false, 0.5, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>]} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x40xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>)
  return %0#0 : tensor<2x4x40x64xbf16>
}

// -----

// Lists of blocks: of keys for the first kernel, of queries for the second.
// CHECK-LABEL: func.func @listed
// GIVEN-LABEL: func.func @listed
// CHECK: %[[OF_KEYS:.*]] = "graph.kernel"(%arg1) {{.*}}callee = "lamina.attention_blocks", kwargs = {by_keys = false, causal = false, keys = 70 : i64, m = 32 : i64, n = 16 : i64
// CHECK-SAME: -> tensor<2x1x2x7xi32>
// CHECK: %[[OF_QUERIES:.*]] = "graph.kernel"(%arg1) {{.*}}callee = "lamina.attention_blocks", kwargs = {by_keys = true, causal = false, keys = 70 : i64, m = 16 : i64, n = 64 : i64
// CHECK-SAME: -> tensor<2x1x2x5xi32>
// CHECK: "graph.kernel"({{.*}}, %arg1, %[[OF_KEYS]], {{.*}}callee = "lamina.attention_backward_queries"
// CHECK-SAME: reads = "mask blocks"
// CHECK: "graph.kernel"({{.*}}, %arg1, %[[OF_QUERIES]], {{.*}}callee = "lamina.attention_backward_keys"
// CHECK-SAME: reads = "mask blocks"
func.func @listed(%q: tensor<2x4x40x64xbf16>, %m: tensor<2x1x40x70xi1>, %k: tensor<2x4x70x64xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x70x64xbf16>) {
  %0:3 = "graph.extern"(%q, %q, %k, %k, %m, %q, %sums) {args = [unit, unit, unit, unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn", false], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 17920, 64, 256, 1>, array<i64: 17920, 64, 256, 1>], graph.choice = "backward{m=32 n=16 queries=16 blocks=1}"} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x1x40x70xi1>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x70x64xbf16>, tensor<2x4x70x64xbf16>)
  return %0#0, %0#1 : tensor<2x4x40x64xbf16>, tensor<2x4x70x64xbf16>
}

// -----

// A mask's gradient is a vendor's alone.
// GIVEN-LABEL: func.func @left
// GIVEN: callee = "lamina.attention_backward.default"
// GIVEN-NOT: callee
func.func @left(%q: tensor<2x4x40x64xbf16>, %m: tensor<2x4x40x40xbf16>, %sums: tensor<2x4x40xf32>, %seed: tensor<i64>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x40xbf16>) {
  %0:4 = "graph.extern"(%q, %q, %q, %q, %m, %q, %sums) {args = [unit, unit, unit, unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn", true], callee = "lamina.attention_backward.default", kwargs = {}, reason = "library", strides = [array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 10240, 64, 256, 1>, array<i64: 6400, 1600, 40, 1>]} : (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x40xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40xf32>) -> (tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x64xbf16>, tensor<2x4x40x40xbf16>)
  return %0#0, %0#3 : tensor<2x4x40x64xbf16>, tensor<2x4x40x40xbf16>
}

// ERROR: select_attention_backward_errors.mlir:2{{.*}}error: forward{m=64 n=64} cannot compute this: it is not for gradients: attention backward 2x4x40x64 on 2x4x40x64 (drop graph.choice)
// ERROR: select_attention_backward_errors.mlir:9{{.*}}error: backward{m=64 n=64} cannot compute this: it is for gradients alone: attention 2x4x40x64 on 2x4x40x64 (drop graph.choice)
// ERROR: select_attention_backward_errors.mlir:16{{.*}}error: backward{keys=48} (keys is a power of two from 16)
// ERROR: select_attention_backward_errors.mlir:23{{.*}}error: backward{m=64 n=64 blocks=1} cannot compute this: it is for masks that are read for each score alone: attention backward 2x4x40x64 on 2x4x40x64 (drop graph.choice)
