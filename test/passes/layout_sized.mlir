// A convolution of a symbolic batch and height: strides of the result with its channels last are expressions.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-layout{slow=true})' | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[IMAGE:.*]] = linalg.generic {{.*}} ins(%arg0 : tensor<?x4x?x8xf32, ["s0~2", 4, "s1~8", 8]>)
// CHECK: %[[WEIGHT:.*]] = linalg.generic {{.*}} ins(%arg1
// CHECK: "graph.extern"(%[[IMAGE]], %[[WEIGHT]], %arg2) {{.*}} strides = {{\[\[}}"64*s1~8", 1, 64, 8]]

!x = tensor<?x4x?x8xf32, ["s0~2", 4, "s1~8", 8]>
!y = tensor<?x8x?x8xf32, ["s0~2", 8, "s1~8", 8]>
func.func @main(%x: !x, %w: tensor<8x4x3x3xf32>, %b: tensor<8xf32>) -> !y {
  %c = "graph.extern"(%x, %w, %b) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [["64*s1~8", "8*s1~8", 8, 1]]} : (!x, tensor<8x4x3x3xf32>, tensor<8xf32>) -> !y
  return %c : !y
}

// -----

// As many groups as the call has images, each with a weight of its own: the library's, as it is.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: "graph.extern"(%arg0, %arg1) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], {size = "s0~2"}]
!x = tensor<1x?x8x8xf32, [1, "4*s0~2", 8, 8]>
!w = tensor<?x4x3x3xf32, ["8*s0~2", 4, 3, 3]>
!y = tensor<1x?x8x8xf32, [1, "8*s0~2", 8, 8]>
func.func @main(%x: !x, %w: !w) -> !y {
  %c = "graph.extern"(%x, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], {size = "s0~2"}], kwargs = {}, strides = [["512*s0~2", 64, 8, 1]]} : (!x, !w) -> !y
  return %c : !y
}
