// What is read for each group of channels does not keep kernels from walking all channels of a channels-last image as one row.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' --pretty | FileCheck %s

#image = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#pixels = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#group = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, 0, 0, 0)>
#channel = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2)>

"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<2x320x64x64xbf16, strided<[1310720, 1, 20480, 320]>>
  %m = "plan.input"() {index = 1 : i64} : () -> memref<2x32x1x1x1xf32>
  %s = "plan.output"() {index = 0 : i64} : () -> memref<2x32x10xf32>
  "plan.launch"(%x, %m, %s) {kernel = @sums, label = "sums", n_out = 1 : i64} : (memref<2x320x64x64xbf16, strided<[1310720, 1, 20480, 320]>>, memref<2x32x1x1x1xf32>, memref<2x32x10xf32>) -> ()
  %y = "plan.output"() {index = 1 : i64} : () -> memref<2x320x64x64xf32>
  "plan.launch"(%x, %m, %y) {kernel = @apart, label = "apart", n_out = 1 : i64} : (memref<2x320x64x64xbf16, strided<[1310720, 1, 20480, 320]>>, memref<2x32x1x1x1xf32>, memref<2x320x64x64xf32>) -> ()
  "plan.return"(%s, %y) : (memref<2x32x10xf32>, memref<2x320x64x64xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()

// Each thread has adjacent channels, of several groups; the mean of each is read once, in front of the loop.
// CHECK-LABEL: func @sums
// CHECK-SAME: tile.vec = 8
// CHECK: tile.read_runs {{.*}}lengths = [10]} : <{{[0-9]+}}xf32>
// CHECK: for %{{.*}} = 0 to 4096
// CHECK-NOT: tile.read_runs
// CHECK-NOT: tile.gather
func.func private @sums(%x: tensor<2x320x64x64xbf16>, %m: tensor<2x32x1x1x1xf32>) -> tensor<2x32x10xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %g = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 32, 10, 64, 64] : tensor<2x320x64x64xbf16> into tensor<2x32x10x64x64xbf16>
  %e = tensor.empty() : tensor<2x32x10xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x32x10xf32>) -> tensor<2x32x10xf32>
  %s = linalg.generic {indexing_maps = [#pixels, #group, #channel], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%g, %m : tensor<2x32x10x64x64xbf16>, tensor<2x32x1x1x1xf32>) outs(%f : tensor<2x32x10xf32>) {
  ^bb0(%a: bf16, %b: f32, %acc: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.subf %0, %b : f32
    %2 = arith.addf %1, %acc : f32
    linalg.yield %2 : f32
  } -> tensor<2x32x10xf32>
  return %s : tensor<2x32x10xf32>
}

// A tile that is transposed has 64 channels, not the 10 of a group.
// CHECK-LABEL: func @apart
// CHECK: tile.transpose {{.*}}, 64, 64, %{{.*}}, 320
// CHECK: for %{{.*}} = 0 to 64 step 1:
// CHECK: / 10
func.func private @apart(%x: tensor<2x320x64x64xbf16>, %m: tensor<2x32x1x1x1xf32>) -> tensor<2x320x64x64xf32> attributes {graph.kernel} {
  %g = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 32, 10, 64, 64] : tensor<2x320x64x64xbf16> into tensor<2x32x10x64x64xbf16>
  %e = tensor.empty() : tensor<2x32x10x64x64xf32>
  %d = linalg.generic {indexing_maps = [#pixels, #group, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%g, %m : tensor<2x32x10x64x64xbf16>, tensor<2x32x1x1x1xf32>) outs(%e : tensor<2x32x10x64x64xf32>) {
  ^bb0(%a: bf16, %b: f32, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.subf %0, %b : f32
    linalg.yield %1 : f32
  } -> tensor<2x32x10x64x64xf32>
  %y = tensor.collapse_shape %d [[0], [1, 2], [3], [4]] : tensor<2x32x10x64x64xf32> into tensor<2x320x64x64xf32>
  return %y : tensor<2x320x64x64xf32>
}
