// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math)' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-expand-math{ldexp=true})' | FileCheck %s --check-prefix=LDEXP

// Vectors: rounding to an integer by addition, a polynomial, two powers of two; with ldexp one instruction instead of them. Where the
// result is 0, the exponential of 0 is scaled: denormals take long.
// CHECK-LABEL: func.func @exp
// CHECK-NOT: math.exp
// CHECK: math.fma %{{.*}}, %{{.*}}, %{{.*}} : vector<64xf32>
// CHECK-NOT: llvm.call_intrinsic
// CHECK: arith.shrsi
// CHECK: arith.bitcast %{{.*}} : vector<64xi32> to vector<64xf32>
// CHECK: return %{{.*}} : vector<64xf32>
// LDEXP-LABEL: func.func @exp
// LDEXP-DAG: %[[ZERO:.*]] = arith.constant dense<0.000000e+00>
// LDEXP-DAG: %[[VANISHES:.*]] = arith.cmpf ogt, %{{.*}}, %arg0
// LDEXP: arith.select %[[VANISHES]], %[[ZERO]], %{{.*}}
// LDEXP-NOT: arith.shrsi
// LDEXP: %[[SCALED:.*]] = llvm.call_intrinsic "llvm.ldexp"({{.*}}) : (vector<64xf32>, vector<64xi32>) -> vector<64xf32>
// LDEXP: arith.select %[[VANISHES]], %[[ZERO]], %[[SCALED]]
func.func @exp(%x: vector<64xf32>) -> vector<64xf32> {
  %y = math.exp %x : vector<64xf32>
  return %y : vector<64xf32>
}

// Scalars and vectors of rank 2 take the same way.
// CHECK-LABEL: func.func @shapes
// CHECK-NOT: math.{{(log|tanh)}}
// CHECK: math.fma %{{.*}} : f32
// CHECK: math.fma %{{.*}} : vector<4x16xf32>
func.func @shapes(%x: f32, %y: vector<4x16xf32>) -> (f32, vector<4x16xf32>) {
  %a = math.log %x : f32
  %b = math.tanh %y : vector<4x16xf32>
  return %a, %b : f32, vector<4x16xf32>
}

// Half types compute in f32.
// CHECK-LABEL: func.func @half
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK: %[[Y:.*]] = math.copysign %{{.*}} : vector<16xf32>
// CHECK: arith.truncf %[[Y]] : vector<16xf32> to vector<16xbf16>
func.func @half(%x: vector<16xbf16>) -> vector<16xbf16> {
  %y = math.erf %x : vector<16xbf16>
  return %y : vector<16xbf16>
}

// The reduction for large angles runs only when a lane needs it.
// CHECK-LABEL: func.func @sin
// CHECK: %[[ANY:.*]] = vector.reduction <or>, %{{.*}} : vector<16xi1> into i1
// CHECK: scf.if %[[ANY]]
// CHECK: arith.muli %{{.*}} : vector<16xi64>
// CHECK: } else {
func.func @sin(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.sin %x : vector<16xf32>
  return %y : vector<16xf32>
}

// Of f64 some functions are left to the C library.
// CHECK-LABEL: func.func @double
// CHECK-NOT: math.exp
// CHECK: math.fma %{{.*}} : vector<8xf64>
// CHECK: math.sin %{{.*}} : vector<8xf64>
func.func @double(%x: vector<8xf64>) -> vector<8xf64> {
  %y = math.exp %x : vector<8xf64>
  %z = math.sin %y : vector<8xf64>
  return %z : vector<8xf64>
}

// Integer powers by squaring; tests that have no lowering on vectors.
// CHECK-LABEL: func.func @others
// CHECK: scf.for
// CHECK: arith.muli %{{.*}} : vector<4xi32>
// CHECK: %[[A:.*]] = math.absf
// CHECK: arith.cmpf oeq, %[[A]], %{{.*}} : vector<4xf32>
func.func @others(%n: vector<4xi32>, %x: vector<4xf32>) -> (vector<4xi32>, vector<4xi1>) {
  %p = math.ipowi %n, %n : vector<4xi32>
  %i = math.isinf %x : vector<4xf32>
  return %p, %i : vector<4xi32>, vector<4xi1>
}

// A remainder is a loop in f64, which all lanes of a vector take together.
// CHECK-LABEL: func.func @remainder
// CHECK-NOT: arith.remf
// CHECK: scf.while (%{{.*}} = %{{.*}}) : (vector<16xf64>) -> vector<16xf64>
// CHECK: vector.reduction <or>
func.func @remainder(%x: vector<16xf32>, %y: vector<16xf32>) -> vector<16xf32> {
  %a = arith.remf %x, %y : vector<16xf32>
  return %a : vector<16xf32>
}
