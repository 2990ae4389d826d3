// An external call without its callee.
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.extern expects the attribute callee}}
  %0 = "graph.extern"(%a) {reason = "library", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// An attribute of the wrong type, and a group without a region.
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.extern expects reason to be a StringAttr, but it is 3 : i64}}
  %0 = "graph.extern"(%a) {callee = "aten.sort", reason = 3, args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @+1 {{graph.group expects 1 regions, but has 0}}
  %1 = "graph.group"(%0) {sym_name = "f"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
// -----
// expected-error @+1 {{unknown op graph.grup: expected one of graph.extern, graph.group, graph.yield}}
"graph.grup"() : () -> ()
// -----
// expected-error @+1 {{no dialect declares the op 'grahp.group'}}
"grahp.group"() : () -> ()
