// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-import-ops)' | FileCheck %s

// Positions count in row-major order of symbolic sizes, too: an element's number does not depend on how a graph was compiled.

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

// -----

// Scans of symbolic sizes keep the sizes in their types.

// CHECK-LABEL: func.func @main
// CHECK: "graph.scan"(%arg0) {combine = "arith.addf", dim = 1 : i64} : (tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]>
// CHECK-NOT: @scan
func.func @main(%x: tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]> {
  %a = call @scan_0(%x) : (tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]>
  return %a : tensor<?x?xf32, ["s0~4", "s1~8"]>
}
func.func private @scan_0(tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]> attributes {graph.scan = {combine = "arith.addf", dim = 1 : i64}}

// -----

// Each element of a symbolic number of them is checked where it is read.
// CHECK-LABEL: func.func @main
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<?x8xi1, ["s0~4", 8]>)
// CHECK: "graph.check"(%{{.*}}) {message = "RuntimeError: not so"} : (i1) -> i1
// CHECK-NOT: @check
func.func @main(%x: tensor<?x8xi1, ["s0~4", 8]>) -> tensor<?x8xi1, ["s0~4", 8]> {
  %a = call @check_0(%x) : (tensor<?x8xi1, ["s0~4", 8]>) -> tensor<?x8xi1, ["s0~4", 8]>
  return %a : tensor<?x8xi1, ["s0~4", 8]>
}
func.func private @check_0(tensor<?x8xi1, ["s0~4", 8]>) -> tensor<?x8xi1, ["s0~4", 8]> attributes {graph.check = "RuntimeError: not so"}
