// Algebraic rules, within bodies and across generics.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-simplify,lamina-dce)' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-simplify{fast-math=exp-log,mul-zero,div-self,add-zero},lamina-dce)' | FileCheck %s --check-prefix=FAST

#id = affine_map<(d0) -> (d0)>

// x*1, x-0, x/1, -(-x) and x + -0.0 leave nothing behind, each in a generic of its own.
// CHECK-LABEL: func.func @identities
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @identities(%x: tensor<8xf32>) -> tensor<8xf32> {
  %one = arith.constant 1.0 : f32
  %ones = arith.constant dense<1.0> : tensor<8xf32>
  %zero = arith.constant 0.0 : f32
  %minus = arith.constant -0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %ones : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.mulf %b, %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.subf %a, %zero : f32
    %w = arith.divf %v, %one : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%1 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.negf %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%2 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.negf %a : f32
    %w = arith.addf %v, %minus : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// x + 0.0 turns -0.0 into 0.0: it stays, unless fast-math says otherwise or nobody can tell (the relu of the second).
// CHECK-LABEL: func.func @add_zero
// CHECK: arith.addf %{{.*}}, %cst
// CHECK: arith.maximumf
// CHECK-NOT: arith.addf
// CHECK: return
// FAST-LABEL: func.func @add_zero
// FAST-SAME: (%[[X:.*]]: tensor<8xf32>)
// FAST-NOT: arith.addf
// FAST: return %[[X]]
func.func @add_zero(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%1 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %c = arith.cmpf ugt, %a, %zero : f32
    %v = arith.select %c, %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %0, %2 : tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// 1/sqrt makes infinities of both signs of zeros of both signs.
// CHECK-LABEL: func.func @add_zero_below_rsqrt
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %cst
// CHECK: math.rsqrt %[[SUM]]
func.func @add_zero_below_rsqrt(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %three = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.addf %a, %zero : f32
    %r = math.rsqrt %v : f32
    %s = arith.addf %r, %three : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Powers with small or half exponents; another integer exponent becomes a powf.
// CHECK-LABEL: func.func @powers
// CHECK: ^bb0(%[[X:[a-z0-9_]+]]: f32
// CHECK-DAG: %[[X2:.*]] = arith.mulf %[[X]], %[[X]] : f32
// CHECK-DAG: arith.mulf %{{.*}}, %[[X]] : f32
// CHECK-DAG: math.sqrt %[[X]]
// CHECK-DAG: math.rsqrt %[[X]]
// CHECK-DAG: math.powf %[[X]], %{{.*}} : f32
// CHECK-NOT: math.fpowi
// CHECK: linalg.yield
func.func @powers(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %two = arith.constant 2.0 : f32
  %three = arith.constant 3 : i64
  %seven = arith.constant 7 : i64
  %half = arith.constant 0.5 : f32
  %minus = arith.constant -0.5 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0:5 = linalg.generic {indexing_maps = [#id, #id, #id, #id, #id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e, %e, %e, %e, %e : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: f32, %o0: f32, %o1: f32, %o2: f32, %o3: f32, %o4: f32):
    %p = math.powf %a, %two : f32
    %q = math.fpowi %a, %three : f32, i64
    %r = math.powf %a, %half : f32
    %s = math.powf %a, %minus : f32
    %t = math.fpowi %a, %seven : f32, i64
    linalg.yield %p, %q, %r, %s, %t : f32, f32, f32, f32, f32
  } -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
  return %0#0, %0#1, %0#2, %0#3, %0#4 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Powers of half types are products of f32, rounded once.
// CHECK-LABEL: func.func @half_powers
// CHECK: ^bb0(%[[X:[a-z0-9_]+]]: bf16
// CHECK: %[[W:.*]] = arith.extf %[[X]] : bf16 to f32
// CHECK: %[[W2:.*]] = arith.mulf %[[W]], %[[W]] : f32
// CHECK: %[[W3:.*]] = arith.mulf %[[W2]], %[[W]] : f32
// CHECK: arith.truncf %[[W3]] : f32 to bf16
// CHECK: arith.divf %{{.*}}, %{{.*}} : f32
// CHECK-NOT: math.
// CHECK: linalg.yield
func.func @half_powers(%x: tensor<8xbf16>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %three = arith.constant 3 : i64
  %minus = arith.constant -5.0 : bf16
  %e = tensor.empty() : tensor<8xbf16>
  %0:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e, %e : tensor<8xbf16>, tensor<8xbf16>) {
  ^bb0(%a: bf16, %o0: bf16, %o1: bf16):
    %p = math.fpowi %a, %three : bf16, i64
    %q = math.powf %a, %minus : bf16
    linalg.yield %p, %q : bf16, bf16
  } -> (tensor<8xbf16>, tensor<8xbf16>)
  return %0#0, %0#1 : tensor<8xbf16>, tensor<8xbf16>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Division by a power of two is a product; by anything else it stays.
// CHECK-LABEL: func.func @divide
// CHECK-DAG: %[[Q:.*]] = arith.constant 2.500000e-01 : f32
// CHECK-DAG: %[[T:.*]] = arith.constant 3.000000e+00 : f32
// CHECK: %[[A:.*]] = arith.mulf %{{.*}}, %[[Q]]
// CHECK: arith.divf %[[A]], %[[T]]
func.func @divide(%x: tensor<8xf32>) -> tensor<8xf32> {
  %four = arith.constant 4.0 : f32
  %three = arith.constant 3.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.divf %a, %four : f32
    %w = arith.divf %v, %three : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0, 0)>

// x / sqrt(y) with one y for a row: one rsqrt a row, no division.
// CHECK-LABEL: func.func @row_norm
// CHECK: math.rsqrt
// CHECK-NOT: arith.divf
// CHECK: arith.mulf
// CHECK-NOT: math.sqrt
func.func @row_norm(%x: tensor<4x8xf32>, %y: tensor<4x1xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x1xf32>
  %f = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : tensor<4x1xf32>) outs(%e : tensor<4x1xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.sqrt %a : f32
    linalg.yield %v : f32
  } -> tensor<4x1xf32>
  %1 = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %0 : tensor<4x8xf32>, tensor<4x1xf32>) outs(%f : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// A generic reads through a transpose, a broadcast copy and a reshape that adds a unit dimension: its maps say so.
// CHECK-DAG: #[[T:.*]] = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-DAG: #[[ROW:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @views
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>, %[[Y:.*]]: tensor<4xf32>)
// CHECK: linalg.generic {indexing_maps = [#[[T]], #[[ROW]], #[[ID]]]{{.*}} ins(%[[X]], %[[Y]] :
// CHECK-NOT: linalg.generic
func.func @views(%x: tensor<8x4xf32>, %y: tensor<4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %t = linalg.transpose ins(%x : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  %u = tensor.expand_shape %y [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, 0)>, #id], iterator_types = ["parallel", "parallel"]} ins(%u : tensor<4x1xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%t, %b : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %c: f32, %out: f32):
    %v = arith.addf %a, %c : f32
    linalg.yield %v : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An arange is a position where it is used, and a position is not negative.
// CHECK-LABEL: func.func @positions
// CHECK: linalg.generic
// CHECK-NOT: ins(
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK-NOT: arith.cmpi
// CHECK: tensor.extract %{{.*}}[%[[I]]]
func.func @positions(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0 : i64
  %eight = arith.constant 8 : i64
  %e = tensor.empty() : tensor<8xi64>
  %f = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<8xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %v = arith.index_cast %i : index to i64
    linalg.yield %v : i64
  } -> tensor<8xi64>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xi64>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: i64, %out: f32):
    %c = arith.cmpi slt, %a, %zero : i64
    %b = arith.addi %a, %eight : i64
    %d = arith.select %c, %b, %a : i64
    %g = arith.index_cast %d : i64 to index
    %v = tensor.extract %x[%g] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Indices from a table of constants: their checks are decided, the read needs none of its own, and the table has 32 bits.
// CHECK-LABEL: func.func @known_indices
// CHECK: arith.constant dense<[0, 0, 7, 3]> : tensor<4xi32>
// CHECK-NOT: cf.assert
// CHECK-NOT: arith.select
// CHECK: arith.index_cast %{{.*}} : i32 to index
// CHECK: tensor.extract {{.*}} {graph.checked}
// CHECK: return
func.func @known_indices(%x: tensor<8xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0 : i64
  %eight = arith.constant 8 : i64
  %n = arith.constant 8 : index
  %t = arith.constant dense<[0, 0, 7, 3]> : tensor<4xi64>
  %e = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i64, %out: f32):
    %c = arith.cmpi slt, %a, %zero : i64
    %b = arith.addi %a, %eight : i64
    %d = arith.select %c, %b, %a : i64
    %g = arith.index_cast %d : i64 to index
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "index out of range for a dimension of size 8"
    %v = tensor.extract %x[%g] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// One index past the end: the check stays.
// CHECK-LABEL: func.func @an_index_too_large
// CHECK: cf.assert
// CHECK-NOT: graph.checked
// CHECK: return
func.func @an_index_too_large(%x: tensor<8xf32>) -> tensor<4xf32> {
  %n = arith.constant 8 : index
  %t = arith.constant dense<[0, 0, 8, 3]> : tensor<4xi64>
  %e = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%t : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i64, %out: f32):
    %g = arith.index_cast %a : i64 to index
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "index out of range for a dimension of size 8"
    %v = tensor.extract %x[%g] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An index that is clamped is inside, whatever it is; so is a position that arithmetic keeps there.
// CHECK-LABEL: func.func @clamped_indices
// CHECK-NOT: cf.assert
// CHECK: tensor.extract {{.*}} {graph.checked}
// CHECK-NOT: cf.assert
// CHECK: tensor.extract {{.*}} {graph.checked}
// CHECK: return
func.func @clamped_indices(%x: tensor<8xf32>, %i: tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant 0 : i64
  %seven = arith.constant 7 : i64
  %two = arith.constant 2 : index
  %n = arith.constant 8 : index
  %e = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<4xi64>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: i64, %out: f32):
    %low = arith.maxsi %a, %zero : i64
    %b = arith.minsi %low, %seven : i64
    %g = arith.index_cast %b : i64 to index
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "index out of range for a dimension of size 8"
    %v = tensor.extract %x[%g] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<4xf32>) {
  ^bb0(%out: f32):
    %p = linalg.index 0 : index
    %g = arith.muli %p, %two : index
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "index out of range for a dimension of size 8"
    %v = tensor.extract %x[%g] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A relu of a relu, written as torch-mlir does; casts there and back; torch-mlir's check against 1/0.
// CHECK-LABEL: func.func @relu_casts
// CHECK: arith.maximumf
// CHECK-NOT: arith.maximumf
// CHECK-NOT: arith.extf
// CHECK-NOT: cf.assert
// CHECK: return
func.func @relu_casts(%x: tensor<8xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %c = arith.cmpf ugt, %a, %zero : f32
    %v = arith.select %c, %a, %zero : f32
    %w = arith.extf %v : f32 to f64
    %u = arith.truncf %w : f64 to f32
    linalg.yield %u : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %n = arith.cmpf one, %a, %zero : f32
    cf.assert %n, "unimplemented: tensor with zero element"
    %c = arith.cmpf ugt, %a, %zero : f32
    %v = arith.select %c, %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Only under their names: exp(log x), x*0, x/x.
// CHECK-LABEL: func.func @relaxed
// CHECK: math.log
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK: arith.divf
// FAST-LABEL: func.func @relaxed
// FAST-SAME: (%[[X:.*]]: tensor<8xf32>)
// FAST-DAG: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// FAST-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// FAST-DAG: %[[Z:.*]] = linalg.fill ins(%[[ZERO]]
// FAST-DAG: %[[O:.*]] = linalg.fill ins(%[[ONE]]
// FAST: return %[[X]], %[[Z]], %[[O]]
func.func @relaxed(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.log %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%0 : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.mulf %a, %zero : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%x, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %v = arith.divf %a, %b : f32
    linalg.yield %v : f32
  } -> tensor<8xf32>
  return %1, %2, %3 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// Floor division of integers, which torch-mlir takes through f64, is one of integers.
// CHECK-LABEL: func.func @floor_division
// CHECK-NOT: f64
// CHECK: arith.floordivsi
func.func @floor_division(%x: tensor<8xi64>) -> tensor<8xi64> {
  %three = arith.constant 3.0 : f64
  %e = tensor.empty() : tensor<8xi64>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xi64>) outs(%e : tensor<8xi64>) {
  ^bb0(%a: i64, %out: i64):
    %f = arith.sitofp %a : i64 to f64
    %q = arith.divf %f, %three : f64
    %g = math.floor %q : f64
    %v = arith.fptosi %g : f64 to i64
    linalg.yield %v : i64
  } -> tensor<8xi64>
  return %0 : tensor<8xi64>
}

// -----

// Upstream's canonicalize, which takes every external call for pure, does not remove those with effects.
// CHECK-LABEL: func.func @effects
// CHECK: "graph.extern"(%{{.*}}) {args = [unit], callee = "aten.rand_like.default", graph.effect, kwargs = {}, reason = "fallback", strides = [array<i64: 1>]}
// CHECK: "graph.extern"({{.*}}callee = "aten._assert_async.msg"
// CHECK-NEXT: return
func.func @effects(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "graph.extern"(%x) {callee = "aten.rand_like.default", reason = "fallback", args = [unit], kwargs = {}, strides = [array<i64: 1>], graph.effect} : (tensor<8xf32>) -> tensor<8xf32>
  "graph.extern"(%x) {callee = "aten._assert_async.msg", reason = "fallback", args = [unit, "no"], kwargs = {}, strides = [], graph.effect} : (tensor<8xf32>) -> ()
  return %x : tensor<8xf32>
}

// -----

// Views that undo each other, and those that do nothing.
// CHECK-LABEL: func.func @no_views
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>)
// CHECK-NEXT: return %[[X]]
func.func @no_views(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x4xf32>
  %f = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.transpose ins(%x : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %1 = linalg.transpose ins(%0 : tensor<8x4xf32>) outs(%f : tensor<4x8xf32>) permutation = [1, 0]
  %2 = tensor.expand_shape %1 [[0], [1, 2]] output_shape [4, 2, 4] : tensor<4x8xf32> into tensor<4x2x4xf32>
  %3 = tensor.collapse_shape %2 [[0], [1, 2]] : tensor<4x2x4xf32> into tensor<4x8xf32>
  %4 = tensor.extract_slice %3[0, 0] [4, 8] [1, 1] : tensor<4x8xf32> to tensor<4x8xf32>
  %5 = tensor.pad %4 low[0, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<4x8xf32> to tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}
