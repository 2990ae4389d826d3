// Rows of symbolic length start amid an access, unless their length is a multiple of it: such rows have a kernel of their own, so have
// those of pairs of elements, and short ones.
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE

// CHECK: "plan.launch"({{.*}}) {kernel = @bias_to_16_by_4, {{.*}}when = {{\[\[}}"s1~4000", 16], ["-4*((s1~4000)//(4)) + s1~4000", 0]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @bias_to_16_by_2, {{.*}}when = {{\[\[}}"s1~4000", 16], ["-2*((s1~4000)//(2)) + s1~4000", 0]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @bias_to_16, {{.*}}when = {{\[\[}}"s1~4000", 16]]}
// CHECK: "plan.launch"({{.*}}) {kernel = @bias_to_64, {{.*}}when = {{\[\[}}"s1~4000", 64]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @bias_by_4, {{.*}}when = {{\[\[}}"-4*((s1~4000)//(4)) + s1~4000", 0]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @bias_by_2, {{.*}}when = {{\[\[}}"-2*((s1~4000)//(2)) + s1~4000", 0]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @bias, {{.*}}when = []}
// CHECK: func.func private @bias_to_16_by_4({{.*}}) {{.*}}attributes {graph.kernel, graph.later, graph.symbols = {{\[\[}}"s1", "4*((s1~16<=16)/(4))"]]}
// CHECK: func.func private @bias_to_64({{.*}}) {{.*}}attributes {graph.kernel, graph.later, graph.symbols = {{\[\[}}"s1", "s1~64<=64"]]}
// The kernel for the row that was traced is compiled at once.
// CHECK: func.func private @bias_by_4({{.*}}) {{.*}}attributes {graph.kernel, graph.symbols = {{\[\[}}"s1", "4*((s1~4000)/(4))"]]}
// CHECK: func.func private @bias({{.*}}) {{.*}}attributes {graph.kernel, graph.later}

// A row has as many threads as it has accesses; where it may have any length, few: programs lie side by side.
// TILE: func.func private @bias_to_16_by_4(
// TILE-SAME: tile.threads = 4 : i64, tile.vec = 4 : i64

// Elements that are read one by one are read by a warp, so that it reads whole sectors, unless a row is short.
// TILE: func.func private @bias_to_64(
// TILE-SAME: tile.chunks = 4 : i64
// TILE-SAME: tile.threads = 16 : i64, tile.vec = 1 : i64
// TILE: func.func private @bias_by_4(
// TILE-SAME: tile.pack = 16 : i64
// TILE-SAME: tile.threads = 8 : i64, tile.vec = 4 : i64
// TILE: func.func private @bias_by_2(
// TILE-SAME: tile.threads = 32 : i64, tile.vec = 2 : i64
// TILE: func.func private @bias(
// TILE-SAME: tile.chunks = 4 : i64
// TILE-SAME: tile.pack = 4 : i64
// TILE-SAME: tile.threads = 32 : i64, tile.vec = 1 : i64
#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~4096", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  %1 = "plan.input"() {index = 1 : i64, layout = [["s1~4000"], array<i64: 1>]} : () -> memref<?xf32>
  %2 = "plan.output"() {index = 0 : i64, layout = [["s0~4096", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  "plan.launch"(%0, %1, %2) {kernel = @bias, label = "bias", n_out = 1 : i64} : (memref<?x?xf32>, memref<?xf32>, memref<?x?xf32>) -> ()
  "plan.return"(%2) : (memref<?x?xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @bias(%x: tensor<?x?xf32, ["s0~4096", "s1~4000"]>, %b: tensor<?xf32, ["s1~4000"]>) -> tensor<?x?xf32, ["s0~4096", "s1~4000"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~4096"} : () -> index
  %m = "graph.size"() {size = "s1~4000"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~4096", "s1~4000"]>
  %r = linalg.generic {indexing_maps = [#id, #column, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %b : tensor<?x?xf32, ["s0~4096", "s1~4000"]>, tensor<?xf32, ["s1~4000"]>) outs(%e : tensor<?x?xf32, ["s0~4096", "s1~4000"]>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.addf %a, %c : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~4096", "s1~4000"]>
  return %r : tensor<?x?xf32, ["s0~4096", "s1~4000"]>
}
