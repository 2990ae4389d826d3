// Planes of a symbolic number of images are Lamina's; planes of symbolic height are the library's, as tiles of rows are unrolled.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-depthwise)' | FileCheck %s

!x = tensor<?x3x8x20xf32, ["s0~2", 3, 8, 20]>
// CHECK-LABEL: func.func @batch
// CHECK: tensor.pad {{.*}} low[0, 0, 1, 1] high[0, 0, 1, 1]
// CHECK: to tensor<?x3x10x22xf32, ["s0~2", 3, 10, 22]>
// CHECK: linalg.generic
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]
// CHECK: graph.planes = array<i64: 1, 1, 1, 1, 1, 1>
// CHECK-NOT: graph.extern
func.func @batch(%x: !x, %w: tensor<3x1x3x3xf32>) -> !x {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 3], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [array<i64: 480, 160, 20, 1>]} : (!x, tensor<3x1x3x3xf32>) -> !x
  return %0 : !x
}
!y = tensor<2x3x?x20xf32, [2, 3, "s0~8", 20]>
// CHECK-LABEL: func.func @height
// CHECK-NOT: graph.group
// CHECK: "graph.extern"(%arg0, %arg1)
func.func @height(%x: !y, %w: tensor<3x1x3x3xf32>) -> !y {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 3], callee = "aten.convolution.default", kwargs = {}, reason = "library", strides = [["60*s0~8", "20*s0~8", 20, 1]]} : (!y, tensor<3x1x3x3xf32>) -> !y
  return %0 : !y
}
