// What several operations read, and one value that is padded is computed from, is computed where the padded value is: it gets no memory.
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
#turned = affine_map<(n, c) -> (c, n)>

// Read at other places, too, it is stored.
// CHECK-LABEL: func.func @turned
// CHECK: %[[SIGMOID:.*]] = "graph.group"(%arg0)
// CHECK: math.exp
// CHECK: "graph.group"(%[[SIGMOID]])
// CHECK-NOT: math.exp
// CHECK: tensor.pad
// CHECK: return
func.func @turned(%x: tensor<1000x1000xf32>) -> tensor<1000x1003xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1000x1000xf32>
  %s = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %one = arith.constant 1.0 : f32
    %0 = arith.negf %a : f32
    %1 = math.exp %0 : f32
    %2 = arith.addf %1, %one : f32
    %3 = arith.divf %one, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<1000x1000xf32>
  %p = linalg.generic {indexing_maps = [#id, #turned, #id], iterator_types = ["parallel", "parallel"]} ins(%s, %s : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]} ins(%p, %s : tensor<1000x1000xf32>, tensor<1000x1000xf32>) outs(%e : tensor<1000x1000xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<1000x1000xf32>
  %r = tensor.pad %y low[0, 0] high[0, 3] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<1000x1000xf32> to tensor<1000x1003xf32>
  return %r : tensor<1000x1003xf32>
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
