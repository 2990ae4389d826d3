// Blocks run across the rows of a concatenation of narrow parts; each computes one part after another.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' | FileCheck %s

// CHECK-LABEL: func.func private @stacked
// CHECK: scf.for {{.*}} step %c16
// CHECK: %[[E:.*]] = math.exp {{.*}} vector<16xf32>
// CHECK: "tile.scatter"(%[[E]]
// CHECK: %[[S:.*]] = math.sin {{.*}} vector<16xf32>
// CHECK: "tile.scatter"(%[[S]]
// CHECK: %[[C:.*]] = math.cos {{.*}} vector<16xf32>
// CHECK: "tile.scatter"(%[[C]]

// Copies cost less than storing their elements one by one.
// CHECK-LABEL: func.func private @copied
// CHECK-NOT: "tile.scatter"
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func private @stacked(%x: tensor<320x1xf32>) -> tensor<320x3xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<320x1xf32>
  %a = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<320x1xf32>) outs(%e : tensor<320x1xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = math.exp %i : f32
    linalg.yield %0 : f32
  } -> tensor<320x1xf32>
  %b = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<320x1xf32>) outs(%e : tensor<320x1xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = math.sin %i : f32
    linalg.yield %0 : f32
  } -> tensor<320x1xf32>
  %c = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<320x1xf32>) outs(%e : tensor<320x1xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = math.cos %i : f32
    linalg.yield %0 : f32
  } -> tensor<320x1xf32>
  %r = tensor.concat dim(1) %a, %b, %c : (tensor<320x1xf32>, tensor<320x1xf32>, tensor<320x1xf32>) -> tensor<320x3xf32>
  return %r : tensor<320x3xf32>
}
func.func private @copied(%x: tensor<320x2xf32>, %y: tensor<320x1xf32>) -> tensor<320x3xf32> attributes {graph.kernel} {
  %r = tensor.concat dim(1) %x, %y : (tensor<320x2xf32>, tensor<320x1xf32>) -> tensor<320x3xf32>
  return %r : tensor<320x3xf32>
}
