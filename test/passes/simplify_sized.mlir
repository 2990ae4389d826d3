// Simplification keeps the sizes that types name.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-simplify)' | FileCheck %s

// A factor of ones and two negations are gone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: linalg
// CHECK: return %arg0, %arg0 : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @main(%x: tensor<?x16xf32, ["s0~8", 16]>) -> (tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>) {
  %one = arith.constant 1.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?x16xf32, ["s0~8", 16]>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) -> tensor<?x16xf32, ["s0~8", 16]>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x16xf32, ["s0~8", 16]>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x16xf32, ["s0~8", 16]>) outs(%e : tensor<?x16xf32, ["s0~8", 16]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    %1 = arith.negf %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x16xf32, ["s0~8", 16]>
  return %p, %q : tensor<?x16xf32, ["s0~8", 16]>, tensor<?x16xf32, ["s0~8", 16]>
}
