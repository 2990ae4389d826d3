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

// -----

// The weights of pairs are stored, and not the sixteen times as many elements that they scale, of which there are two sums.
// CHECK-LABEL: func.func @weights
// CHECK: %[[WEIGHTS:.*]] = "graph.group"(%arg0) ({
// CHECK: math.exp
// CHECK: }) {{.*}} -> tensor<256x512xf32>
// CHECK: "graph.group"(%arg1, %[[WEIGHTS]]) ({
// CHECK: }) {{.*}} -> tensor<256x16xf32>
// CHECK: "graph.group"(%arg1, %[[WEIGHTS]]) ({
// CHECK: }) {{.*}} -> tensor<512x16xf32>
#two = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#pair = affine_map<(d0, d1, d2) -> (d0, d1)>
#first = affine_map<(d0, d1, d2) -> (d0, d2)>
#second = affine_map<(d0, d1, d2) -> (d1, d2)>
func.func @weights(%d: tensor<256x512xf32>, %x: tensor<256x512x16xf32>) -> (tensor<256x16xf32>, tensor<512x16xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x512xf32>
  %w = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<256x512xf32>) outs(%e : tensor<256x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    %q = arith.divf %p, %a : f32
    linalg.yield %q : f32
  } -> tensor<256x512xf32>
  %e3 = tensor.empty() : tensor<256x512x16xf32>
  %v = linalg.generic {indexing_maps = [#all, #pair, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %w : tensor<256x512x16xf32>, tensor<256x512xf32>) outs(%e3 : tensor<256x512x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<256x512x16xf32>
  %e0 = tensor.empty() : tensor<256x16xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<256x16xf32>) -> tensor<256x16xf32>
  %0 = linalg.generic {indexing_maps = [#all, #first], iterator_types = ["parallel", "reduction", "parallel"]} ins(%v : tensor<256x512x16xf32>) outs(%f0 : tensor<256x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<256x16xf32>
  %e1 = tensor.empty() : tensor<512x16xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<512x16xf32>) -> tensor<512x16xf32>
  %1 = linalg.generic {indexing_maps = [#all, #second], iterator_types = ["reduction", "parallel", "parallel"]} ins(%v : tensor<256x512x16xf32>) outs(%f1 : tensor<512x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.addf %o, %a : f32
    linalg.yield %r : f32
  } -> tensor<512x16xf32>
  return %0, %1 : tensor<256x16xf32>, tensor<512x16xf32>
}

// -----

// A table that costs more than the usual value is stored even if only four images read it.
// CHECK-LABEL: func.func @table
// CHECK: %[[TABLE:.*]] = "graph.group"(%arg0) ({
// CHECK: math.sin
// CHECK: "graph.group"(%{{.*}}%[[TABLE]]
#two = affine_map<(d0, d1) -> (d0, d1)>
#image = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#entry = affine_map<(d0, d1, d2) -> (d1, d2)>
func.func @table(%a: tensor<256x256xf32>, %x: tensor<4x256x256xf32>) -> tensor<4x256x256xf32> {
  %e = tensor.empty() : tensor<256x256xf32>
  %t = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<256x256xf32>) outs(%e : tensor<256x256xf32>) {
  ^bb0(%i: f32, %o: f32):
    %s = math.sin %i : f32
    %c = math.cos %i : f32
    %r = arith.mulf %s, %c : f32
    linalg.yield %r : f32
  } -> tensor<256x256xf32>
  %f = tensor.empty() : tensor<4x256x256xf32>
  %u = linalg.generic {indexing_maps = [#image, #entry, #image], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %t : tensor<4x256x256xf32>, tensor<256x256xf32>) outs(%f : tensor<4x256x256xf32>) {
  ^bb0(%i: f32, %j: f32, %o: f32):
    %r = arith.addf %i, %j : f32
    linalg.yield %r : f32
  } -> tensor<4x256x256xf32>
  return %u : tensor<4x256x256xf32>
}

// -----

// An exponential that scales sixteen neighbors is computed for the lanes of a block, by a kernel of its own.
// CHECK-LABEL: func.func @scaled
// CHECK: %[[SCALES:.*]] = "graph.group"(%arg0) ({
// CHECK: math.exp
// CHECK: }) {{.*}} -> tensor<4096x16xf32>
// CHECK: "graph.group"(%arg1, %[[SCALES]]) ({
// CHECK-NOT: math.exp

// One that scales 256 neighbors costs less than storing and reading it.
// CHECK-LABEL: func.func @scaled_long
// CHECK-COUNT-1: "graph.group"
// CHECK-NOT: "graph.group"
#two = affine_map<(d0, d1) -> (d0, d1)>
#all = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#pair = affine_map<(d0, d1, d2) -> (d0, d1)>
#first = affine_map<(d0, d1, d2) -> (d0, d2)>
func.func @scaled(%d: tensor<4096x16xf32>, %x: tensor<4096x16x16xf32>) -> tensor<4096x16xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4096x16xf32>
  %w = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<4096x16xf32>) outs(%e : tensor<4096x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<4096x16xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e : tensor<4096x16xf32>) -> tensor<4096x16xf32>
  %0 = linalg.generic {indexing_maps = [#all, #pair, #first], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %w : tensor<4096x16x16xf32>, tensor<4096x16xf32>) outs(%f0 : tensor<4096x16xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    %s = arith.addf %o, %r : f32
    linalg.yield %s : f32
  } -> tensor<4096x16xf32>
  return %0 : tensor<4096x16xf32>
}
func.func @scaled_long(%d: tensor<256x16xf32>, %x: tensor<256x16x256xf32>) -> tensor<256x256xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<256x16xf32>
  %w = linalg.generic {indexing_maps = [#two, #two], iterator_types = ["parallel", "parallel"]} ins(%d : tensor<256x16xf32>) outs(%e : tensor<256x16xf32>) {
  ^bb0(%a: f32, %o: f32):
    %p = math.exp %a : f32
    linalg.yield %p : f32
  } -> tensor<256x16xf32>
  %e0 = tensor.empty() : tensor<256x256xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<256x256xf32>) -> tensor<256x256xf32>
  %0 = linalg.generic {indexing_maps = [#all, #pair, #first], iterator_types = ["parallel", "reduction", "parallel"]} ins(%x, %w : tensor<256x16x256xf32>, tensor<256x16xf32>) outs(%f0 : tensor<256x256xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    %s = arith.addf %o, %r : f32
    linalg.yield %s : f32
  } -> tensor<256x256xf32>
  return %0 : tensor<256x256xf32>
}
