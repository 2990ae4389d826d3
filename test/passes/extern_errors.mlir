// RUN: opt-driver %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(lamina-extern)'

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{a call of @helper, which is not an external function}}
  %0 = call @helper(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @helper(tensor<4xf32>) -> tensor<4xf32>

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{@extern_0 lacks graph.strides}}
  %0 = call @extern_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @extern_0(tensor<4xf32>) -> tensor<4xf32> attributes {
  graph.callee = "aten.sin.default", graph.reason = "fallback", graph.args = [unit], graph.kwargs = {}}
