// Launches of which a call makes one stay side by side, though joined ones, whose inputs would leave the caches, come before the end.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s

// CHECK: "plan.launch"({{.*}}kernel = @few{{.*}}when = {{\[\[}}"s0~30000000", 1000]]
// CHECK-NEXT: "plan.launch"({{.*}}kernel = @more{{.*}}when = {{\[\[}}"s0~30000000", 10000]]
// CHECK-NEXT: "plan.launch"({{.*}}kernel = @any{{.*}}when = []
// CHECK: "plan.launch"({{.*}}kernel = @negate_x2
#id = affine_map<(d0) -> (d0)>
!n = tensor<?xf32, ["s0~30000000"]>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<1000xf32>
  %y = "plan.input"() {index = 1 : i64} : () -> memref<1000xf32>
  %n = "plan.input"() {index = 2 : i64, layout = [["s0~30000000"], array<i64: 1>]} : () -> memref<?xf32>
  %a = "plan.output"() {index = 0 : i64} : () -> memref<1000xf32>
  "plan.launch"(%x, %a) {kernel = @negate, label = "negate", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %b = "plan.output"() {index = 1 : i64} : () -> memref<1000xf32>
  "plan.launch"(%y, %b) {kernel = @negate, label = "negate_2", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %m = "plan.output"() {index = 2 : i64, layout = [["s0~30000000"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%n, %m) {kernel = @few, label = "few", n_out = 1 : i64, when = [["s0~30000000", 1000]]} : (memref<?xf32>, memref<?xf32>) -> ()
  "plan.launch"(%n, %m) {kernel = @more, label = "few", n_out = 1 : i64, when = [["s0~30000000", 10000]]} : (memref<?xf32>, memref<?xf32>) -> ()
  "plan.launch"(%n, %m) {kernel = @any, label = "few", n_out = 1 : i64, when = []} : (memref<?xf32>, memref<?xf32>) -> ()
  "plan.return"(%a, %b, %m) : (memref<1000xf32>, memref<1000xf32>, memref<?xf32>) -> ()
}) {sym_name = "main", arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64} : () -> ()

func.func private @negate(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
func.func private @few(%x: !n) -> !n attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~30000000"} : () -> index
  %e = tensor.empty(%n) : !n
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : !n) outs(%e : !n) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !n
  return %r : !n
}
func.func private @more(%x: !n) -> !n attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~30000000"} : () -> index
  %e = tensor.empty(%n) : !n
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : !n) outs(%e : !n) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !n
  return %r : !n
}
func.func private @any(%x: !n) -> !n attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~30000000"} : () -> index
  %e = tensor.empty(%n) : !n
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : !n) outs(%e : !n) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !n
  return %r : !n
}
