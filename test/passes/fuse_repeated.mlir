// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=0})' | FileCheck %s --check-prefix=STORED

// Sums along rows and along columns are two kernels. Both compute the error function, which takes less time than its memory.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = "graph.group"(%arg0) ({
// CHECK: math.erf
// CHECK: }) {{.*}} : (tensor<1024x4096xf32>) -> tensor<1024xf32>
// CHECK: %[[COLUMNS:.*]] = "graph.group"(%arg0) ({
// CHECK: math.erf
// CHECK: }) {{.*}} : (tensor<1024x4096xf32>) -> tensor<4096xf32>
// CHECK: return %[[ROWS]], %[[COLUMNS]]
// STORED: -> (tensor<1024x4096xf32>, tensor<1024xf32>)
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<1024x4096xf32>) -> (tensor<1024xf32>, tensor<4096xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x4096xf32>
  %l = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1024x4096xf32>) outs(%e : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.erf %a : f32
    linalg.yield %r : f32
  } -> tensor<1024x4096xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%l : tensor<1024x4096xf32>) outs(%e : tensor<1024x4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = math.sqrt %a : f32
    linalg.yield %r : f32
  } -> tensor<1024x4096xf32>
  %e0 = tensor.empty() : tensor<1024xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1024xf32>) -> tensor<1024xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%l : tensor<1024x4096xf32>) outs(%f0 : tensor<1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<1024xf32>
  %e1 = tensor.empty() : tensor<4096xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<4096xf32>) -> tensor<4096xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<1024x4096xf32>) outs(%f1 : tensor<4096xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<4096xf32>
  return %0, %1 : tensor<1024xf32>, tensor<4096xf32>
}
