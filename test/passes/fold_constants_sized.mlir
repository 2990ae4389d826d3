// What a size decides is no constant, be it the shape or the elements; what it does not decide is one beside it.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fold-constants,lamina-dce)' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
!m = tensor<?x3xi1, ["s0~2", 3]>
!x = tensor<?x3xf32, ["s0~2", 3]>
// CHECK-LABEL: func.func @mask
// CHECK: linalg.index
// CHECK: tensor<?x3xi1, ["s0~2", 3]>
// CHECK: arith.constant dense<{{\[\[}}true, false, false], [true, true, false]]> : tensor<2x3xi1>
// CHECK-NOT: linalg.index
func.func @mask(%x: !x) -> (!x, tensor<2x3xi1>) {
  %lowest = arith.constant -1.0e+09 : f32
  %n = "graph.size"() {size = "s0~2"} : () -> index
  %e = tensor.empty(%n) : !m
  %f = tensor.empty(%n) : !x
  %k = tensor.empty() : tensor<2x3xi1>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : !m) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    linalg.yield %c : i1
  } -> !m
  %known = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%k : tensor<2x3xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    linalg.yield %c : i1
  } -> tensor<2x3xi1>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %x : !m, !x) outs(%f : !x) {
  ^bb0(%c: i1, %a: f32, %out: f32):
    %v = arith.select %c, %a, %lowest : f32
    linalg.yield %v : f32
  } -> !x
  return %1, %known : !x, tensor<2x3xi1>
}
// CHECK-LABEL: func.func @by_size
// CHECK-NOT: dense
// CHECK: arith.cmpi slt
func.func @by_size() -> tensor<4xi1> {
  %n = "graph.size"() {size = "s0~2"} : () -> index
  %k = tensor.empty() : tensor<4xi1>
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%k : tensor<4xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %c = arith.cmpi slt, %i, %n : index
    linalg.yield %c : i1
  } -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
