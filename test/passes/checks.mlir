// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-checks)' | FileCheck %s

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
