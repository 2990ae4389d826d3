// A grid that each call decides: programs are packed by four, and threads past the last program, whose number is among the sizes, store
// nothing. Sizes are loaded, and a lane past the end reads element 0.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-distribute)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-distribute,lamina-gpu-to-nvvm)' | FileCheck %s --check-prefix=NVVM
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX

// CHECK: gpu.func @logs(%arg0: memref<f32>, %arg1: memref<f32>, %[[SIZES:.*]]: memref<2xi32>) kernel
// CHECK-SAME: gpu.grid = "-((-s0~800)//(128))", known_block_size = array<i32: 128, 1, 1>
// CHECK: %[[LOADED:.*]] = memref.load %[[SIZES]][%c1{{.*}}]
// CHECK: %[[PROGRAMS:.*]] = arith.index_cast %[[LOADED]] : i32 to index
// CHECK: %[[THERE:.*]] = arith.cmpi ult, %{{.*}}, %[[PROGRAMS]] : index
// CHECK: memref.reinterpret_cast %arg0 to offset: [0], sizes: [%{{.*}}], strides: [1] : memref<f32> to memref<?xf32>
// CHECK: %[[SAFE:.*]] = arith.select %{{.*}}, %{{.*}}, %c0 : index
// CHECK: memref.load %{{.*}}[%[[SAFE]]] : memref<?xf32>
// CHECK: %[[STORES:.*]] = arith.andi %{{.*}}, %[[THERE]] : i1
// CHECK: scf.if %[[STORES]] {
// CHECK: memref.store

// Sizes are passed by value; what the kernel reads is read only.
// NVVM: gpu.func @logs(%arg0: memref<f32> {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull, llvm.readonly}, %arg1: memref<f32> {llvm.align = 16 : i64, llvm.noalias, llvm.nonnull}, %arg2: memref<2xi32> {llvm.align = 4 : i64}) kernel
// NVVM-SAME: lamina.by_value = !llvm.array<2 x i32>
// NVVM-NOT: tile.
// PTX: .entry logs(
// PTX: .param .align 4 .b8 logs_param_2[8]
// PTX: ld.param.b32 %r{{[0-9]+}}, [logs_param_2{{.*}}]
func.func private @logs(%arg0: memref<f32>, %arg1: memref<f32>, %arg2: memref<2xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.bytes = "8*s0~800", tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.flops = "12*s0~800", tile.grid = "-((-s0~800)//(32))", tile.outputs = 1 : i64, tile.pack = 4 : i64, tile.resident = 0 : i64, tile.sizes = ["s0~800", "-((-s0~800)//(32))"], tile.teams = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64} {
  %c1 = arith.constant 1 : index
  %0 = memref.load %arg2[%c1] : memref<2xi32>
  %1 = arith.index_cast %0 : i32 to index
  %c0 = arith.constant 0 : index
  %2 = memref.load %arg2[%c0] : memref<2xi32>
  %3 = arith.index_cast %2 : i32 to index
  %4 = "tile.program_id"() : () -> index
  %reinterpret_cast = memref.reinterpret_cast %arg0 to offset: [0], sizes: [%3], strides: [1] : memref<f32> to memref<?xf32>
  %reinterpret_cast_0 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [%3], strides: [1] : memref<f32> to memref<?xf32>
  %c32 = arith.constant 32 : index
  %5 = arith.muli %4, %c32 : index
  %6 = arith.subi %3, %5 : index
  %7 = arith.minui %6, %c32 : index
  %c0_1 = arith.constant 0 : index
  %8 = arith.subi %7, %c0_1 : index
  %9 = vector.create_mask %8 : vector<32xi1>
  %10 = arith.addi %5, %c0_1 : index
  %cst = arith.constant 0.000000e+00 : f32
  %11 = vector.transfer_read %reinterpret_cast[%10], %cst, %9 {in_bounds = [true]} : memref<?xf32>, vector<32xf32>
  %12 = math.log1p %11 : vector<32xf32>
  vector.transfer_write %12, %reinterpret_cast_0[%10], %9 {in_bounds = [true]} : vector<32xf32>, memref<?xf32>
  return
}
