// RUN: opt-driver %s | FileCheck %s
// RUN: opt-driver %s | opt-driver | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(func.func(cse,canonicalize))' | FileCheck %s
// RUN: opt-driver %S/Inputs/graph-wrong.mlir --split-input-file --verify-diagnostics

// Groups and external calls parse and print unchanged; upstream passes leave them alone.

// CHECK-LABEL: func.func @two_groups
// CHECK-NEXT: %[[A:.*]] = "graph.group"(%arg0) ({
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[U:.*]] = arith.addf %[[X]], %[[X]] : tensor<4xf32>
// CHECK-NEXT: "graph.yield"(%[[U]]) : (tensor<4xf32>) -> ()
// CHECK-NEXT: }) {sym_name = "double"} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[B:.*]]:2 = "graph.group"(%[[A]], %arg1)
// CHECK: }) {sym_name = "both"} : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
// CHECK: return %[[B]]#0, %[[B]]#1
func.func @two_groups(%a: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<f32>) {
  %0 = "graph.group"(%a) ({
  ^bb0(%x: tensor<4xf32>):
    %u = arith.addf %x, %x : tensor<4xf32>
    "graph.yield"(%u) : (tensor<4xf32>) -> ()
  }) {sym_name = "double"} : (tensor<4xf32>) -> tensor<4xf32>
  %1:2 = "graph.group"(%0, %s) ({
  ^bb0(%x: tensor<4xf32>, %y: tensor<f32>):
    %u = arith.mulf %x, %x : tensor<4xf32>
    %v = arith.negf %y : tensor<f32>
    "graph.yield"(%u, %v) : (tensor<4xf32>, tensor<f32>) -> ()
  }) {sym_name = "both"} : (tensor<4xf32>, tensor<f32>) -> (tensor<4xf32>, tensor<f32>)
  return %1#0, %1#1 : tensor<4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @extern
// CHECK: "graph.extern"(%arg0, %arg1, %arg2)
// CHECK-SAME: args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {beta = 1 : i64}, reason = "library"
// CHECK-SAME: strides = [array<i64: 3, 1>]
func.func @extern(%c: tensor<3xf32>, %a: tensor<2x5xf32>, %b: tensor<5x3xf32>) -> tensor<2x3xf32> {
  %0 = "graph.extern"(%c, %a, %b) {callee = "aten.addmm.default", reason = "library", args = [unit, unit, unit],
    kwargs = {beta = 1 : i64}, strides = [array<i64: 3, 1>]} : (tensor<3xf32>, tensor<2x5xf32>, tensor<5x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @size
// CHECK: %[[N:.*]] = "graph.size"() {size = "s0~8*s1~128 + 1"} : () -> index
// CHECK: tensor.empty(%[[N]]) : tensor<?xf32, ["s0~8*s1~128 + 1"]>
func.func @size() -> tensor<?xf32, ["s0~8*s1~128 + 1"]> {
  %n = "graph.size"() {size = "s0~8*s1~128 + 1"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8*s1~128 + 1"]>
  return %e : tensor<?xf32, ["s0~8*s1~128 + 1"]>
}

// CHECK-LABEL: func.func @kernel
// CHECK: "graph.kernel"(%arg0) {callee = "lamina.kernel.default", kwargs = {warps = 4 : i64}, strides = [array<i64: 1>]}
func.func @kernel(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "graph.kernel"(%a) {callee = "lamina.kernel.default", kwargs = {warps = 4}, strides = [array<i64: 1>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
