// The number of a program is divided by symbolic sizes as a product with their reciprocals, which launches pass; quotient and remainder
// take one. Other divisions stay.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-distribute)' | FileCheck %s
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX

// CHECK-LABEL: gpu.func @rows
// CHECK: %[[FOUR:.*]] = arith.muli %block_id_x, %c4{{.*}} : index
// CHECK: %[[NUMBER:.*]] = arith.index_cast %[[FOUR]] : index to i32
// CHECK: %{{.*}}, %[[HIGH:.*]] = arith.mului_extended %[[NUMBER]], %{{.*}} : i32
// CHECK: %[[LARGE:.*]] = arith.index_castui %[[HIGH]] : i32 to index
// CHECK: %[[WHOLE:.*]] = arith.muli %[[LARGE]], %[[PARTS:.*]] : index
// CHECK: %[[REST:.*]] = arith.subi %block_id_x, %[[WHOLE]] : index
// CHECK: %[[OVER:.*]] = arith.cmpi slt, %[[REST]], %c0{{.*}} : index
// CHECK: %[[LESS:.*]] = arith.subi %[[LARGE]], %c1{{.*}} : index
// CHECK: arith.select %[[OVER]], %[[LESS]], %[[LARGE]] : index
// CHECK: %[[MORE:.*]] = arith.addi %[[REST]], %[[PARTS]] : index
// CHECK: arith.select %[[OVER]], %[[MORE]], %[[REST]] : index
// CHECK-NOT: arith.mului_extended
// CHECK: arith.divui %{{.*}}, %[[PARTS]] : index
// CHECK-NOT: arith.remui

// PTX-COUNT-1: div.u32
// PTX-NOT: div.u32
func.func private @rows(%x: memref<f32>, %y: memref<f32>, %sizes: memref<4xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.grid = "-((-s0~50)//(32))*s1~30", tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["s0~50*s1~30", "-((-s0~50)//(32))", "s0~50", "-((-1073741824)//(-((-s0~50)//(32))))"], tile.teams = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64} {
  %c2 = arith.constant 2 : index
  %0 = memref.load %sizes[%c2] : memref<4xi32>
  %length = arith.index_cast %0 : i32 to index
  %c1 = arith.constant 1 : index
  %1 = memref.load %sizes[%c1] : memref<4xi32>
  %parts = arith.index_cast %1 : i32 to index
  %c0 = arith.constant 0 : index
  %2 = memref.load %sizes[%c0] : memref<4xi32>
  %all = arith.index_cast %2 : i32 to index
  %program = "tile.program_id"() : () -> index
  %from = memref.reinterpret_cast %x to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %to = memref.reinterpret_cast %y to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %part = arith.remui %program, %parts : index
  %row = arith.divui %program, %parts : index
  %c32 = arith.constant 32 : index
  %start = arith.muli %part, %c32 : index
  %left = arith.subi %length, %start : index
  %count = arith.minui %left, %c32 : index
  %mask = vector.create_mask %count : vector<32xi1>
  %before = arith.muli %row, %length : index
  %at = arith.addi %before, %start : index
  %other = arith.divui %at, %parts : index
  %zero = arith.constant 0.0 : f32
  %a = vector.transfer_read %from[%other], %zero, %mask {in_bounds = [true]} : memref<?xf32>, vector<32xf32>
  vector.transfer_write %a, %to[%at], %mask {in_bounds = [true]} : vector<32xf32>, memref<?xf32>
  return
}
