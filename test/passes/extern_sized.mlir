// Calls with symbolic sizes among results, strides and arguments: sizes stay as text, which binding reads.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-extern)' | FileCheck %s

!x = tensor<?x8xf32, ["s0~4", 8]>
!o = tensor<?x6xf32, ["s0~4", 6]>
// CHECK-LABEL: func.func @main
// CHECK: "graph.extern"(%arg0, %arg1) {args = [unit, unit], callee = "aten.mm.default"
// CHECK-SAME: strides = [array<i64: 6, 1>]
// CHECK-SAME: -> tensor<?x6xf32, ["s0~4", 6]>
func.func @main(%x: !x, %w: tensor<8x6xf32>) -> !o {
  %0 = call @extern_0(%x, %w) : (!x, tensor<8x6xf32>) -> !o
  return %0 : !o
}
func.func private @extern_0(!x, tensor<8x6xf32>) -> !o attributes {
  graph.callee = "aten.mm.default", graph.reason = "library", graph.args = [unit, unit], graph.kwargs = {},
  graph.strides = [array<i64: 6, 1>]}
// CHECK-LABEL: func.func @turned
// CHECK: "graph.extern"(%arg0) {args = [unit, "s0~4"], callee = "aten.foo.default", kwargs = {n = "2*s0~4 + 1"}
// CHECK-SAME: strides = {{\[\[}}"s0~4", 1]]
// CHECK-NOT: func.func private
func.func @turned(%x: !x) -> tensor<8x?xf32, [8, "s0~4"]> {
  %0 = call @extern_1(%x) : (!x) -> tensor<8x?xf32, [8, "s0~4"]>
  return %0 : tensor<8x?xf32, [8, "s0~4"]>
}
func.func private @extern_1(!x) -> tensor<8x?xf32, [8, "s0~4"]> attributes {
  graph.callee = "aten.foo.default", graph.reason = "fallback", graph.args = [unit, "s0~4"], graph.kwargs = {n = "2*s0~4 + 1"},
  graph.strides = [["s0~4", 1]]}
