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
// expected-error @+1 {{unknown op graph.grup: expected one of graph.check, graph.extern, graph.group, graph.kernel, graph.scan, graph.scatter, graph.size, graph.sort, graph.yield}}
"graph.grup"() : () -> ()
// -----
// A check of a value that is not i1.
func.func @f(%a: i64) -> i64 {
  // expected-error @+1 {{graph.check expects one i1, and returns one}}
  %0 = "graph.check"(%a) {message = "wrong"} : (i64) -> i64
  return %0 : i64
}
// -----
// expected-error @+1 {{no dialect declares the op 'grahp.group'}}
"grahp.group"() : () -> ()
// -----
// What a call declares does not fit its results and arguments.
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{graph.extern expects strides for every dimension of every result}}
  // expected-error @+1 {{graph.extern expects as many operands as its arguments have units, 2, but has 1}}
  %0 = "graph.extern"(%a) {callee = "aten.relu.default", reason = "library", args = [unit, [unit]], kwargs = {}, strides = []} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// A group whose block has arguments and results of other types.
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{graph.group expects a block argument of the same type for each operand}}
  // expected-error @+1 {{graph.group expects to end in a graph.yield of its results' types}}
  %0 = "graph.group"(%a) ({
  ^bb0(%b: tensor<3xf32>):
    "graph.yield"(%b) : (tensor<3xf32>) -> ()
  }) {sym_name = "f"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
// A group that uses a value that is not its operand.
func.func @f(%a: tensor<2xf32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.group uses a value from outside that is not an operand of it}}
  %0 = "graph.group"(%a) ({
  ^bb0(%b: tensor<2xf32>):
    "graph.yield"(%x) : (tensor<2xf32>) -> ()
  }) {sym_name = "f"} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.extern ends a function, which wants a terminator}}
  %0 = "graph.extern"(%a) {callee = "aten.relu.default", reason = "library", args = [unit], kwargs = {}, strides = [array<i64: 1>]} : (tensor<2xf32>) -> tensor<2xf32>
}
// -----
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.kernel expects strides for every dimension of every result, which are tensors}}
  %0 = "graph.kernel"(%a) {callee = "lamina.kernel.default", kwargs = {}, strides = [array<i64: 2, 1>]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
// -----
func.func @f() -> index {
  // expected-error @+1 {{graph.size expects a size: 's0' is not a size}}
  %0 = "graph.size"() {size = "s0"} : () -> index
  return %0 : index
}
// -----
func.func @f() -> i64 {
  // expected-error @+1 {{graph.size yields an index, not i64}}
  %0 = "graph.size"() {size = "s0~8"} : () -> i64
  return %0 : i64
}

// -----
// Strides that are not sizes.
func.func @f(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{graph.extern expects the strides of a result as an array of i64 or of sizes}}
  %0 = "graph.extern"(%a) {callee = "aten.relu.default", reason = "library", args = [unit], kwargs = {}, strides = [array<i32: 1>]} : (tensor<2xf32>) -> tensor<2xf32>
  // expected-error @+1 {{graph.kernel expects the strides of a result as an array of i64 or of sizes}}
  %1 = "graph.kernel"(%0) {callee = "lamina.kernel.default", kwargs = {}, strides = [["s0*"]]} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----
// Attributes of arguments and results.
// expected-error @+2 {{func.func has graph.strides array<i32: 1>, which are not sizes for tensor<2xf32>, on arg 0}}
// expected-error @+1 {{func.func has graph.align "16", which is not an IntegerAttr, on res 0}}
func.func @f(%a: tensor<2xf32> {graph.strides = array<i32: 1>}) -> (tensor<2xf32> {graph.align = "16"}) {
  return %a : tensor<2xf32>
}

// -----
// What a scatter combines by.
func.func @f(%x: tensor<9xf32>, %h: tensor<9xf16>, %v: tensor<2xf32>, %w: tensor<2xf16>, %i: tensor<2xi64>) {
  // expected-error @+1 {{expects one of arith.addf, arith.addi, arith.maximumf, arith.maxsi, arith.minimumf, arith.minsi, arith.mulf, arith.muli as combine, not "arith.subf"}}
  %0 = "graph.scatter"(%x, %v, %i) {combine = "arith.subf"} : (tensor<9xf32>, tensor<2xf32>, tensor<2xi64>) -> tensor<9xf32>
  // expected-error @+1 {{cannot combine elements of f32 by arith.addi}}
  %1 = "graph.scatter"(%x, %v, %i) {combine = "arith.addi"} : (tensor<9xf32>, tensor<2xf32>, tensor<2xi64>) -> tensor<9xf32>
  // expected-error @+1 {{cannot combine elements of f16 by arith.addf}}
  %2 = "graph.scatter"(%h, %w, %i) {combine = "arith.addf"} : (tensor<9xf16>, tensor<2xf16>, tensor<2xi64>) -> tensor<9xf16>
  return
}
// -----
// What a scan combines by, and along which dimension.
func.func @f(%x: tensor<9xf32>, %i: tensor<9xi64>, %y: tensor<4xf32>) {
  // expected-error @+1 {{cannot combine elements of f32 by arith.addi}}
  %0 = "graph.scan"(%x) {combine = "arith.addi", dim = 0 : i64} : (tensor<9xf32>) -> tensor<9xf32>
  // expected-error @+1 {{cannot combine elements of i64 by log_sum_exp}}
  %4 = "graph.scan"(%i) {combine = "log_sum_exp", dim = 0 : i64} : (tensor<9xi64>) -> tensor<9xi64>
  // expected-error @+1 {{expects factors only where it adds floats, not for arith.mulf}}
  %1 = "graph.scan"(%x, %x) {combine = "arith.mulf", dim = 0 : i64} : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xf32>
  // expected-error @+1 {{expects a tensor, factors of its type if any, and a result of its type}}
  %2 = "graph.scan"(%x, %y) {combine = "arith.addf", dim = 0 : i64} : (tensor<9xf32>, tensor<4xf32>) -> tensor<9xf32>
  // expected-error @+1 {{expects a dimension of its tensor, not 1 : i64}}
  %3 = "graph.scan"(%i) {combine = "arith.maxsi", dim = 1 : i64} : (tensor<9xi64>) -> tensor<9xi64>
  return
}
// -----
// What is sorted, and along which dimension.
func.func @f(%x: tensor<9xf32>, %i: tensor<9xi64>) {
  // expected-error @+1 {{expects a tensor of integers and a result of its type}}
  %0 = "graph.sort"(%x) {dim = 0 : i64} : (tensor<9xf32>) -> tensor<9xf32>
  // expected-error @+1 {{expects a dimension of its tensor, not 1 : i64}}
  %1 = "graph.sort"(%i) {dim = 1 : i64} : (tensor<9xi64>) -> tensor<9xi64>
  return
}
