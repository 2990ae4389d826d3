// Sums over a short contiguous row for every pair of rows: blocks run along the row. Lanes along the other one would be gathered,
// each as often as it is read, though its memory is small.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse,lamina-plan,lamina-tile)' | FileCheck %s

// CHECK-LABEL: func.func private
// CHECK-SAME: memref<200x32xf32>
// CHECK-NOT: tile.gather
// CHECK: vector.transfer_read {{.*}} vector<32xf32>
// CHECK: vector.transfer_read {{.*}} vector<32xf32>
// CHECK: arith.mulf
// CHECK-NOT: tile.gather
func.func @main(%x: tensor<200x32xf32>, %y: tensor<200x32xf32>) -> tensor<200x200xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<200x200xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<200x200xf32>) -> tensor<200x200xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(i, j, d) -> (i, d)>, affine_map<(i, j, d) -> (j, d)>, affine_map<(i, j, d) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %y : tensor<200x32xf32>, tensor<200x32xf32>) outs(%init : tensor<200x200xf32>) {
  ^bb0(%a: f32, %b: f32, %s: f32):
    %d = arith.subf %a, %b : f32
    %e = arith.mulf %d, %d : f32
    %t = arith.addf %s, %e : f32
    linalg.yield %t : f32
  } -> tensor<200x200xf32>
  return %sum : tensor<200x200xf32>
}
