// A reduction to one result becomes partial results and their sum; one to many results stays.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=64 parts=8})' | FileCheck %s
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=64 parts=8 columns=100})' | FileCheck %s --check-prefix=SPREAD

#in = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
#row = affine_map<(d0, d1) -> (d0)>

// CHECK-LABEL: func.func @total
// CHECK: tensor.expand_shape %arg0 {{.*}} output_shape [8, 3, 16]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction"]
// CHECK: -> tensor<8xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction"]
// CHECK: -> tensor<f32>
func.func @total(%x: tensor<24x16xf32>, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<24x16xf32>) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// CHECK-LABEL: func.func @rows
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @rows(%x: tensor<24x16xf32>, %init: tensor<24xf32>) -> tensor<24xf32> {
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<24x16xf32>) outs(%init : tensor<24xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

#image = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#channel = affine_map<(d0, d1, d2, d3) -> (d1)>

// Sums by channel of an image with its channels last run across neighbors in memory: over both outer loops, in parts of 128 rows.
// CHECK-LABEL: func.func @channels_last
// CHECK: tensor.expand_shape %arg0 {{.*}} output_shape [4, 1, 6, 2, 4, 64]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction", "reduction", "parallel"]
// CHECK: -> tensor<4x2x6xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction", "parallel"]
// CHECK-LABEL: func.func @channels_first
// CHECK-NOT: tensor.expand_shape
// CHECK: return
// Those of an image with its channels first lie in as many pieces as there are images: no cluster of CTAs shares them.
// SPREAD-LABEL: func.func @channels_first
// SPREAD: tensor.expand_shape %arg0 {{.*}} output_shape [4, 9, 8, 1, 64]
// SPREAD: -> tensor<9x8xf32>
func.func @channels_last(%x: tensor<4x6x8x64xf32> {graph.strides = array<i64: 3072, 1, 384, 6>}, %init: tensor<6xf32>) -> tensor<6xf32> {
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]}
      ins(%x : tensor<4x6x8x64xf32>) outs(%init : tensor<6xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<6xf32>
  return %s : tensor<6xf32>
}
func.func @channels_first(%x: tensor<4x9x8x64xf32>, %init: tensor<9xf32>) -> tensor<9xf32> {
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]}
      ins(%x : tensor<4x9x8x64xf32>) outs(%init : tensor<9xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<9xf32>
  return %s : tensor<9xf32>
}

#height = affine_map<(d0, d1, d2, d3) -> (d2)>

