// Rows whose length is a product of symbols, such as the pixels of an image: where their axes become one, a symbol of the kernel stands
// for the product, with the bounds of the kernel's range.
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=TILE

// CHECK: "plan.launch"({{.*}}) {kernel = @sum_to_61, {{.*}}when = {{\[\[}}"s1~64*s2~50", 61], ["-s1~64*s2~50", -46]]}
// CHECK: "plan.launch"({{.*}}) {kernel = @sum_to_4096_by_4, {{.*}}when = {{\[\[}}"s1~64*s2~50", 4096], ["-s1~64*s2~50", -3073], ["s1~64*s2~50 - 4*((s1~64*s2~50)//(4))", 0]]}
// CHECK: "plan.launch"({{.*}}) {kernel = @sum, {{.*}}when = []}
// CHECK: func.func private @sum_to_61({{.*}}) {{.*}}attributes {graph.kernel, graph.later, graph.lengths = {{\[\[}}"s1~64*s2~50", "product_s1_s2~61>=46<=61"]]}
// CHECK: func.func private @sum_to_4096_by_4({{.*}}) {{.*}}attributes {graph.kernel, graph.lengths = {{\[\[}}"s1~64*s2~50", "4*((product_s1_s2~4096>=3073<=4096)/(4))"]]}

// The sizes that a launch computes are made of its own symbols. A maximum says that a row has more than 2048 elements, so that a mask
// cuts none of the first ones.
// TILE-LABEL: func.func private @sum_to_4096_by_4(
// TILE-SAME: tile.sizes = [{{.*}}"4*((max(3073, s1~64*s2~50))/(4))"
// TILE-SAME: tile.vec = 4
// TILE-NOT: scf.for
// TILE: vector.create_mask
// TILE: vector.transfer_read
// TILE-NOT: vector.transfer_read
// TILE: return
#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#row = affine_map<(d0, d1, d2) -> (d0)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~64", "s1~64", "s2~50"], ["s1~64*s2~50", "s2~50", 1]]} : () -> memref<?x?x?xf32>
  %1 = "plan.output"() {index = 0 : i64, layout = [["s0~64"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%0, %1) {kernel = @sum, label = "sum", n_out = 1 : i64} : (memref<?x?x?xf32>, memref<?xf32>) -> ()
  "plan.return"(%1) : (memref<?xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @sum(%x: tensor<?x?x?xf32, ["s0~64", "s1~64", "s2~50"]>) -> tensor<?xf32, ["s0~64"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~64"} : () -> index
  %r = tensor.empty(%n) : tensor<?xf32, ["s0~64"]>
  %g = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32, ["s0~64"]>) -> tensor<?xf32, ["s0~64"]>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction", "reduction"]} ins(%x : tensor<?x?x?xf32, ["s0~64", "s1~64", "s2~50"]>) outs(%g : tensor<?xf32, ["s0~64"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~64"]>
  return %sum : tensor<?xf32, ["s0~64"]>
}
