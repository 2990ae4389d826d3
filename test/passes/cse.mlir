// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-cse)' | FileCheck %s

#id = affine_map<(d0) -> (d0)>

// Two generics that differ in the order of operands and inputs, in their outs and in where a constant stands; the reshapes
// of their results; the two products inside the body.
// CHECK-LABEL: func.func @generics
// CHECK: %[[R:.*]] = linalg.generic
// CHECK: arith.addf
// CHECK: %[[P:.*]] = arith.mulf
// CHECK-NOT: arith.mulf
// CHECK: arith.addf %[[P]], %[[P]]
// CHECK-NOT: linalg.generic
// CHECK: %[[E:.*]] = tensor.expand_shape %[[R]]
// CHECK-NOT: tensor.expand_shape
// CHECK: return %[[E]], %[[E]]
func.func @generics(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %two = arith.constant 2.0 : f32
  %e0 = tensor.empty() : tensor<8xf32>
  %e1 = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e0 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %s = arith.addf %a, %b : f32
    %v = arith.mulf %s, %two : f32
    %w = arith.mulf %two, %s : f32
    %u = arith.addf %v, %w : f32
    linalg.yield %u : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%y, %x : tensor<8xf32>, tensor<8xf32>) outs(%e1 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = arith.constant 2.0 : f32
    %s = arith.addf %a, %b : f32
    %v = arith.mulf %s, %c : f32
    %u = arith.addf %v, %v : f32
    linalg.yield %u : f32
  } -> tensor<8xf32>
  %2 = tensor.expand_shape %0 [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  %3 = tensor.expand_shape %1 [[0, 1]] output_shape [2, 4] : tensor<8xf32> into tensor<2x4xf32>
  return %2, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Subtraction is not commutative, and an initial value that is read counts.
// CHECK-LABEL: func.func @different
// CHECK-COUNT-4: linalg.generic
func.func @different(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%y, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.subf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%y : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %out : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %out : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Equal external calls are one, by routine and arguments, not by the name of their function. Random ones are not.
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = call @extern_0
// CHECK-NOT: call @extern_1
// CHECK: %[[C:.*]] = call @extern_2
// CHECK: %[[D:.*]] = call @extern_2
// CHECK: %[[E:.*]] = "graph.extern"
// CHECK: %[[F:.*]] = "graph.extern"
// CHECK: %[[G:.*]] = "graph.extern"
// CHECK-NOT: "graph.extern"
// CHECK: return %[[A]], %[[A]], %[[C]], %[[D]], %[[E]], %[[F]], %[[G]], %[[G]]
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = call @extern_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @extern_1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @extern_2(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @extern_2(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = "graph.extern"(%x) {callee = "aten.rand_like.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>], graph.effect} : (tensor<8xf32>) -> tensor<8xf32>
  %5 = "graph.extern"(%x) {callee = "aten.rand_like.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>], graph.effect} : (tensor<8xf32>) -> tensor<8xf32>
  %6 = "graph.extern"(%x) {callee = "aten.digamma.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<8xf32>) -> tensor<8xf32>
  %7 = "graph.extern"(%x) {callee = "aten.digamma.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<8xf32>) -> tensor<8xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @extern_0(tensor<8xf32>) -> tensor<8xf32> attributes {graph.callee = "aten.digamma.default", graph.reason = "fallback"}
func.func private @extern_1(tensor<8xf32>) -> tensor<8xf32> attributes {graph.callee = "aten.digamma.default", graph.reason = "fallback"}
func.func private @extern_2(tensor<8xf32>) -> tensor<8xf32> attributes {graph.callee = "aten.rand_like.default", graph.reason = "fallback", graph.effect}
