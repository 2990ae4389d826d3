// Whether a reduction over symbolic sizes is split goes by the typical ones. Calls of another scale, which would be better served the
// other way round, are noted on the module: those in which all sizes of a group are at most their limits.
// RUN: opt-driver %s --split-input-file --pass-pipeline='builtin.module(lamina-split-reductions{elements=65536 rows=8 columns=4096 parts=64 programs=128 ragged=4096})' | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#column = affine_map<(d0, d1) -> (d1)>

// Typically there is too little to add up: a sum of many more rows, of few columns, is another matter.
// CHECK: module attributes {graph.outgrown = {{\[\[\[}}"-s0~20*s1~8", -65536], ["((-s0~20)//(128))", -8], ["s1~8", 2048]]]}
// CHECK-NOT: tensor.expand_shape
func.func @few(%x: tensor<?x?xf32, ["s0~20", "s1~8"]>, %init: tensor<?xf32, ["s1~8"]>) -> tensor<?xf32, ["s1~8"]> {
  %s = linalg.generic {indexing_maps = [#id, #column], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<?x?xf32, ["s0~20", "s1~8"]>) outs(%init : tensor<?xf32, ["s1~8"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s1~8"]>
  return %s : tensor<?xf32, ["s1~8"]>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>

// Typically there are few rows: of many, each has a program of its own. Short ones do as well.
// CHECK: module attributes {graph.outgrown = {{\[\[\[}}"-s0~4", -128]], {{\[\[}}"s0~4*s1~90000", 4096]], {{\[\[}}"((s1~90000)//(1024))", 1]]]}
// CHECK: tensor.expand_shape
func.func @long(%x: tensor<?x?xf32, ["s0~4", "s1~90000"]>, %init: tensor<?xf32, ["s0~4"]>) -> tensor<?xf32, ["s0~4"]> {
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32, ["s0~4", "s1~90000"]>) outs(%init : tensor<?xf32, ["s0~4"]>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<?xf32, ["s0~4"]>
  return %s : tensor<?xf32, ["s0~4"]>
}

// -----

#id = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#channel = affine_map<(d0, d1, d2) -> (d1)>

// Typically a channel's elements in several images are too few for parts: of more of them, which lie in pieces, parts are worth a
// second kernel for more channels, too.
// CHECK: module attributes {graph.outgrown = {{\[\[\[}}"-8*s0~2*s1~100", -65536]{{.*}}["-8*s0~2*s1~100 + 8192", 0]]]}
// CHECK-NOT: tensor.expand_shape
func.func @channels(%x: tensor<?x8x?xf32, ["s0~2", 8, "s1~100"]>, %init: tensor<8xf32>) -> tensor<8xf32> {
  %s = linalg.generic {indexing_maps = [#id, #channel], iterator_types = ["reduction", "parallel", "reduction"]}
      ins(%x : tensor<?x8x?xf32, ["s0~2", 8, "s1~100"]>) outs(%init : tensor<8xf32>) {
  ^bb0(%a: f32, %acc: f32):
    %0 = arith.addf %a, %acc : f32
    linalg.yield %0 : f32
  } -> tensor<8xf32>
  return %s : tensor<8xf32>
}

// -----

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#none = affine_map<(d0, d1) -> ()>

// A part for each of another reduction's rows: few long rows would make too few parts, and of very many the results have parts, too.
// CHECK: module attributes {graph.outgrown = {{.*}}{{\[\[}}"s0~2000", 4], ["-s0~2000*s1~90", -65536]], {{\[\[}}"-s0~2000", -65536]
// CHECK: outs({{.*}} : tensor<?xf32, ["s0~2000"]>)
// CHECK: tensor.expand_shape {{.*}} into tensor<?x1x?xf32, ["s0~2000", 1, "s1~90"]>
// CHECK: outs({{.*}} : tensor<?xf32, ["s0~2000"]>)
// CHECK: outs({{.*}} : tensor<f32>)
func.func @by_rows(%x: tensor<?x?xf32, ["s0~2000", "s1~90"]>, %init: tensor<?xf32, ["s0~2000"]>, %zero: tensor<f32>)
    -> (tensor<?xf32, ["s0~2000"]>, tensor<f32>) {
  %0 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x?xf32, ["s0~2000", "s1~90"]>) outs(%init : tensor<?xf32, ["s0~2000"]>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.maximumf %a, %acc : f32
    linalg.yield %r : f32
  } -> tensor<?xf32, ["s0~2000"]>
  %1 = linalg.generic {indexing_maps = [#id, #none], iterator_types = ["reduction", "reduction"]}
      ins(%x : tensor<?x?xf32, ["s0~2000", "s1~90"]>) outs(%zero : tensor<f32>) {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %a, %acc : f32
    linalg.yield %r : f32
  } -> tensor<f32>
  return %0, %1 : tensor<?xf32, ["s0~2000"]>, tensor<f32>
}
