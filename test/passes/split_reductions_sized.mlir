// A reduction along a symbolic size is split into a known number of parts; what is left of it is reduced by itself. Where several
// loops are reduced, the outer one is split.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=64 parts=8})' | FileCheck %s

#in = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
!x = tensor<?x4096xf32, ["s0~800", 4096]>
// CHECK-LABEL: func.func @total
// CHECK: %[[MAIN:.*]] = tensor.extract_slice %{{.*}}[0, 0] [%{{.*}}, 4096]
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[MAIN]] {{\[\[}}0, 1], [2]]
// CHECK: %[[PARTIAL:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction"]} ins(%[[PARTS]] : tensor<8x?x4096xf32, [8, "((s0~800)//(8))", 4096]>)
// CHECK: %[[SUM:.*]] = linalg.generic {{.*}} iterator_types = ["reduction"]} ins(%[[PARTIAL]] : tensor<8xf32>) outs(%arg1 : tensor<f32>)
// CHECK: %[[LEFT:.*]] = tensor.extract_slice {{.*}} to tensor<?x4096xf32, ["-8*((s0~800)//(8)) + s0~800", 4096]>
// CHECK: %[[REST:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "reduction"]} ins(%[[LEFT]]
// CHECK: linalg.generic {{.*}} iterator_types = []} ins(%[[SUM]], %[[REST]]
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
// CHECK: tensor.expand_shape {{.*}} into tensor<8x?x?xf32, [8, "((s0~800)//(8))", "s1~900"]>
func.func @both(%x: !y, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : !y) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
