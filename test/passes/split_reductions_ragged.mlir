// On GPUs a reduction over symbolic sizes gets as many parts as suit the sizes of each call. The last part is cut: what it lacks is
// padding with the neutral element. Adjacent reduced loops over contiguous operands are one.
// RUN: opt-driver %s --pass-pipeline='builtin.module(lamina-split-reductions{elements=65536 rows=8 columns=4096 parts=64 programs=128 ragged=4096})' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#none = affine_map<(d0, d1) -> ()>
#column = affine_map<(d0, d1) -> (d1)>
!x = tensor<?x?xf32, ["s0~800", "s1~900"]>

// CHECK-LABEL: func.func @columns
// CHECK: %[[N:.*]] = "graph.size"() {size = "{{.*}}min(64, ((16384)//(s1~900))){{.*}} - s0~800"}
// CHECK: %[[PADDED:.*]] = tensor.pad %arg0 low[0, 0] high[%[[N]], 0]
// CHECK: %[[PARTS:.*]] = tensor.expand_shape %[[PADDED]] {{\[\[}}0, 1], [2]]
// CHECK: %[[PARTIAL:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel"]} ins(%[[PARTS]]
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%[[PARTIAL]] {{.*}}) outs(%arg1
func.func @columns(%x: !x, %init: tensor<?xf32, ["s1~900"]>) -> tensor<?xf32, ["s1~900"]> {
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : !x) outs(%init : tensor<?xf32, ["s1~900"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~900"]>
  return %s : tensor<?xf32, ["s1~900"]>
}

// What is summed is computed with the dimensions as one; parts are multiples of 4096 bytes.
// CHECK-LABEL: func.func @total
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1]]
// CHECK: %[[TERMS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel"]} ins(%[[FLAT]]
// CHECK: math.exp
// CHECK: tensor.pad %[[TERMS]]
// CHECK: tensor.expand_shape {{.*}}into tensor<?x?xf32, ["max(1, min(64, ((s0~800*s1~900)//(1024))))", "-1024*
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]}
func.func @total(%x: !x, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : !x) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = math.exp %a : f32
    %1 = arith.addf %0, %acc : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// Rows with a factor each: their two loops are one, of the factors as well.
// CHECK-LABEL: func.func @rows
// CHECK-DAG: tensor.collapse_shape %arg0 {{\[\[}}0, 1], [2]]
// CHECK-DAG: tensor.collapse_shape %arg1 {{\[\[}}0, 1]]
// CHECK: %[[TERMS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: %[[PADDED:.*]] = tensor.pad %[[TERMS]]
// CHECK: tensor.expand_shape %[[PADDED]] {{\[\[}}0, 1], [2]]
!rows = tensor<?x?x?xf32, ["s0~90", "s1~70", "s2~48"]>
func.func @rows(%x: !rows, %f: tensor<?x?xf32, ["s0~90", "s1~70"]>, %init: tensor<?xf32, ["s2~48"]>) -> tensor<?xf32, ["s2~48"]> {
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>, affine_map<(i, j, k) -> (k)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%x, %f : !rows, tensor<?x?xf32, ["s0~90", "s1~70"]>) outs(%init : tensor<?xf32, ["s2~48"]>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %0, %acc : f32
    linalg.yield %1 : f32
  } -> tensor<?xf32, ["s2~48"]>
  return %s : tensor<?xf32, ["s2~48"]>
}

// A factor for each channel keeps the outer loops apart: each of their iterations has parts of its own.
// CHECK-LABEL: func.func @channels
// CHECK: tensor.collapse_shape %arg0 {{\[\[}}0], [1], [2, 3]]
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction", "parallel", "reduction", "parallel", "reduction"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["reduction", "reduction", "reduction"]}
!images = tensor<?x4x?x?xf32, ["s0~9", 4, "s1~120", "s2~150"]>
func.func @channels(%x: !images, %f: tensor<4xf32>, %init: tensor<f32>) -> tensor<f32> {
  %s = linalg.generic {indexing_maps = [affine_map<(n, c, h, w) -> (n, c, h, w)>, affine_map<(n, c, h, w) -> (c)>, affine_map<(n, c, h, w) -> ()>], iterator_types = ["reduction", "reduction", "reduction", "reduction"]}
      ins(%x, %f : !images, tensor<4xf32>) outs(%init : tensor<f32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %0, %acc : f32
    linalg.yield %1 : f32
  } -> tensor<f32>
  return %s : tensor<f32>
}

// Twelve rows, and a few times as many, are not worth a second kernel; 300 are.
// CHECK-LABEL: func.func @few_rows
// CHECK-NOT: tensor.expand_shape
// CHECK-LABEL: func.func @more_rows
// CHECK: tensor.expand_shape
!few = tensor<?x?xf32, ["s0~12", "s1~900"]>
func.func @few_rows(%x: !few, %init: tensor<?xf32, ["s1~900"]>) -> tensor<?xf32, ["s1~900"]> {
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : !few) outs(%init : tensor<?xf32, ["s1~900"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~900"]>
  return %s : tensor<?xf32, ["s1~900"]>
}
!more = tensor<?x?xf32, ["s0~300", "s1~900"]>
func.func @more_rows(%x: !more, %init: tensor<?xf32, ["s1~900"]>) -> tensor<?xf32, ["s1~900"]> {
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : !more) outs(%init : tensor<?xf32, ["s1~900"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~900"]>
  return %s : tensor<?xf32, ["s1~900"]>
}