// What is gathered from an image with its channels last has its channels last, too.
// SPREAD-LABEL: func.func @gathered
// SPREAD: tensor.expand_shape %{{.*}} output_shape [4, 1, 6, 2, 4, 64]
// SPREAD: -> tensor<4x2x6xf32>
func.func @gathered(%x: tensor<4x6x5x64xf32> {graph.strides = array<i64: 1920, 1, 384, 6>}, %rows: tensor<8xi32>, %init: tensor<6xf32>) -> tensor<6xf32> {
  %e = tensor.empty() : tensor<4x6x8x64xf32>
  %g = linalg.generic {indexing_maps = [#height, #image], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%rows : tensor<8xi32>) outs(%e : tensor<4x6x8x64xf32>) {
  ^bb0(%r: i32, %o: f32):
    %h = arith.index_cast %r : i32 to index
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %w = linalg.index 3 : index
    %0 = tensor.extract %x[%n, %c, %h, %w] {graph.checked} : tensor<4x6x5x64xf32>
    linalg.yield %0 : f32
  } -> tensor<4x6x8x64xf32>
  %s = linalg.generic {indexing_maps = [#image, #channel], iterator_types = ["reduction", "parallel", "reduction", "reduction"]}
      ins(%g : tensor<4x6x8x64xf32>) outs(%init : tensor<6xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<6xf32>
  return %s : tensor<6xf32>
}

// A row that is spread over all rows has no neighbors across them: what is added to it says where those lie.
// SPREAD-LABEL: func.func @spread
// SPREAD-NOT: tensor.expand_shape
func.func @spread(%x: tensor<24x2048xf32> {graph.strides = array<i64: 0, 1>}, %y: tensor<24x2048xf32>, %init: tensor<24xf32>) -> tensor<24xf32> {
  %e = tensor.empty() : tensor<24x2048xf32>
  %b = linalg.generic {indexing_maps = [#in, #in, #in], iterator_types = ["parallel", "parallel"]}
      ins(%x, %y : tensor<24x2048xf32>, tensor<24x2048xf32>) outs(%e : tensor<24x2048xf32>) {
  ^bb0(%a: f32, %c: f32, %acc: f32):
    %0 = arith.addf %a, %c : f32
    linalg.yield %0 : f32
  } -> tensor<24x2048xf32>
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%b : tensor<24x2048xf32>) outs(%init : tensor<24xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

#image3 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#batch = affine_map<(d0, d1, d2) -> (d0)>

// Rows of which every other element is left out: no cluster of CTAs shares one, so that more of them are split where columns are.
// SPREAD-LABEL: func.func @in_pieces
// SPREAD: tensor.expand_shape {{.*}} output_shape [24, 8, 2, 8]
// SPREAD: -> tensor<24x8xf32>
// SPREAD: -> tensor<24xf32>
// CHECK-LABEL: func.func @in_pieces
// CHECK-NOT: tensor.expand_shape
// CHECK: return
func.func @in_pieces(%x: tensor<24x16x16xf32>, %init: tensor<24xf32>) -> tensor<24xf32> {
  %a = tensor.extract_slice %x[0, 0, 0] [24, 16, 8] [1, 1, 2] : tensor<24x16x16xf32> to tensor<24x16x8xf32>
  %b = tensor.extract_slice %x[0, 0, 1] [24, 16, 8] [1, 1, 2] : tensor<24x16x16xf32> to tensor<24x16x8xf32>
  %e = tensor.empty() : tensor<24x16x8xf32>
  %m = linalg.generic {indexing_maps = [#image3, #image3, #image3], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %b : tensor<24x16x8xf32>, tensor<24x16x8xf32>) outs(%e : tensor<24x16x8xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %0 = arith.maximumf %p, %q : f32
    linalg.yield %0 : f32
  } -> tensor<24x16x8xf32>
  %s = linalg.generic {indexing_maps = [#image3, #batch], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%m : tensor<24x16x8xf32>) outs(%init : tensor<24xf32>) {
  ^bb0(%p: f32, %acc: f32):
    %0 = arith.addf %p, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

// Rows without their first elements lie in one piece each.
// SPREAD-LABEL: func.func @in_one_piece
// SPREAD-NOT: tensor.expand_shape
// SPREAD: return
func.func @in_one_piece(%x: tensor<24x17x8xf32>, %init: tensor<24xf32>) -> tensor<24xf32> {
  %a = tensor.extract_slice %x[0, 1, 0] [24, 16, 8] [1, 1, 1] : tensor<24x17x8xf32> to tensor<24x16x8xf32>
  %s = linalg.generic {indexing_maps = [#image3, #batch], iterator_types = ["parallel", "reduction", "reduction"]}
      ins(%a : tensor<24x16x8xf32>) outs(%init : tensor<24xf32>) {
  ^bb0(%p: f32, %acc: f32):
    %0 = arith.addf %p, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<24xf32>
  return %s : tensor<24xf32>
}

#cube = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#rest = affine_map<(d0, d1) -> (d0, 0)>

// The maximum of maxima over another dimension is one maximum, whose loops are in the order of memory.
// CHECK-LABEL: func.func @nested
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}], iterator_types = ["parallel", "reduction", "reduction"]} ins(%arg0 : tensor<3x4x5xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @nested(%x: tensor<3x4x5xf32>) -> tensor<3x1xf32> {
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#cube, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<3x4x5xf32>) outs(%f : tensor<3x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3x4xf32>
  %g = tensor.empty() : tensor<3x1xf32>
  %h = linalg.fill ins(%least : f32) outs(%g : tensor<3x1xf32>) -> tensor<3x1xf32>
  %s = linalg.generic {indexing_maps = [#in, #rest], iterator_types = ["parallel", "reduction"]}
      ins(%r : tensor<3x4xf32>) outs(%h : tensor<3x1xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3x1xf32>
  return %s : tensor<3x1xf32>
}

// A sum of maxima stays two reductions.
// A loop of one iteration over a dimension that the first sum kept has nothing to walk in the merged one.
// CHECK-LABEL: func.func @nested_kept
// CHECK: linalg.generic {indexing_maps = [#{{.*}}, #{{.*}}], iterator_types = ["parallel", "reduction", "reduction", "reduction"]} ins(%arg0 : tensor<3x4x5x6xf32>)
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @nested_kept(%x: tensor<3x4x5x6xf32>) -> tensor<3x1xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x1x1x6xf32>
  %a = linalg.fill ins(%zero : f32) outs(%e : tensor<3x1x1x6xf32>) -> tensor<3x1x1x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, 0, 0, w)>], iterator_types = ["parallel", "reduction", "reduction", "parallel"]} ins(%x : tensor<3x4x5x6xf32>) outs(%a : tensor<3x1x1x6xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = arith.addf %i, %o : f32
    linalg.yield %0 : f32
  } -> tensor<3x1x1x6xf32>
  %f = tensor.empty() : tensor<3x1xf32>
  %b = linalg.fill ins(%zero : f32) outs(%f : tensor<3x1xf32>) -> tensor<3x1xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (n, c)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%r : tensor<3x1x1x6xf32>) outs(%b : tensor<3x1xf32>) {
  ^bb0(%i: f32, %o: f32):
    %0 = arith.addf %i, %o : f32
    linalg.yield %0 : f32
  } -> tensor<3x1xf32>
  return %s : tensor<3x1xf32>
}

// CHECK-LABEL: func.func @sum_of_maxima
// CHECK-COUNT-2: linalg.generic
func.func @sum_of_maxima(%x: tensor<3x4x5xf32>, %init: tensor<3xf32>) -> tensor<3xf32> {
  %least = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %f = linalg.fill ins(%least : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = linalg.generic {indexing_maps = [#cube, affine_map<(d0, d1, d2) -> (d0, d1)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<3x4x5xf32>) outs(%f : tensor<3x4xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.maximumf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3x4xf32>
  %s = linalg.generic {indexing_maps = [#in, #row], iterator_types = ["parallel", "reduction"]}
      ins(%r : tensor<3x4xf32>) outs(%init : tensor<3xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<3xf32>
  return %s : tensor<3xf32>
}

// A length without divisors is reduced in equal parts, and what is left over by itself.
// CHECK-LABEL: func.func @prime
// CHECK: %[[MAIN:.*]] = tensor.extract_slice %arg0[0, 0] [96, 8] [1, 1]
// CHECK: tensor.expand_shape %[[MAIN]] {{.*}} output_shape [8, 12, 8]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "reduction"]
// CHECK: -> tensor<8xf32>
// CHECK: %[[LEFT:.*]] = tensor.extract_slice %arg0[96, 0] [5, 8] [1, 1]
// CHECK: linalg.generic {{.*}} ins(%[[LEFT]] :
// CHECK: linalg.generic {{.*}} iterator_types = []
func.func @prime(%x: tensor<101x8xf32>, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#in, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<101x8xf32>) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// Of several loops, the first has no divisor: those behind it are split.
// SPREAD-LABEL: func.func @first_is_prime
// SPREAD: tensor.expand_shape %arg0 {{.*}} output_shape [197, 8, 4, 8]
// SPREAD: -> tensor<8x8xf32>
#last = affine_map<(d0, d1, d2) -> (d2)>
func.func @first_is_prime(%x: tensor<197x32x8xf32>, %init: tensor<8xf32>) -> tensor<8xf32> {
  %s = linalg.generic {indexing_maps = [#cube, #last], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x : tensor<197x32x8xf32>) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}

#group = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>
#of_group = affine_map<(d0, d1, d2, d3, d4) -> (d0, d1)>

// A group of an image's channels, which lie last, is in pieces of 4 elements: each channel is summed as a column, in parts of rows of
// pixels, and then those of a group together.
// SPREAD-LABEL: func.func @group_of_channels
// SPREAD: tensor.expand_shape %arg0 {{\[\[}}0], [1, 2], [3], [4]] output_shape [2, 8, 4, 16, 64]
// SPREAD: tensor.expand_shape {{.*}} output_shape [2, 8, 4, 1, 8, 2, 64]
// SPREAD: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction", "reduction", "parallel", "parallel", "reduction"]}
// SPREAD: -> tensor<2x8x8x4xf32>
// SPREAD: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction"]}
// SPREAD: -> tensor<2x8xf32>
func.func @group_of_channels(%x: tensor<2x32x16x64xf32> {graph.strides = array<i64: 32768, 1, 2048, 32>}, %init: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %g = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 8, 4, 16, 64] : tensor<2x32x16x64xf32> into tensor<2x8x4x16x64xf32>
  %s = linalg.generic {indexing_maps = [#group, #of_group], iterator_types = ["parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%g : tensor<2x8x4x16x64xf32>) outs(%init : tensor<2x8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<2x8xf32>
  return %s : tensor<2x8xf32>
}

#permuted = affine_map<(d0, d1, d2) -> (d2, d1, d0)>
#kept = affine_map<(d0, d1, d2) -> (d0, d2)>

// What is not reduced keeps its order in the result: partial results are not transposed by the second reduction.
// SPREAD-LABEL: func.func @permuted
// SPREAD: -> tensor<8x4x16xf32>
// SPREAD: linalg.generic {{.*}} iterator_types = ["reduction", "parallel", "parallel"]}
// SPREAD: -> tensor<4x16xf32>
func.func @permuted(%x: tensor<16x1024x4xf32> {graph.strides = array<i64: 4, 64, 1>}, %init: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %s = linalg.generic {indexing_maps = [#permuted, #kept], iterator_types = ["parallel", "reduction", "parallel"]}
      ins(%x : tensor<16x1024x4xf32>) outs(%init : tensor<4x16xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<4x16xf32>
  return %s : tensor<4x16xf32>
}
