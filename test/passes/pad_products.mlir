// Half-precision products whose rows in memory are no multiples of 16 bytes: padded where that pays by the target's peaks.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-pad-products{target=nvvm:sm_90a})' --split-input-file | FileCheck %s

// A vocabulary: the weight is padded as it lies in memory, and the result stays in the product's memory, with room between its rows.
// CHECK-LABEL: func.func @words
// CHECK-SAME: {graph.room, graph.strides = array<i64: 51470336, 50264, 1>}
// CHECK: tensor.pad %{{.*}} low[0, 0] high[7, 0]
// CHECK: tensor<50257x768xbf16> to tensor<50264x768xbf16>
// CHECK: %[[B:.*]] = linalg.transpose {{.*}} outs({{.*}} : tensor<768x50264xbf16>)
// CHECK: %[[WIDE:.*]] = "graph.extern"(%arg0, %[[B]]) {args = [unit, unit], callee = "aten.mm.default"{{.*}}strides = [array<i64: 50264, 1>]
// CHECK: %[[FIRST:.*]] = tensor.extract_slice %[[WIDE]][0, 0] [8192, 50257] [1, 1]
// CHECK: tensor.expand_shape %[[FIRST]]
func.func @words(%x: tensor<8192x768xbf16>, %w: tensor<50257x768xbf16>) -> (tensor<8x1024x50257xbf16> {graph.room, graph.strides = array<i64: 51463168, 50257, 1>}) {
  %e = tensor.empty() : tensor<768x50257xbf16>
  %t = linalg.transpose ins(%w : tensor<50257x768xbf16>) outs(%e : tensor<768x50257xbf16>) permutation = [1, 0]
  %0 = "graph.extern"(%x, %t) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<8192x768xbf16>, tensor<768x50257xbf16>) -> tensor<8192x50257xbf16>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [8, 1024, 50257] : tensor<8192x50257xbf16> into tensor<8x1024x50257xbf16>
  return %1 : tensor<8x1024x50257xbf16>
}

// -----

// A bias is as wide as the product; without graph.room the caller gets a copy in eager's strides.
// CHECK-LABEL: func.func @bias
// CHECK-SAME: -> (tensor<8192x50257xf16> {graph.strides = array<i64: 50257, 1>})
// CHECK-DAG: tensor<768x50257xf16> to tensor<768x50264xf16>
// CHECK-DAG: tensor<50257xf16> to tensor<50264xf16>
// CHECK: callee = "aten.addmm.default", kwargs = {alpha = 2.000000e+00 : f64}{{.*}} -> tensor<8192x50264xf16>
func.func @bias(%c: tensor<50257xf16>, %x: tensor<8192x768xf16>, %w: tensor<768x50257xf16>) -> (tensor<8192x50257xf16> {graph.strides = array<i64: 50257, 1>}) {
  %0 = "graph.extern"(%c, %x, %w) {args = [unit, unit, unit], callee = "aten.addmm.default", kwargs = {alpha = 2.0 : f64}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<50257xf16>, tensor<8192x768xf16>, tensor<768x50257xf16>) -> tensor<8192x50257xf16>
  return %0 : tensor<8192x50257xf16>
}

// -----

// The gradients of a vocabulary: columns of one product, the inner dimension of the other. Rows without gaps need no other strides.
// CHECK-LABEL: func.func @gradients
// CHECK-SAME: tensor<50257x768xbf16> {graph.room, graph.strides = array<i64: 768, 1>})
// CHECK-DAG: tensor<8192x50257xbf16> to tensor<8192x50264xbf16>
// CHECK-DAG: tensor<50257x768xbf16> to tensor<50264x768xbf16>
// CHECK: "graph.extern"{{.*}} (tensor<8192x50264xbf16>, tensor<50264x768xbf16>) -> tensor<8192x768xbf16>
// CHECK: tensor<8192x50257xbf16> to tensor<8192x50264xbf16>
// CHECK: "graph.extern"{{.*}} (tensor<50264x8192xbf16>, tensor<8192x768xbf16>) -> tensor<50264x768xbf16>
// CHECK: tensor.extract_slice {{.*}}[0, 0] [50257, 768] [1, 1]
func.func @gradients(%g: tensor<8192x50257xbf16>, %x: tensor<8192x768xbf16>, %w: tensor<50257x768xbf16>) -> (tensor<8192x768xbf16> {graph.room, graph.strides = array<i64: 768, 1>}, tensor<50257x768xbf16> {graph.room, graph.strides = array<i64: 768, 1>}) {
  %0 = "graph.extern"(%g, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 768, 1>]} : (tensor<8192x50257xbf16>, tensor<50257x768xbf16>) -> tensor<8192x768xbf16>
  %e = tensor.empty() : tensor<50257x8192xbf16>
  %t = linalg.transpose ins(%g : tensor<8192x50257xbf16>) outs(%e : tensor<50257x8192xbf16>) permutation = [1, 0]
  %1 = "graph.extern"(%t, %x) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 768, 1>]} : (tensor<50257x8192xbf16>, tensor<8192x768xbf16>) -> tensor<50257x768xbf16>
  return %0, %1 : tensor<8192x768xbf16>, tensor<50257x768xbf16>
}

