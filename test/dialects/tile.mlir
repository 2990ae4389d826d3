// RUN: opt-driver %s | FileCheck %s
// RUN: opt-driver %s | opt-driver | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(func.func(cse,canonicalize))' | FileCheck %s --check-prefix=CSE
// RUN: opt-driver %S/Inputs/tile-wrong.mlir --split-input-file --verify-diagnostics

// A program id is pure: equal ones merge. A gather reads memory and a check reports to the runtime: neither is merged or dropped.

// CHECK-LABEL: func.func @embedding
// CHECK-SAME: attributes {tile.bytes = 96 : i64, tile.grid = 2 : i64}
// CHECK: %[[P:.*]] = "tile.program_id"() : () -> index
// CHECK: "tile.check"(%{{.*}}) {message = "index out of range"} : (vector<4xi1>) -> ()
// CHECK: "tile.gather"(%arg0, %{{.*}}, %{{.*}}, %{{.*}}) : (memref<100xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
// CHECK: vector.transfer_write

// CSE-LABEL: func.func @embedding
// CSE-COUNT-1: "tile.program_id"
// CSE-NOT: "tile.program_id"
// CSE: "tile.check"
// CSE: "tile.gather"
func.func @embedding(%table: memref<100xf32>, %index: memref<8xi64>, %out: memref<8xf32>) attributes {tile.grid = 2 : i64, tile.bytes = 96 : i64} {
  %zero = arith.constant 0 : i64
  %c0 = arith.constant 0 : index
  %size = arith.constant dense<100> : vector<4xindex>
  %rest = arith.constant dense<0.0> : vector<4xf32>
  %c4 = arith.constant 4 : index
  %p = "tile.program_id"() : () -> index
  %q = "tile.program_id"() : () -> index
  %start = arith.muli %p, %c4 : index
  %end = arith.muli %q, %c4 : index
  %i = vector.transfer_read %index[%start], %zero {in_bounds = [true]} : memref<8xi64>, vector<4xi64>
  %at = arith.index_cast %i : vector<4xi64> to vector<4xindex>
  %ok = arith.cmpi ult, %at, %size : vector<4xindex>
  "tile.check"(%ok) {message = "index out of range"} : (vector<4xi1>) -> ()
  %v = "tile.gather"(%table, %at, %ok, %rest) : (memref<100xf32>, vector<4xindex>, vector<4xi1>, vector<4xf32>) -> vector<4xf32>
  vector.transfer_write %v, %out[%end] {in_bounds = [true]} : vector<4xf32>, memref<8xf32>
  return
}

// Lanes in runs: read and written where they jump.
// CHECK-LABEL: func.func @runs
// CHECK: "tile.read_runs"(%arg0, %{{.*}}) {along = 1 : i64, jumps = [12], lengths = [4]}
// CHECK: "tile.write_runs"(%{{.*}}, %arg1, %{{.*}}) {jumps = [12], lengths = [4]}
func.func @runs(%x: memref<28xf32>, %o: memref<28xf32>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %yes = arith.constant dense<true> : vector<8xi1>
  %v = "tile.read_runs"(%x, %c0, %c0, %yes) {along = 1 : i64, jumps = [12], lengths = [4]} : (memref<28xf32>, index, index, vector<8xi1>) -> vector<8xf32>
  "tile.write_runs"(%v, %o, %c0, %c0, %yes) {jumps = [12], lengths = [4]} : (vector<8xf32>, memref<28xf32>, index, index, vector<8xi1>) -> ()
  return
}

// CHECK-LABEL: func.func @window
// CHECK: "tile.window"(%{{.*}}, %{{.*}}) {max_low = 3 : i64, min_high = 5 : i64} : (index, index) -> vector<8xi1>
func.func @window(%low: index, %high: index) -> vector<8xi1> {
  %m = "tile.window"(%low, %high) {max_low = 3 : i64, min_high = 5 : i64} : (index, index) -> vector<8xi1>
  return %m : vector<8xi1>
}

// CHECK-LABEL: func.func @scan
// CHECK: "tile.scan"(%arg0, %arg1) {combine = "arith.addf"} : (vector<8xf64>, f64) -> (vector<8xf64>, f64)
// CHECK: "tile.recurrence"(%arg0, %arg0, %arg1) : (vector<8xf64>, vector<8xf64>, f64) -> (vector<8xf64>, f64)
func.func @scan(%x: vector<8xf64>, %carry: f64) -> vector<8xf64> {
  %y, %next = "tile.scan"(%x, %carry) {combine = "arith.addf"} : (vector<8xf64>, f64) -> (vector<8xf64>, f64)
  %z, %last = "tile.recurrence"(%x, %x, %carry) : (vector<8xf64>, vector<8xf64>, f64) -> (vector<8xf64>, f64)
  return %y : vector<8xf64>
}

// CHECK-LABEL: func.func @sort
// CHECK: "tile.sort"(%arg0) : (vector<8xi64>) -> vector<8xi64>
func.func @sort(%x: vector<8xi64>) -> vector<8xi64> {
  %y = "tile.sort"(%x) : (vector<8xi64>) -> vector<8xi64>
  return %y : vector<8xi64>
}
