// Programs of products as Triton writes them, and what becomes of them: tensor cores fed by descriptors on Hopper, by pointers before.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=triton | FileCheck %s
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=sass | FileCheck %s --check-prefix=SASS
// RUN: opt-driver %s --target=nvvm:sm_80 --emit=triton | FileCheck %s --check-prefix=OLD
// RUN: opt-driver %s --target=nvvm:sm_80 --emit=sass | FileCheck %s --check-prefix=OLDSASS
// RUN: not opt-driver %s --target=nvvm:sm_90a --emit=gpu 2>&1 | FileCheck %s --check-prefix=LEVEL

// CHECK: import triton.language as tl
// CHECK: @triton.jit
// CHECK-NEXT: def product(x0, x1, y0):
// CHECK-NEXT: x0_blocks = tl.make_tensor_descriptor(x0, [300, 384], [384, 1], [64, 32])
// CHECK-NEXT: x1_blocks = tl.make_tensor_descriptor(x1, [200, 384], [384, 1], [64, 32])
// CHECK: acc = tl.full((64, 64), 0.0, tl.float32)
// CHECK-NEXT: for k in range(0, 384, 32):
// CHECK-NEXT: [[A:v[0-9]+]] = x0_blocks.load([{{v[0-9]+}}, k])
// CHECK-NEXT: [[B:v[0-9]+]] = x1_blocks.load([{{v[0-9]+}}, k]).T
// CHECK-NEXT: acc = tl.dot([[A]], [[B]], acc)
// CHECK-NEXT: = acc * -1.0
// CHECK: tl.store(y0 + {{.*}}mask=

// PTX: .visible .entry product(
// PTX: cp.async.bulk.tensor.2d
// PTX: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// SASS: UTMALDG
// SASS: HGMMA

// OLD-NOT: descriptor
// OLD: tl.load(x0 + {{.*}}, mask=
// OLDSASS: LDGSTS
// OLDSASS: HMMA.16816.F32.BF16

// LEVEL: nvvm:sm_90a has no level 'gpu' for kernels (levels: triton, ptx, sass)
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func private @product(%arg0: memref<300x384xbf16>, %arg1: memref<200x384xbf16>, %arg2: memref<300x200xbf16>) attributes {tile.align = array<i64: 16, 16, 16>, tile.bytes = 504000 : i64, tile.ctas = 20 : i64, tile.flops = 46080000 : i64, tile.grid = 20 : i64, tile.outputs = 1 : i64, tile.threads = 128 : i64, tile.triton = "triton{m=64 n=64 k=32 warps=4 stages=3 group=1 resident=0}"} {
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
