// Two values that are joined along a last dimension of two, as the parts of complex numbers are: one iteration computes both, even
// where they share what is costly, and blocks of them are interleaved in registers. So are those that are read.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse,lamina-plan,lamina-tile)' | FileCheck %s

// CHECK-LABEL: func.func private
// CHECK: vector.transfer_read {{.*}} vector<64xf32>
// CHECK: vector.shuffle {{.*}} [0, 2, 4
// CHECK: math.exp
// CHECK: vector.shuffle {{.*}} [1, 3, 5
// CHECK: math.sin
// CHECK: math.cos
// CHECK-NOT: math.exp
// CHECK: vector.shuffle {{.*}} [0, 32, 1, 33
// CHECK: vector.transfer_write {{.*}} vector<64xf32>
// CHECK-NOT: func.func private
#id = affine_map<(d0) -> (d0)>
func.func @main(%z: tensor<1024x2xf32>) -> tensor<1024x2xf32> {
  %a = tensor.extract_slice %z[0, 0] [1024, 1] [1, 1] : tensor<1024x2xf32> to tensor<1024xf32>
  %b = tensor.extract_slice %z[0, 1] [1024, 1] [1, 1] : tensor<1024x2xf32> to tensor<1024xf32>
  %e = tensor.empty() : tensor<1024xf32>
  %size = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%a : tensor<1024xf32>) outs(%e : tensor<1024xf32>) {
  ^bb0(%i: f32, %o: f32):
    %x = math.exp %i : f32
    %y = arith.addf %x, %i : f32
    %w = arith.divf %y, %x : f32
    linalg.yield %w : f32
  } -> tensor<1024xf32>
  %re = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%size, %b : tensor<1024xf32>, tensor<1024xf32>) outs(%e : tensor<1024xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %x = math.sin %j : f32
    %y = arith.mulf %i, %x : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  %im = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%size, %b : tensor<1024xf32>, tensor<1024xf32>) outs(%e : tensor<1024xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %x = math.cos %j : f32
    %y = arith.mulf %i, %x : f32
    linalg.yield %y : f32
  } -> tensor<1024xf32>
  %p = tensor.expand_shape %re [[0, 1]] output_shape [1024, 1] : tensor<1024xf32> into tensor<1024x1xf32>
  %q = tensor.expand_shape %im [[0, 1]] output_shape [1024, 1] : tensor<1024xf32> into tensor<1024x1xf32>
  %r = tensor.concat dim(1) %p, %q : (tensor<1024x1xf32>, tensor<1024x1xf32>) -> tensor<1024x2xf32>
  return %r : tensor<1024x2xf32>
}
