// Rows of symbolic length: kernels for ranges of lengths, which hold the row in registers, and one for any, which walks over it.
// RUN: opt-driver %s --pass-pipeline='lamina-size-ranges{target=nvvm:sm_90a},lamina-tile{target=nvvm:sm_90a},lamina-start-early{target=nvvm:sm_90a}' | FileCheck %s

// Of these launches a call makes the first whose conditions hold; the last one has none.
// CHECK: "plan.launch"({{.*}}) {kernel = @softmax_to_61_early, {{.*}}when = {{\[\[}}"s1~4000", 61], ["-s1~4000", -46], ["s0~64", 16896]]}
// CHECK-NEXT: "plan.launch"({{.*}}) {kernel = @softmax_to_61, {{.*}}when = {{\[\[}}"s1~4000", 61], ["-s1~4000", -46]]}
// CHECK: kernel = @softmax_to_1024_by_4_early, {{.*}}when = {{\[\[}}"s1~4000", 1024], ["-s1~4000", -769], ["-4*((s1~4000)//(4)) + s1~4000", 0], ["s0~64", 8448]]}
// CHECK: kernel = @softmax_to_1021, {{.*}}when = {{\[\[}}"s1~4000", 1021], ["-s1~4000", -766]]}
// CHECK: kernel = @softmax_to_131069, {{.*}}when = {{\[\[}}"s1~4000", 131069], ["-s1~4000", -98302]]}
// CHECK: kernel = @softmax, {{.*}}when = []}

// Rows of up to 61 elements are read one by one, whatever divides their length; the sizes have their bounds.
// CHECK-LABEL: func.func private @softmax_to_61_early
// CHECK-SAME: tile.later
// CHECK-SAME: tile.sizes = ["s0~64*s1~61>=46<=61", {{.*}}"s1~61>=46<=61"]
// CHECK-NOT: scf.for
// CHECK: return

// Those of multiples of four are read in whole accesses, once, under a mask, which the kernel knows to cut none of the first 512.
// CHECK-LABEL: func.func private @softmax_to_1024_by_4_early
// CHECK-SAME: tile.later
// CHECK-SAME: tile.sizes = ["4*((s1~1024>=769<=1024)/(4))*s0~64", {{.*}}"4*((s1~1024>=769<=1024)/(4))"]
// CHECK-SAME: tile.vec = 4
// CHECK-NOT: scf.for
// CHECK: vector.create_mask
// CHECK: vector.transfer_read
// CHECK-NOT: vector.transfer_read
// CHECK: return

// Rows of other lengths, which start amid an access: so do whole accesses, and a mask says which lanes count.
// CHECK-LABEL: func.func private @softmax_to_1021(
// CHECK-SAME: tile.vec = 4
// CHECK-NOT: scf.for
// CHECK: tile.window{{.*}}max_low = 3 : i64, min_high = 766 : i64
// CHECK: return

// The kernel for the row and the grid that were traced is compiled at once.
// CHECK-LABEL: func.func private @softmax_to_4096_by_4_early
// CHECK-NOT: tile.later
// CHECK-SAME: {
// CHECK-LABEL: func.func private @softmax_to_4096_by_4(
// CHECK-SAME: tile.later

// CTAs of a cluster share rows of more than 16384 elements.
// CHECK-LABEL: func.func private @softmax_to_65536_by_4(
// CHECK-SAME: tile.cluster = 4
// CHECK-SAME: tile.later

// The one for any length serves calls until that for their range is compiled.
// CHECK-LABEL: func.func private @softmax(
// CHECK-SAME: tile.later
// CHECK: scf.for
#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~64", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  %1 = "plan.output"() {index = 0 : i64, layout = [["s0~64", "s1~4000"], ["s1~4000", 1]]} : () -> memref<?x?xf32>
  "plan.launch"(%0, %1) {kernel = @softmax, label = "softmax", n_out = 1 : i64} : (memref<?x?xf32>, memref<?x?xf32>) -> ()
  "plan.return"(%1) : (memref<?x?xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @softmax(%x: tensor<?x?xf32, ["s0~64", "s1~4000"]>) -> tensor<?x?xf32, ["s0~64", "s1~4000"]> attributes {graph.kernel} {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~64"} : () -> index
  %m = "graph.size"() {size = "s1~4000"} : () -> index
  %r = tensor.empty(%n) : tensor<?xf32, ["s0~64"]>
  %e = tensor.empty(%n, %m) : tensor<?x?xf32, ["s0~64", "s1~4000"]>
  %f = linalg.fill ins(%low : f32) outs(%r : tensor<?xf32, ["s0~64"]>) -> tensor<?xf32, ["s0~64"]>
  %g = linalg.fill ins(%zero : f32) outs(%r : tensor<?xf32, ["s0~64"]>) -> tensor<?xf32, ["s0~64"]>
  %max = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x?xf32, ["s0~64", "s1~4000"]>) outs(%f : tensor<?xf32, ["s0~64"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~64"]>
  %exp = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %max : tensor<?x?xf32, ["s0~64", "s1~4000"]>, tensor<?xf32, ["s0~64"]>) outs(%e : tensor<?x?xf32, ["s0~64", "s1~4000"]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.subf %a, %b : f32
    %1 = math.exp %0 : f32
    linalg.yield %1 : f32
  } -> tensor<?x?xf32, ["s0~64", "s1~4000"]>
  %sum = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%exp : tensor<?x?xf32, ["s0~64", "s1~4000"]>) outs(%g : tensor<?xf32, ["s0~64"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~64"]>
  %out = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%exp, %sum : tensor<?x?xf32, ["s0~64", "s1~4000"]>, tensor<?xf32, ["s0~64"]>) outs(%e : tensor<?x?xf32, ["s0~64", "s1~4000"]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.divf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<?x?xf32, ["s0~64", "s1~4000"]>
  return %out : tensor<?x?xf32, ["s0~64", "s1~4000"]>
}