// -----

// Any number of rows: what pays goes by the typical one.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: {graph.room, graph.strides = array<i64: 50264, 1>}
// CHECK: "graph.extern"{{.*}} -> tensor<?x50264xbf16, ["s0~8192", 50264]>
func.func @rows(%x: tensor<?x768xbf16, ["s0~8192", 768]>, %w: tensor<768x50257xbf16>) -> (tensor<?x50257xbf16, ["s0~8192", 50257]> {graph.room, graph.strides = array<i64: 50257, 1>}) {
  %0 = "graph.extern"(%x, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<?x768xbf16, ["s0~8192", 768]>, tensor<768x50257xbf16>) -> tensor<?x50257xbf16, ["s0~8192", 50257]>
  return %0 : tensor<?x50257xbf16, ["s0~8192", 50257]>
}

// -----

// Aligned; bound by the weight's bytes; of few rows in most calls; of f32; of as many columns as a call has.
// CHECK-LABEL: func.func @plain
// CHECK-NOT: tensor.pad
func.func @plain(%x: tensor<8192x768xbf16>, %a: tensor<768x50264xbf16>, %y: tensor<32x768xbf16>, %w: tensor<768x50257xbf16>, %z: tensor<?x768xbf16, ["s0~32", 768]>, %u: tensor<8192x768xf32>, %v: tensor<768x50257xf32>, %t: tensor<768x?xbf16, [768, "s1~50257"]>) -> (tensor<8192x50264xbf16>, tensor<32x50257xbf16>, tensor<?x50257xbf16, ["s0~32", 50257]>, tensor<8192x50257xf32>, tensor<8192x?xbf16, [8192, "s1~50257"]>) {
  %0 = "graph.extern"(%x, %a) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 50264, 1>]} : (tensor<8192x768xbf16>, tensor<768x50264xbf16>) -> tensor<8192x50264xbf16>
  %1 = "graph.extern"(%y, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<32x768xbf16>, tensor<768x50257xbf16>) -> tensor<32x50257xbf16>
  %2 = "graph.extern"(%z, %w) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<?x768xbf16, ["s0~32", 768]>, tensor<768x50257xbf16>) -> tensor<?x50257xbf16, ["s0~32", 50257]>
  %3 = "graph.extern"(%u, %v) {args = [unit, unit], callee = "aten.mm.default", graph.tf32, kwargs = {}, reason = "library", strides = [array<i64: 50257, 1>]} : (tensor<8192x768xf32>, tensor<768x50257xf32>) -> tensor<8192x50257xf32>
  %4 = "graph.extern"(%x, %t) {args = [unit, unit], callee = "aten.mm.default", kwargs = {}, reason = "library", strides = [["s1~50257", 1]]} : (tensor<8192x768xbf16>, tensor<768x?xbf16, [768, "s1~50257"]>) -> tensor<8192x?xbf16, [8192, "s1~50257"]>
  return %0, %1, %2, %3, %4 : tensor<8192x50264xbf16>, tensor<32x50257xbf16>, tensor<?x50257xbf16, ["s0~32", 50257]>, tensor<8192x50257xf32>, tensor<8192x?xbf16, [8192, "s1~50257"]>
}
