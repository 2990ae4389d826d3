// Products that lamina-select-kernels has made groups of become programs over squares of the result; ragged squares are masked, batches are
// walked outermost, a factor that is transposed in memory is read as it lies.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile{target=nvvm:sm_90a})' --split-input-file | FileCheck %s
// RUN: not opt-driver %s --pass-pipeline='builtin.module(lamina-tile)' --split-input-file 2>&1 | FileCheck %s --check-prefix=CPU

// CPU: error: cpu has no schedules of products (they are for GPUs: nvvm:sm_90a)

// CHECK-LABEL: func.func private @product
// CHECK-SAME: tile.ctas = 20 : i64, {{.*}}tile.flops = 47520000 : i64, tile.grid = 20 : i64, {{.*}}tile.threads = 128 : i64, tile.triton = "triton{m=64 n=64 k=32
// CHECK-DAG: memref.reinterpret_cast %arg0 to offset: [0], sizes: [300, 396], strides: [396, 1]
// CHECK-DAG: memref.reinterpret_cast %arg1 to offset: [0], sizes: [396, 200], strides: [1, 396]
// CHECK: "tile.program_id"
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: vector.transfer_read {{.*}}, vector<64x32xbf16>
// CHECK: vector.transfer_read {{.*}}, vector<32x64xbf16>
// CHECK: vector.contract {{.*}} : vector<64x32xbf16>, vector<32x64xbf16> into vector<64x64xf32>
// CHECK: arith.negf %[[SUM]]
// CHECK: arith.truncf
// CHECK: vector.transfer_write {{.*}} : vector<64x64xbf16>
func.func private @product(%a: tensor<300x396xbf16>, %b: tensor<200x396xbf16>) -> tensor<300x200xbf16> attributes {graph.kernel, graph.choice = "triton{m=64 n=64 k=32 group=1}"} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300x200xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<300x200xf32>) -> tensor<300x200xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<300x396xbf16>, tensor<200x396xbf16>) outs(%f : tensor<300x200xf32>) {
  ^bb0(%p: bf16, %q: bf16, %u: f32):
    %p32 = arith.extf %p : bf16 to f32
    %q32 = arith.extf %q : bf16 to f32
    %s = arith.mulf %p32, %q32 : f32
    %t = arith.addf %u, %s : f32
    linalg.yield %t : f32
  } -> tensor<300x200xf32>
  %o = tensor.empty() : tensor<300x200xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<300x200xf32>) outs(%o : tensor<300x200xbf16>) {
  ^bb0(%p: f32, %q: bf16):
    %s = arith.negf %p : f32
    %t = arith.truncf %s : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<300x200xbf16>
  return %r : tensor<300x200xbf16>
}

// -----

// CHECK-LABEL: func.func private @batches
// CHECK-SAME: tile.ctas = 132 : i64, {{.*}}tile.grid = 512 : i64
// CHECK: arith.divui
// CHECK: vector.transfer_read %{{.*}}[%[[B:.*]], %{{.*}}, %{{.*}}], {{.*}} : memref<32x512x64xf16{{.*}}>, vector<128x64xf16>
// CHECK: vector.transfer_write {{.*}}[%[[B]], {{.*}}
func.func private @batches(%a: tensor<32x512x64xf16>, %b: tensor<32x64x512xf16>) -> tensor<32x512x512xf16> attributes {graph.kernel, graph.choice = "triton{m=128 n=128 k=64 resident=1}"} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<32x512x512xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<32x512x512xf32>) -> tensor<32x512x512xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, k, j)>, affine_map<(b, i, j, k) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : tensor<32x512x64xf16>, tensor<32x64x512xf16>) outs(%f : tensor<32x512x512xf32>) {
  ^bb0(%p: f16, %q: f16, %u: f32):
    %p32 = arith.extf %p : f16 to f32
    %q32 = arith.extf %q : f16 to f32
    %s = arith.mulf %p32, %q32 : f32
    %t = arith.addf %u, %s : f32
    linalg.yield %t : f32
  } -> tensor<32x512x512xf32>
  %o = tensor.empty() : tensor<32x512x512xf16>
  %r = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%m : tensor<32x512x512xf32>) outs(%o : tensor<32x512x512xf16>) {
  ^bb0(%p: f32, %q: f16):
    %t = arith.truncf %p : f32 to f16
    linalg.yield %t : f16
  } -> tensor<32x512x512xf16>
  return %r : tensor<32x512x512xf16>
}

// -----

