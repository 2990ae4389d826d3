// Symbolic sizes: patches leave what is past the last one, wherever each call ends; blocks begin in the padding and end with the last window.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-convolution-forms{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

!x = tensor<?x3x?x64xbf16, ["s0~2", 3, "s1~33", 64]>
!y = tensor<?x96x?x16xbf16, ["s0~2", 96, "((s1~33)//(4))", 16]>

// CHECK-LABEL: func.func @patches
// CHECK: tensor.extract_slice %arg0
// CHECK: linalg.transpose {{.*}} permutation = [0, 2, 4, 1, 3, 5]
// CHECK: callee = "aten.mm.default"{{.*}} (tensor<?x48xbf16, {{.*}}>, tensor<48x96xbf16>) -> tensor<?x96xbf16, {{.*}}>
func.func @patches(%x: !x, %w: tensor<96x3x4x4xbf16>) -> !y {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [4, 4], [0, 0], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["1536*((s1~33)//(4))", "16*((s1~33)//(4))", 16, 1]]} : (!x, tensor<96x3x4x4xbf16>) -> !y
  return %0 : !y
}

// -----

!x = tensor<?x3x?x64xbf16, ["s0~2", 3, "s1~33", 64]>
!y = tensor<?x16x?x32xbf16, ["s0~2", 16, "((s1~33 - 1)//(2)) + 1", 32]>

// CHECK-LABEL: func.func @blocks
// CHECK: tensor.pad %arg0
// CHECK: linalg.transpose {{.*}} permutation = [0, 1, 3, 5, 2, 4]
// CHECK: "graph.extern"{{.*}} {args = [unit, unit, none, [1, 1], [0, 0], {{.*}} tensor<16x16x2x2xbf16>) -> tensor<?x16x?x32xbf16
func.func @blocks(%x: !x, %w: tensor<16x3x3x3xbf16>) -> !y {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["512*((s1~33 - 1)//(2) + 1)", "32*((s1~33 - 1)//(2) + 1)", 32, 1]]} : (!x, tensor<16x3x3x3xbf16>) -> !y
  return %0 : !y
}

// -----

!x = tensor<2x3x?x64xbf16, [2, 3, "s0~33", 64]>
!y = tensor<2x16x?x64xbf16, [2, 16, "s0~33 + 2*((s0~33)//(4)) - 2", 64]>

// A padding that each call decides leaves the image to the library; its bias is added elsewhere all the same.
// CHECK-LABEL: func.func @padding
// CHECK: "graph.extern"(%arg0, %arg1) {args = [unit, unit, none, [1, 1], [{size = "((s0~33)//(4))"}, 1]
// CHECK: linalg.generic
func.func @padding(%x: !x, %w: tensor<16x3x3x3xbf16>, %b: tensor<16xbf16>) -> !y {
  %0 = "graph.extern"(%x, %w, %b) {args = [unit, unit, unit, [1, 1], [{size = "((s0~33)//(4))"}, 1], [1, 1], false, [0, 0], 1], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["1024*(s0~33 + 2*((s0~33)//(4)) - 2)", "64*(s0~33 + 2*((s0~33)//(4)) - 2)", 64, 1]]} : (!x, tensor<16x3x3x3xbf16>, tensor<16xbf16>) -> !y
  return %0 : !y
}
