// A scan's blocks: prefixes by shuffles, and the carry, which joins them last.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-tile-to-cpu)' | FileCheck %s

// CHECK: iter_args(%[[CARRY:.*]] = %{{.*}}) -> (f64)
// CHECK-COUNT-4: vector.shuffle
// CHECK: %[[BLOCK:.*]] = arith.addf
// CHECK: %[[LAST:.*]] = vector.extract %[[BLOCK]][15]
// CHECK: %[[START:.*]] = vector.broadcast %[[CARRY]]
// CHECK: arith.addf %[[START]], %[[BLOCK]]
// CHECK: %[[NEXT:.*]] = arith.addf %[[CARRY]], %[[LAST]]
// CHECK: scf.yield %[[NEXT]]
func.func @running(%x: memref<160xf64>, %o: memref<160xf64>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c160 = arith.constant 160 : index
  %zero = arith.constant 0.0 : f64
  %end = scf.for %i = %c0 to %c160 step %c16 iter_args(%carry = %zero) -> (f64) {
    %a = vector.transfer_read %x[%i], %zero {in_bounds = [true]} : memref<160xf64>, vector<16xf64>
    %s:2 = "tile.scan"(%a, %carry) {combine = "arith.addf"} : (vector<16xf64>, f64) -> (vector<16xf64>, f64)
    vector.transfer_write %s#0, %o[%i] {in_bounds = [true]} : vector<16xf64>, memref<160xf64>
    scf.yield %s#1 : f64
  }
  return
}

// -----

// A recurrence: pairs of factors and sums by shuffles, two for each distance.
// CHECK-LABEL: func.func private @recurrence
// CHECK-COUNT-4: vector.shuffle
// CHECK-NOT: vector.shuffle
// CHECK: %[[LAST:.*]] = vector.extract %[[FACTORS:.*]][3]
// CHECK: arith.mulf %[[LAST]], %{{.*}} : f64
// CHECK: %[[START:.*]] = vector.broadcast
// CHECK: arith.mulf %[[FACTORS]], %[[START]]
func.func @recurrence(%x: memref<4xf64>, %d: memref<4xf64>, %o: memref<4xf64>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f64
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4xf64>, vector<4xf64>
  %b = vector.transfer_read %d[%c0], %zero {in_bounds = [true]} : memref<4xf64>, vector<4xf64>
  %s:2 = "tile.recurrence"(%a, %b, %zero) : (vector<4xf64>, vector<4xf64>, f64) -> (vector<4xf64>, f64)
  vector.transfer_write %s#0, %o[%c0] {in_bounds = [true]} : vector<4xf64>, memref<4xf64>
  return
}

// -----

// A sort of four lanes: neighbors, pairs from both ends, neighbors; the lane of a pair whose number is less gets the lesser element.
// CHECK-LABEL: func.func private @sort
// CHECK: vector.shuffle %[[X:.*]], %[[X]] [1, 0, 3, 2]
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 5, 2, 7]
// CHECK: vector.shuffle %[[Y:.*]], %[[Y]] [3, 2, 1, 0]
// CHECK: vector.shuffle %{{.*}}, %{{.*}} [0, 1, 6, 7]
// CHECK: vector.shuffle %[[Z:.*]], %[[Z]] [1, 0, 3, 2]
// CHECK: %[[SORTED:.*]] = vector.shuffle %{{.*}}, %{{.*}} [0, 5, 2, 7]
// CHECK: vector.transfer_write %[[SORTED]]
func.func @sort(%x: memref<4xi64>, %o: memref<4xi64>) attributes {tile.grid = 1 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %a = vector.transfer_read %x[%c0], %zero {in_bounds = [true]} : memref<4xi64>, vector<4xi64>
  %s = "tile.sort"(%a) : (vector<4xi64>) -> vector<4xi64>
  vector.transfer_write %s, %o[%c0] {in_bounds = [true]} : vector<4xi64>, memref<4xi64>
  return
}
