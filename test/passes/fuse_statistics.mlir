// What is computed from reductions for each group of channels, and read for each pixel of a channels-last image, is computed once, in
// the reductions' kernel. In an image with its channels first a row has one value: it is computed where it is read.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-fuse{balance=16})' --pretty | FileCheck %s

#pixels = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#group = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, 0, 0, 0)>
#part = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#sum = affine_map<(d0, d1, d2) -> (d0, d1, 0, 0, 0)>

// CHECK-LABEL: func @last
// CHECK: group @
// CHECK: rsqrt
// CHECK: group @
// CHECK-NOT: rsqrt
// CHECK: return
// CHECK-LABEL: func @first
// CHECK: group @
// CHECK-NOT: rsqrt
// CHECK: group @
// CHECK: rsqrt
func.func @last(%x: tensor<2x320x64x64xf32> {graph.strides = array<i64: 1310720, 1, 20480, 320>}, %p: tensor<2x32x100xf32>, %init: tensor<2x32x1x1x1xf32>)
    -> (tensor<2x320x64x64xf32> {graph.strides = array<i64: 1310720, 1, 20480, 320>}) {
  %g = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 32, 10, 64, 64] : tensor<2x320x64x64xf32> into tensor<2x32x10x64x64xf32>
  %s = linalg.generic {indexing_maps = [#part, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<2x32x100xf32>) outs(%init : tensor<2x32x1x1x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x1x1x1xf32>
  %e = tensor.empty() : tensor<2x32x1x1x1xf32>
  %r = linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x1x1x1xf32>) outs(%e : tensor<2x32x1x1x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.rsqrt %a : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x1x1x1xf32>
  %w = tensor.empty() : tensor<2x32x10x64x64xf32>
  %y = linalg.generic {indexing_maps = [#pixels, #group, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%g, %r : tensor<2x32x10x64x64xf32>, tensor<2x32x1x1x1xf32>) outs(%w : tensor<2x32x10x64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x10x64x64xf32>
  %c = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x32x10x64x64xf32> into tensor<2x320x64x64xf32>
  return %c : tensor<2x320x64x64xf32>
}

func.func @first(%x: tensor<2x320x64x64xf32>, %p: tensor<2x32x100xf32>, %init: tensor<2x32x1x1x1xf32>)
    -> tensor<2x320x64x64xf32> {
  %g = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 32, 10, 64, 64] : tensor<2x320x64x64xf32> into tensor<2x32x10x64x64xf32>
  %s = linalg.generic {indexing_maps = [#part, #sum], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p : tensor<2x32x100xf32>) outs(%init : tensor<2x32x1x1x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x1x1x1xf32>
  %e = tensor.empty() : tensor<2x32x1x1x1xf32>
  %r = linalg.generic {indexing_maps = [#pixels, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%s : tensor<2x32x1x1x1xf32>) outs(%e : tensor<2x32x1x1x1xf32>) {
  ^bb0(%a: f32, %o: f32):
    %0 = math.rsqrt %a : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x1x1x1xf32>
  %w = tensor.empty() : tensor<2x32x10x64x64xf32>
  %y = linalg.generic {indexing_maps = [#pixels, #group, #pixels], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%g, %r : tensor<2x32x10x64x64xf32>, tensor<2x32x1x1x1xf32>) outs(%w : tensor<2x32x10x64x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %0 = arith.mulf %a, %b : f32
    linalg.yield %0 : f32
  } -> tensor<2x32x10x64x64xf32>
  %c = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x32x10x64x64xf32> into tensor<2x320x64x64xf32>
  return %c : tensor<2x320x64x64xf32>
}
