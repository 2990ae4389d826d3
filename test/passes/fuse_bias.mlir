// On a GPU the bias of a product leaves the library's call for the kernel that reads the product.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-fuse{balance=16})' | FileCheck %s

// The bias of a product of f32 is added by the group that alone reads the product, through a view, too.
// CHECK-LABEL: @bias
// CHECK: %[[P:.*]] = "graph.extern"(%arg1, %arg2)
// CHECK-SAME: args = [unit, unit]
// CHECK-SAME: callee = "aten.mm.default"
// CHECK: "graph.group"(%[[P]], %arg0)
// CHECK: arith.addf
// CHECK: math.exp
// CHECK: "graph.yield"
// CHECK-NOT: graph.group
// CHECK: return
#m = affine_map<(d0, d1) -> (d0, d1)>
func.func @bias(%bias: tensor<64xf32>, %x: tensor<8x32xf32>, %w: tensor<32x64xf32>) -> tensor<64x8xf32> {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>]} : (tensor<64xf32>, tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  %e = tensor.empty() : tensor<64x8xf32>
  %t = linalg.transpose ins(%0 : tensor<8x64xf32>) outs(%e : tensor<64x8xf32>) permutation = [1, 0]
  %1 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<64x8xf32>) outs(%e : tensor<64x8xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %2 = math.exp %in : f32
    linalg.yield %2 : f32
  } -> tensor<64x8xf32>
  return %1 : tensor<64x8xf32>
}

// -----

// It stays in the call where the caller reads the product, here through a copy, beside a group.
// CHECK-LABEL: @bias_of_a_result
// CHECK: callee = "aten.addmm.default"
// CHECK-NOT: arith.addf
// CHECK: return
#m = affine_map<(d0, d1) -> (d0, d1)>
#s = affine_map<(d0, d1) -> (d1, d0)>
func.func @bias_of_a_result(%bias: tensor<64xf32>, %x: tensor<8x32xf32>, %w: tensor<32x64xf32>) -> (tensor<8x64xf32>, tensor<64x8xf32>) {
  %0 = "graph.extern"(%bias, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 64, 1>]} : (tensor<64xf32>, tensor<8x32xf32>, tensor<32x64xf32>) -> tensor<8x64xf32>
  %e = tensor.empty() : tensor<8x64xf32>
  %1 = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x64xf32>) outs(%e : tensor<8x64xf32>) {
  ^bb0(%in: f32, %acc: f32):
    %2 = math.exp %in : f32
    linalg.yield %2 : f32
  } -> tensor<8x64xf32>
  %f = tensor.empty() : tensor<64x8xf32>
  %3 = linalg.generic {indexing_maps = [#s, #m], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8x64xf32>) outs(%f : tensor<64x8xf32>) {
  ^bb0(%in: f32, %acc: f32):
    linalg.yield %in : f32
  } -> tensor<64x8xf32>
  return %1, %3 : tensor<8x64xf32>, tensor<64x8xf32>
}

// -----

// So it does where another call reads the product, where the bias has two dimensions or is scaled, and where the product may be rounded to tf32.
// CHECK-LABEL: @biases_in_calls
// CHECK-COUNT-4: callee = "aten.addmm.default"
// CHECK-NOT: arith.addf
// CHECK: return
#m = affine_map<(d0, d1) -> (d0, d1)>
func.func @biases_in_calls(%bias: tensor<8xf32>, %rows: tensor<8x8xf32>, %x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %0 = "graph.extern"(%bias, %x, %x) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 8, 1>]} : (tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "graph.extern"(%rows, %x, %x) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 8, 1>]} : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "graph.extern"(%bias, %x, %x) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {beta = 2.0 : f64}, reason = "library", strides = [array<i64: 8, 1>]} : (tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "graph.extern"(%bias, %x, %x) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {}, reason = "library", strides = [array<i64: 8, 1>], tf32} : (tensor<8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %4 = "graph.extern"(%0) {args = [unit], callee = "aten.neg.default", kwargs = {}, reason = "fallback", strides = [array<i64: 8, 1>]} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = tensor.empty() : tensor<8x8xf32>
  %5 = linalg.generic {indexing_maps = [#m, #m, #m, #m, #m], iterator_types = ["parallel", "parallel"]} ins(%0, %1, %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) outs(%e : tensor<8x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32, %d: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.mulf %c, %d : f32
    %r = arith.mulf %p, %q : f32
    linalg.yield %r : f32
  } -> tensor<8x8xf32>
  return %4, %5 : tensor<8x8xf32>, tensor<8x8xf32>
}