// Two products of one left factor are two sums of one loop, which reads its block of that once.
// CHECK-LABEL: func.func private @pair
// CHECK-SAME: tile.flops = 4194304 : i64, tile.grid = 8 : i64
// CHECK: %[[SUMS:.*]]:2 = scf.for
// CHECK: %[[A:.*]] = vector.transfer_read {{.*}}, vector<64x32xbf16>
// CHECK: vector.transfer_read {{.*}}, vector<32x32xbf16>
// CHECK-NEXT: vector.contract {{.*}} %[[A]],
// CHECK: vector.contract {{.*}} %[[A]],
// CHECK: arith.mulf %[[SUMS]]#1, %[[SUMS]]#0
func.func private @pair(%a: tensor<128x64xbf16>, %b: tensor<64x128xbf16>, %c: tensor<64x128xbf16>) -> tensor<128x128xbf16> attributes {graph.kernel, graph.choice = "triton{m=64 n=32 k=32 group=1}"} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<128x128xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<128x128xf32>) -> tensor<128x128xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<128x64xbf16>, tensor<64x128xbf16>) outs(%f : tensor<128x128xf32>) {
  ^bb0(%p: bf16, %q: bf16, %u: f32):
    %p32 = arith.extf %p : bf16 to f32
    %q32 = arith.extf %q : bf16 to f32
    %s = arith.mulf %p32, %q32 : f32
    %t = arith.addf %u, %s : f32
    linalg.yield %t : f32
  } -> tensor<128x128xf32>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %c : tensor<128x64xbf16>, tensor<64x128xbf16>) outs(%f : tensor<128x128xf32>) {
  ^bb0(%p: bf16, %q: bf16, %u: f32):
    %p32 = arith.extf %p : bf16 to f32
    %q32 = arith.extf %q : bf16 to f32
    %s = arith.mulf %p32, %q32 : f32
    %t = arith.addf %u, %s : f32
    linalg.yield %t : f32
  } -> tensor<128x128xf32>
  %o = tensor.empty() : tensor<128x128xbf16>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%m, %n : tensor<128x128xf32>, tensor<128x128xf32>) outs(%o : tensor<128x128xbf16>) {
  ^bb0(%p: f32, %q: f32, %u: bf16):
    %s = arith.mulf %p, %q : f32
    %t = arith.truncf %s : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<128x128xbf16>
  return %r : tensor<128x128xbf16>
}

// -----

// Sums of blocks of columns: a column of them for each block; columns beyond the last count for nothing.
// CHECK-LABEL: func.func private @row_sums
// CHECK-SAME: tile.bytes = 28000 : i64
// CHECK: memref.reinterpret_cast %arg2 to offset: [0], sizes: [300, 2], strides: [2, 1]
// CHECK: %[[SUM:.*]] = scf.for
// CHECK: %[[EXP:.*]] = math.exp %[[SUM]]
// CHECK: %[[M:.*]] = vector.create_mask %{{.*}}, %{{.*}} : vector<1x64xi1>
// CHECK: %[[W:.*]] = vector.broadcast %[[M]]
// CHECK: %[[S:.*]] = arith.select %[[W]], %[[EXP]]
// CHECK: vector.multi_reduction <add>, %[[S]], %{{.*}} [1] : vector<64x64xf32> to vector<64xf32>
// CHECK: vector.transfer_write {{.*}} {in_bounds = [false, true]} : vector<64x1xf32>
func.func private @row_sums(%a: tensor<300x32xbf16>, %b: tensor<32x100xbf16>) -> tensor<300x2xf32> attributes {graph.kernel, graph.choice = "triton{m=64 n=64 k=32 group=1}"} {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<300x100xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<300x100xf32>) -> tensor<300x100xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : tensor<300x32xbf16>, tensor<32x100xbf16>) outs(%f : tensor<300x100xf32>) {
  ^bb0(%p: bf16, %q: bf16, %u: f32):
    %p32 = arith.extf %p : bf16 to f32
    %q32 = arith.extf %q : bf16 to f32
    %s = arith.mulf %p32, %q32 : f32
    %t = arith.addf %u, %s : f32
    linalg.yield %t : f32
  } -> tensor<300x100xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%m : tensor<300x100xf32>) outs(%e : tensor<300x100xf32>) {
  ^bb0(%p: f32, %q: f32):
    %s = math.exp %p : f32
    linalg.yield %s : f32
  } -> tensor<300x100xf32>
  %pad = tensor.pad %r low[0, 0] high[0, 28] {
  ^bb0(%i: index, %j: index):
    tensor.yield %z : f32
  } : tensor<300x100xf32> to tensor<300x128xf32>
  %x = tensor.expand_shape %pad [[0], [1, 2]] output_shape [300, 2, 64] : tensor<300x128xf32> into tensor<300x2x64xf32>
  %o = tensor.empty() : tensor<300x2xf32>
  %g = linalg.fill ins(%z : f32) outs(%o : tensor<300x2xf32>) -> tensor<300x2xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<300x2x64xf32>) outs(%g : tensor<300x2xf32>) {
  ^bb0(%p: f32, %q: f32):
    %s = arith.addf %q, %p : f32
    linalg.yield %s : f32
  } -> tensor<300x2xf32>
  return %t : tensor<300x2xf32>
}
