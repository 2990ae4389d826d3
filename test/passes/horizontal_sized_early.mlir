// Launches whose sizes are known join beside one whose sizes the call decides, of which there are two, for ranges of its grid; the
// arena is placed for typical sizes.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s

// CHECK: "plan.launch"({{.*}}) {kernel = @grow, label = "grow", n_out = 1 : i64, when = {{.*}}} :
// CHECK: "plan.launch"({{.*}}) {kernel = @negate_x2, label = "2 x negate", n_out = 2 : i64}
// CHECK: "plan.return"
// CHECK: arena_bytes = 8064 : i64
// CHECK: tile.sizes = [{{.*}}"s0~1000"
#id = affine_map<(d0) -> (d0)>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<1000xf32>
  %y = "plan.input"() {index = 1 : i64} : () -> memref<1000xf32>
  %n = "plan.input"() {index = 2 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  %t = "plan.alloc"() {bytes = 4000 : i64, offset = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%x, %t) {kernel = @negate, label = "negate", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %m = "plan.alloc"() {bytes = "4*s0~1000", layout = [["s0~1000"], array<i64: 1>], offset = 4032 : i64} : () -> memref<?xf32>
  "plan.launch"(%n, %m) {kernel = @grow, label = "grow", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %b = "plan.output"() {index = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%y, %b) {kernel = @negate, label = "negate_2", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %c = "plan.output"() {index = 1 : i64} : () -> memref<1000xf32>
  "plan.call"(%t, %m, %c) {callee = "test.join.default", args = [unit, unit], kwargs = {}, n_out = 1 : i64, reason = "fallback"} : (memref<1000xf32>, memref<?xf32>, memref<1000xf32>) -> ()
  "plan.return"(%b, %c) : (memref<1000xf32>, memref<1000xf32>) -> ()
}) {sym_name = "main", arena_bytes = 8064 : i64, lower_bound = 8064 : i64, sum_bytes = 8000 : i64} : () -> ()

func.func private @negate(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
func.func private @grow(%x: tensor<?xf32, ["s0~1000"]>) -> tensor<?xf32, ["s0~1000"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~1000"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~1000"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, ["s0~1000"]>) outs(%e : tensor<?xf32, ["s0~1000"]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~1000"]>
  return %r : tensor<?xf32, ["s0~1000"]>
}
