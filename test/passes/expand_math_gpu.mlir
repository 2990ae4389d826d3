// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-expand-math{target=nvvm})' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-expand-math{target=nvvm})' | opt-driver --split-input-file --pass-pipeline='builtin.module(lamina-expand-math{target=nvvm})' | FileCheck %s

// x log2(e) = n + r: n by clamping and rounding, the hardware's 2**r, times 2**n.
// CHECK-LABEL: func.func @exp
// CHECK: math.fma
// CHECK: arith.maxnumf
// CHECK: arith.minnumf
// CHECK: %[[R:.*]] = math.exp2 %{{.*}} fastmath<afn> : vector<64xf32>
// CHECK: %[[N:.*]] = arith.bitcast %{{.*}} : vector<64xi32> to vector<64xf32>
// CHECK: arith.mulf %[[R]], %[[N]]
// CHECK-NOT: math.exp
func.func @exp(%x: vector<64xf32>) -> vector<64xf32> {
  %y = math.exp %x : vector<64xf32>
  return %y : vector<64xf32>
}

// -----

// tanh takes one exponential and one reciprocal; half types compute in f32.
// CHECK-LABEL: func.func @tanh
// CHECK: arith.extf %{{.*}} : vector<16xbf16> to vector<16xf32>
// CHECK: math.exp2 %{{.*}} fastmath<afn>
// CHECK: arith.divf %{{.*}} fastmath<arcp,afn>
// CHECK: arith.truncf %{{.*}} : vector<16xf32> to vector<16xbf16>
func.func @tanh(%x: vector<16xbf16>) -> vector<16xbf16> {
  %y = math.tanh %x : vector<16xbf16>
  return %y : vector<16xbf16>
}

// -----

// Divisions and roots are the hardware's, unless an integer or a decision is made of them; f64 keeps IEEE's.
// CHECK-LABEL: func.func @quotients
// CHECK: arith.divf %{{.*}} fastmath<afn> : vector<4xf32>
// CHECK: math.rsqrt %{{.*}} fastmath<afn> : vector<4xf32>
// CHECK: %[[D:.*]] = arith.divf %{{[^ ]*}}, %{{[^ ]*}} : vector<4xf32>
// CHECK: math.floor %[[D]]
// CHECK: arith.divf %{{[^ ]*}}, %{{[^ ]*}} : f64
func.func @quotients(%x: vector<4xf32>, %d: f64) -> (vector<4xf32>, vector<4xf32>, f64) {
  %q = arith.divf %x, %x : vector<4xf32>
  %r = math.rsqrt %q : vector<4xf32>
  %w = arith.divf %r, %x : vector<4xf32>
  %i = math.floor %w : vector<4xf32>
  %e = arith.divf %d, %d : f64
  return %r, %i, %e : vector<4xf32>, vector<4xf32>, f64
}

// -----

// Logarithms are polynomials, angles are left to lamina-gpu-to-nvvm.
// CHECK-LABEL: func.func @others
// CHECK-NOT: math.log
// CHECK: math.fma
// CHECK: math.sin %{{.*}} : vector<4xf32>
func.func @others(%x: vector<4xf32>) -> vector<4xf32> {
  %y = math.log %x : vector<4xf32>
  %z = math.sin %y : vector<4xf32>
  return %z : vector<4xf32>
}

// -----

// 1 + exp(y) as a divisor takes a plain reciprocal; where the quotient becomes bf16, so will the plain exponential.
// CHECK-LABEL: func.func @silu
// CHECK-NOT: arith.maxnumf
// CHECK: %[[Y:.*]] = arith.mulf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: %[[E:.*]] = math.exp2 %[[Y]] fastmath<afn> : vector<8xf32>
// CHECK: %[[D:.*]] = arith.addf %[[E]]
// CHECK: arith.divf %{{.*}}, %[[D]] fastmath<arcp,afn> : vector<8xf32>
// CHECK-LABEL: func.func @sigmoid
// CHECK: arith.maxnumf
// CHECK: arith.divf %{{.*}} fastmath<arcp,afn> : vector<8xf32>
func.func @silu(%x: vector<8xf32>, %w: vector<8xf32>) -> vector<8xbf16> {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %n = arith.negf %x : vector<8xf32>
  %e = math.exp %n : vector<8xf32>
  %d = arith.addf %e, %one : vector<8xf32>
  %q = arith.divf %x, %d : vector<8xf32>
  %p = arith.mulf %q, %w : vector<8xf32>
  %t = arith.truncf %p : vector<8xf32> to vector<8xbf16>
  return %t : vector<8xbf16>
}
func.func @sigmoid(%x: vector<8xf32>) -> vector<8xf32> {
  %one = arith.constant dense<1.0> : vector<8xf32>
  %n = arith.negf %x : vector<8xf32>
  %e = math.exp %n : vector<8xf32>
  %d = arith.addf %e, %one : vector<8xf32>
  %q = arith.divf %one, %d : vector<8xf32>
  return %q : vector<8xf32>
}

// -----

// An exponential that is summed up, or added to what may cancel it, is the whole one.
// CHECK-LABEL: func.func @softmax
// CHECK: arith.maxnumf
// CHECK: math.exp2
// CHECK: vector.reduction
// CHECK-NOT: arith.maxnumf
// CHECK: math.exp2
// CHECK-LABEL: func.func @cancels
// CHECK: arith.maxnumf
// CHECK: math.exp2
func.func @softmax(%x: vector<8xf32>) -> vector<8xbf16> {
  %e = math.exp %x : vector<8xf32>
  %s = vector.reduction <add>, %e : vector<8xf32> into f32
  %b = vector.broadcast %s : f32 to vector<8xf32>
  %f = math.exp %x : vector<8xf32>
  %q = arith.divf %f, %b : vector<8xf32>
  %t = arith.truncf %q : vector<8xf32> to vector<8xbf16>
  return %t : vector<8xbf16>
}
func.func @cancels(%x: vector<8xf32>) -> vector<8xbf16> {
  %one = arith.constant dense<-1.0> : vector<8xf32>
  %e = math.exp %x : vector<8xf32>
  %d = arith.addf %e, %one : vector<8xf32>
  %t = arith.truncf %d : vector<8xf32> to vector<8xbf16>
  return %t : vector<8xbf16>
}

// -----

// Where the same expression has to have the same bits everywhere, nothing is an approximation because of what reads it.
// CHECK-LABEL: func.func @consistent
// CHECK: arith.divf %{{.*}}, %{{.*}} : vector<64xf32>
// CHECK: arith.maximumf
func.func @consistent(%x: vector<64xf32>, %y: vector<64xf32>) -> vector<64xf32> attributes {tile.consistent} {
  %q = arith.divf %x, %y : vector<64xf32>
  %m = arith.maximumf %q, %x : vector<64xf32>
  return %m : vector<64xf32>
}
