// Equal ops on symbolic sizes are merged; ops that differ in a size alone are not.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-cse,lamina-dce)' | FileCheck %s

!x = tensor<?x16xf32, ["s0~8", 16]>
#map = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @same
// CHECK-COUNT-1: "graph.size"() {size = "s0~8"}
// CHECK-COUNT-1: math.exp
// CHECK-NOT: math.exp
// CHECK: return %[[R:.*]], %[[R]]
func.func @same(%x: !x) -> (!x, !x) {
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s0~8"} : () -> index
  %unused = "graph.size"() {size = "2*s0~8"} : () -> index
  %e = tensor.empty(%n) : !x
  %f = tensor.empty(%m) : !x
  %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : !x) outs(%e : !x) {
  ^bb0(%p: f32, %q: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> !x
  %b = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : !x) outs(%f : !x) {
  ^bb0(%p: f32, %q: f32):
    %r = math.exp %p : f32
    linalg.yield %r : f32
  } -> !x
  return %a, %b : !x, !x
}

// CHECK-LABEL: func.func @others
// CHECK: "graph.size"() {size = "s0~8"}
// CHECK: "graph.size"() {size = "s1~8"}
// CHECK: linalg.fill
// CHECK: linalg.fill
func.func @others() -> (tensor<?xf32, ["s0~8"]>, tensor<?xf32, ["s1~8"]>) {
  %one = arith.constant 1.0 : f32
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %m = "graph.size"() {size = "s1~8"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~8"]>
  %f = tensor.empty(%m) : tensor<?xf32, ["s1~8"]>
  %a = linalg.fill ins(%one : f32) outs(%e : tensor<?xf32, ["s0~8"]>) -> tensor<?xf32, ["s0~8"]>
  %b = linalg.fill ins(%one : f32) outs(%f : tensor<?xf32, ["s1~8"]>) -> tensor<?xf32, ["s1~8"]>
  return %a, %b : tensor<?xf32, ["s0~8"]>, tensor<?xf32, ["s1~8"]>
}
