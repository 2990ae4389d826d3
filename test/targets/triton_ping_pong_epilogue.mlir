// What the epilogue of a ping-pong product reads comes through shared memory: the first parts while the product is computed, each
// other as soon as its buffer is read.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=triton | FileCheck %s
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=sass | FileCheck %s --check-prefix=SASS

// CHECK: def mm_mul_add_multiply(turn: gl.constexpr
// CHECK: fetch(x2_blocks, [[[ROW:v[0-9]+]], [[LEFT:v[0-9]+]]], x2_read.index(turn), x2_read_filled.index(turn), 8192)
// CHECK-NEXT: fetch(x3_blocks, [[[ROW]], [[LEFT]]], x3_read.index(turn)
// CHECK: warpgroup_mma
// CHECK: = fetched(x2_read.index(turn), x2_read_filled.index(turn), (done * 2 + 0) & 1, 64, 64)
// CHECK-NEXT: [[RIGHT:v[0-9]+]] = [[LEFT]] + 64
// CHECK-NEXT: fetch(x2_blocks, [[[ROW]], [[RIGHT]]]
// CHECK: = fetched(x3_read.index(turn), x3_read_filled.index(turn), (done * 2 + 0) & 1, 64, 64)
// CHECK-NEXT: fetch(x3_blocks, [[[ROW]], [[RIGHT]]]
// CHECK: store(y0_blocks, [[[ROW]], [[LEFT]]], tile0.index(turn), {{v[0-9]+}})
// CHECK: = fetched(x2_read.index(turn), x2_read_filled.index(turn), (done * 2 + 1) & 1, 64, 64)
// CHECK: = fetched(x3_read.index(turn), x3_read_filled.index(turn), (done * 2 + 1) & 1, 64, 64)
// CHECK: store(y0_blocks, [[[ROW]], [[RIGHT]]], tile0.index(turn), {{v[0-9]+}})
// CHECK: x2_read, x2_read_filled = gl.allocate_shared_memory(tl.bfloat16, [2, 64, 64], x2_blocks.layout), barriers(2)
// CHECK: tile0 = gl.allocate_shared_memory(tl.bfloat16, [2, 64, 64], y0_blocks.layout)

