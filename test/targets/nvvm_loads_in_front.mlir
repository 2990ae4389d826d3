// LLVM does not move the loads of several rows down past the stores of the rows before them, which a predicate guards: all are in flight
// at once.
// RUN: opt-driver %s --target=nvvm:sm_90a --emit=ptx | FileCheck %s

// CHECK: .entry rows(
// CHECK-COUNT-16: ld.global
// CHECK-NOT: ld.global
// CHECK-COUNT-16: st.global
func.func private @rows(%x: memref<1600xf32>, %y: memref<1600xf32>) attributes {tile.align = array<i64: 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.dependent, tile.grid = 1 : i64, tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 0 : i64, tile.teams = 1 : i64, tile.threads = 32 : i64, tile.vec = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c25 = arith.constant 25 : index
  %c64 = arith.constant 64 : index
  %mask = vector.create_mask %c25 : vector<32xi1>
  %none = arith.constant dense<0.0> : vector<32xf32>
  %zero = arith.constant 0.0 : f32
  %all = scf.for %i = %c0 to %c64 step %c1 iter_args(%acc = %none) -> (vector<32xf32>) {
    %at = arith.muli %i, %c25 : index
    %a = vector.transfer_read %x[%at], %zero, %mask {in_bounds = [true]} : memref<1600xf32>, vector<32xf32>
    %next = arith.addf %acc, %a : vector<32xf32>
    vector.transfer_write %next, %y[%at], %mask {in_bounds = [true]} : vector<32xf32>, memref<1600xf32>
    scf.yield %next : vector<32xf32>
  } {tile.ordered}
  return
}

// Nor into the branch around a turn that a team may not have: the second pass over the rows has what the first has loaded.
// CHECK: .entry passes(
// CHECK-COUNT-4: ld.global
// CHECK: bra
// CHECK-NOT: ld.global
func.func private @passes(%all: memref<f32>, %y: memref<128xf32>, %sizes: memref<1xi32>) attributes {tile.align = array<i64: 16, 16, 16>, tile.chunks = 1 : i64, tile.cluster = 1 : i64, tile.grid = 1 : i64, tile.outputs = 1 : i64, tile.pack = 1 : i64, tile.resident = 2 : i64, tile.sizes = ["s0~12>=1<=16"], tile.teams = 4 : i64, tile.threads = 32 : i64, tile.vec = 4 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c128 = arith.constant 128 : index
  %size = memref.load %sizes[%c0] : memref<1xi32>
  %rows = arith.index_cast %size : i32 to index
  %elements = arith.muli %rows, %c128 : index
  %x = memref.reinterpret_cast %all to offset: [0], sizes: [%elements], strides: [1] : memref<f32> to memref<?xf32>
  %least = arith.constant dense<0xFF800000> : vector<128xf32>
  %none = arith.constant dense<0.0> : vector<128xf32>
  %zero = arith.constant 0.0 : f32
  %parts = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %least) -> (vector<128xf32>) {
    %at = arith.muli %i, %c128 : index
    %a = vector.transfer_read %x[%at], %zero {in_bounds = [true]} : memref<?xf32>, vector<128xf32>
    %next = arith.maximumf %acc, %a : vector<128xf32>
    scf.yield %next : vector<128xf32>
  } {tile.shared}
  %most = "tile.combine"(%parts) {combine = "arith.maximumf"} : (vector<128xf32>) -> vector<128xf32>
  %sums = scf.for %i = %c0 to %rows step %c1 iter_args(%acc = %none) -> (vector<128xf32>) {
    %at = arith.muli %i, %c128 : index
    %a = vector.transfer_read %x[%at], %zero {in_bounds = [true]} : memref<?xf32>, vector<128xf32>
    %below = arith.subf %a, %most : vector<128xf32>
    %part = math.exp2 %below : vector<128xf32>
    %next = arith.addf %acc, %part : vector<128xf32>
    scf.yield %next : vector<128xf32>
  } {tile.shared}
  %sum = "tile.combine"(%sums) {combine = "arith.addf"} : (vector<128xf32>) -> vector<128xf32>
  vector.transfer_write %sum, %y[%c0] {in_bounds = [true]} : vector<128xf32>, memref<128xf32>
  return
}
