// Windows of an image with its channels last, for a result in NCHW: of four reads across the lanes, two are transposed in the 48 KB
// of shared memory that a block may have, the others are read where they lie.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' | FileCheck %s

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>

"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<8x64x64x64xf32, strided<[262144, 1, 4096, 64]>>
  %y = "plan.output"() {index = 0 : i64} : () -> memref<8x64x32x32xf32>
  "plan.launch"(%x, %y) {kernel = @pooled, label = "pooled", n_out = 1 : i64} : (memref<8x64x64x64xf32, strided<[262144, 1, 4096, 64]>>, memref<8x64x32x32xf32>) -> ()
  "plan.return"(%y) : (memref<8x64x32x32xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()

// CHECK-LABEL: func.func private @pooled
// CHECK-COUNT-2: tile.transpose
// CHECK-NOT: tile.transpose
// CHECK: scf.for
// CHECK: arith.addf
func.func private @pooled(%x: tensor<8x64x64x64xf32>) -> tensor<8x64x32x32xf32> attributes {graph.kernel} {
  %a = tensor.extract_slice %x[0, 0, 0, 0] [8, 64, 32, 32] [1, 1, 2, 2] : tensor<8x64x64x64xf32> to tensor<8x64x32x32xf32>
  %b = tensor.extract_slice %x[0, 0, 0, 1] [8, 64, 32, 32] [1, 1, 2, 2] : tensor<8x64x64x64xf32> to tensor<8x64x32x32xf32>
  %c = tensor.extract_slice %x[0, 0, 1, 0] [8, 64, 32, 32] [1, 1, 2, 2] : tensor<8x64x64x64xf32> to tensor<8x64x32x32xf32>
  %d = tensor.extract_slice %x[0, 0, 1, 1] [8, 64, 32, 32] [1, 1, 2, 2] : tensor<8x64x64x64xf32> to tensor<8x64x32x32xf32>
  %e = tensor.empty() : tensor<8x64x32x32xf32>
  %r = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%a, %b, %c, %d : tensor<8x64x32x32xf32>, tensor<8x64x32x32xf32>, tensor<8x64x32x32xf32>, tensor<8x64x32x32xf32>) outs(%e : tensor<8x64x32x32xf32>) {
  ^bb0(%i: f32, %j: f32, %k: f32, %l: f32, %o: f32):
    %0 = arith.addf %i, %j : f32
    %1 = arith.addf %0, %k : f32
    %2 = arith.addf %1, %l : f32
    linalg.yield %2 : f32
  } -> tensor<8x64x32x32xf32>
  return %r : tensor<8x64x32x32xf32>
}
