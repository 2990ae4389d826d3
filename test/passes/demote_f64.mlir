// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-demote-f64,lamina-dce)' | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>

// A variance as torch-mlir computes it: f32 in, f32 out, f64 between. Constants are rounded once.
// CHECK-LABEL: func.func @variance
// CHECK-NOT: f64
// CHECK: arith.constant 7.000000e+00 : f32
// CHECK-NOT: f64
// CHECK: iterator_types = ["reduction"]
// CHECK: arith.addf {{.*}} : f32
// CHECK-NOT: arith.truncf
// CHECK-NOT: arith.extf
// CHECK: return %{{.*}} : tensor<f32>
func.func @variance(%x: tensor<8xf32>) -> tensor<f32> {
  %zero = arith.constant 0.0 : f64
  %seven = arith.constant 7.0 : f64
  %e = tensor.empty() : tensor<8xf64>
  %f = tensor.empty() : tensor<f64>
  %g = tensor.empty() : tensor<f32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf64>) {
  ^bb0(%a: f32, %out: f64):
    %v = arith.extf %a : f32 to f64
    %w = arith.mulf %v, %v : f64
    linalg.yield %w : f64
  } -> tensor<8xf64>
  %1 = linalg.fill ins(%zero : f64) outs(%f : tensor<f64>) -> tensor<f64>
  %2 = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%0 : tensor<8xf64>) outs(%1 : tensor<f64>) {
  ^bb0(%a: f64, %out: f64):
    %v = arith.addf %a, %out : f64
    linalg.yield %v : f64
  } -> tensor<f64>
  %3 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%2 : tensor<f64>) outs(%g : tensor<f32>) {
  ^bb0(%a: f64, %out: f32):
    %v = arith.divf %a, %seven : f64
    %w = arith.truncf %v : f64 to f32
    linalg.yield %w : f32
  } -> tensor<f32>
  return %3 : tensor<f32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// The scalar of `x * 0.1` in half precision: f32 stays between.
// CHECK-LABEL: func.func @half
// CHECK: %[[C:.*]] = arith.constant 1.000000e-01 : f32
// CHECK: %[[A:.*]] = arith.extf %{{.*}} : bf16 to f32
// CHECK: %[[M:.*]] = arith.mulf %[[A]], %[[C]] : f32
// CHECK: arith.truncf %[[M]] : f32 to bf16
func.func @half(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %c = arith.constant 1.0e-01 : f64
  %e = tensor.empty() : tensor<8xbf16>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xbf16>) outs(%e : tensor<8xbf16>) {
  ^bb0(%a: bf16, %out: bf16):
    %v = arith.extf %a : bf16 to f64
    %w = arith.mulf %v, %c : f64
    %u = arith.truncf %w : f64 to bf16
    linalg.yield %u : bf16
  } -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// -----

#id = affine_map<(d0) -> (d0)>

// f64 that the model asked for, f64 between integers, and a constant that has no f32: all stay. A lone constant does not.
// CHECK-LABEL: func.func @stays
// CHECK: arith.mulf {{.*}} : f64
// CHECK: arith.sitofp {{.*}} : i64 to f64
// CHECK: arith.divf {{.*}} : f64
// CHECK: arith.mulf {{.*}} : f64
// CHECK: arith.addf %{{.*}}, %[[C:.*]] : f32
// CHECK-NOT: arith.truncf %[[C]]
func.func @stays(%x: tensor<8xf64>, %i: tensor<8xi64>, %y: tensor<8xf32>) -> (tensor<8xf64>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>) {
  %c = arith.constant 3.0 : f64
  %huge = arith.constant 1.0e+300 : f64
  %tenth = arith.constant 1.0e-01 : f64
  %e = tensor.empty() : tensor<8xf64>
  %f = tensor.empty() : tensor<8xi64>
  %g = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf64>) outs(%e : tensor<8xf64>) {
  ^bb0(%a: f64, %out: f64):
    %v = arith.mulf %a, %c : f64
    linalg.yield %v : f64
  } -> tensor<8xf64>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%i : tensor<8xi64>) outs(%f : tensor<8xi64>) {
  ^bb0(%a: i64, %out: i64):
    %v = arith.sitofp %a : i64 to f64
    %w = arith.divf %v, %c : f64
    %u = math.floor %w : f64
    %t = arith.fptosi %u : f64 to i64
    linalg.yield %t : i64
  } -> tensor<8xi64>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%g : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.extf %a : f32 to f64
    %w = arith.mulf %v, %huge : f64
    %u = arith.truncf %w : f64 to f32
    linalg.yield %u : f32
  } -> tensor<8xf32>
  %3 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%y : tensor<8xf32>) outs(%g : tensor<8xf32>) {
  ^bb0(%a: f32, %out: f32):
    %v = arith.truncf %tenth : f64 to f32
    %w = arith.addf %a, %v : f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<8xf64>, tensor<8xi64>, tensor<8xf32>, tensor<8xf32>
}

// -----

#id = affine_map<(d0) -> (d0)>

// What the model makes f64 passes through a call: it stays, with what flows into it and from it, and the call goes.
// CHECK-LABEL: func.func @asked
// CHECK-NOT: call
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.mulf %{{.*}} : f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK-NOT: func.func private
func.func @asked(%x: tensor<8xf32>) -> tensor<8xf32> {
  %e = tensor.empty() : tensor<8xf64>
  %f = tensor.empty() : tensor<8xf32>
  %0 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%e : tensor<8xf64>) {
  ^bb0(%a: f32, %out: f64):
    %v = arith.extf %a : f32 to f64
    linalg.yield %v : f64
  } -> tensor<8xf64>
  %1 = call @f64_0(%0) : (tensor<8xf64>) -> tensor<8xf64>
  %2 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%1 : tensor<8xf64>) outs(%f : tensor<8xf32>) {
  ^bb0(%a: f64, %out: f32):
    %v = arith.mulf %a, %a : f64
    %w = arith.truncf %v : f64 to f32
    linalg.yield %w : f32
  } -> tensor<8xf32>
  return %2 : tensor<8xf32>
}
func.func private @f64_0(tensor<8xf64>) -> tensor<8xf64> attributes {graph.f64}
