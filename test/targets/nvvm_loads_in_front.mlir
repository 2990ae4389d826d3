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
