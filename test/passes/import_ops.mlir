// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-import-ops)' | FileCheck %s

// Positions count in row-major order, so numbers belong to elements and not to loops.
// CHECK: #[[NONE:.*]] = affine_map<(d0, d1) -> ()>
// CHECK-LABEL: func.func @main
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<4x8xi32>
// CHECK: linalg.generic {indexing_maps = [#[[NONE]], #{{.*}}], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<i64>) outs(%[[EMPTY]] : tensor<4x8xi32>)
// CHECK-NEXT: ^bb0(%[[SEED:.*]]: i64, %{{.*}}: i32):
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: %[[ROW:.*]] = arith.muli %[[I]], %c8
// CHECK: %[[AT:.*]] = arith.addi %[[ROW]], %[[J]]
// CHECK: %[[BITS:.*]] = "random.bits"(%[[SEED]], %[[AT]]) : (i64, index) -> i32
// CHECK: linalg.yield %[[BITS]]
// CHECK: "random.bits"(%{{.*}}, %c0) : (i64, index) -> i32
// CHECK: call @other
// CHECK-NOT: @random
// CHECK: func.func private @other
func.func @main(%seed: tensor<i64>) -> (tensor<4x8xi32>, tensor<i32>, tensor<4xf32>) {
  %a = call @random_0(%seed) : (tensor<i64>) -> tensor<4x8xi32>
  %b = call @random_1(%seed) : (tensor<i64>) -> tensor<i32>
  %c = call @other() : () -> tensor<4xf32>
  return %a, %b, %c : tensor<4x8xi32>, tensor<i32>, tensor<4xf32>
}
func.func private @random_0(tensor<i64>) -> tensor<4x8xi32> attributes {graph.random}
func.func private @random_1(tensor<i64>) -> tensor<i32> attributes {graph.random}
func.func private @other() -> tensor<4xf32>

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = "graph.scan"(%arg0) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: "graph.scan"(%[[SUM]], %arg1) {combine = "arith.addf", dim = 0 : i64}
// CHECK: "graph.sort"(%arg2) {dim = 1 : i64} : (tensor<4x8xi64>) -> tensor<4x8xi64>
// CHECK: call @other
// CHECK-NOT: @scan
// CHECK-NOT: @sort
// CHECK: func.func private @other
func.func @main(%x: tensor<4x8xf32>, %decay: tensor<4x8xf32>, %keys: tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xi64>) {
  %a = call @scan_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = call @scan_1(%a, %decay) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %s = call @sort_2(%keys) : (tensor<4x8xi64>) -> tensor<4x8xi64>
  %c = call @other() : () -> tensor<4xf32>
  return %b, %c, %s : tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xi64>
}
func.func private @scan_0(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 1 : i64}}
func.func private @scan_1(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 0 : i64}}
func.func private @sort_2(tensor<4x8xi64>) -> tensor<4x8xi64> attributes {graph.sort = {dim = 1 : i64}}
func.func private @other() -> tensor<4xf32>

// -----

// CHECK-LABEL: func.func @main
// CHECK: %[[EMPTY:.*]] = tensor.empty() : tensor<4x8xi1>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<4x8xi1>) outs(%[[EMPTY]] : tensor<4x8xi1>)
// CHECK-NEXT: ^bb0(%[[X:.*]]: i1, %{{.*}}: i1):
// CHECK-NEXT: %[[OK:.*]] = "graph.check"(%[[X]]) {message = "RuntimeError: not so"} : (i1) -> i1
// CHECK-NEXT: linalg.yield %[[OK]] : i1
// CHECK: "graph.check"(%{{.*}}) {message = "RuntimeError: nor this"}
// CHECK: call @other
// CHECK-NOT: @check
// CHECK: func.func private @other
func.func @main(%x: tensor<4x8xi1>, %y: tensor<i1>) -> (tensor<4x8xi1>, tensor<i1>, tensor<4xf32>) {
  %a = call @check_0(%x) : (tensor<4x8xi1>) -> tensor<4x8xi1>
  %b = call @check_1(%y) : (tensor<i1>) -> tensor<i1>
  %c = call @other() : () -> tensor<4xf32>
  return %a, %b, %c : tensor<4x8xi1>, tensor<i1>, tensor<4xf32>
}
func.func private @check_0(tensor<4x8xi1>) -> tensor<4x8xi1> attributes {graph.check = "RuntimeError: not so"}
func.func private @check_1(tensor<i1>) -> tensor<i1> attributes {graph.check = "RuntimeError: nor this"}
func.func private @other() -> tensor<4xf32>