// SASS-NOT: LDG.E
// SASS: HGMMA
// SASS-NOT: LDG.E
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func private @mm_mul_add(%arg0: memref<304x384xbf16>, %arg1: memref<384x256xbf16>, %arg2: memref<304x256xbf16>, %arg3: memref<304x256xbf16>, %arg4: memref<304x256xbf16>) attributes {tile.align = array<i64: 16, 16, 16, 16, 16>, tile.bytes = 897024 : i64, tile.ctas = 10 : i64, tile.flops = 59768832 : i64, tile.grid = 10 : i64, tile.outputs = 1 : i64, tile.threads = 384 : i64, tile.triton = "triton{m=64 n=128 k=32 stages=6 resident=1 split=2 ping_pong=1}"} {
    %reinterpret_cast = memref.reinterpret_cast %arg4 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_0 = memref.reinterpret_cast %arg3 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_1 = memref.reinterpret_cast %arg2 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_2 = memref.reinterpret_cast %arg4 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_3 = memref.reinterpret_cast %arg3 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_4 = memref.reinterpret_cast %arg2 to offset: [0], sizes: [304, 256], strides: [256, 1] : memref<304x256xbf16> to memref<304x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_5 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [384, 256], strides: [256, 1] : memref<384x256xbf16> to memref<384x256xbf16, strided<[256, 1]>>
    %reinterpret_cast_6 = memref.reinterpret_cast %arg0 to offset: [0], sizes: [304, 384], strides: [384, 1] : memref<304x384xbf16> to memref<304x384xbf16, strided<[384, 1]>>
    %0 = "tile.program_id"() : () -> index
    %c10 = arith.constant 10 : index
    %1 = arith.divui %0, %c10 : index
    %c5 = arith.constant 5 : index
    %2 = arith.muli %1, %c5 : index
    %3 = arith.subi %c5, %2 : index
    %4 = arith.minui %3, %c5 : index
    %5 = arith.remui %0, %c10 : index
    %6 = arith.remui %5, %4 : index
    %7 = arith.addi %2, %6 : index
    %8 = arith.divui %5, %4 : index
    %c64 = arith.constant 64 : index
    %9 = arith.muli %7, %c64 : index
    %c128 = arith.constant 128 : index
    %10 = arith.muli %8, %c128 : index
    %cst = arith.constant dense<0.000000e+00> : vector<64x128xf32>
    %c0 = arith.constant 0 : index
    %c384 = arith.constant 384 : index
    %c32 = arith.constant 32 : index
    %11 = scf.for %arg5 = %c0 to %c384 step %c32 iter_args(%arg6 = %cst) -> (vector<64x128xf32>) {
      %cst_11 = arith.constant 0.000000e+00 : bf16
      %29 = vector.transfer_read %reinterpret_cast_6[%9, %arg5], %cst_11 {in_bounds = [false, true]} : memref<304x384xbf16, strided<[384, 1]>>, vector<64x32xbf16>
      %cst_12 = arith.constant 0.000000e+00 : bf16
      %30 = vector.transfer_read %reinterpret_cast_5[%arg5, %10], %cst_12 {in_bounds = [true, true]} : memref<384x256xbf16, strided<[256, 1]>>, vector<32x128xbf16>
      %31 = vector.contract {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %29, %30, %arg6 : vector<64x32xbf16>, vector<32x128xbf16> into vector<64x128xf32>
      scf.yield %31 : vector<64x128xf32>
    }
    %12 = vector.extract_strided_slice %11 {offsets = [0, 0], sizes = [64, 64], strides = [1, 1]} : vector<64x128xf32> to vector<64x64xf32>
    %cst_7 = arith.constant 0.000000e+00 : bf16
    %13 = vector.transfer_read %reinterpret_cast_4[%9, %10], %cst_7 {in_bounds = [false, true]} : memref<304x256xbf16, strided<[256, 1]>>, vector<64x64xbf16>
    %14 = arith.extf %13 : vector<64x64xbf16> to vector<64x64xf32>
    %15 = arith.mulf %12, %14 : vector<64x64xf32>
    %cst_8 = arith.constant 0.000000e+00 : bf16
    %16 = vector.transfer_read %reinterpret_cast_3[%9, %10], %cst_8 {in_bounds = [false, true]} : memref<304x256xbf16, strided<[256, 1]>>, vector<64x64xbf16>
    %17 = arith.extf %16 : vector<64x64xbf16> to vector<64x64xf32>
    %18 = arith.addf %15, %17 : vector<64x64xf32>
    %19 = arith.truncf %18 : vector<64x64xf32> to vector<64x64xbf16>
    vector.transfer_write %19, %reinterpret_cast_2[%9, %10] {in_bounds = [false, true]} : vector<64x64xbf16>, memref<304x256xbf16, strided<[256, 1]>>
    %20 = arith.addi %10, %c64 : index
    %21 = vector.extract_strided_slice %11 {offsets = [0, 64], sizes = [64, 64], strides = [1, 1]} : vector<64x128xf32> to vector<64x64xf32>
    %cst_9 = arith.constant 0.000000e+00 : bf16
    %22 = vector.transfer_read %reinterpret_cast_1[%9, %20], %cst_9 {in_bounds = [false, true]} : memref<304x256xbf16, strided<[256, 1]>>, vector<64x64xbf16>
    %23 = arith.extf %22 : vector<64x64xbf16> to vector<64x64xf32>
    %24 = arith.mulf %21, %23 : vector<64x64xf32>
    %cst_10 = arith.constant 0.000000e+00 : bf16
    %25 = vector.transfer_read %reinterpret_cast_0[%9, %20], %cst_10 {in_bounds = [false, true]} : memref<304x256xbf16, strided<[256, 1]>>, vector<64x64xbf16>
    %26 = arith.extf %25 : vector<64x64xbf16> to vector<64x64xf32>
    %27 = arith.addf %24, %26 : vector<64x64xf32>
    %28 = arith.truncf %27 : vector<64x64xf32> to vector<64x64xbf16>
    vector.transfer_write %28, %reinterpret_cast[%9, %20] {in_bounds = [false, true]} : vector<64x64xbf16>, memref<304x256xbf16, strided<[256, 1]>>
    return
  }
}

