// What is computed of tensors in different orders and reduced is stored in between: one kernel transposes, the other reduces.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse)' | FileCheck %s --check-prefix=ANYWHERE

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// CHECK-LABEL: func.func @mixed
// CHECK: %[[SUM:.*]] = "graph.group"(%arg0, %arg1)
// CHECK: arith.addf
// CHECK-NOT: arith.addf
// CHECK: "graph.group"(%[[SUM]])
// CHECK: arith.addf
// CHECK: return
// ANYWHERE-LABEL: func.func @mixed
// ANYWHERE: "graph.group"
// ANYWHERE-NOT: "graph.group"
// ANYWHERE: return
func.func @mixed(%x: tensor<4x64x32x32xf32>, %y: tensor<4x64x32x32xf32> {graph.strides = array<i64: 65536, 1, 2048, 64>}) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<4x64x32x32xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %y : tensor<4x64x32x32xf32>, tensor<4x64x32x32xf32>) outs(%e : tensor<4x64x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%z : tensor<4x64x32x32xf32>) outs(%zero : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// One order, channels last or not: one kernel.
// CHECK-LABEL: func.func @alike
// CHECK: "graph.group"
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @alike(%x: tensor<4x64x32x32xf32> {graph.strides = array<i64: 65536, 1, 2048, 64>}, %y: tensor<4x64x32x32xf32> {graph.strides = array<i64: 65536, 1, 2048, 64>}) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<4x64x32x32xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %y : tensor<4x64x32x32xf32>, tensor<4x64x32x32xf32>) outs(%e : tensor<4x64x32x32xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%z : tensor<4x64x32x32xf32>) outs(%zero : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// What a library takes with its channels last is stored so by a kernel of its own, not by the one that reduces what it is made of.
// CHECK-LABEL: func.func @taken
// CHECK: %[[IMAGE:.*]] = "graph.group"(%arg0)
// CHECK: arith.negf
// CHECK: %[[SUM:.*]] = "graph.group"(%arg0)
// CHECK-NOT: arith.negf
// CHECK: "graph.extern"(%[[IMAGE]], %arg1)
// CHECK: return
func.func @taken(%x: tensor<4x64x32x32xf32>, %w: tensor<64x64x1x1xf32>) -> (tensor<4x64x32x32xf32>, tensor<64xf32>) {
  %e = tensor.empty() : tensor<4x64x32x32xf32>
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x : tensor<4x64x32x32xf32>) outs(%e : tensor<4x64x32x32xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]} ins(%x : tensor<4x64x32x32xf32>) outs(%zero : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  %c = "graph.extern"(%z, %w) {callee = "aten.convolution.default", reason = "library", args = [unit, unit, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1], kwargs = {}, strides = [array<i64: 65536, 1, 2048, 64>]} : (tensor<4x64x32x32xf32>, tensor<64x64x1x1xf32>) -> tensor<4x64x32x32xf32>
  return %c, %s : tensor<4x64x32x32xf32>, tensor<64xf32>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#channel = affine_map<(n, c, h, w) -> (c)>

// A pad between, such as the gradient of a slice, changes nothing.
// CHECK-LABEL: func.func @padded
// CHECK: %[[SUM:.*]] = "graph.group"(%arg0, %arg1)
// CHECK: arith.addf
// CHECK-NOT: arith.addf
// CHECK: "graph.group"(%[[SUM]])
// CHECK: tensor.pad
// CHECK: return
func.func @padded(%x: tensor<4x64x32x31xf32>, %y: tensor<4x64x32x31xf32> {graph.strides = array<i64: 63488, 1, 1984, 64>}) -> tensor<64xf32> {
  %e = tensor.empty() : tensor<4x64x32x31xf32>
  %z = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x, %y : tensor<4x64x32x31xf32>, tensor<4x64x32x31xf32>) outs(%e : tensor<4x64x32x31xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.addf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x32x31xf32>
  %f = arith.constant 0.0 : f32
  %p = tensor.pad %z low[0, 0, 0, 1] high[0, 0, 0, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %f : f32
  } : tensor<4x64x32x31xf32> to tensor<4x64x32x32xf32>
  %zero = arith.constant dense<0.0> : tensor<64xf32>
  %s = linalg.generic {indexing_maps = [#id, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]}
      ins(%p : tensor<4x64x32x32xf32>) outs(%zero : tensor<64xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<64xf32>
  return %s : tensor<64xf32>
}

// -----

#id = affine_map<(n, c, h, w) -> (n, c, h, w)>
#pixel = affine_map<(n, c, h, w) -> (n, h, w)>

// A norm that is returned in another order than its input's: one kernel reduces, the other transposes.
// CHECK-LABEL: func.func @norm_returned_in_another_order
// CHECK: %[[SUM:.*]] = "graph.group"(%arg0)
// CHECK: arith.addf
// CHECK-NOT: arith.divf
// CHECK: "graph.group"(%arg0, %[[SUM]])
// CHECK: arith.divf
// CHECK: return
// ANYWHERE-LABEL: func.func @norm_returned_in_another_order
// ANYWHERE: "graph.group"
// ANYWHERE-NOT: "graph.group"
// ANYWHERE: return
func.func @norm_returned_in_another_order(%x: tensor<4x64x16x16xf32> {graph.strides = array<i64: 16384, 1, 1024, 64>}) -> (tensor<4x64x16x16xf32> {graph.strides = array<i64: 16384, 256, 16, 1>}) {
  %zero = arith.constant dense<0.0> : tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #pixel], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<4x64x16x16xf32>) outs(%zero : tensor<4x16x16xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x16x16xf32>
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #pixel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %s : tensor<4x64x16x16xf32>, tensor<4x16x16xf32>) outs(%e : tensor<4x64x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x16x16xf32>
  return %y : tensor<4x64x16x16xf32>
}

// In its input's order it is one kernel.
// CHECK-LABEL: func.func @norm_returned_in_its_order
// CHECK: "graph.group"
// CHECK-NOT: "graph.group"
// CHECK: return
func.func @norm_returned_in_its_order(%x: tensor<4x64x16x16xf32> {graph.strides = array<i64: 16384, 1, 1024, 64>}) -> (tensor<4x64x16x16xf32> {graph.strides = array<i64: 16384, 1, 1024, 64>}) {
  %zero = arith.constant dense<0.0> : tensor<4x16x16xf32>
  %s = linalg.generic {indexing_maps = [#id, #pixel], iterator_types = ["parallel", "reduction", "parallel", "parallel"]} ins(%x : tensor<4x64x16x16xf32>) outs(%zero : tensor<4x16x16xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %acc, %a : f32
    linalg.yield %0 : f32
  } -> tensor<4x16x16xf32>
  %e = tensor.empty() : tensor<4x64x16x16xf32>
  %y = linalg.generic {indexing_maps = [#id, #pixel, #id], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%x, %s : tensor<4x64x16x16xf32>, tensor<4x16x16xf32>) outs(%e : tensor<4x64x16x16xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<4x64x16x16xf32>
  return %y : tensor<4x64x16x16xf32>
}
