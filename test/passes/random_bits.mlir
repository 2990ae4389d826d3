// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-random-bits)' | FileCheck %s

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
