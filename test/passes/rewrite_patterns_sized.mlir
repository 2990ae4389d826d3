// Patterns do not depend on sizes.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-rewrite-patterns,lamina-dce)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
!x = tensor<?x8xf32, ["s0~4", 8]>
// CHECK-LABEL: func.func @gelu
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x8xf32, ["s0~4", 8]>) {{.*}} {graph.pattern = "gelu_erf"}
// CHECK: math.erf
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @gelu(%x: !x) -> !x {
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %root = arith.constant 1.4142135 : f32
  %n = "graph.size"() {size = "s0~4"} : () -> index
  %e = tensor.empty(%n) : !x
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.mulf %a, %half : f32
    linalg.yield %v : f32
  } -> !x
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.divf %a, %root : f32
    %w = math.erf %v : f32
    linalg.yield %w : f32
  } -> !x
  %2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : !x, !x) outs(%e : !x) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.addf %b, %one : f32
    %w = arith.mulf %v, %a : f32
    linalg.yield %w : f32
  } -> !x
  return %2 : !x
}
