// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s

// Sums along rows and along columns are two kernels. Both need y + x * x, and the second one reads x besides: reading y in place of
// the value costs nothing.
// CHECK-LABEL: func.func @main
// CHECK: %[[ROWS:.*]] = "graph.group"(%arg1, %arg0) ({
// CHECK: }) {{.*}} : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<1024xf32>
// CHECK: %[[COLUMNS:.*]] = "graph.group"(%arg1, %arg0) ({
// CHECK: }) {{.*}} : (tensor<1024x512xf32>, tensor<1024x512xf32>) -> tensor<512xf32>
// CHECK: return %[[ROWS]], %[[COLUMNS]]
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<1024x512xf32>, %y: tensor<1024x512xf32>) -> (tensor<1024xf32>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1024x512xf32>
  %s = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%y, %x : tensor<1024x512xf32>, tensor<1024x512xf32>) outs(%e : tensor<1024x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %q = arith.mulf %b, %b : f32
    %r = arith.addf %a, %q : f32
    linalg.yield %r : f32
  } -> tensor<1024x512xf32>
  %t = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %x : tensor<1024x512xf32>, tensor<1024x512xf32>) outs(%e : tensor<1024x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1024x512xf32>
  %e0 = tensor.empty() : tensor<1024xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1024xf32>) -> tensor<1024xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<1024x512xf32>) outs(%f0 : tensor<1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<1024xf32>
  %e1 = tensor.empty() : tensor<512xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<512xf32>) -> tensor<512xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%t : tensor<1024x512xf32>) outs(%f1 : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  return %0, %1 : tensor<1024xf32>, tensor<512xf32>
}

// -----

// Both kernels multiply by a scalar, whose computation does not count for each element.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"({{.*}}) ({
// CHECK: math.sqrt
// CHECK: }) {{.*}} : (tensor<f32>, tensor<1024x512xf32>) -> tensor<1024xf32>
// CHECK: "graph.group"({{.*}}) ({
// CHECK: math.sqrt
// CHECK: }) {{.*}} : (tensor<f32>, tensor<1024x512xf32>) -> tensor<512xf32>
#id = affine_map<(d0, d1) -> (d0, d1)>
#scalar = affine_map<(d0, d1) -> ()>
#none = affine_map<() -> ()>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>
func.func @main(%x: tensor<1024x512xf32>, %k: tensor<f32>) -> (tensor<1024xf32>, tensor<512xf32>) {
  %zero = arith.constant 0.0 : f32
  %es = tensor.empty() : tensor<f32>
  %c = linalg.generic {indexing_maps = [#none, #none], iterator_types = []} ins(%k : tensor<f32>) outs(%es : tensor<f32>) {
  ^bb0(%a: f32, %o: f32):
    %one = arith.constant 1.0 : f32
    %q = math.sqrt %a : f32
    %d = arith.divf %one, %q : f32
    %r = arith.minimumf %d, %one : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  %e = tensor.empty() : tensor<1024x512xf32>
  %s = linalg.generic {indexing_maps = [#id, #scalar, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %c : tensor<1024x512xf32>, tensor<f32>) outs(%e : tensor<1024x512xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<1024x512xf32>
  %e0 = tensor.empty() : tensor<1024xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<1024xf32>) -> tensor<1024xf32>
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%s : tensor<1024x512xf32>) outs(%f0 : tensor<1024xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<1024xf32>
  %e1 = tensor.empty() : tensor<512xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<512xf32>) -> tensor<512xf32>
  %1 = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]} ins(%s : tensor<1024x512xf32>) outs(%f1 : tensor<512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<512xf32>
  return %0, %1 : tensor<1024xf32>, tensor<512xf32>
}

// -----

// Differences of neighbors are computed again for the differences of their neighbors: their reads of one tensor meet in the cache.
// CHECK-LABEL: func.func @differences
// CHECK-COUNT-1: "graph.group"(%arg0) ({
// CHECK-NOT: graph.group
#id = affine_map<(d0, d1) -> (d0, d1)>
func.func @differences(%x: tensor<1024x512xf32>) -> tensor<1024x510xf32> {
  %a = tensor.extract_slice %x[0, 1] [1024, 511] [1, 1] : tensor<1024x512xf32> to tensor<1024x511xf32>
  %b = tensor.extract_slice %x[0, 0] [1024, 511] [1, 1] : tensor<1024x512xf32> to tensor<1024x511xf32>
  %e = tensor.empty() : tensor<1024x511xf32>
  %d = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<1024x511xf32>, tensor<1024x511xf32>) outs(%e : tensor<1024x511xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<1024x511xf32>
  %s = tensor.extract_slice %d[0, 1] [1024, 510] [1, 1] : tensor<1024x511xf32> to tensor<1024x510xf32>
  %t = tensor.extract_slice %d[0, 0] [1024, 510] [1, 1] : tensor<1024x511xf32> to tensor<1024x510xf32>
  %f = tensor.empty() : tensor<1024x510xf32>
  %u = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %t : tensor<1024x510xf32>, tensor<1024x510xf32>) outs(%f : tensor<1024x510xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.subf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<1024x510xf32>
  return %u : tensor<1024x510xf32>
}
