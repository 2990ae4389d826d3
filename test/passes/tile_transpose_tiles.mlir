// Squares of a transpose are no wider than the axis: no store leaves a whole vector out.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' | FileCheck %s

// CHECK-LABEL: func.func private @channels_last
// CHECK: memref.alloca() {{.*}} memref<64x16xf32>
// CHECK: vector.transfer_write %{{.*}} : vector<16x16xf32>, memref<64x16xf32>
// CHECK-NOT: create_mask
// CHECK: vector.transfer_write %{{.*}} : vector<16xf32>, memref<65536xf32>
func.func private @channels_last(%x: tensor<16x4096xf32>) -> tensor<4096x16xf32> attributes {graph.kernel} {
  %o = tensor.empty() : tensor<4096x16xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<16x4096xf32>) outs(%o : tensor<4096x16xf32>) {
  ^bb0(%a: f32, %u: f32):
    linalg.yield %a : f32
  } -> tensor<4096x16xf32>
  return %r : tensor<4096x16xf32>
}

// What is padded has tiles between the edges: the loop over 64 of 67 columns transposes, those at both ends read lane by lane.
// CHECK-LABEL: func.func private @padded
// CHECK: memref.alloca() {{.*}} memref<64x16xf32>
// CHECK: vector.step
// CHECK: vector.transfer_write %{{.*}} : vector<16x16xf32>, memref<64x16xf32>
// CHECK: vector.transfer_read %{{.*}} : memref<64x16xf32>, vector<16xf32>
func.func private @padded(%x: tensor<64x128xf32>) -> tensor<128x67xf32> attributes {graph.kernel} {
  %o = tensor.empty() : tensor<128x64xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x128xf32>) outs(%o : tensor<128x64xf32>) {
  ^bb0(%a: f32, %u: f32):
    linalg.yield %a : f32
  } -> tensor<128x64xf32>
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %r low[0, 2] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<128x64xf32> to tensor<128x67xf32>
  return %p : tensor<128x67xf32>
}
