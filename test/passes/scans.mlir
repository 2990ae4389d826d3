// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-scans)' | FileCheck %s

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
