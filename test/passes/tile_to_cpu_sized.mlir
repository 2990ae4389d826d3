// Memory of symbolic shape arrives as a pointer to its first element, the values of sizes as memory that is read only.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-tile-to-cpu)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math)' | FileCheck %s --check-prefix=MATH

// CHECK-LABEL: func.func @logs(
// CHECK: llvm.getelementptr %{{.*}}[2]
// CHECK: call @logs.body(
// CHECK-LABEL: func.func private @logs.body(
// CHECK-SAME: %arg0: memref<f32> {llvm.noalias, llvm.readonly}, %arg1: memref<f32> {llvm.noalias}, %[[SIZES:.*]]: memref<1xi64> {llvm.noalias, llvm.readonly}, %[[LO:.*]]: index, %[[HI:.*]]: index)
// CHECK-NOT: tile.
// CHECK: scf.for %[[P:.*]] = %[[LO]] to %[[HI]]
// CHECK: %[[LOADED:.*]] = memref.load %[[SIZES]]
// CHECK: %[[N:.*]] = arith.index_cast %[[LOADED]] : i64 to index
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [%[[N]]]
// CHECK: arith.muli %[[P]]

// Both the loop of whole vectors and the masked rest compute it.
// MATH-LABEL: func.func private @logs
// MATH-NOT: math.log1p
// MATH: scf.for
// MATH: math.fma
// MATH: scf.for
// MATH: vector.create_mask
// MATH: math.fma
func.func private @logs(%arg0: memref<f32>, %arg1: memref<f32>, %arg2: memref<1xi64>) attributes {tile.bytes = "8*s0~800", tile.flops = "12*s0~800", tile.grid = "-((-s0~800)//(8192))", tile.outputs = 1 : i64, tile.sizes = ["s0~800"]} {
  %c0 = arith.constant 0 : index
  %0 = memref.load %arg2[%c0] : memref<1xi64>
  %1 = arith.index_cast %0 : i64 to index
  %2 = "tile.program_id"() : () -> index
  %reinterpret_cast = memref.reinterpret_cast %arg0 to offset: [0], sizes: [%1], strides: [1] : memref<f32> to memref<?xf32>
  %reinterpret_cast_0 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [%1], strides: [1] : memref<f32> to memref<?xf32>
  %c8192 = arith.constant 8192 : index
  %3 = arith.muli %2, %c8192 : index
  %4 = arith.subi %1, %3 : index
  %5 = arith.minui %4, %c8192 : index
  %c0_1 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %6 = arith.remui %5, %c64 : index
  %7 = arith.subi %5, %6 : index
  %cst = arith.constant 0.000000e+00 : f32
  scf.for %arg3 = %c0_1 to %7 step %c64 {
    %8 = arith.addi %3, %arg3 : index
    %9 = vector.transfer_read %reinterpret_cast[%8], %cst {in_bounds = [true]} : memref<?xf32>, vector<64xf32>
    %10 = math.log1p %9 : vector<64xf32>
    vector.transfer_write %10, %reinterpret_cast_0[%8] {in_bounds = [true]} : vector<64xf32>, memref<?xf32>
  }
  scf.for %arg3 = %7 to %5 step %c64 {
    %8 = arith.subi %5, %arg3 : index
    %9 = vector.create_mask %8 : vector<64xi1>
    %10 = arith.addi %3, %arg3 : index
    %11 = vector.transfer_read %reinterpret_cast[%10], %cst, %9 {in_bounds = [true]} : memref<?xf32>, vector<64xf32>
    %12 = math.log1p %11 : vector<64xf32>
    vector.transfer_write %12, %reinterpret_cast_0[%10], %9 {in_bounds = [true]} : vector<64xf32>, memref<?xf32>
  }
  return
}
