// Loops over rows that teams of threads share, and the exchange of what they have added up.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-distribute)' | FileCheck %s

// Two teams have at most three turns: all loads are in flight before the first result, and there is no loop. A team without a turn
// repeats the last row's load and drops what it computes.
// CHECK-LABEL: gpu.func @few_rows
// CHECK-NOT: scf.for
// CHECK-COUNT-3: arith.minui
// CHECK-NOT: scf.for
// CHECK-COUNT-3: vector.load
// CHECK-NOT: vector.load
// CHECK: arith.addf
// CHECK-NEXT: arith.select
// CHECK-NEXT: arith.addf
// CHECK-NEXT: arith.select
// CHECK-NEXT: arith.addf
// CHECK-NEXT: arith.select
// CHECK-NOT: scf.for
// CHECK: gpu.return
func.func private @few_rows(%x: memref<f32>, %o: memref<64xf32>, %sizes: memref<2xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.grid = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["64*s0~3<=5", "s0~3<=5"], tile.teams = 2 : i64, tile.threads = 32 : i64, tile.vec = 2 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %0 = memref.load %sizes[%c0] : memref<2xi32>
  %all = arith.index_cast %0 : i32 to index
  %1 = memref.load %sizes[%c1] : memref<2xi32>
  %rows = arith.index_cast %1 : i32 to index
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %none = arith.constant dense<0.0> : vector<64xf32>
  %zero = arith.constant 0.0 : f32
  %part = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %none) -> (vector<64xf32>) {
    %at = arith.muli %i, %c64 : index
    %a = vector.transfer_read %flat[%at], %zero {in_bounds = [true]} : memref<?xf32>, vector<64xf32>
    %next = arith.addf %acc, %a : vector<64xf32>
    scf.yield %next : vector<64xf32>
  } {tile.shared}
  %sum = "tile.combine"(%part) {combine = "arith.addf"} : (vector<64xf32>) -> vector<64xf32>
  vector.transfer_write %sum, %o[%c0] {in_bounds = [true]} : vector<64xf32>, memref<64xf32>
  return
}

// -----

// Of any number of rows, eight turns of each team are one iteration. Those that are left over have their loads in flight together, and
// what a turn computes, which is long, is left out from the first that is none.
// CHECK-LABEL: gpu.func @rows_of_any_number
// CHECK: scf.for
// CHECK-COUNT-8: memref.load
// CHECK-NOT: memref.load
// CHECK: scf.yield
// CHECK: scf.for
// CHECK-COUNT-8: memref.load
// CHECK: scf.if
// CHECK-COUNT-6: math.sqrt
// CHECK: scf.if
// CHECK-COUNT-6: math.sqrt
// CHECK: scf.if
func.func private @rows_of_any_number(%x: memref<f32>, %o: memref<64xf32>, %sizes: memref<2xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.grid = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["64*s0~300", "s0~300"], tile.teams = 2 : i64, tile.threads = 64 : i64, tile.vec = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c64 = arith.constant 64 : index
  %0 = memref.load %sizes[%c0] : memref<2xi32>
  %all = arith.index_cast %0 : i32 to index
  %1 = memref.load %sizes[%c1] : memref<2xi32>
  %rows = arith.index_cast %1 : i32 to index
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [%all], strides: [1] : memref<f32> to memref<?xf32>
  %none = arith.constant dense<0.0> : vector<64xf32>
  %zero = arith.constant 0.0 : f32
  %part = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %none) -> (vector<64xf32>) {
    %at = arith.muli %i, %c64 : index
    %a = vector.transfer_read %flat[%at], %zero {in_bounds = [true]} : memref<?xf32>, vector<64xf32>
    %r0 = math.sqrt %a : vector<64xf32>
    %r1 = math.sqrt %r0 : vector<64xf32>
    %r2 = math.sqrt %r1 : vector<64xf32>
    %r3 = math.sqrt %r2 : vector<64xf32>
    %r4 = math.sqrt %r3 : vector<64xf32>
    %r5 = math.sqrt %r4 : vector<64xf32>
    %r6 = arith.addf %r5, %a : vector<64xf32>
    %next = arith.addf %acc, %r6 : vector<64xf32>
    scf.yield %next : vector<64xf32>
  } {tile.shared}
  %sum = "tile.combine"(%part) {combine = "arith.addf"} : (vector<64xf32>) -> vector<64xf32>
  vector.transfer_write %sum, %o[%c0] {in_bounds = [true]} : vector<64xf32>, memref<64xf32>
  return
}

// -----

