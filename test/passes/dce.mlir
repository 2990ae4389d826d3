// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-dce)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// The argmax beside an amax that alone is used goes, with its initial value.
// CHECK-LABEL: func.func @amax
// CHECK-NOT: i64
// CHECK: %[[M:.*]] = linalg.generic {{.*}} outs(%{{[0-9]+}} : tensor<3xf32>)
// CHECK-NOT: i64
// CHECK: return %[[M]]
func.func @amax(%x: tensor<3x9xf32>) -> tensor<3xf32> {
  %zero = arith.constant 0 : i64
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<3xi64>
  %f = tensor.empty() : tensor<3xf32>
  %0 = linalg.fill ins(%zero : i64) outs(%e : tensor<3xi64>) -> tensor<3xi64>
  %1 = linalg.fill ins(%lowest : f32) outs(%f : tensor<3xf32>) -> tensor<3xf32>
  %2:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x9xf32>) outs(%1, %0 : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %m = arith.maximumf %in, %out : f32
    %c = arith.cmpf ogt, %in, %out : f32
    %n = arith.select %c, %j, %at : i64
    linalg.yield %m, %n : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  return %2#0 : tensor<3xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// The argmax needs the maximum, used or not.
// CHECK-LABEL: func.func @argmax
// CHECK: linalg.generic
// CHECK: } -> (tensor<3xf32>, tensor<3xi64>)
func.func @argmax(%x: tensor<3x9xf32>, %i0: tensor<3xi64>, %m0: tensor<3xf32>) -> tensor<3xi64> {
  %2:2 = linalg.generic {indexing_maps = [#id, #row, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x9xf32>) outs(%m0, %i0 : tensor<3xf32>, tensor<3xi64>) {
  ^bb0(%in: f32, %out: f32, %at: i64):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i64
    %m = arith.maximumf %in, %out : f32
    %c = arith.cmpf ogt, %in, %out : f32
    %n = arith.select %c, %j, %at : i64
    linalg.yield %m, %n : f32, i64
  } -> (tensor<3xf32>, tensor<3xi64>)
  return %2#1 : tensor<3xi64>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A chain that nothing needs, an input that the body does not read, an initial value that it does not read.
// CHECK-LABEL: func.func @unread
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %{{.*}}: tensor<8xf32>)
// CHECK-NOT: math.exp
// CHECK: %[[E:.*]] = tensor.empty
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<8xf32>) outs(%[[E]]
// CHECK-NOT: linalg.generic
func.func @unread(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%y, %x : tensor<8xf32>, tensor<8xf32>) outs(%y : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %u = arith.addf %a, %b : f32
    %v = arith.negf %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Unused external calls go, with their functions; those with effects stay.
// CHECK-LABEL: func.func @main
// CHECK-NOT: @extern_0
// CHECK: call @extern_1
// CHECK: "graph.extern"{{.*}}graph.effect
// CHECK-NOT: "graph.extern"
// CHECK: func.func private @extern_1
// CHECK-NOT: @extern_0
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @extern_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @extern_1(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = "graph.extern"(%x) {callee = "aten.rand_like.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>], graph.effect} : (tensor<8xf32>) -> tensor<8xf32>
  %3 = "graph.extern"(%x) {callee = "aten.digamma.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<8xf32>) -> tensor<8xf32>
  return %x : tensor<8xf32>
}
func.func private @extern_0(tensor<8xf32>) -> tensor<8xf32> attributes {graph.callee = "aten.digamma.default", graph.reason = "fallback"}
func.func private @extern_1(tensor<8xf32>) -> tensor<8xf32> attributes {graph.callee = "aten.rand_like.default", graph.reason = "fallback", graph.effect}
