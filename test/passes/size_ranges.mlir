// Kernel functions are copied for ranges of a symbolic size that have better schedules; what the traced call can do without is marked.
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges' | FileCheck %s --check-prefix=CPU

// Of these launches a call makes the first whose conditions hold.
// CHECK: "plan.launch"({{.*}}) {kernel = @sum_to_61, {{.*}}when = {{\[\[}}"s1~4000", 61], ["-s1~4000", -46]]}
// CHECK: "plan.launch"({{.*}}) {kernel = @sum_to_4096_by_4, {{.*}}when = {{\[\[}}"s1~4000", 4096], ["-s1~4000", -3073], ["-4*((s1~4000)//(4)) + s1~4000", 0]]}
// CHECK: "plan.launch"({{.*}}) {kernel = @sum, {{.*}}when = []}
// What has no rows has one kernel.
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @relu, label = "relu", n_out = 1 : i64}

// CHECK: func.func private @sum_to_61({{.*}}) {{.*}}attributes {graph.kernel, graph.later, graph.symbols = {{\[\[}}"s1", "s1~61>=46<=61"]]}
// The kernel for the row that was traced is compiled at once.
// CHECK: func.func private @sum_to_4096_by_4({{.*}}) {{.*}}attributes {graph.kernel, graph.symbols = {{\[\[}}"s1", "4*((s1~4096>=3073<=4096)/(4))"]]}
// CHECK: func.func private @sum({{.*}}) {{.*}}attributes {graph.kernel, graph.later, graph.symbols = {{\[\[}}"s1", "s1~
// CHECK: func.func private @relu({{.*}}) {{.*}}attributes {graph.kernel} {

// CPUs hold no rows in registers.
// CPU-COUNT-2: "plan.launch"
// CPU-NOT: "plan.launch"
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~64", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  %1 = "plan.output"() {index = 0 : i64, layout = [["s0~64"], array<i64: 1>]} : () -> memref<?xf32>
  %2 = "plan.output"() {index = 1 : i64, layout = [["s0~64", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  "plan.launch"(%0, %1) {kernel = @sum, label = "sum", n_out = 1 : i64} : (memref<?x?xf32>, memref<?xf32>) -> ()
  "plan.launch"(%0, %2) {kernel = @relu, label = "relu", n_out = 1 : i64} : (memref<?x?xf32>, memref<?x?xf32>) -> ()
  "plan.return"(%1, %2) : (memref<?xf32>, memref<?x?xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @sum(%x: tensor<?x?xf32, ["s0~64", "s1~4000"]>) -> tensor<?xf32, ["s0~64"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~64"} : () -> index
  %r = tensor.empty(%n) : tensor<?xf32, ["s0~64"]>
  %g = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32, ["s0~64"]>) -> tensor<?xf32, ["s0~64"]>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf32, ["s0~64", "s1~4000"]>) outs(%g : tensor<?xf32, ["s0~64"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~64"]>
  return %sum : tensor<?xf32, ["s0~64"]>
}
func.func private @relu(%x: tensor<?x?xf32, ["s0~64", "s1~4000"]>) -> tensor<?x?xf32, ["s0~64", "s1~4000"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~64"} : () -> index
  %m = "graph.size"() {size = "s1~4000"} : () -> index
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~64", "s1~4000"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32, ["s0~64", "s1~4000"]>) outs(%e : tensor<?x?xf32, ["s0~64", "s1~4000"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %zero : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~64", "s1~4000"]>
  return %r : tensor<?x?xf32, ["s0~64", "s1~4000"]>
}
