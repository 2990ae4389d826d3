// On Hopper a kernel of few blocks starts before the work in front of it has ended. One that may have few comes twice: such a one, and
// one for more blocks than run at once; one that has many in the call that was traced does not.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-start-early{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_80},lamina-start-early{target=nvvm:sm_80}' | FileCheck %s --check-prefix=SM80

// CHECK: "plan.launch"({{.*}}) {kernel = @grow_early, label = "grow", n_out = 1 : i64, when = {{\[\[}}"-((-s0~1000)//(512))", 2112]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @grow, label = "grow", n_out = 1 : i64, when = []}
// CHECK: "plan.launch"({{.*}}) {kernel = @large, label = "large", n_out = 1 : i64}
// CHECK: "plan.launch"({{.*}}) {kernel = @known, label = "known", n_out = 1 : i64}
// CHECK: func.func private @grow_early({{.*}} tile.dependent
// CHECK: func.func private @grow(
// CHECK-NOT: tile.dependent
// CHECK: func.func private @large({{.*}} tile.cluster = 1 : i64, tile.flops
// CHECK: func.func private @known({{.*}} tile.dependent
// CHECK: func.func private @wide(
// CHECK-NOT: tile.dependent

// SM80: {kernel = @grow, label = "grow", n_out = 1 : i64}
// SM80-NOT: tile.dependent
#id = affine_map<(d0) -> (d0)>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  %y = "plan.input"() {index = 1 : i64, layout = [["s1~900000000"], array<i64: 1>]} : () -> memref<?xf32>
  %z = "plan.input"() {index = 2 : i64} : () -> memref<1000xf32>
  %a = "plan.output"() {index = 0 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%x, %a) {kernel = @grow, label = "grow", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %b = "plan.output"() {index = 1 : i64, layout = [["s1~900000000"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%y, %b) {kernel = @large, label = "large", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %c = "plan.output"() {index = 2 : i64} : () -> memref<1000xf32>
  "plan.launch"(%z, %c) {kernel = @known, label = "known", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  "plan.return"(%a, %b, %c) : (memref<?xf32>, memref<?xf32>, memref<1000xf32>) -> ()
}) {sym_name = "main", arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64} : () -> ()

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
func.func private @large(%x: tensor<?xf32, ["s1~900000000"]>) -> tensor<?xf32, ["s1~900000000"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s1~900000000"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s1~900000000"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, ["s1~900000000"]>) outs(%e : tensor<?xf32, ["s1~900000000"]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.sqrt %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~900000000"]>
  return %r : tensor<?xf32, ["s1~900000000"]>
}
func.func private @known(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
func.func private @wide(%x: tensor<4000000xf32>) -> tensor<4000000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<4000000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<4000000xf32>) outs(%e : tensor<4000000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<4000000xf32>
  return %r : tensor<4000000xf32>
}
