// A size that nothing names: what a tensor of runtime indices selects has no size before the call.
func.func @main(%x: tensor<?xf32> {graph.sizes = ["s0~8"]}, %n: index) -> tensor<?xf32> {
  // expected-error @+1 {{nothing names a size of the result of tensor.empty}}
  %e = tensor.empty(%n) : tensor<?xf32>
  return %e : tensor<?xf32>
}

// -----

func.func @main(%x: tensor<?xf32> {graph.sizes = ["s0~8"]}, %shape: tensor<2xindex>) -> tensor<?x?xf32> {
  // expected-error @+1 {{nothing names a size of the result of tensor.reshape}}
  %r = tensor.reshape %x(%shape) : (tensor<?xf32>, tensor<2xindex>) -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}

// -----

// Whether 6 rows of s0 can be 4 rows depends on the call.
func.func @main(%x: tensor<6x?xf32> {graph.sizes = [6, "s0~8"]}) -> tensor<4x?xf32> {
  // expected-error @+1 {{a view of [6, s0~8] as [4, ((3*s0~8)//(2))] depends on the call}}
  %0 = call @view(%x) : (tensor<6x?xf32>) -> tensor<4x?xf32>
  return %0 : tensor<4x?xf32>
}
func.func private @view(tensor<6x?xf32>) -> tensor<4x?xf32> attributes {
  graph.move = "aten.view.default", graph.args = [unit, [4, -1]], graph.kwargs = {}, graph.sizes = [[4, "(6*s0~8)//4"]]}
