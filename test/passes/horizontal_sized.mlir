// A launch whose sizes the call decides joins others, but where it may be so small that it starts early: its programs come last, and the
// memory of its sizes is the last argument.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a},lamina-distribute' | FileCheck %s --check-prefix=GPU

// The arena is placed for typical sizes.
// CHECK: "plan.launch"({{.*}}) {kernel = @negate_x2_and_grow, label = "2 x negate, grow", n_out = 3 : i64}
// CHECK: "plan.return"
// CHECK: arena_bytes = 36004032 : i64
// CHECK: func.func private @negate_x2_and_grow({{.*}}, %[[SIZES:arg6]]: memref<2xi32>)
// CHECK-SAME: tile.grid = "-((-s0~9000000)//(512)) + 4"
// CHECK-SAME: tile.sizes = ["s0~9000000", "-((-s0~9000000)//(512))"]
// CHECK: "tile.part"() ({
// CHECK: }) {{{.*}}tile.grid = 4 : i64
// CHECK: "tile.part"() ({
// CHECK: memref.load %[[SIZES]]
// CHECK: }) {{{.*}}tile.grid = "-((-s0~9000000)//(512))"

// GPU-LABEL: gpu.func @negate_x2_and_grow
// GPU-SAME: gpu.grid = "-((-s0~9000000)//(512)) + 4"
// GPU: arith.cmpi ult, %{{.*}}, %c4{{.*}} : index
// GPU: } else {
// GPU: memref.load %arg6
#id = affine_map<(d0) -> (d0)>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<1000xf32>
  %y = "plan.input"() {index = 1 : i64} : () -> memref<1000xf32>
  %n = "plan.input"() {index = 2 : i64, layout = [["s0~9000000"], array<i64: 1>]} : () -> memref<?xf32>
  %t = "plan.alloc"() {bytes = 4000 : i64, offset = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%x, %t) {kernel = @negate, label = "negate", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %m = "plan.alloc"() {bytes = "4*s0~9000000", layout = [["s0~9000000"], array<i64: 1>], offset = 4032 : i64} : () -> memref<?xf32>
  "plan.launch"(%n, %m) {kernel = @grow, label = "grow", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %b = "plan.output"() {index = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%y, %b) {kernel = @negate, label = "negate_2", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %c = "plan.output"() {index = 1 : i64} : () -> memref<1000xf32>
  "plan.call"(%t, %m, %c) {callee = "test.join.default", args = [unit, unit], kwargs = {}, n_out = 1 : i64, reason = "fallback"} : (memref<1000xf32>, memref<?xf32>, memref<1000xf32>) -> ()
  "plan.return"(%b, %c) : (memref<1000xf32>, memref<1000xf32>) -> ()
}) {sym_name = "main", arena_bytes = 36004032 : i64, lower_bound = 36004032 : i64, sum_bytes = 36004000 : i64} : () -> ()

func.func private @negate(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
func.func private @grow(%x: tensor<?xf32, ["s0~9000000"]>) -> tensor<?xf32, ["s0~9000000"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~9000000"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~9000000"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, ["s0~9000000"]>) outs(%e : tensor<?xf32, ["s0~9000000"]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~9000000"]>
  return %r : tensor<?xf32, ["s0~9000000"]>
}
