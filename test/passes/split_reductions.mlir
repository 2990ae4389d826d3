// A reduction to one result becomes partial results and their sum; one to many results stays.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=64 parts=8})' | FileCheck %s

#in = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func @total
// CHECK: tensor.expand_shape %arg0 {{.*}} output_shape [8, 3, 16]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction"]
// CHECK: -> tensor<8xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: -> tensor<f32>
func.func @total(%x: tensor<24x16xf32>, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<24x16xf32>) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @rows
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @rows(%x: tensor<24x16xf32>, %init: tensor<24xf32>) -> tensor<24xf32> {
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<24x16xf32>) outs(%init : tensor<24xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}
