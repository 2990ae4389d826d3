// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

// New values are written over the arguments that they are computed from, one of them beside a sum; both kernels' results depend on
// both arguments.
// CHECK: %[[P:.*]] = "plan.input"() {index = 0 : i64}
// CHECK: %[[M:.*]] = "plan.input"() {index = 1 : i64}
// CHECK: %[[O:.*]] = "plan.output"() {index = 0 : i64} : () -> memref<4xf32>
// CHECK: "plan.launch"(%[[P]], %[[M]], %[[M]], %[[P]], %[[O]]) {inplace = [array<i64: 1, 2>, array<i64: 0, 3>], kernel = @step, {{.*}}n_out = 3 : i64}
// CHECK: "plan.return"(%[[P]], %[[M]], %[[O]])
// CHECK: func.func private @step{{.*}} attributes {graph.inplace = [array<i64: 0, 3>, array<i64: 1, 2>], graph.kernel}
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @main(%p: tensor<4x8xf32>, %m: tensor<4x8xf32>) -> (tensor<4x8xf32> {graph.fresh, graph.updates = 0 : i64}, tensor<4x8xf32> {graph.fresh, graph.updates = 1 : i64}, tensor<4xf32> {graph.fresh}) {
  %a:3 = "graph.group"(%p, %m) ({
  ^bb0(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>):
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %s = arith.addf %i, %j : f32
      linalg.yield %s : f32
    } -> tensor<4x8xf32>
    %q = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %s = arith.subf %i, %j : f32
      linalg.yield %s : f32
    } -> tensor<4x8xf32>
    %c = arith.constant 0.0 : f32
    %f = tensor.empty() : tensor<4xf32>
    %z = linalg.fill ins(%c : f32) outs(%f : tensor<4xf32>) -> tensor<4xf32>
    %t = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x8xf32>) outs(%z : tensor<4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %s = arith.addf %i, %o : f32
      linalg.yield %s : f32
    } -> tensor<4xf32>
    "graph.yield"(%q, %r, %t) : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> ()
  }) {sym_name = "step"} : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>)
  return %a#1, %a#0, %a#2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4xf32>
}

// -----

// An argument that is read later keeps its value, as does one whose other elements are read.
// CHECK-COUNT-3: "plan.output"
// CHECK-NOT: inplace
#id = affine_map<(d0, d1) -> (d0, d1)>
#other = affine_map<(d0, d1) -> (d1, d0)>
func.func @main(%p: tensor<4x4xf32>, %m: tensor<4x4xf32>) -> (tensor<4x4xf32> {graph.fresh, graph.updates = 0 : i64}, tensor<4x4xf32> {graph.fresh, graph.updates = 1 : i64}, tensor<4x4xf32> {graph.fresh}) {
  %a = "graph.group"(%p) ({
  ^bb0(%x: tensor<4x4xf32>):
    %e = tensor.empty() : tensor<4x4xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%i: f32, %o: f32):
      %s = arith.addf %i, %i : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    "graph.yield"(%r) : (tensor<4x4xf32>) -> ()
  }) {sym_name = "first"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = "graph.group"(%m) ({
  ^bb0(%x: tensor<4x4xf32>):
    %e = tensor.empty() : tensor<4x4xf32>
    %r = linalg.generic {indexing_maps = [#id, #other, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %x : tensor<4x4xf32>, tensor<4x4xf32>) outs(%e : tensor<4x4xf32>) {
    ^bb0(%i: f32, %j: f32, %o: f32):
      %s = arith.addf %i, %j : f32
      linalg.yield %s : f32
    } -> tensor<4x4xf32>
    "graph.yield"(%r) : (tensor<4x4xf32>) -> ()
  }) {sym_name = "second"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = "graph.extern"(%p, %p) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 4, 1>]} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %a, %b, %c : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
