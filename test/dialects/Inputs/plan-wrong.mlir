// expected-error @+1 {{plan.program expects the attribute arena_bytes}}
"plan.program"() ({
  %x = "plan.alloc"() {offset = 0 : i64, bytes = 128 : i64} : () -> memref<4x8xf32>
  // expected-error @+1 {{plan.input expects 0 operands, but has 1}}
  %y = "plan.input"(%x) {index = 0 : i64} : (memref<4x8xf32>) -> memref<4x8xf32>
  "plan.return"() : () -> ()
}) {sym_name = "main"} : () -> ()
// -----
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<4xf32>
  // expected-error @+1 {{plan.launch expects kernel to be a FlatSymbolRefAttr, but it is "relu"}}
  "plan.launch"(%x, %x) {kernel = "relu", n_out = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  // expected-error @+1 {{plan.view expects 1 operands, but has 2}}
  %v = "plan.view"(%x, %x) {offset = 8 : i64} : (memref<4xf32>, memref<4xf32>) -> memref<2xf32>
  "plan.return"() : () -> ()
}) {sym_name = "main", arena_bytes = 0 : i64} : () -> ()
// -----
// expected-error @+1 {{unknown op plan.lauch: expected one of plan.alloc, plan.call}}
"plan.lauch"() : () -> ()
// -----
// expected-error @+1 {{plan.program expects the launch of @any right after those of its computation for other sizes}}
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<4xf32>
  %y = "plan.output"() {index = 0 : i64} : () -> memref<4xf32>
  %z = "plan.output"() {index = 1 : i64} : () -> memref<4xf32>
  "plan.launch"(%x, %y) {kernel = @few, n_out = 1 : i64, when = [["s0~4", 8]]} : (memref<4xf32>, memref<4xf32>) -> ()
  "plan.launch"(%x, %z) {kernel = @relu, n_out = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  "plan.launch"(%x, %y) {kernel = @any, n_out = 1 : i64, when = []} : (memref<4xf32>, memref<4xf32>) -> ()
  "plan.return"() : () -> ()
}) {sym_name = "main", arena_bytes = 0 : i64} : () -> ()
