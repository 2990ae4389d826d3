// A convolution as Triton writes it: pixels are divided into rows and columns before the loop; in it, a position of the window is a
// number that the places of a block are moved by, and what lies outside of the image is zero. The weight comes by a descriptor.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=triton | FileCheck %s
// RUN: opt-driver %s --target=nvvm:sm_80 --emit=sass | FileCheck %s --check-prefix=SASS

// CHECK: @triton.jit
// CHECK-NEXT: def product(x0, x1, x2, y0):
// CHECK-NEXT: x1_blocks = tl.make_tensor_descriptor(x1, [128, 288], [288, 1], [64, 32])
// CHECK: [[LANES:v[0-9]+]] = tl.arange(0, 64)[:, None]
// CHECK-NEXT: [[PIXEL:v[0-9]+]] = {{v[0-9]+}} + [[LANES]]
// CHECK-NEXT: [[ROW:v[0-9]+]] = [[PIXEL]] // 20
// CHECK: for k in range(0, 288, 32):
// CHECK-NEXT: [[PLACE:v[0-9]+]] = k // 32
// CHECK-NEXT: [[BEFORE:v[0-9]+]] = [[PLACE]] * 32
// CHECK-NEXT: [[CHANNEL:v[0-9]+]] = k - [[BEFORE]]
// CHECK: [[I:v[0-9]+]] = [[PLACE]] // 3
// CHECK: >= 1
// CHECK: (-1376) +
// CHECK: tl.load(x0 + {{v[0-9]+}}, mask={{v[0-9]+}}, other=0)
// CHECK-NEXT: x1_blocks.load([{{v[0-9]+}}, k]).T
// CHECK-NEXT: acc = tl.dot(
// CHECK: tl.maximum({{.*}}, 0.0
// CHECK: tl.store(y0 +

