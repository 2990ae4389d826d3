// Launches of several kernels whose sizes the call decides become one: the sizes of all are one list, and each part starts where the
// programs of those before it end.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a}' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a},lamina-distribute' | FileCheck %s --check-prefix=GPU
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a},lamina-start-early{target=nvvm:sm_90a}' | FileCheck %s --check-prefix=EARLY
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a},lamina-horizontal{target=nvvm:sm_90a},lamina-route-to-triton' -o %t
// RUN: opt-driver %t --target=nvvm:sm_90a --emit=triton | FileCheck %s --check-prefix=TRITON
// RUN: opt-driver %t --target=nvvm:sm_90a --emit=ptx | FileCheck %s --check-prefix=PTX

// CHECK-COUNT-1: "plan.launch"({{.*}}) {kernel = @negate_and_grow_and_2_more, label = "negate, grow, 2 x shrink, sum", n_out = 5 : i64}
// CHECK-NEXT: "plan.return"
// CHECK: func.func private @negate_and_grow_and_2_more({{.*}}, %[[SIZES:arg10]]: memref<6xi32>)
// CHECK-SAME: tile.grid = "-((-s0~1000)//(32)) - ((-s0~1000)//(512)) - ((-s1~700)//(256)) + 2"
// CHECK-SAME: tile.sizes = ["s0~1000", "-((-s0~1000)//(512))", "s1~700", "-((-s1~700)//(256))", "-2*((-s1~700)//(256))", "10*s0~1000"]

// CHECK: "tile.part"() ({
// CHECK: }) {{{.*}}tile.grid = 2 : i64
// CHECK: "tile.part"() ({
// CHECK: }) {{{.*}}tile.grid = "-((-s0~1000)//(512))"

// Where a kernel comes twice, the number of its programs is among the sizes, to choose the buffers.
// CHECK: "tile.part"() ({
// CHECK: %[[PROGRAM:.*]] = "tile.program_id"()
// CHECK: %[[LOADED:.*]] = memref.load %[[SIZES]][%c3{{.*}}]
// CHECK: %[[GRID:.*]] = arith.index_cast %[[LOADED]]
// CHECK: arith.divui %[[PROGRAM]], %[[GRID]]
// CHECK: memref.load %[[SIZES]][%c2{{.*}}]
// CHECK: }) {{{.*}}tile.grid = "-2*((-s1~700)//(256))", tile.pack = 2 : i64

// CHECK: "tile.part"() ({
// CHECK: memref.load %[[SIZES]][%c0{{.*}}]
// CHECK: memref.load %[[SIZES]][%c5{{.*}}]
// CHECK: }) {{{.*}}tile.grid = "s0~1000", tile.pack = 32 : i64

// The second part starts at CTA 2, the third after the programs of the second, and the last after those of the third, two to a CTA.
// GPU-LABEL: gpu.func @negate_and_grow_and_2_more
// GPU: %[[LOADED:.*]] = memref.load %arg10[%c1{{.*}}]
// GPU: %[[GROW:.*]] = arith.index_cast %[[LOADED]]
// GPU: %[[THIRD:.*]] = arith.addi %[[GROW]], %c2{{.*}} overflow<nsw> : index
// GPU: %[[LOADED:.*]] = memref.load %arg10[%c4{{.*}}]
// GPU: %[[SHRINK:.*]] = arith.index_cast %[[LOADED]]
// GPU: %[[UP:.*]] = arith.addi %[[SHRINK]], %c1{{.*}} overflow<nsw> : index
// GPU: %[[CTAS:.*]] = arith.divui %[[UP]], %c2{{.*}} : index
// GPU: %[[LAST:.*]] = arith.addi %[[CTAS]], %[[THIRD]] overflow<nsw> : index
// GPU: arith.cmpi ult, %block_id_x, %[[THIRD]]
// GPU: arith.cmpi ult, %block_id_x, %c2{{.*}} : index
// GPU: math.exp
// GPU: arith.cmpi ult, %block_id_x, %[[LAST]]
// GPU: arith.subi %{{.*}}, %[[THIRD]] overflow<nsw> : index
// GPU: math.sqrt
// GPU: arith.subi %{{.*}}, %[[LAST]] overflow<nsw> : index

// EARLY: "plan.launch"({{.*}}) {kernel = @negate_and_grow_and_2_more_early, {{.*}} when = {{\[\[}}"-((-s0~1000)//(32)) - ((-s0~1000)//(512)) - ((-s1~700)//(256)) + 2", 2112]]}
// EARLY: "plan.launch"({{.*}}) {kernel = @negate_and_grow_and_2_more, {{.*}} when = []}

