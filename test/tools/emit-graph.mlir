// A picture has a frame for each function and group, a node for each op with its line of --pretty, and an edge for each tensor.
// RUN: opt-driver %s --emit-graph=%t.svg -o %t.mlir 2>&1 && FileCheck %s < %t.svg
// RUN: FileCheck %s --check-prefix=TEXT < %t.mlir
// RUN: not opt-driver %s --emit-graph=%t.svg --split-input-file 2>&1 | FileCheck %s --check-prefix=SPLIT

// CHECK: <svg
// CHECK: class="cluster">
// CHECK: func @main
// CHECK: class="cluster">
// CHECK: group @relu(%arg0)
// CHECK: <title>[[ARG:n[0-9]+]]</title>
// CHECK: %arg0 : 4x8xf32</text>
// CHECK: <title>[[RELU:n[0-9]+]]</title>
// CHECK: max(%arg0[i, j], 0)
// CHECK: <title>[[ARG]]&#45;&gt;[[RELU]]</title>
// CHECK: 4x8xf32</text>
// CHECK: <title>[[CALL:n[0-9]+]]</title>
// CHECK: call aten.sort.stable(
// CHECK: <title>[[RELU]]&#45;&gt;[[CALL]]</title>
// CHECK: return %
// CHECK: <title>[[CALL]]&#45;&gt;
// CHECK: </svg>

// TEXT: "graph.group"

// SPLIT: --emit-graph draws one module

#id = affine_map<(r, c) -> (r, c)>
func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = "graph.group"(%x) ({
  ^bb0(%a: tensor<4x8xf32>):
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x8xf32>
    %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%a : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
    ^bb1(%in: f32, %out: f32):
      %m = arith.maximumf %in, %zero : f32
      linalg.yield %m : f32
    } -> tensor<4x8xf32>
    "graph.yield"(%r) : (tensor<4x8xf32>) -> ()
  }) {sym_name = "relu"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1:2 = "graph.extern"(%0) {callee = "aten.sort.stable", args = [unit], kwargs = {}, reason = "library", strides = [array<i64: 8, 1>, array<i64: 8, 1>]} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
  return %1#0 : tensor<4x8xf32>
}
