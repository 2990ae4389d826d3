// Programs of rows whose length a call decides have four accesses a thread. Those past the end of a row are left out: a branch for each
// half of them, in which accesses that lie in the row for sure need no predicate.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-distribute)' | FileCheck %s

// CHECK-LABEL: gpu.func @rows
// CHECK: %[[LEFT:.*]] = arith.minui %{{.*}}, %c128{{.*}} : index
// CHECK: %[[ONE:.*]] = arith.cmpi ult, %[[LEFT]], %c33{{.*}} : index
// CHECK: scf.if %[[ONE]] {
// CHECK-COUNT-1: memref.load
// CHECK-NOT: memref.load
// CHECK: } else {
// CHECK: %[[TWO:.*]] = arith.cmpi ult, %[[LEFT]], %c65{{.*}} : index
// CHECK: scf.if %[[TWO]] {
// CHECK-COUNT-1: arith.cmpi ult
// CHECK-NOT: arith.cmpi
// CHECK: memref.load
// CHECK: arith.select
// CHECK: memref.load
// CHECK-NOT: memref.load
// CHECK: } else {
// CHECK-COUNT-2: arith.cmpi ult
// CHECK-NOT: arith.cmpi
// CHECK-COUNT-4: memref.load
// CHECK-NOT: memref.load
// CHECK: gpu.return

// What is left of one row alone is no short row, but the end of a long one.
// CHECK-LABEL: gpu.func @one_row
// CHECK-NOT: } else {
// CHECK: gpu.return
func.func private @rows(%x: memref<f32>, %y: memref<f32>, %sizes: memref<3xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 4 : i64, tile.cluster = 1 : i64, tile.grid = "-((-s0~50)//(128))*s1~30", tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["s0~50*s1~30", "-((-s0~50)//(128))", "s0~50"], tile.teams = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64} {
  %c2 = arith.constant 2 : index
  %0 = memref.load %sizes[%c2] : memref<3xi32>
  %length = arith.index_cast %0 : i32 to index
  %c1 = arith.constant 1 : index
  %1 = memref.load %sizes[%c1] : memref<3xi32>
  %parts = arith.index_cast %1 : i32 to index
  %c0 = arith.constant 0 : index
  %2 = memref.load %sizes[%c0] : memref<3xi32>
  %all = arith.index_cast %2 : i32 to index
  %program = "tile.program_id"() : () -> index
  %from = memref.reinterpret_cast %x to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %to = memref.reinterpret_cast %y to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %part = arith.remui %program, %parts : index
  %row = arith.divui %program, %parts : index
  %c128 = arith.constant 128 : index
  %start = arith.muli %part, %c128 : index
  %left = arith.subi %length, %start : index
  %count = arith.minui %left, %c128 : index
  %mask = vector.create_mask %count : vector<128xi1>
  %before = arith.muli %row, %length : index
  %at = arith.addi %before, %start : index
  %zero = arith.constant 0.0 : f32
  %a = vector.transfer_read %from[%at], %zero, %mask {in_bounds = [true]} : memref<?xf32>, vector<128xf32>
  %b = math.absf %a : vector<128xf32>
  vector.transfer_write %b, %to[%at], %mask {in_bounds = [true]} : vector<128xf32>, memref<?xf32>
  return
}

func.func private @one_row(%x: memref<f32>, %y: memref<f32>, %sizes: memref<1xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 4 : i64, tile.cluster = 1 : i64, tile.grid = "-((-s0~50)//(128))", tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["s0~50"], tile.teams = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64} {
  %c0 = arith.constant 0 : index
  %0 = memref.load %sizes[%c0] : memref<1xi32>
  %length = arith.index_cast %0 : i32 to index
  %program = "tile.program_id"() : () -> index
  %from = memref.reinterpret_cast %x to offset: [0], sizes: [%length], strides: [1] : memref<f32> to memref<?xf32>
  %to = memref.reinterpret_cast %y to offset: [0], sizes: [%length], strides: [1] : memref<f32> to memref<?xf32>
  %c128 = arith.constant 128 : index
  %start = arith.muli %program, %c128 : index
  %left = arith.subi %length, %start : index
  %count = arith.minui %left, %c128 : index
  %mask = vector.create_mask %count : vector<128xi1>
  %zero = arith.constant 0.0 : f32
  %a = vector.transfer_read %from[%start], %zero, %mask {in_bounds = [true]} : memref<?xf32>, vector<128xf32>
  %b = math.absf %a : vector<128xf32>
  vector.transfer_write %b, %to[%start], %mask {in_bounds = [true]} : vector<128xf32>, memref<?xf32>
  return
}
