// Positions count in row-major order of symbolic sizes, too: an element's number does not depend on how a graph was compiled.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-random-bits)' | FileCheck %s

!a = tensor<?x8xi32, ["s0~4", 8]>
!b = tensor<?x?xi32, ["s0~4", "s1~8"]>
// CHECK-LABEL: func.func @main
// CHECK: %[[N:.*]] = "graph.size"() {size = "s0~4"}
// CHECK: tensor.empty(%[[N]]) : tensor<?x8xi32, ["s0~4", 8]>
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[J:.*]] = linalg.index 1
// CHECK: %[[ROW:.*]] = arith.muli %[[I]], %c8
// CHECK: %[[AT:.*]] = arith.addi %[[ROW]], %[[J]]
// CHECK: "random.bits"(%{{.*}}, %[[AT]])
// CHECK: tensor<?x?xi32, ["s0~4", "s1~8"]>
// CHECK: %[[COLUMNS:.*]] = "graph.size"() {size = "s1~8"}
// CHECK: %[[DOWN:.*]] = arith.muli %{{.*}}, %[[COLUMNS]]
// CHECK: %[[THERE:.*]] = arith.addi %[[DOWN]], %{{.*}}
// CHECK: "random.bits"(%{{.*}}, %[[THERE]])
func.func @main(%seed: tensor<i64>) -> (!a, !b) {
  %a = call @random_0(%seed) : (tensor<i64>) -> !a
  %b = call @random_1(%seed) : (tensor<i64>) -> !b
  return %a, %b : !a, !b
}
func.func private @random_0(tensor<i64>) -> !a attributes {graph.random}
func.func private @random_1(tensor<i64>) -> !b attributes {graph.random}
