// Ping-pong products, as Gluon: one warp loads, and registers go from it to the others.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=triton | FileCheck %s
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=sass | FileCheck %s --check-prefix=SASS
// RUN: opt-driver %s --target=nvvm:sm_80 --emit=triton | FileCheck %s --check-prefix=OLD

// CHECK: @gluon.jit
// CHECK-NEXT: def product_load(x0_blocks, x1_blocks, x0_ring, x1_ring, filled, emptied):
// CHECK: for program in range(tl.program_id(0), 20, 20):
// CHECK: mbarrier.expect(filled.index(stage), 8192)
// CHECK-NEXT: load(x0_blocks, [{{v[0-9]+}}, k], filled.index(stage), x0_ring.index(stage))
// CHECK: def product_multiply(turn: gl.constexpr, x0, x1, y0, {{.*}}):
// CHECK: for program in range(tl.program_id(0) + turn * 20, 20, 40):
// CHECK: mbarrier.wait(turns.index(turn), (done & 1) ^ (1 - turn))
// CHECK: acc = warpgroup_mma(x0_ring.index(stage), x1_ring.index(stage).permute((1, 0)), acc, use_acc=k > 0, is_async=True)
// CHECK: mbarrier.arrive(turns.index(1 - turn), count=1)
// CHECK: = acc * -1.0
// CHECK: store(y0_blocks, [{{v[0-9]+}}, {{v[0-9]+}}], tile0.index(turn), {{v[0-9]+}})
// CHECK: def product(x0, x1, y0):
// CHECK: x1_blocks = tma.make_tensor_descriptor(x1, [200, 384], [384, 1], [64, 32], {{.*}})

// SASS: USETMAXREG
// SASS: HGMMA
// SASS: UTMALDG

// OLD: # No ping-pong: {{.*}} no descriptor reads them
// OLD-NEXT: @triton.jit
// OLD: tl.dot
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func private @product(%arg0: memref<300x384xbf16>, %arg1: memref<200x384xbf16>, %arg2: memref<300x200xbf16>) attributes {tile.align = array<i64: 16, 16, 16>, tile.bytes = 504000 : i64, tile.ctas = 20 : i64, tile.flops = 46080000 : i64, tile.grid = 20 : i64, tile.outputs = 1 : i64, tile.threads = 384 : i64, tile.triton = "triton{m=64 n=64 k=32 warps=4 stages=3 group=1 resident=1 ping_pong=1}"} {
    %reinterpret_cast = memref.reinterpret_cast %arg2 to offset: [0], sizes: [300, 200], strides: [200, 1] : memref<300x200xbf16> to memref<300x200xbf16, strided<[200, 1]>>
    %reinterpret_cast_0 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [384, 200], strides: [1, 384] : memref<200x384xbf16> to memref<384x200xbf16, strided<[1, 384]>>
    %reinterpret_cast_1 = memref.reinterpret_cast %arg0 to offset: [0], sizes: [300, 384], strides: [384, 1] : memref<300x384xbf16> to memref<300x384xbf16, strided<[384, 1]>>
    %c32 = arith.constant 32 : index
    %c384 = arith.constant 384 : index
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c4 = arith.constant 4 : index
    %0 = "tile.program_id"() : () -> index
    %1 = arith.divui %0, %c4 : index
    %2 = arith.remui %0, %c4 : index
    %3 = arith.muli %1, %c64 : index
    %4 = arith.muli %2, %c64 : index
    %cst = arith.constant dense<0.000000e+00> : vector<64x64xf32>
    %5 = scf.for %arg3 = %c0 to %c384 step %c32 iter_args(%arg4 = %cst) -> (vector<64x64xf32>) {
      %cst_2 = arith.constant 0.000000e+00 : bf16
      %8 = vector.transfer_read %reinterpret_cast_1[%3, %arg3], %cst_2 {in_bounds = [false, true]} : memref<300x384xbf16, strided<[384, 1]>>, vector<64x32xbf16>
      %cst_3 = arith.constant 0.000000e+00 : bf16
      %9 = vector.transfer_read %reinterpret_cast_0[%arg3, %4], %cst_3 {in_bounds = [true, false]} : memref<384x200xbf16, strided<[1, 384]>>, vector<32x64xbf16>
      %10 = vector.contract {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %8, %9, %arg4 : vector<64x32xbf16>, vector<32x64xbf16> into vector<64x64xf32>
      scf.yield %10 : vector<64x64xf32>
    }
    %6 = arith.negf %5 : vector<64x64xf32>
    %7 = arith.truncf %6 : vector<64x64xf32> to vector<64x64xbf16>
    vector.transfer_write %7, %reinterpret_cast[%3, %4] : vector<64x64xbf16>, memref<300x200xbf16, strided<[200, 1]>>
    return
  }
}
