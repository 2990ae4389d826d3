// A function that reduces rows has the schedule that graph.rows says, in the place of the cost model's.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s
// RUN: not opt-driver %S/Inputs/tile_rows_errors.mlir --pass-pipeline='lamina-tile{target=nvvm:sm_80}' --split-input-file 2>&1 | FileCheck %s --check-prefix=ERROR
// RUN: not opt-driver %s --pass-pipeline='lamina-tile' --split-input-file 2>&1 | FileCheck %s --check-prefix=CPU

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Two CTAs hold a row.
// CHECK-LABEL: func.func private @held
// CHECK-SAME: tile.chunks = 4 : i64, tile.cluster = 2 : i64
// CHECK-SAME: tile.resident = 3 : i64
// CHECK-SAME: tile.threads = 128 : i64, tile.vec = 4 : i64
// CHECK-NOT: scf.for
// CHECK: vector.transfer_read {{.*}} vector<4096xf32>
// CPU: kernel @held cannot be tiled: simt{threads=128 chunks=0 cluster=2 resident=3} is for GPUs
func.func private @held(%x: tensor<64x4096xf32>) -> tensor<64x4096xf32> attributes {graph.kernel, graph.rows = "simt{threads=128 cluster=2 resident=3}"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %e2 = tensor.empty() : tensor<64x4096xf32>
  %r = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<64x4096xf32>, tensor<64xf32>) outs(%e2 : tensor<64x4096xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<64x4096xf32>
  return %r : tensor<64x4096xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// As a kernel of Triton, 512 elements at a time.
// CHECK-LABEL: func.func private @pieces
// CHECK-NOT: tile.cluster
// CHECK-SAME: tile.ctas = 64 : i64
// CHECK-SAME: tile.threads = 64 : i64, tile.triton = "triton{warps=2 stages=3}"
// CHECK: scf.for
// CHECK: vector.transfer_read {{.*}} vector<512xf32>
func.func private @pieces(%x: tensor<64x4096xf32>) -> tensor<64xf32> attributes {graph.kernel, graph.rows = "triton{n=512 warps=2 stages=3}"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<64xf32>) -> tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<64x4096xf32>) outs(%f : tensor<64xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// ERROR: kernel @cluster cannot be tiled: simt{threads=128 chunks=0 cluster=2} where CTAs cannot share a row
// ERROR: kernel @pointwise cannot be tiled: simt{threads=128 chunks=0} is for programs that reduce rows
// ERROR: simt{threads=96} (threads is a power of two up to 1024)
// ERROR: 'm=64' is not part of triton{...} (it has n, warps, stages, each a number)
