// RUN: opt-driver %s | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(func.func(cse,canonicalize))' | FileCheck %s --check-prefix=CSE
// RUN: opt-driver %S/Inputs/random-wrong.mlir --split-input-file --verify-diagnostics

// Bits are a function of the seed and the position: equal ones merge. Scalars and blocks of lanes.

// CHECK-LABEL: func.func @bits
// CHECK: "random.bits"(%arg0, %arg1) : (i64, index) -> i32
// CHECK: "random.bits"(%{{.*}}, %{{.*}}) : (vector<8xi64>, vector<8xindex>) -> vector<8xi32>

// CSE-LABEL: func.func @bits
// CSE-COUNT-1: (i64, index) -> i32
// CSE-NOT: (i64, index) -> i32
func.func @bits(%seed: i64, %i: index) -> (i32, i32, vector<8xi32>) {
  %a = "random.bits"(%seed, %i) : (i64, index) -> i32
  %b = "random.bits"(%seed, %i) : (i64, index) -> i32
  %seeds = vector.broadcast %seed : i64 to vector<8xi64>
  %at = vector.step : vector<8xindex>
  %c = "random.bits"(%seeds, %at) : (vector<8xi64>, vector<8xindex>) -> vector<8xi32>
  return %a, %b, %c : i32, i32, vector<8xi32>
}
