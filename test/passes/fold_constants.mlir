// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fold-constants,lamina-dce)' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fold-constants{max-bytes=4},lamina-dce)' | FileCheck %s --check-prefix=SMALL

#id = affine_map<(d0, d1) -> (d0, d1)>

// A causal mask becomes a constant when it is small enough.
// CHECK-LABEL: func.func @mask
// CHECK: arith.constant dense<{{\[\[}}true, false, false], [true, true, false]]> : tensor<2x3xi1>
// CHECK-NOT: linalg.index
// SMALL-LABEL: func.func @mask
// SMALL-NOT: dense
// SMALL: linalg.index
func.func @mask(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %lowest = arith.constant -1.0e+09 : f32
  %e = tensor.empty() : tensor<2x3xi1>
  %f = tensor.empty() : tensor<2x3xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<2x3xi1>) {
  ^bb0(%out: i1):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %c = arith.cmpi sge, %i, %j : index
    linalg.yield %c : i1
  } -> tensor<2x3xi1>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%0, %x : tensor<2x3xi1>, tensor<2x3xf32>) outs(%f : tensor<2x3xf32>) {
  ^bb0(%c: i1, %a: f32, %out: f32):
    %v = arith.select %c, %a, %lowest : f32
    linalg.yield %v : f32
  } -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// An arange stays computed; a splat of any size stays a splat.
// CHECK-LABEL: func.func @cheap
// CHECK-NOT: dense<[
// CHECK-DAG: %[[C:.*]] = arith.constant 7.3890
// CHECK-DAG: linalg.index
// CHECK-DAG: linalg.fill ins(%[[C]] : f32) outs(%{{.*}} : tensor<100000xf32>)
func.func @cheap() -> (tensor<8xi64>, tensor<100000xf32>) {
  %two = arith.constant 2.0 : f32
  %e = tensor.empty() : tensor<8xi64>
  %f = tensor.empty() : tensor<100000xf32>
  %0 = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel"]} outs(%e : tensor<8xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %v = arith.index_cast %i : index to i64
    linalg.yield %v : i64
  } -> tensor<8xi64>
  %1 = linalg.fill ins(%two : f32) outs(%f : tensor<100000xf32>) -> tensor<100000xf32>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%1 : tensor<100000xf32>) outs(%f : tensor<100000xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = math.exp %a : f32
    linalg.yield %v : f32
  } -> tensor<100000xf32>
  return %0, %2 : tensor<8xi64>, tensor<100000xf32>
}

// -----

// The places of windows, 2 * i + j, stay computed: an index that they are is known.
// CHECK-LABEL: func.func @ramps
// CHECK-NOT: dense<[
// CHECK: linalg.index
func.func @ramps() -> tensor<5x3xi64> {
  %two = arith.constant 2 : index
  %e = tensor.empty() : tensor<5x3xi64>
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%e : tensor<5x3xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.muli %i, %two : index
    %s = arith.addi %k, %j : index
    %v = arith.index_cast %s : index to i64
    linalg.yield %v : i64
  } -> tensor<5x3xi64>
  return %0 : tensor<5x3xi64>
}

// -----

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// Views, concatenation, slices and reductions of constants, in the arithmetic of their types (bf16 and i8 here).
// CHECK-LABEL: func.func @operations
// CHECK-DAG: dense<{{\[\[}}1, 3], [2, 4]]> : tensor<2x2xi8>
// CHECK-DAG: dense<-6> : tensor<i8>
// CHECK-DAG: dense<[1.000000e+00, 3.000000e+00]> : tensor<2xbf16>
// CHECK-DAG: dense<[1.000000e+00, 2.000000e+00, 1.000000e+02]> : tensor<3xbf16>
// CHECK-NOT: linalg
func.func @operations() -> (tensor<2x2xi8>, tensor<i8>, tensor<2xbf16>, tensor<3xbf16>) {
  %c = arith.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %d = arith.constant dense<[100, 100, 50]> : tensor<3xi8>
  %b = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xbf16>
  %h = arith.constant dense<[100.0]> : tensor<1xbf16>
  %zero = arith.constant dense<0> : tensor<i8>
  %e = tensor.empty() : tensor<2x2xi8>
  %0 = linalg.transpose ins(%c : tensor<2x2xi8>) outs(%e : tensor<2x2xi8>) permutation = [1, 0]
  %1 = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%d : tensor<3xi8>) outs(%zero : tensor<i8>) {
  ^bb0(%a: i8, %out: i8):
    %v = arith.addi %a, %out : i8
    linalg.yield %v : i8
  } -> tensor<i8>
  %2 = tensor.extract_slice %b[0] [2] [2] : tensor<3xbf16> to tensor<2xbf16>
  %s = tensor.extract_slice %b[0] [2] [1] : tensor<3xbf16> to tensor<2xbf16>
  %3 = tensor.concat dim(0) %s, %h : (tensor<2xbf16>, tensor<1xbf16>) -> tensor<3xbf16>
  return %0, %1, %2, %3 : tensor<2x2xi8>, tensor<i8>, tensor<2xbf16>, tensor<3xbf16>
}

