// Kernels whose arguments start amid 16 bytes, as the program says: what they read is narrow, what they write is not.
// RUN: opt-driver %s --pass-pipeline='lamina-tile{target=nvvm:sm_90a}' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// CHECK-LABEL: "plan.program"
"plan.program"() ({
  %x = "plan.input"() {align = 4 : i64, index = 0 : i64} : () -> memref<64x512xf32, strided<[516, 1]>>
  %o = "plan.output"() {index = 0 : i64} : () -> memref<64x512xf32>
  "plan.launch"(%x, %o) {kernel = @exp, label = "exp", n_out = 1 : i64} : (memref<64x512xf32, strided<[516, 1]>>, memref<64x512xf32>) -> ()
  %y = "plan.output"() {index = 1 : i64} : () -> memref<64x512xf32>
  "plan.launch"(%o, %y) {kernel = @tanh, label = "tanh", n_out = 1 : i64} : (memref<64x512xf32>, memref<64x512xf32>) -> ()
  "plan.return"(%o, %y) : (memref<64x512xf32>, memref<64x512xf32>) -> ()
}) {arena_bytes = 0 : i64, lower_bound = 0 : i64, sum_bytes = 0 : i64, sym_name = "main"} : () -> ()

// CHECK-LABEL: func.func private @exp
// CHECK-SAME: tile.align = array<i64: 4, 16>
// CHECK-SAME: tile.vec = 1 : i64
func.func private @exp(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<64x512xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> tensor<64x512xf32>
  return %r : tensor<64x512xf32>
}

// CHECK-LABEL: func.func private @tanh
// CHECK-SAME: tile.align = array<i64: 16, 16>
func.func private @tanh(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {graph.kernel} {
  %e = tensor.empty() : tensor<64x512xf32>
  %r = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<64x512xf32>) outs(%e : tensor<64x512xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.tanh %a : f32
    linalg.yield %0 : f32
  } -> tensor<64x512xf32>
  return %r : tensor<64x512xf32>
}
