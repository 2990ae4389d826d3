// What values are computed from that are padded or concatenated is computed where these are, as long as that costs less than memory.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s

#id = affine_map<(n, c, l) -> (n, c, l)>

// A sigmoid, and the gradient of a SiLU through it: one kernel of the padded tensor.
// CHECK-LABEL: func.func @padded
// CHECK: "graph.group"(%arg0, %arg1)
// CHECK: math.exp
// CHECK: tensor.pad
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @padded(%x: tensor<8x512x1000xf32>, %g: tensor<8x512x1000xf32>) -> tensor<8x512x1003xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<8x512x1000xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : tensor<8x512x1000xf32>) outs(%e : tensor<8x512x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.negf %a : f32
    %1 = math.exp %0 : f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.divf %one, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<8x512x1000xf32>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%g, %s : tensor<8x512x1000xf32>, tensor<8x512x1000xf32>) outs(%e : tensor<8x512x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<8x512x1000xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]} ins(%p, %s : tensor<8x512x1000xf32>, tensor<8x512x1000xf32>) outs(%e : tensor<8x512x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.subf %one, %b : f32
    %1 = arith.mulf %a, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<8x512x1000xf32>
  %r = tensor.pad %y low[0, 0, 0] high[0, 0, 3] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %zero : f32
  } : tensor<8x512x1000xf32> to tensor<8x512x1003xf32>
  return %r : tensor<8x512x1003xf32>
}

// -----

#id = affine_map<(n, c) -> (n, c)>

// Both halves of a concatenation read it: computing it twice costs less than storing it, unless it takes many operations.
// CHECK-LABEL: func.func @halves
// CHECK: "graph.group"(%arg0)
// CHECK: tensor.concat
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @halves(%x: tensor<1000x1000xf32>) -> tensor<1000x2000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<1000x1000xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.mulf %a, %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %c = tensor.concat dim(1) %p, %q : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x2000xf32>
  return %c : tensor<1000x2000xf32>
}

// -----

#id = affine_map<(n, c) -> (n, c)>

// CHECK-LABEL: func.func @many_operations
// CHECK: %[[MANY:.*]] = "graph.group"(%arg0)
// CHECK: math.exp
// CHECK: "graph.group"(%[[MANY]])
// CHECK-NOT: math.exp
// CHECK: tensor.concat
// CHECK: return
func.func @many_operations(%x: tensor<1000x1000xf32>) -> tensor<1000x2000xf32> {
  %e = tensor.empty() : tensor<1000x1000xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    %1 = math.exp %0 : f32
    %2 = math.exp %1 : f32
    %3 = math.exp %2 : f32
    %4 = math.exp %3 : f32
    %5 = math.exp %4 : f32
    %6 = math.exp %5 : f32
    %7 = math.exp %6 : f32
    %8 = math.exp %7 : f32
    %9 = math.exp %8 : f32
    %10 = math.exp %9 : f32
    %11 = math.exp %10 : f32
    linalg.yield %11 : f32
  } -> tensor<1000x1000xf32>
  %p = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %q = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%s : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.mulf %a, %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %c = tensor.concat dim(1) %p, %q : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x2000xf32>
  return %c : tensor<1000x2000xf32>
}

// -----

#id = affine_map<(n, c) -> (n, c)>

// A number of rows that each call decides.
// CHECK-LABEL: func.func @sized
// CHECK: "graph.group"(%arg0)
// CHECK: math.exp
// CHECK: tensor.pad
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @sized(%x: tensor<?x1000xf32, ["s0~800", 1000]>) -> tensor<?x1003xf32, ["s0~800", 1003]> {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~800"} : () -> index
  %e = tensor.empty(%n) : tensor<?x1000xf32, ["s0~800", 1000]>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x1000xf32, ["s0~800", 1000]>) outs(%e : tensor<?x1000xf32, ["s0~800", 1000]>) {
  ^bb0(%a: f32, %acc: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.negf %a : f32
    %1 = math.exp %0 : f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.divf %one, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x1000xf32, ["s0~800", 1000]>
  %p = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<?x1000xf32, ["s0~800", 1000]>, tensor<?x1000xf32, ["s0~800", 1000]>) outs(%e : tensor<?x1000xf32, ["s0~800", 1000]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x1000xf32, ["s0~800", 1000]>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<?x1000xf32, ["s0~800", 1000]>, tensor<?x1000xf32, ["s0~800", 1000]>) outs(%e : tensor<?x1000xf32, ["s0~800", 1000]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x1000xf32, ["s0~800", 1000]>
  %r = tensor.pad %y low[0, 0] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<?x1000xf32, ["s0~800", 1000]> to tensor<?x1003xf32, ["s0~800", 1003]>
  return %r : tensor<?x1003xf32, ["s0~800", 1003]>
}
