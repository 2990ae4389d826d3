// A mean over a symbolic number of elements, as torch-mlir computes it: the size becomes an f32 where the sum is one.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-demote-f64,lamina-dce)' | FileCheck %s

#id = affine_map<(d0) -> (d0)>
#none = affine_map<(d0) -> ()>
!x = tensor<?xf32, ["s0~8"]>
!w = tensor<?xf64, ["s0~8"]>
// CHECK-LABEL: func.func @mean
// CHECK-NOT: f64
// CHECK: %[[N:.*]] = "graph.size"() {size = "s0~8"}
// CHECK-NOT: f64
// CHECK: arith.addf {{.*}} : f32
// CHECK: %[[I:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: %[[COUNT:.*]] = arith.sitofp %[[I]] : i64 to f32
// CHECK: arith.divf %{{.*}}, %[[COUNT]] : f32
// CHECK-NOT: arith.truncf
func.func @mean(%x: !x) -> tensor<f32> {
  %zero = arith.constant 0.0 : f64
  %n = "graph.size"() {size = "s0~8"} : () -> index
  %e = tensor.empty(%n) : !w
  %f = tensor.empty() : tensor<f64>
  %g = tensor.empty() : tensor<f32>
  %wide = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : !x) outs(%e : !w) {
  ^bb0(%a: f32, %out: f64):
    %v = arith.extf %a : f32 to f64
    linalg.yield %v : f64
  } -> !w
  %init = linalg.fill ins(%zero : f64) outs(%f : tensor<f64>) -> tensor<f64>
  %sum = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction"]} ins(%wide : !w) outs(%init : tensor<f64>) {
  ^bb0(%a: f64, %out: f64):
    %v = arith.addf %a, %out : f64
    linalg.yield %v : f64
  } -> tensor<f64>
  %i = arith.index_cast %n : index to i64
  %count = arith.sitofp %i : i64 to f64
  %mean = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%sum : tensor<f64>) outs(%g : tensor<f32>) {
  ^bb0(%a: f64, %out: f32):
    %v = arith.divf %a, %count : f64
    %w = arith.truncf %v : f64 to f32
    linalg.yield %w : f32
  } -> tensor<f32>
  return %mean : tensor<f32>
}
