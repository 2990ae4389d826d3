// Kernels whose rows have a known length, and whose schedules depend on the number of rows, have ranges of it.
// RUN: opt-driver %s --split-input-file --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --split-input-file --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE

// Few sums have narrower programs, so that there are enough of them.
// CHECK: "plan.launch"({{.*}}) {kernel = @largest_to_8_rows, {{.*}}when = {{\[\[}}"s0~300", 8]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @largest_to_131_rows, {{.*}}when = {{\[\[}}"s0~300", 131]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @largest, {{.*}}when = []}
// CHECK: func.func private @largest_to_8_rows({{.*}}graph.later, graph.symbols = {{\[\[}}"s0", "s0~8<=8"]]
// TILE: func.func private @largest_to_8_rows(
// TILE-SAME: tile.threads = 8 : i64
// TILE: func.func private @largest(
// TILE-SAME: tile.threads = 32 : i64
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#sum = affine_map<(d0, d1, d2) -> (d0, d2)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~300", "s1~700", 256], ["256*s1~700", 256, 1]]} : () -> memref<?x?x256xf32>
  %1 = "plan.output"() {index = 0 : i64, layout = [["s0~300", 256], array<i64: 256, 1>]} : () -> memref<?x256xf32>
  "plan.launch"(%0, %1) {kernel = @largest, label = "amax", n_out = 1 : i64} : (memref<?x?x256xf32>, memref<?x256xf32>) -> ()
  "plan.return"(%1) : (memref<?x256xf32>) -> ()
}) {arena_bytes = 0 : i64, sum_bytes = 0 : i64, lower_bound = 0 : i64, sym_name = "main"} : () -> ()
func.func private @largest(%x: tensor<?x?x256xf32, ["s0~300", "s1~700", 256]>) -> tensor<?x256xf32, ["s0~300", 256]> attributes {graph.kernel} {
  %least = arith.constant 0xFF800000 : f32
  %n = "graph.size"() {size = "s0~300"} : () -> index
  %e = tensor.empty(%n) : tensor<?x256xf32, ["s0~300", 256]>
  %init = linalg.fill ins(%least : f32) outs(%e : tensor<?x256xf32, ["s0~300", 256]>) -> tensor<?x256xf32, ["s0~300", 256]>
  %r = linalg.generic {indexing_maps = [#id, #sum], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<?x?x256xf32, ["s0~300", "s1~700", 256]>) outs(%init : tensor<?x256xf32, ["s0~300", 256]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?x256xf32, ["s0~300", 256]>
  return %r : tensor<?x256xf32, ["s0~300", 256]>
}

// -----

// Threads of a kernel of many elements have two accesses each.
// CHECK: "plan.launch"({{.*}}) {kernel = @exponential_to_1365_rows, {{.*}}when = {{\[\[}}"s0~5", 1365]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @exponential, {{.*}}when = []}
// CHECK: func.func private @exponential({{.*}}graph.later, graph.symbols = {{\[\[}}"s0", "s0~1366"]]
// TILE: func.func private @exponential_to_1365_rows(
// TILE-SAME: tile.chunks = 1 : i64
// TILE: func.func private @exponential(
// TILE-SAME: tile.chunks = 2 : i64
#rows = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~5", 3072], array<i64: 3072, 1>]} : () -> memref<?x3072xbf16>
  %1 = "plan.input"() {index = 1 : i64} : () -> memref<3072xbf16>
  %2 = "plan.output"() {index = 0 : i64, layout = [["s0~5", 3072], array<i64: 3072, 1>]} : () -> memref<?x3072xbf16>
  "plan.launch"(%0, %1, %2) {kernel = @exponential, label = "exp", n_out = 1 : i64} : (memref<?x3072xbf16>, memref<3072xbf16>, memref<?x3072xbf16>) -> ()
  "plan.return"(%2) : (memref<?x3072xbf16>) -> ()
}) {arena_bytes = 0 : i64, sum_bytes = 0 : i64, lower_bound = 0 : i64, sym_name = "main"} : () -> ()
func.func private @exponential(%x: tensor<?x3072xbf16, ["s0~5", 3072]>, %b: tensor<3072xbf16>) -> tensor<?x3072xbf16, ["s0~5", 3072]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s0~5"} : () -> index
  %e = tensor.empty(%n) : tensor<?x3072xbf16, ["s0~5", 3072]>
  %r = linalg.generic {indexing_maps = [#rows, #column, #rows], iterator_types = ["parallel", "parallel"]}
      ins(%x, %b : tensor<?x3072xbf16, ["s0~5", 3072]>, tensor<3072xbf16>) outs(%e : tensor<?x3072xbf16, ["s0~5", 3072]>) {
  ^bb0(%a: bf16, %c: bf16, %acc: bf16):
    %0 = arith.extf %a : bf16 to f32
    %1 = arith.extf %c : bf16 to f32
    %2 = arith.addf %0, %1 : f32
    %3 = math.exp %2 : f32
    %4 = arith.truncf %3 : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<?x3072xbf16, ["s0~5", 3072]>
  return %r : tensor<?x3072xbf16, ["s0~5", 3072]>
}
