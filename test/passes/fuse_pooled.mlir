// On a CPU, what is pooled before a library that takes its images with their channels last is stored as it is read, and transposed by
// a kernel of its own. Where the image has its channels last, or is not pooled, one kernel does both.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse,lamina-plan)' | FileCheck %s

// CHECK: "plan.launch"(%{{.*}}) {kernel = @maximumf{{.*}} : (memref<4x64x32x32xf32>, memref<4x64x16x16xf32>)
// CHECK: "plan.launch"(%{{.*}}) {kernel = @copy{{.*}} : (memref<4x64x16x16xf32>, memref<4x64x16x16xf32, strided<[16384, 1, 1024, 64]>>)
// CHECK: "plan.call"
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @main(%x: tensor<4x64x32x32xf32>, %w: tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32> {
  %a = tensor.extract_slice %x[0, 0, 0, 0] [4, 64, 16, 16] [1, 1, 2, 2] : tensor<4x64x32x32xf32> to tensor<4x64x16x16xf32>
  %b = tensor.extract_slice %x[0, 0, 0, 1] [4, 64, 16, 16] [1, 1, 2, 2] : tensor<4x64x32x32xf32> to tensor<4x64x16x16xf32>
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %b : tensor<4x64x16x16xf32>, tensor<4x64x16x16xf32>) outs(%e : tensor<4x64x16x16xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %s = arith.maximumf %i, %j : f32
    linalg.yield %s : f32
  } -> tensor<4x64x16x16xf32>
  %r = "graph.extern"(%p, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 2048, 1, 128, 8>]} : (tensor<4x64x16x16xf32>, tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32>
  return %r : tensor<4x8x16x16xf32>
}

// -----

// CHECK: "plan.launch"(%{{.*}}) {kernel = @{{.*}} : (memref<4x64x32x32xf32, strided<[65536, 1, 2048, 64]>>, memref<4x64x16x16xf32, strided<[16384, 1, 1024, 64]>>)
// CHECK-NOT: plan.launch
// CHECK: "plan.call"
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @main(%x: tensor<4x64x32x32xf32> {graph.strides = array<i64: 65536, 1, 2048, 64>}, %w: tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32> {
  %a = tensor.extract_slice %x[0, 0, 0, 0] [4, 64, 16, 16] [1, 1, 2, 2] : tensor<4x64x32x32xf32> to tensor<4x64x16x16xf32>
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a : tensor<4x64x16x16xf32>) outs(%e : tensor<4x64x16x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<4x64x16x16xf32>
  %r = "graph.extern"(%p, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 2048, 1, 128, 8>]} : (tensor<4x64x16x16xf32>, tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32>
  return %r : tensor<4x8x16x16xf32>
}

// -----

// CHECK: "plan.launch"(%{{.*}}) {kernel = @{{.*}} : (memref<4x64x16x16xf32>, memref<4x64x16x16xf32, strided<[16384, 1, 1024, 64]>>)
// CHECK-NOT: plan.launch
// CHECK: "plan.call"
#id = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
func.func @main(%x: tensor<4x64x16x16xf32>, %w: tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32> {
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<4x64x16x16xf32>) outs(%e : tensor<4x64x16x16xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.exp %i : f32
    linalg.yield %s : f32
  } -> tensor<4x64x16x16xf32>
  %r = "graph.extern"(%p, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 2048, 1, 128, 8>]} : (tensor<4x64x16x16xf32>, tensor<8x64x1x1xf32>) -> tensor<4x8x16x16xf32>
  return %r : tensor<4x8x16x16xf32>
}
