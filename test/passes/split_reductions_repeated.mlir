// A sum over rows that all are the same is one row times their number, and a maximum over them is one row.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions)' --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @repeated
// CHECK: %[[ONE:.*]] = tensor.extract_slice %{{.*}}[0, 0, 0] [32, 8, 1] [1, 1, 1] : tensor<32x8x1024xf32> to tensor<32x8x1xf32>
// CHECK: iterator_types = ["reduction", "parallel"]} ins(%[[ONE]] : tensor<32x8x1xf32>)
// CHECK: arith.addf
// CHECK: arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: iterator_types = ["parallel"]}
// CHECK-NOT: arith.maximumf
// CHECK: return
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#image = affine_map<(d0, d1, d2) -> (d0, d1)>
#channel = affine_map<(d0, d1, d2) -> (d1)>
#whole = affine_map<(d0, d1) -> (d0, d1)>
#last = affine_map<(d0, d1) -> (d1)>
func.func @repeated(%x: tensor<32x8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %e = tensor.empty() : tensor<32x8x1024xf32>
  %b = linalg.generic {indexing_maps = [#image, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<32x8xf32>) outs(%e : tensor<32x8x1024xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = math.exp %p : f32
    linalg.yield %0 : f32
  } -> tensor<32x8x1024xf32>
  %zeros = arith.constant dense<0.0> : tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#all, #channel], iterator_types = ["reduction", "parallel", "reduction"]} ins(%b : tensor<32x8x1024xf32>) outs(%zeros : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.addf %p, %o : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %f = tensor.empty() : tensor<64x8xf32>
  %rows = linalg.broadcast ins(%y : tensor<8xf32>) outs(%f : tensor<64x8xf32>) dimensions = [0]
  %least = arith.constant dense<0xFF800000> : tensor<8xf32>
  %m = linalg.generic {indexing_maps = [#whole, #last], iterator_types = ["reduction", "parallel"]} ins(%rows : tensor<64x8xf32>) outs(%least : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.maximumf %p, %o : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %s, %m : tensor<8xf32>, tensor<8xf32>
}

// -----

// What its position decides does not repeat.
// CHECK-LABEL: func.func @positions
// CHECK: linalg.index
// CHECK: iterator_types = ["reduction"]
// CHECK-NOT: arith.mulf
func.func @positions(%x: tensor<f32>) -> tensor<f32> {
  %e = tensor.empty() : tensor<8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<f32>) outs(%e : tensor<8xf32>) {
  ^bb0(%p: f32, %o: f32):
    %i = linalg.index 0 : index
    %c = arith.constant 4 : index
    %at = arith.cmpi eq, %i, %c : index
    %zero = arith.constant 0.0 : f32
    %0 = arith.select %at, %p, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  %zeros = arith.constant dense<0.0> : tensor<f32>
  %s = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%b : tensor<8xf32>) outs(%zeros : tensor<f32>) {
  ^bb0(%p: f32, %o: f32):
    %0 = arith.addf %p, %o : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}
