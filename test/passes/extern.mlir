// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-extern)' | FileCheck %s

// Calls of private functions that carry graph.* attributes become graph.extern, and the functions go. Ops keep their place.
// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[W:[a-z0-9]+]]: tensor<8x8xf32>)
// CHECK: %[[E:[0-9]+]] = "graph.extern"(%[[X]], %[[W]])
// CHECK-SAME: args = [unit, unit]
// CHECK-SAME: callee = "aten.mm.default"
// CHECK-SAME: kwargs = {}
// CHECK-SAME: reason = "library"
// CHECK-SAME: strides = [array<i64: 8, 1>]
// CHECK-SAME: (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
// CHECK: return %[[E]]
// CHECK-NOT: func.func private
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = call @extern_0(%x, %w) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
func.func private @extern_0(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> attributes {
  graph.callee = "aten.mm.default", graph.reason = "library", graph.args = [unit, unit], graph.kwargs = {},
  graph.strides = [array<i64: 8, 1>]}

// -----

// Several results, of which one is None; an optional tensor that is absent; arguments of every kind.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:[0-9]+]]:2 = "graph.extern"(%{{[a-z0-9]+}})
// CHECK-SAME: args = [unit, none, [1, 2], 5.000000e-01, true, "torch.float32"]
// CHECK-SAME: kwargs = {dim = 1 : i64}
// CHECK-SAME: strides = [array<i64: 1>, none, array<i64>]
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) {
  %0:2 = call @extern_0(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<i64>
}
func.func private @extern_0(tensor<4xf32>) -> (tensor<4xf32>, tensor<i64>) attributes {
  graph.callee = "aten.some_op.default", graph.reason = "fallback",
  graph.args = [unit, none, [1, 2], 5.0e-01 : f64, true, "torch.float32"], graph.kwargs = {dim = 1 : i64},
  graph.strides = [array<i64: 1>, none, array<i64>]}

// -----

// The mark of a side effect keeps its name; a function nobody calls goes all the same; others stay.
// CHECK-LABEL: func.func @main
// CHECK: "graph.extern"()
// CHECK-SAME: graph.effect
// CHECK-NOT: @extern_1
// CHECK: func.func private @helper
func.func @main() -> tensor<4xf32> {
  %0 = call @extern_0() : () -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @extern_0() -> tensor<4xf32> attributes {
  graph.callee = "aten.rand.default", graph.reason = "fallback", graph.args = [[4]], graph.kwargs = {}, graph.effect,
  graph.strides = [array<i64: 1>]}
func.func private @extern_1() -> tensor<4xf32> attributes {
  graph.callee = "aten.rand.default", graph.reason = "fallback", graph.args = [[4]], graph.kwargs = {}, graph.effect,
  graph.strides = [array<i64: 1>]}
func.func private @helper(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A user's kernel is an op of its own: all its operands are tensors, so that no list of arguments is needed.
// CHECK-LABEL: func.func @main
// CHECK: %[[R:.*]] = "graph.kernel"(%arg0, %arg0) {callee = "lamina.kernel.default", kwargs = {name = "scan"}, needs = [array<i64: 1>, array<i64: 1>], strides = [array<i64: 1>]}
// CHECK: return %[[R]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @extern_0(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @extern_0(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {
  graph.callee = "lamina.kernel.default", graph.reason = "kernel", graph.args = [[unit, unit]], graph.kwargs = {name = "scan"},
  graph.needs = [array<i64: 1>, array<i64: 1>], graph.strides = [array<i64: 1>]}
