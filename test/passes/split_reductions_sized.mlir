// Reductions along symbolic sizes stay whole: no number of parts divides them for every call.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=64 parts=8})' | FileCheck %s

#in = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
!x = tensor<?x4096xf32, ["s0~800", 4096]>
// CHECK-LABEL: func.func @total
// CHECK-NOT: tensor.expand_shape
// CHECK: iterator_types = ["reduction", "reduction"]
// CHECK-NEXT: ^bb0
func.func @total(%x: !x, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : !x) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
!y = tensor<?x?xf32, ["s0~800", "s1~900"]>
// CHECK-LABEL: func.func @both
// CHECK-NOT: tensor.expand_shape
// CHECK: iterator_types = ["reduction", "reduction"]
func.func @both(%x: !y, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : !y) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