// -----

#id = affine_map<(d0) -> (d0)>

// A weight given as a constant takes part, and what is made of it may be as large as it is; an integer division by zero and
// a failing check are left to the machine.
// CHECK-LABEL: func.func @weights
// CHECK: arith.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
// CHECK-NOT: arith.mulf
// CHECK: arith.divsi
// CHECK: cf.assert
// SMALL-LABEL: func.func @weights
// SMALL: arith.constant dense<[2.000000e+00, 4.000000e+00]> : tensor<2xf32>
func.func @weights(%w: tensor<2xf32> {graph.constant = dense<[1.0, 2.0]> : tensor<2xf32>}) -> (tensor<2xf32>, tensor<2xi64>, tensor<2xi64>) {
  %two = arith.constant 2.0 : f32
  %false = arith.constant false
  %n = arith.constant dense<[1, 2]> : tensor<2xi64>
  %z = arith.constant dense<[0, 1]> : tensor<2xi64>
  %e = tensor.empty() : tensor<2xf32>
  %f = tensor.empty() : tensor<2xi64>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%w : tensor<2xf32>) outs(%e : tensor<2xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.mulf %a, %two : f32
    linalg.yield %v : f32
  } -> tensor<2xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]} ins(%n, %z : tensor<2xi64>, tensor<2xi64>) outs(%f : tensor<2xi64>) {
  ^bb0(%a: i64, %b: i64, %out: i64):
    %v = arith.divsi %a, %b : i64
    linalg.yield %v : i64
  } -> tensor<2xi64>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%n : tensor<2xi64>) outs(%f : tensor<2xi64>) {
  ^bb0(%a: i64, %out: i64):
    cf.assert %false, "index must be smaller than dim size"
    linalg.yield %a : i64
  } -> tensor<2xi64>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xi64>, tensor<2xi64>
}

// -----

// Integers of one bit: true is -1 where they are signed, and sums are modulo 2.
// CHECK-LABEL: func.func @bits
// CHECK-DAG: %[[NONE:.+]] = arith.constant dense<false> : tensor<2xi1>
// CHECK-DAG: %[[FIRST:.+]] = arith.constant dense<[true, false]> : tensor<2xi1>
// CHECK-DAG: %[[EVEN:.+]] = arith.constant dense<false> : tensor<i1>
// CHECK: return %[[NONE]], %[[FIRST]], %[[EVEN]]
// SMALL-LABEL: func.func @bits
func.func @bits() -> (tensor<2xi1>, tensor<2xi1>, tensor<i1>) {
  %x = arith.constant dense<[true, false]> : tensor<2xi1>
  %y = arith.constant dense<false> : tensor<2xi1>
  %both = arith.constant dense<[true, true]> : tensor<2xi1>
  %zero = arith.constant dense<false> : tensor<i1>
  %0 = arith.maxsi %x, %y : tensor<2xi1>
  %1 = arith.minsi %x, %y : tensor<2xi1>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>], iterator_types = ["reduction"]} ins(%both : tensor<2xi1>) outs(%zero : tensor<i1>) {
  ^bb0(%a: i1, %out: i1):
    %v = arith.addi %a, %out : i1
    linalg.yield %v : i1
  } -> tensor<i1>
  return %0, %1, %2 : tensor<2xi1>, tensor<2xi1>, tensor<i1>
}

// -----

// numpy has no fused multiply-add of f64: it would give 0 here, the rounding error of the square.
// CHECK-LABEL: func.func @fused
// CHECK: math.fma
// SMALL-LABEL: func.func @fused
func.func @fused() -> tensor<1xf64> {
  %x = arith.constant dense<1.0000000000000002> : tensor<1xf64>
  %y = arith.constant dense<-1.0000000000000004> : tensor<1xf64>
  %0 = math.fma %x, %x, %y : tensor<1xf64>
  return %0 : tensor<1xf64>
}

// -----

// CHECK-LABEL: func.func @rounded
// CHECK: arith.constant dense<[0.000000e+00, 1.000000e+00, -0.000000e+00, -3.000000e+00, 0x4B000001]> : tensor<5xf32>
// SMALL-LABEL: func.func @rounded
func.func @rounded() -> tensor<5xf32> {
  %x = arith.constant dense<[0.49999997, 0.5, -0.25, -2.5, 8388609.0]> : tensor<5xf32>
  %0 = math.round %x : tensor<5xf32>
  return %0 : tensor<5xf32>
}
