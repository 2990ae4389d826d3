// A sum's last part ends where its elements do: the loop is shorter, and no load is masked for it. What the other rows of a maximum
// are padded with is no neutral element, so that its loads keep their mask.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func private @sum
// CHECK: %[[BASE:.*]] = arith.muli {{.*}} : index
// CHECK: %[[LEFT:.*]] = arith.subi %{{.*}}, %[[BASE]] : index
// CHECK: %[[INSIDE:.*]] = arith.maxsi %[[LEFT]], %c0{{.*}} : index
// CHECK: %[[COUNT:.*]] = arith.minsi %{{.*}}, %[[INSIDE]] : index
// CHECK: %[[REST:.*]] = arith.remui %[[COUNT]], %[[STEP:c[0-9]+]]
// CHECK: %[[WHOLE:.*]] = arith.subi %[[COUNT]], %[[REST]]
// CHECK: scf.for %{{.*}} = %c0{{.*}} to %[[WHOLE]] step %[[STEP]]
// CHECK-NOT: mask
// CHECK: scf.for %[[I:.*]] = %[[WHOLE]] to %[[COUNT]] step %[[STEP]]
// CHECK: %[[LANES:.*]] = arith.subi %[[COUNT]], %[[I]]
// CHECK: vector.create_mask %[[LANES]] : vector<{{.*}}xi1>
// CHECK-NOT: create_mask
// CHECK: return
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~90000"], array<i64: 1>]} : () -> memref<?xf32>
  %1 = "plan.output"() {index = 0 : i64} : () -> memref<8xf32>
  "plan.launch"(%0, %1) {kernel = @sum, label = "sum", n_out = 1 : i64} : (memref<?xf32>, memref<8xf32>) -> ()
  "plan.return"(%1) : (memref<8xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @sum(%x: tensor<?xf32, ["s0~90000"]>) -> tensor<8xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %more = "graph.size"() {size = "-32768*((-s0~90000)//(32768)) - s0~90000"} : () -> index
  %padded = tensor.pad %x low[0] high[%more] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32, ["s0~90000"]> to tensor<?xf32, ["-32768*((-s0~90000)//(32768))"]>
  %length = "graph.size"() {size = "-4096*((-s0~90000)//(32768))"} : () -> index
  %parts = tensor.expand_shape %padded [[0, 1]] output_shape [8, %length] : tensor<?xf32, ["-32768*((-s0~90000)//(32768))"]> into tensor<8x?xf32, [8, "-4096*((-s0~90000)//(32768))"]>
  %empty = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%parts : tensor<8x?xf32, [8, "-4096*((-s0~90000)//(32768))"]>) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func private @largest
// CHECK: scf.for
// CHECK: vector.create_mask {{.*}}tile.guard
"plan.program"() ({
  %0 = "plan.input"() {index = 0 : i64, layout = [["s0~90000"], array<i64: 1>]} : () -> memref<?xf32>
  %1 = "plan.output"() {index = 0 : i64} : () -> memref<8xf32>
  "plan.launch"(%0, %1) {kernel = @largest, label = "largest", n_out = 1 : i64} : (memref<?xf32>, memref<8xf32>) -> ()
  "plan.return"(%1) : (memref<8xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()
func.func private @largest(%x: tensor<?xf32, ["s0~90000"]>) -> tensor<8xf32> attributes {graph.kernel} {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %more = "graph.size"() {size = "-32768*((-s0~90000)//(32768)) - s0~90000"} : () -> index
  %padded = tensor.pad %x low[0] high[%more] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<?xf32, ["s0~90000"]> to tensor<?xf32, ["-32768*((-s0~90000)//(32768))"]>
  %length = "graph.size"() {size = "-4096*((-s0~90000)//(32768))"} : () -> index
  %parts = tensor.expand_shape %padded [[0, 1]] output_shape [8, %length] : tensor<?xf32, ["-32768*((-s0~90000)//(32768))"]> into tensor<8x?xf32, [8, "-4096*((-s0~90000)//(32768))"]>
  %empty = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%lowest : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%parts : tensor<8x?xf32, [8, "-4096*((-s0~90000)//(32768))"]>) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}
