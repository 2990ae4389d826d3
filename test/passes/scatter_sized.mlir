// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scatter)' | FileCheck %s

// Indices and values have symbolic sizes, and negative indices count from a symbolic end.
// CHECK: %[[N:.*]] = "graph.size"() {size = "s0~8"}
// CHECK: arith.index_cast
// CHECK: "graph.scatter"(%arg0, %arg2, %{{.*}}) : (tensor<?xf32, ["s0~8"]>, tensor<?xf32, ["s1~4"]>, tensor<?xi64, ["s1~4"]>) -> tensor<?xf32, ["s0~8"]>
func.func @main(%x: tensor<?xf32, ["s0~8"]>, %at: tensor<?xi64, ["s1~4"]>, %v: tensor<?xf32, ["s1~4"]>) -> tensor<?xf32, ["s0~8"]> {
  %0 = "graph.extern"(%x, %at, %v) {args = [unit, [unit], unit], callee = "aten.index_put.default", kwargs = {}, reason = "scatter", strides = [array<i64: 1>]} : (tensor<?xf32, ["s0~8"]>, tensor<?xi64, ["s1~4"]>, tensor<?xf32, ["s1~4"]>) -> tensor<?xf32, ["s0~8"]>
  return %0 : tensor<?xf32, ["s0~8"]>
}
