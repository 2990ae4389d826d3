// What a reshape of computed values reads, over boundaries of their dimensions, is computed there: the operands are as long in memory.
// RUN: opt-driver %s --pass-pipeline='lamina-fuse{balance=16}' --split-input-file | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='lamina-fuse{balance=16},lamina-plan,lamina-tile{target=nvvm:sm_90a}' --split-input-file | FileCheck %s --check-prefix=TILE

// A kernel of sums in parts, and one of all elements. Neither reads an f32 copy, and nothing is divided.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"(%arg0) ({
// CHECK: arith.extf
// CHECK: tensor.expand_shape
// CHECK: -> tensor<20xf32>
// CHECK: "graph.group"(%arg0) ({
// CHECK: arith.extf
// CHECK: -> tensor<64x26x50xf32>
// CHECK-NOT: graph.group
// CHECK: return
// TILE-LABEL: func.func private
// TILE-NOT: arith.remui
// TILE: return
#id3 = affine_map<(b, h, w) -> (b, h, w)>
!x = tensor<64x26x50xbf16>
!f = tensor<64x26x50xf32>
func.func @main(%x: !x) -> (tensor<20xf32>, !f) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !f
  %y = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x : !x) outs(%e : !f) {
  ^bb0(%a: bf16, %o: f32):
    %0 = arith.extf %a : bf16 to f32
    linalg.yield %0 : f32
  } -> !f
  %flat = tensor.collapse_shape %y [[0, 1, 2]] : !f into tensor<83200xf32>
  %parts = tensor.expand_shape %flat [[0, 1]] output_shape [20, 4160] : tensor<83200xf32> into tensor<20x4160xf32>
  %p = tensor.empty() : tensor<20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%p : tensor<20xf32>) -> tensor<20xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(p, i) -> (p, i)>, affine_map<(p, i) -> (p)>], iterator_types = ["parallel", "reduction"]}
      ins(%parts : tensor<20x4160xf32>) outs(%init : tensor<20xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<20xf32>
  %z = linalg.generic {indexing_maps = [#id3, #id3], iterator_types = ["parallel", "parallel", "parallel"]} ins(%y : !f) outs(%e : !f) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !f
  return %s, %z : tensor<20xf32>, !f
}

// -----

// An operand that is shorter, such as a factor for each row, would be read at an index that is divided: what is reshaped is stored.
// CHECK-LABEL: func.func @main
// CHECK: "graph.group"(%arg0, %arg1) ({
// CHECK: arith.mulf
// CHECK: math.exp
// CHECK: -> tensor<64x1300xf32>
// CHECK: "graph.group"
// CHECK: tensor.collapse_shape
// CHECK: -> tensor<20xf32>
// TILE: func.func private
#id = affine_map<(b, h) -> (b, h)>
!x = tensor<64x1300xf32>
func.func @main(%x: !x, %f: tensor<64xf32>) -> tensor<20xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : !x
  %y = linalg.generic {indexing_maps = [#id, affine_map<(b, h) -> (b)>, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %f : !x, tensor<64xf32>) outs(%e : !x) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> !x
  %z = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%y : !x) outs(%e : !x) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  } -> !x
  %flat = tensor.collapse_shape %z [[0, 1]] : !x into tensor<83200xf32>
  %parts = tensor.expand_shape %flat [[0, 1]] output_shape [20, 4160] : tensor<83200xf32> into tensor<20x4160xf32>
  %p = tensor.empty() : tensor<20xf32>
  %init = linalg.fill ins(%zero : f32) outs(%p : tensor<20xf32>) -> tensor<20xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(p, i) -> (p, i)>, affine_map<(p, i) -> (p)>], iterator_types = ["parallel", "reduction"]}
      ins(%parts : tensor<20x4160xf32>) outs(%init : tensor<20xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<20xf32>
  return %s : tensor<20xf32>
}
