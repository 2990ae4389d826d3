// Distances of all pairs: each of few rows is read by many programs. On a GPU, neighboring threads read neighboring elements, whatever a
// cache holds: along the sum where that is long enough; otherwise one element each.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s

#x = affine_map<(i, j, k) -> (i, k)>
#y = affine_map<(i, j, k) -> (j, k)>
#pair = affine_map<(i, j, k) -> (i, j)>

// Few threads share a short row, as there are many: each has several accesses in flight.
// CHECK: func.func private @long
// CHECK-SAME: tile.chunks = 4 : i64
// CHECK-SAME: tile.pack = 32 : i64
// CHECK-SAME: tile.threads = 4 : i64, tile.vec = 4 : i64
// CHECK-NOT: tile.gather
func.func private @long(%x: tensor<2000x64xf32>, %y: tensor<3000x64xf32>) -> tensor<2000x3000xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2000x3000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2000x3000xf32>) -> tensor<2000x3000xf32>
  %r = linalg.generic {indexing_maps = [#x, #y, #pair], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<2000x64xf32>, tensor<3000x64xf32>) outs(%f : tensor<2000x3000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.subf %a, %b : f32
    %1 = arith.mulf %0, %0 : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2000x3000xf32>
  return %r : tensor<2000x3000xf32>
}

// CHECK: func.func private @short
// CHECK-SAME: tile.pack = 4 : i64
// CHECK-SAME: tile.threads = 32 : i64, tile.vec = 1 : i64
// CHECK: tile.gather
func.func private @short(%x: tensor<2000x3xf32>, %y: tensor<3000x3xf32>) -> tensor<2000x3000xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2000x3000xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2000x3000xf32>) -> tensor<2000x3000xf32>
  %r = linalg.generic {indexing_maps = [#x, #y, #pair], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<2000x3xf32>, tensor<3000x3xf32>) outs(%f : tensor<2000x3000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.subf %a, %b : f32
    %1 = arith.mulf %0, %0 : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  } -> tensor<2000x3000xf32>
  return %r : tensor<2000x3000xf32>
}
