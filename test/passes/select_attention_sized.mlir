// Attention of symbolic sizes: kernels take the sizes as values, and masks of positions are read as regions.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-select-kernels{target=nvvm:sm_90a wide-sizes},lamina-vendor-calls{target=nvvm:sm_90a})' --split-input-file | FileCheck %s --check-prefix=WIDE

// A window of 128 keys: the mask is not made.
// CHECK-LABEL: func.func @window
// CHECK-NOT: graph.group
// CHECK: "graph.kernel"(%arg0, %arg0, %arg0)
// CHECK-SAME: callee = "lamina.attention_forward", kwargs = {causal = true
// CHECK-SAME: window = 128 : i64
// WIDE-LABEL: func.func @window
// WIDE: sym_name = "mask"
// WIDE: aten._scaled_dot_product_{{.*}}attention
!tokens = tensor<?x4x?x64xbf16, ["s0~8", 4, "s1~512", 64]>
!mask = tensor<1x1x?x?xbf16, [1, 1, "s1~512", "s1~512"]>
#all = affine_map<(b, h, q, k) -> (b, h, q, k)>
func.func @window(%q: !tokens) -> !tokens {
  %m = "graph.group"() ({
    %n = "graph.size"() {size = "s1~512"} : () -> index
    %hidden = arith.constant 0xFF80 : bf16
    %zero = arith.constant 0.0 : bf16
    %c128 = arith.constant 128 : index
    %e = tensor.empty(%n, %n) : !mask
    %s = linalg.generic {indexing_maps = [#all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%e : !mask) {
    ^bb1(%o: bf16):
      %qi = linalg.index 2 : index
      %ki = linalg.index 3 : index
      %first = arith.subi %qi, %c128 : index
      %past = arith.cmpi sle, %ki, %qi : index
      %near = arith.cmpi sgt, %ki, %first : index
      %seen = arith.andi %past, %near : i1
      %y = arith.select %seen, %zero, %hidden : bf16
      linalg.yield %y : bf16
    } -> !mask
    "graph.yield"(%s) : (!mask) -> ()
  }) {sym_name = "mask"} : () -> !mask
  %0:2 = "graph.extern"(%q, %q, %q, %m) {args = [unit, unit, unit, unit, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [["256*s1~512", "64*s1~512", 64, 1], ["4*s1~512", "s1~512", 1]]} : (!tokens, !tokens, !tokens, !mask) -> (!tokens, tensor<?x4x?xf32, ["s0~8", 4, "s1~512"]>)
  return %0#0 : !tokens
}

// -----

// One query of heads that share keys: the keys are split into parts, whatever their number.
// CHECK-LABEL: func.func @decode
// CHECK: %[[PARTS:.*]]:2 = "graph.kernel"(%arg0, %arg1, %arg1)
// CHECK-SAME: callee = "lamina.attention_split"
// CHECK: "graph.kernel"(%[[PARTS]]#0, %[[PARTS]]#1)
// CHECK-SAME: callee = "lamina.attention_join"
!one = tensor<?x32x1x128xbf16, ["s0~2", 32, 1, 128]>
!keys = tensor<?x4x?x128xbf16, ["s0~2", 4, "s1~8000", 128]>
func.func @decode(%q: !one, %k: !keys) -> !one {
  %0:2 = "graph.extern"(%q, %k, %k) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [array<i64: 4096, 128, 128, 1>, array<i64: 32, 1, 1>]} : (!one, !keys, !keys) -> (!one, tensor<?x32x1xf32, ["s0~2", 32, 1]>)
  return %0#0 : !one
}

// -----

// Without a mask: cuDNN would make a plan for each length. Where that is the library's, it has symbolic sizes too.
// CHECK-LABEL: func.func @plain
// CHECK: callee = "lamina.attention_forward"
// WIDE-LABEL: func.func @plain
// WIDE: callee = "aten._scaled_dot_product_cudnn_attention.default"
// WIDE-SAME: strides = {{\[\[}}"256*s1~512", "64*s1~512", 64, 1]
!tokens = tensor<?x4x?x64xbf16, ["s0~8", 4, "s1~512", 64]>
func.func @plain(%q: !tokens) -> !tokens {
  %0:2 = "graph.extern"(%q, %q, %q) {args = [unit, unit, unit, none, none, 0.0, false, 0.125, "flash efficient cudnn"], callee = "lamina.attention.default", kwargs = {}, reason = "library", strides = [["256*s1~512", "64*s1~512", 64, 1], ["4*s1~512", "s1~512", 1]]} : (!tokens, !tokens, !tokens) -> (!tokens, tensor<?x4x?xf32, ["s0~8", 4, "s1~512"]>)
  return %0#0 : !tokens
}