// A row in pieces, which 16 teams share: each thread adds its own 32 elements before it stores one for the other teams, not 64 KB of all.
// CHECK-LABEL: gpu.func @row_in_pieces
// CHECK-SAME: workgroup(%{{.*}} : memref<512xf32, #gpu.address_space<workgroup>>)
// CHECK-COUNT-7: arith.addf {{.*}} : vector<4xf32>
// CHECK-COUNT-3: arith.addf {{.*}} : f32
// CHECK: memref.store
// CHECK-NOT: memref.store
// CHECK: gpu.barrier
// CHECK-COUNT-5: gpu.shuffle
// CHECK: gpu.return
func.func private @row_in_pieces(%x: memref<4096xf32>, %o: memref<1xf32>, %sizes: memref<1xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 8 : i64, tile.cluster = 1 : i64, tile.grid = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.sizes = ["s0~3"], tile.teams = 16 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %0 = memref.load %sizes[%c0] : memref<1xi32>
  %pieces = arith.index_cast %0 : i32 to index
  %none = arith.constant dense<0.0> : vector<1024xf32>
  %zero = arith.constant 0.0 : f32
  %part = scf.for %i = %c0 to %pieces step %c1 iter_args(%acc = %none) -> (vector<1024xf32>) {
    %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4096xf32>, vector<1024xf32>
    %next = arith.maximumf %acc, %a : vector<1024xf32>
    scf.yield %next : vector<1024xf32>
  } {tile.shared}
  %parts = "tile.combine"(%part) {combine = "arith.addf"} : (vector<1024xf32>) -> vector<1024xf32>
  %sum = vector.reduction <add>, %parts : vector<1024xf32> into f32
  memref.store %sum, %o[%c0] : memref<1xf32>
  return
}

// -----

// Blocks of 16 KB that teams exchange: the second is stored where the first was, once all threads have read it. That of another type
// goes through the 8 KB that are left, in two rounds.
// CHECK-LABEL: gpu.func @three_blocks
// CHECK-SAME: workgroup(%[[A:.*]] : memref<4096xf32, #gpu.address_space<workgroup>>, %[[B:.*]] : memref<2048xi32, #gpu.address_space<workgroup>>)
// CHECK-COUNT-8: memref.store {{.*}}, %[[A]]
// CHECK: gpu.barrier
// CHECK-COUNT-128: memref.load %[[A]]
// CHECK: gpu.barrier
// CHECK-COUNT-8: memref.store {{.*}}, %[[A]]
// CHECK: gpu.barrier
// CHECK-COUNT-128: memref.load %[[A]]
// CHECK-NOT: gpu.barrier
// CHECK-COUNT-4: memref.store {{.*}}, %[[B]]
// CHECK: gpu.barrier
// CHECK-COUNT-64: memref.load %[[B]]
// CHECK: gpu.barrier
// CHECK-COUNT-4: memref.store {{.*}}, %[[B]]
// CHECK: gpu.barrier
// CHECK-COUNT-64: memref.load %[[B]]
// CHECK: gpu.return
func.func private @three_blocks(%x: memref<4096xf32>, %i: memref<256xi32>, %o: memref<512xf32>, %p: memref<256xi32>) attributes {tile.align = array<i64: 16, 16, 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.grid = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.teams = 16 : i64, tile.threads = 32 : i64, tile.vec = 8 : i64} {
  %c0 = arith.constant 0 : index
  %c256 = arith.constant 256 : index
  %zero = arith.constant 0.0 : f32
  %none = arith.constant 0 : i32
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4096xf32>, vector<256xf32>
  %b = vector.transfer_read %x[%c256], %zero {in_bounds = [true]} : memref<4096xf32>, vector<256xf32>
  %c = vector.transfer_read %i[%c0], %none {in_bounds = [true]} : memref<256xi32>, vector<256xi32>
  %0 = "tile.combine"(%a) {combine = "arith.addf"} : (vector<256xf32>) -> vector<256xf32>
  %1 = "tile.combine"(%b) {combine = "arith.maximumf"} : (vector<256xf32>) -> vector<256xf32>
  %2 = "tile.combine"(%c) {combine = "arith.addi"} : (vector<256xi32>) -> vector<256xi32>
  vector.transfer_write %0, %o[%c0] {in_bounds = [true]} : vector<256xf32>, memref<512xf32>
  vector.transfer_write %1, %o[%c256] {in_bounds = [true]} : vector<256xf32>, memref<512xf32>
  vector.transfer_write %2, %p[%c0] {in_bounds = [true]} : vector<256xi32>, memref<256xi32>
  return
}
