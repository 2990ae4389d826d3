// A result that nobody wants in an order of its own lies as what it is computed from, though that has another shape or lies in pieces.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-plan)' | FileCheck %s

#id = affine_map<(n, c, l) -> (n, c, l)>
#turned = affine_map<(n, c, l) -> (n, l, c)>

// Rows of a product, read with the channels first, and half of the channels of a tensor with the channels last: no transposition.
// CHECK: "plan.launch"({{.*}}) {kernel = @gate{{.*}}} : (memref<32x8xf32>, memref<2x8x16xf32, strided<[256, 1, 16]>>, memref<2x8x16xf32, strided<[128, 1, 8]>>)
// Rows that a product reads through a view are row-major.
// CHECK: "plan.launch"({{.*}}) {kernel = @turn{{.*}}} : (memref<2x8x16xf32, strided<[256, 1, 16]>>, memref<2x16x8xf32>)
// CHECK-NOT: copy
// CHECK: callee = "aten.mm.default"
// CHECK: "plan.launch"({{.*}}) {kernel = @sum{{.*}}} : (memref<2x8x16xf32, strided<[128, 1, 8]>>,
func.func @main(%x: tensor<32x8xf32>, %y: tensor<2x16x16xf32> {graph.strides = array<i64: 256, 1, 16>}, %w: tensor<8x8xf32>)
    -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<32x8xf32>) {
  %half = tensor.extract_slice %y[0, 4, 0] [2, 8, 16] [1, 1, 1] : tensor<2x16x16xf32> to tensor<2x8x16xf32>
  %g = "graph.group"(%x, %half) ({
  ^bb0(%a: tensor<32x8xf32>, %b: tensor<2x8x16xf32>):
    %rows = tensor.expand_shape %a [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>
    %e = tensor.empty() : tensor<2x8x16xf32>
    %t = linalg.generic {indexing_maps = [#turned, #id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%rows, %b : tensor<2x16x8xf32>, tensor<2x8x16xf32>) outs(%e : tensor<2x8x16xf32>) {
    ^bb1(%p: f32, %q: f32, %o: f32):
      %0 = arith.mulf %p, %q : f32
      linalg.yield %0 : f32
    } -> tensor<2x8x16xf32>
    "graph.yield"(%t) : (tensor<2x8x16xf32>) -> ()
  }) {sym_name = "gate"} : (tensor<32x8xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %t = "graph.group"(%half) ({
  ^bb0(%a: tensor<2x8x16xf32>):
    %e = tensor.empty() : tensor<2x16x8xf32>
    %r = linalg.transpose ins(%a : tensor<2x8x16xf32>) outs(%e : tensor<2x16x8xf32>) permutation = [0, 2, 1]
    %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%r : tensor<2x16x8xf32>) outs(%e : tensor<2x16x8xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = arith.negf %p : f32
      linalg.yield %0 : f32
    } -> tensor<2x16x8xf32>
    "graph.yield"(%n) : (tensor<2x16x8xf32>) -> ()
  }) {sym_name = "turn"} : (tensor<2x8x16xf32>) -> tensor<2x16x8xf32>
  %rows = tensor.collapse_shape %t [[0, 1], [2]] : tensor<2x16x8xf32> into tensor<32x8xf32>
  %m = "graph.extern"(%rows, %w) {callee = "aten.mm.default", reason = "library", args = [unit, unit], kwargs = {}, strides = [array<i64: 8, 1>]} : (tensor<32x8xf32>, tensor<8x8xf32>) -> tensor<32x8xf32>
  %s = "graph.group"(%g) ({
  ^bb0(%a: tensor<2x8x16xf32>):
    %zero = arith.constant dense<0.0> : tensor<2x8xf32>
    %r = linalg.generic {indexing_maps = [#id, affine_map<(n, c, l) -> (n, c)>], iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%a : tensor<2x8x16xf32>) outs(%zero : tensor<2x8xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = arith.addf %p, %o : f32
      linalg.yield %0 : f32
    } -> tensor<2x8xf32>
    "graph.yield"(%r) : (tensor<2x8xf32>) -> ()
  }) {sym_name = "sum"} : (tensor<2x8x16xf32>) -> tensor<2x8xf32>
  %k = "graph.extern"(%g) {callee = "aten.relu.default", reason = "library", args = [unit], kwargs = {}, strides = [array<i64: 128, 16, 1>]} : (tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  return %k, %s, %m : tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<32x8xf32>
}

// -----

#id = affine_map<(n, c, l) -> (n, c, l)>
#turned = affine_map<(n, c, l) -> (n, l, c)>
#three = affine_map<(n, c, l, s) -> (n, c, l)>
#state = affine_map<(n, c, l, s) -> (c, s)>
#four = affine_map<(n, c, l, s) -> (n, c, l, s)>

// What a kernel reads for each of several elements is row-major, as the larger result is.
// CHECK: "plan.launch"({{.*}}) {kernel = @step{{.*}}} : (memref<32x8xf32>, memref<2x8x16xf32>)
// CHECK: "plan.launch"({{.*}}) {kernel = @decay{{.*}}} : (memref<2x8x16xf32>, memref<8x4xf32>, memref<2x8x16x4xf32>)
func.func @main(%x: tensor<32x8xf32>, %a: tensor<8x4xf32>) -> tensor<2x8x16x4xf32> {
  %g = "graph.group"(%x) ({
  ^bb0(%in: tensor<32x8xf32>):
    %rows = tensor.expand_shape %in [[0, 1], [2]] output_shape [2, 16, 8] : tensor<32x8xf32> into tensor<2x16x8xf32>
    %e = tensor.empty() : tensor<2x8x16xf32>
    %t = linalg.generic {indexing_maps = [#turned, #id], iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%rows : tensor<2x16x8xf32>) outs(%e : tensor<2x8x16xf32>) {
    ^bb1(%p: f32, %o: f32):
      %0 = math.tanh %p : f32
      linalg.yield %0 : f32
    } -> tensor<2x8x16xf32>
    "graph.yield"(%t) : (tensor<2x8x16xf32>) -> ()
  }) {sym_name = "step"} : (tensor<32x8xf32>) -> tensor<2x8x16xf32>
  %d = "graph.group"(%g, %a) ({
  ^bb0(%in: tensor<2x8x16xf32>, %b: tensor<8x4xf32>):
    %e = tensor.empty() : tensor<2x8x16x4xf32>
    %t = linalg.generic {indexing_maps = [#three, #state, #four], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
        ins(%in, %b : tensor<2x8x16xf32>, tensor<8x4xf32>) outs(%e : tensor<2x8x16x4xf32>) {
    ^bb1(%p: f32, %q: f32, %o: f32):
      %0 = arith.mulf %p, %q : f32
      linalg.yield %0 : f32
    } -> tensor<2x8x16x4xf32>
    "graph.yield"(%t) : (tensor<2x8x16x4xf32>) -> ()
  }) {sym_name = "decay"} : (tensor<2x8x16xf32>, tensor<8x4xf32>) -> tensor<2x8x16x4xf32>
  %k = "graph.extern"(%d) {callee = "aten.relu.default", reason = "library", args = [unit], kwargs = {}, strides = [array<i64: 1024, 64, 4, 1>]} : (tensor<2x8x16x4xf32>) -> tensor<2x8x16x4xf32>
  return %k : tensor<2x8x16x4xf32>
}
