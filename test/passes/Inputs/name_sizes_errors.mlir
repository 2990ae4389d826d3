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
