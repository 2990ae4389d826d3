// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scans)' | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[SUM:.*]] = "graph.scan"(%arg0) {combine = "arith.addf", dim = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: "graph.scan"(%[[SUM]], %arg1) {combine = "arith.addf", dim = 0 : i64}
// CHECK: call @other
// CHECK-NOT: @scan
// CHECK: func.func private @other
func.func @main(%x: tensor<4x8xf32>, %decay: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %a = call @scan_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = call @scan_1(%a, %decay) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = call @other() : () -> tensor<4xf32>
  return %b, %c : tensor<4x8xf32>, tensor<4xf32>
}
func.func private @scan_0(tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 1 : i64}}
func.func private @scan_1(tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> attributes {graph.scan = {combine = "arith.addf", dim = 0 : i64}}
func.func private @other() -> tensor<4xf32>
