// Windows of an image with its channels last, for a result in NCHW: of four reads across the lanes, two are transposed in the 48 KB
// of shared memory that a block may have, the others are read where they lie.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' | FileCheck %s

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>

"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<8x64x128x128xf32, strided<[1048576, 1, 8192, 64]>>
  %y = "plan.output"() {index = 0 : i64} : () -> memref<8x64x64x64xf32>
  "plan.launch"(%x, %y) {kernel = @pooled, label = "pooled", n_out = 1 : i64} : (memref<8x64x128x128xf32, strided<[1048576, 1, 8192, 64]>>, memref<8x64x64x64xf32>) -> ()
  "plan.return"(%y) : (memref<8x64x64x64xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()

// CHECK-LABEL: func.func private @pooled
// CHECK-COUNT-2: tile.transpose
// CHECK-NOT: tile.transpose
// CHECK: scf.for
// CHECK: arith.addf
func.func private @pooled(%x: tensor<8x64x128x128xf32>) -> tensor<8x64x64x64xf32> attributes {graph.kernel} {
  %a = tensor.extract_slice %x[0, 0, 0, 0] [8, 64, 64, 64] [1, 1, 2, 2] : tensor<8x64x128x128xf32> to tensor<8x64x64x64xf32>
  %b = tensor.extract_slice %x[0, 0, 0, 1] [8, 64, 64, 64] [1, 1, 2, 2] : tensor<8x64x128x128xf32> to tensor<8x64x64x64xf32>
  %c = tensor.extract_slice %x[0, 0, 1, 0] [8, 64, 64, 64] [1, 1, 2, 2] : tensor<8x64x128x128xf32> to tensor<8x64x64x64xf32>
  %d = tensor.extract_slice %x[0, 0, 1, 1] [8, 64, 64, 64] [1, 1, 2, 2] : tensor<8x64x128x128xf32> to tensor<8x64x64x64xf32>
  %e = tensor.empty() : tensor<8x64x64x64xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %b, %c, %d : tensor<8x64x64x64xf32>, tensor<8x64x64x64xf32>, tensor<8x64x64x64xf32>, tensor<8x64x64x64xf32>) outs(%e : tensor<8x64x64x64xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %0 = arith.addf %i, %j : f32
    %1 = arith.addf %0, %k : f32
    %2 = arith.addf %1, %l : f32
    linalg.yield %2 : f32
  } -> tensor<8x64x64x64xf32>
  return %r : tensor<8x64x64x64xf32>
}

// What is padded at its end: a tile has as many lanes as there are elements, and the others are zeros.
// CHECK-LABEL: func.func private @padded
// CHECK: %[[LANE:.*]] = arith.minui %{{.*}}, %c199
// CHECK: arith.subi %c200{{.*}}, %[[LANE]]
// CHECK: tile.transpose
// CHECK: arith.select
func.func private @padded(%x: tensor<200x128xf32>) -> tensor<128x203xf32> attributes {graph.kernel} {
  %o = tensor.empty() : tensor<128x200xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<200x128xf32>) outs(%o : tensor<128x200xf32>) {
  ^bb0(%a: f32, %u: f32):
    linalg.yield %a : f32
  } -> tensor<128x200xf32>
  %z = arith.constant 0.0 : f32
  %p = tensor.pad %r low[0, 0] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<128x200xf32> to tensor<128x203xf32>
  return %p : tensor<128x203xf32>
}