// SASS: LDGSTS.E.BYPASS{{.*}}.128
// SASS: HMMA.16816.F32.BF16
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func private @product(%arg0: memref<1x32x20x40xbf16, strided<[32, 1, 1280, 32]>>, %arg1: memref<128x32x3x3xbf16, strided<[288, 1, 96, 32]>>, %arg2: memref<128xbf16>, %arg3: memref<1x128x10x20xbf16, strided<[128, 1, 2560, 128]>>) attributes {tile.align = array<i64: 16, 16, 16, 16>, tile.bytes = 176384 : i64, tile.ctas = 8 : i64, tile.flops = 14745600 : i64, tile.grid = 8 : i64, tile.outputs = 1 : i64, tile.threads = 128 : i64, tile.triton = "triton{m=64 n=64 k=32 warps=4 stages=3 group=8 resident=0 split=1 descriptors=1 joint=0 parts=1 fast=0}"} {
    %reinterpret_cast = memref.reinterpret_cast %arg3 to offset: [0], sizes: [200, 128], strides: [128, 1] : memref<1x128x10x20xbf16, strided<[128, 1, 2560, 128]>> to memref<200x128xbf16, strided<[128, 1]>>
    %reinterpret_cast_0 = memref.reinterpret_cast %arg2 to offset: [0], sizes: [1, 128], strides: [0, 1] : memref<128xbf16> to memref<1x128xbf16, strided<[0, 1]>>
    %reinterpret_cast_1 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [288, 128], strides: [1, 288] : memref<128x32x3x3xbf16, strided<[288, 1, 96, 32]>> to memref<288x128xbf16, strided<[1, 288]>>
    %reinterpret_cast_2 = memref.reinterpret_cast %arg0 to offset: [0], sizes: [25600], strides: [1] : memref<1x32x20x40xbf16, strided<[32, 1, 1280, 32]>> to memref<25600xbf16>
    %c32 = arith.constant 32 : index
    %c288 = arith.constant 288 : index
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %0 = "tile.program_id"() : () -> index
    %1 = arith.divui %0, %c8 : index
    %2 = arith.muli %1, %c4 : index
    %3 = arith.subi %c4, %2 : index
    %4 = arith.minui %3, %c4 : index
    %5 = arith.remui %0, %c8 : index
    %6 = arith.remui %5, %4 : index
    %7 = arith.addi %2, %6 : index
    %8 = arith.divui %5, %4 : index
    %9 = arith.muli %7, %c64 : index
    %10 = arith.muli %8, %c64 : index
    %cst = arith.constant dense<0.000000e+00> : vector<64x64xf32>
    %11 = vector.step : vector<64xindex>
    %12 = vector.shape_cast %11 : vector<64xindex> to vector<64x1xindex>
    %13 = vector.broadcast %9 : index to vector<1x1xindex>
    %14 = vector.broadcast %13 : vector<1x1xindex> to vector<64x1xindex>
    %15 = arith.addi %14, %12 : vector<64x1xindex>
    %cst_3 = arith.constant dense<20> : vector<1x1xindex>
    %16 = vector.broadcast %cst_3 : vector<1x1xindex> to vector<64x1xindex>
    %17 = arith.divui %15, %16 : vector<64x1xindex>
    %18 = arith.muli %17, %16 : vector<64x1xindex>
    %19 = arith.subi %15, %18 : vector<64x1xindex>
    %cst_4 = arith.constant dense<2560> : vector<1x1xindex>
    %20 = vector.broadcast %cst_4 : vector<1x1xindex> to vector<64x1xindex>
    %21 = arith.muli %17, %20 : vector<64x1xindex>
    %cst_5 = arith.constant dense<64> : vector<1x1xindex>
    %22 = vector.broadcast %cst_5 : vector<1x1xindex> to vector<64x1xindex>
    %23 = arith.muli %19, %22 : vector<64x1xindex>
    %24 = arith.addi %21, %23 : vector<64x1xindex>
    %cst_6 = arith.constant dense<2> : vector<1x1xindex>
    %25 = vector.broadcast %cst_6 : vector<1x1xindex> to vector<64x1xindex>
    %26 = arith.muli %17, %25 : vector<64x1xindex>
    %cst_7 = arith.constant dense<2> : vector<1x1xindex>
    %27 = vector.broadcast %cst_7 : vector<1x1xindex> to vector<64x1xindex>
    %28 = arith.muli %19, %27 : vector<64x1xindex>
    %29 = vector.step : vector<64xindex>
    %30 = vector.shape_cast %29 : vector<64xindex> to vector<64x1xindex>
    %31 = vector.broadcast %9 : index to vector<1x1xindex>
    %32 = vector.broadcast %31 : vector<1x1xindex> to vector<64x1xindex>
    %33 = arith.addi %32, %30 : vector<64x1xindex>
    %cst_8 = arith.constant dense<200> : vector<1x1xindex>
    %34 = vector.broadcast %cst_8 : vector<1x1xindex> to vector<64x1xindex>
    %35 = arith.cmpi slt, %33, %34 : vector<64x1xindex>
    %36 = scf.for %arg4 = %c0 to %c288 step %c32 iter_args(%arg5 = %cst) -> (vector<64x64xf32>) {
      %45 = arith.divui %arg4, %c32 : index
      %46 = arith.muli %45, %c32 : index
      %47 = arith.subi %arg4, %46 : index
      %48 = vector.step : vector<32xindex>
      %49 = vector.shape_cast %48 : vector<32xindex> to vector<1x32xindex>
      %50 = vector.broadcast %47 : index to vector<1x1xindex>
      %51 = vector.broadcast %50 : vector<1x1xindex> to vector<1x32xindex>
      %52 = arith.addi %51, %49 : vector<1x32xindex>
      %53 = vector.broadcast %45 : index to vector<1x1xindex>
      %cst_11 = arith.constant dense<3> : vector<1x1xindex>
      %54 = arith.divui %53, %cst_11 : vector<1x1xindex>
      %55 = arith.muli %54, %cst_11 : vector<1x1xindex>
      %56 = arith.subi %53, %55 : vector<1x1xindex>
      %57 = vector.broadcast %54 : vector<1x1xindex> to vector<64x1xindex>
      %58 = arith.addi %26, %57 : vector<64x1xindex>
      %cst_12 = arith.constant dense<1> : vector<1x1xindex>
      %59 = vector.broadcast %cst_12 : vector<1x1xindex> to vector<64x1xindex>
      %60 = arith.cmpi sge, %58, %59 : vector<64x1xindex>
      %cst_13 = arith.constant dense<3> : vector<1x1xindex>
      %61 = arith.muli %56, %cst_13 : vector<1x1xindex>
      %62 = vector.broadcast %61 : vector<1x1xindex> to vector<64x1xindex>
      %63 = arith.addi %28, %62 : vector<64x1xindex>
      %cst_14 = arith.constant dense<3> : vector<1x1xindex>
      %64 = vector.broadcast %cst_14 : vector<1x1xindex> to vector<64x1xindex>
      %65 = arith.cmpi sge, %63, %64 : vector<64x1xindex>
      %cst_15 = arith.constant dense<43> : vector<1x1xindex>
      %66 = vector.broadcast %cst_15 : vector<1x1xindex> to vector<64x1xindex>
      %67 = arith.cmpi slt, %63, %66 : vector<64x1xindex>
      %68 = arith.andi %35, %60 : vector<64x1xi1>
      %69 = arith.andi %68, %65 : vector<64x1xi1>
      %70 = arith.andi %69, %67 : vector<64x1xi1>
      %cst_16 = arith.constant dense<-1376> : vector<1x1xindex>
      %71 = vector.broadcast %cst_16 : vector<1x1xindex> to vector<64x1xindex>
      %72 = arith.addi %71, %24 : vector<64x1xindex>
      %cst_17 = arith.constant dense<1280> : vector<1x1xindex>
      %73 = arith.muli %54, %cst_17 : vector<1x1xindex>
      %cst_18 = arith.constant dense<96> : vector<1x1xindex>
      %74 = arith.muli %56, %cst_18 : vector<1x1xindex>
      %75 = arith.addi %73, %74 : vector<1x1xindex>
      %76 = vector.broadcast %75 : vector<1x1xindex> to vector<1x32xindex>
      %77 = arith.addi %76, %52 : vector<1x32xindex>
      %78 = vector.broadcast %72 : vector<64x1xindex> to vector<64x32xindex>
      %79 = vector.broadcast %77 : vector<1x32xindex> to vector<64x32xindex>
      %80 = arith.addi %78, %79 : vector<64x32xindex>
      %81 = vector.broadcast %70 : vector<64x1xi1> to vector<64x32xi1>
      %cst_19 = arith.constant dense<0.000000e+00> : vector<64x32xbf16>
      %82 = vector.gather %reinterpret_cast_2[%c0] [%80], %81, %cst_19 : memref<25600xbf16>, vector<64x32xindex>, vector<64x32xi1>, vector<64x32xbf16> into vector<64x32xbf16>
      %cst_20 = arith.constant 0.000000e+00 : bf16
      %83 = vector.transfer_read %reinterpret_cast_1[%arg4, %10], %cst_20 {in_bounds = [true, true]} : memref<288x128xbf16, strided<[1, 288]>>, vector<32x64xbf16>
      %84 = vector.contract {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %82, %83, %arg5 : vector<64x32xbf16>, vector<32x64xbf16> into vector<64x64xf32>
      scf.yield %84 : vector<64x64xf32>
    }
    %cst_9 = arith.constant 0.000000e+00 : bf16
    %37 = vector.transfer_read %reinterpret_cast_0[%c0, %10], %cst_9 {in_bounds = [true, true]} : memref<1x128xbf16, strided<[0, 1]>>, vector<1x64xbf16>
    %38 = arith.extf %37 : vector<1x64xbf16> to vector<1x64xf32>
    %39 = vector.broadcast %38 : vector<1x64xf32> to vector<64x64xf32>
    %40 = arith.addf %36, %39 : vector<64x64xf32>
    %cst_10 = arith.constant dense<0.000000e+00> : vector<1x1xf32>
    %41 = vector.broadcast %cst_10 : vector<1x1xf32> to vector<64x64xf32>
    %42 = arith.maximumf %40, %41 : vector<64x64xf32>
    %43 = arith.negf %42 : vector<64x64xf32>
    %44 = arith.truncf %43 : vector<64x64xf32> to vector<64x64xbf16>
    vector.transfer_write %44, %reinterpret_cast[%9, %10] {in_bounds = [false, true]} : vector<64x64xbf16>, memref<200x128xbf16, strided<[128, 1]>>
    return
  }
}
