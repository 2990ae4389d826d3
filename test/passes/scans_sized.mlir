// Scans of symbolic sizes keep the sizes in their types.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scans)' | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: "graph.scan"(%arg0) {combine = "arith.addf", dim = 1 : i64} : (tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]>
// CHECK-NOT: @scan
func.func @main(%x: tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]> {
  %a = call @scan_0(%x) : (tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]>
  return %a : tensor<?x?xf32, ["s0~4", "s1~8"]>
}
func.func private @scan_0(tensor<?x?xf32, ["s0~4", "s1~8"]>) -> tensor<?x?xf32, ["s0~4", "s1~8"]> attributes {graph.scan = {combine = "arith.addf", dim = 1 : i64}}
