// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-checks)' | FileCheck %s

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
