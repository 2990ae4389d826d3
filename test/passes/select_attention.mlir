// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels)' --split-input-file | FileCheck %s --check-prefix=UNASKED
// RUN: not opt-driver %p/Inputs/select_attention_errors.mlir --split-input-file --pass-pipeline='builtin.module(lamina-select-kernels)' 2>&1 | FileCheck %s --check-prefix=ERROR

// What was chosen becomes a call of a Lamina kernel, which writes in the declared strides.
// CHECK-LABEL: func.func @chosen
// CHECK: %[[OUT:.*]] = "graph.kernel"(%arg0, %arg1, %arg1) {callee = "lamina.attention_forward"
// CHECK-SAME: causal = true
// CHECK-SAME: of = "lamina.attention.default"
// CHECK-SAME: scale = 1.250000e-01
// CHECK-SAME: schedule = "forward{m=64 n=64}"
// CHECK-SAME: strides = [array<i64: 32768, 64, 256, 1>]
// CHECK-NEXT: return %[[OUT]]
func.func @chosen(%q: tensor<2x4x128x64xbf16>, %k: tensor<2x2x128x64xbf16>) -> tensor<2x4x128x64xbf16> {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, true, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>], graph.choice = "forward{m=64 n=64 warps=4 stages=3}"} : (tensor<2x4x128x64xbf16>, tensor<2x2x128x64xbf16>, tensor<2x2x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  return %0#0 : tensor<2x4x128x64xbf16>
}

// -----

// Long causal attention of large heads is Lamina's on Hopper, unasked.
// CHECK-LABEL: func.func @long
// CHECK: callee = "lamina.attention_specialized"
// CHECK-SAME: schedule = "specialized{n=128 groups=2}"
// UNASKED-LABEL: func.func @long
// UNASKED: callee = "lamina.attention.default"
func.func @long(%q: tensor<4x16x2048x128xbf16>, %k: tensor<4x4x2048x128xbf16>) -> tensor<4x16x2048x128xbf16> {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, true, 0.08838834764831845, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 4194304, 128, 2048, 1>, array<i64: 32768, 2048, 1>]} : (tensor<4x16x2048x128xbf16>, tensor<4x4x2048x128xbf16>, tensor<4x4x2048x128xbf16>) -> (tensor<4x16x2048x128xbf16>, tensor<4x16x2048xf32>)
  return %0#0 : tensor<4x16x2048x128xbf16>
}

// -----

// Few queries that share keys with a mask: their keys are split, and the parts joined.
// CHECK-LABEL: func.func @few
// CHECK: %[[BOUNDS:.*]] = "graph.kernel"(%arg2) {{.*}}"lamina.attention_bounds"
// CHECK: %[[PARTS:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1, %arg2, %[[BOUNDS]])
// CHECK-SAME: callee = "lamina.attention_split"
// CHECK-SAME: reads = "mask bounds"
// CHECK-SAME: scale = 5.000000e-01 : f64, schedule = "split{
// CHECK-SAME: -> (tensor<1x8x1x[[N:[0-9]+]]x64xf32>, tensor<1x8x1x[[N]]xf32>)
// CHECK: "graph.kernel"(%[[PARTS]]#0, %[[PARTS]]#1)
// CHECK-SAME: callee = "lamina.attention_join"
// UNASKED-LABEL: func.func @few
// UNASKED: callee = "lamina.attention.default"
func.func @few(%q: tensor<1x8x1x64xf16>, %k: tensor<1x2x4096x64xf16>, %m: tensor<1x1x1x4096xi1>) -> tensor<1x8x1x64xf16> {
  %0:2 = "graph.extern"(%q, %k, %k, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.5, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 512, 64, 64, 1>, array<i64: 8, 1, 1>]} : (tensor<1x8x1x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x1x1x4096xi1>) -> (tensor<1x8x1x64xf16>, tensor<1x8x1xf32>)
  return %0#0 : tensor<1x8x1x64xf16>
}

// -----

// The library keeps what was chosen for it, and many queries that nobody has measured, also where a backward graph will read of them.
// CHECK-LABEL: func.func @library
// CHECK-COUNT-3: callee = "lamina.attention.default"
// CHECK-NOT: callee
func.func @library(%q: tensor<1x8x1x64xf16>, %k: tensor<1x2x4096x64xf16>, %x: tensor<2x4x128x64xbf16>) -> (tensor<1x8x1x64xf16>, tensor<2x4x128x64xbf16>, tensor<1x8x1x64xf16>, tensor<1x8x1xf32>) {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 512, 64, 64, 1>, array<i64: 8, 1, 1>], graph.choice = "library"} : (tensor<1x8x1x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>) -> (tensor<1x8x1x64xf16>, tensor<1x8x1xf32>)
  %1:2 = "graph.extern"(%x, %x, %x) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 32768, 64, 256, 1>, array<i64: 512, 128, 1>]} : (tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>, tensor<2x4x128x64xbf16>) -> (tensor<2x4x128x64xbf16>, tensor<2x4x128xf32>)
  %2:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 512, 64, 64, 1>, array<i64: 8, 1, 1>]} : (tensor<1x8x1x64xf16>, tensor<1x2x4096x64xf16>, tensor<1x2x4096x64xf16>) -> (tensor<1x8x1x64xf16>, tensor<1x8x1xf32>)
  return %0#0, %1#0, %2#0, %2#1 : tensor<1x8x1x64xf16>, tensor<2x4x128x64xbf16>, tensor<1x8x1x64xf16>, tensor<1x8x1xf32>
}

// ERROR: select_attention_errors.mlir:2{{.*}}error: forward{n=48} (n is a power of two from 16)
// ERROR: select_attention_errors.mlir:9{{.*}}error: 'rows=2' is not part of split{...} (it has n, parts, warps, stages, each a number)
// ERROR: select_attention_errors.mlir:16{{.*}}error: split{n=64 parts=4} cannot compute this: it is for few queries, without causal and training: attention 2x4x128x64 on 2x4x128x64 (drop graph.choice)
// ERROR: select_attention_errors.mlir:23{{.*}}error: forward{m=64 n=64} on lamina.attention.default, which no kernel of Lamina computes
// ERROR: select_attention_errors.mlir:30{{.*}}error: forward{m=128 n=64 blocks=1} cannot compute this: it is for masks that are read for each score alone: attention 2x4x128x64 on 2x4x128x64 (drop graph.choice)