// TRITON: def negate_and_grow_and_2_more(x0, x1, x2, x3, x4, y0, y1, y2, y3, y4, sizes):
// TRITON-NEXT: size1 = tl.load(sizes + 1)
// TRITON-NEXT: size4 = tl.multiple_of(tl.load(sizes + 4), 2)
// TRITON-NEXT: program = tl.program_id(0)
// TRITON-NEXT: if program < 2:
// TRITON-NEXT: negate_and_grow_and_2_more_0(program, {{.*}}, sizes)
// TRITON-NEXT: elif program < 2 + size1:
// TRITON-NEXT: negate_and_grow_and_2_more_1(program - 2, {{.*}}, sizes)
// TRITON-NEXT: elif program < 2 + size1 + size4:
// TRITON-NEXT: negate_and_grow_and_2_more_2(program - 2 - size1, {{.*}}, sizes)
// TRITON-NEXT: else:
// TRITON-NEXT: negate_and_grow_and_2_more_3(program - 2 - size1 - size4, {{.*}}, sizes)
// PTX: .entry negate_and_grow_and_2_more
#id = affine_map<(d0) -> (d0)>
"plan.program"() ({
  %x = "plan.input"() {index = 0 : i64} : () -> memref<1000xf32>
  %a = "plan.input"() {index = 1 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  %b = "plan.input"() {index = 2 : i64, layout = [["s1~700"], array<i64: 1>]} : () -> memref<?xf32>
  %c = "plan.input"() {index = 3 : i64, layout = [["s1~700"], array<i64: 1>]} : () -> memref<?xf32>
  %d = "plan.input"() {index = 4 : i64, layout = [["s0~1000", 10], array<i64: 10, 1>]} : () -> memref<?x10xf32>
  %p = "plan.output"() {index = 0 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%a, %p) {kernel = @grow, label = "grow", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %q = "plan.output"() {index = 1 : i64, layout = [["s1~700"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%b, %q) {kernel = @shrink, label = "shrink", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  %r = "plan.output"() {index = 2 : i64, layout = [["s0~1000"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%d, %r) {kernel = @sum, label = "sum", n_out = 1 : i64} : (memref<?x10xf32>, memref<?xf32>) -> ()
  %s = "plan.output"() {index = 3 : i64} : () -> memref<1000xf32>
  "plan.launch"(%x, %s) {kernel = @negate, label = "negate", n_out = 1 : i64} : (memref<1000xf32>, memref<1000xf32>) -> ()
  %t = "plan.output"() {index = 4 : i64, layout = [["s1~700"], array<i64: 1>]} : () -> memref<?xf32>
  "plan.launch"(%c, %t) {kernel = @shrink, label = "shrink_2", n_out = 1 : i64} : (memref<?xf32>, memref<?xf32>) -> ()
  "plan.return"(%p, %q, %r, %s, %t) : (memref<?xf32>, memref<?xf32>, memref<?xf32>, memref<1000xf32>, memref<?xf32>) -> ()
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
func.func private @shrink(%x: tensor<?xf32, ["s1~700"]>) -> tensor<?xf32, ["s1~700"]> attributes {graph.kernel} {
  %n = "graph.size"() {size = "s1~700"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s1~700"]>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<?xf32, ["s1~700"]>) outs(%e : tensor<?xf32, ["s1~700"]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.sqrt %a : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~700"]>
  return %r : tensor<?xf32, ["s1~700"]>
}
func.func private @sum(%x: tensor<?x10xf32, ["s0~1000", 10]>) -> tensor<?xf32, ["s0~1000"]> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %n = "graph.size"() {size = "s0~1000"} : () -> index
  %e = tensor.empty(%n) : tensor<?xf32, ["s0~1000"]>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<?xf32, ["s0~1000"]>) -> tensor<?xf32, ["s0~1000"]>
  %r = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<?x10xf32, ["s0~1000", 10]>) outs(%f : tensor<?xf32, ["s0~1000"]>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.addf %a, %o : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~1000"]>
  return %r : tensor<?xf32, ["s0~1000"]>
}
func.func private @negate(%x: tensor<1000xf32>) -> tensor<1000xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<1000xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]} ins(%x : tensor<1000xf32>) outs(%e : tensor<1000xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = arith.negf %a : f32
    linalg.yield %0 : f32
  } -> tensor<1000xf32>
  return %r : tensor<1000xf32>
}
